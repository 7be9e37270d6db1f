"""A log of many small segments against a plain list of batches: appends, cuts, reopens, crashes.

After every step the log answers every read as the list does.
"""

from contextlib import suppress
from itertools import pairwise
from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.log.batches import (
    Stored,
    append,
    batch,
    dies_at,
    everything,
    fetch,
    headers,
    open_log,
    split,
)

from replog.log.config import LogConfig
from replog.log.results import LogRead, OutOfRange
from replog.records.batch import crc_ok, iterate, read_records
from replog.sim.mem_disk import CrashNow, MemDisk


class LogAgainstModel(RuleBasedStateMachine):
    @initialize(
        segment_bytes=st.sampled_from([200, 500, 2_000]),
        index_interval=st.sampled_from([1, 100, 500]),
    )
    def make(self, segment_bytes: int, index_interval: int) -> None:
        self.config = LogConfig(
            segment_bytes=segment_bytes, index_interval_bytes=index_interval, segment_ms=10**15
        )
        self.disk = MemDisk()
        self.log = open_log(self.disk, self.config)
        self.batches: list[Stored] = []
        self.start = 0
        self.end = 0
        self.epoch = 0
        self.flushed = 0
        self.named = True  # where the log begins outlives a power cut
        self.time = 1_000

    # What a leader and a follower do ----------------------------------------------------------

    @rule(count=st.integers(1, 4), size=st.integers(0, 120), step=st.integers(-50, 50))
    def lead(self, count: int, size: int, step: int) -> None:
        self.time = max(0, self.time + step)
        buffer = batch(count, size=size, time=self.time)
        result = append(self.log, buffer, epoch=self.epoch)
        assert (result.first_offset, result.last_offset) == (self.end, self.end + count - 1)
        self.take(bytes(buffer))

    @rule(sizes=st.lists(st.integers(0, 150), min_size=1, max_size=6), cut=st.integers(0, 70))
    def follow(self, sizes: list[int], cut: int) -> None:
        other = open_log(MemDisk(), log_start_offset=self.end)
        for size in sizes:
            append(other, batch(2, size=size, time=self.time), epoch=self.epoch)
        fetched = fetch(other, self.end) + bytes(batch(1))[:cut]
        self.log.append_as_follower(memoryview(fetched))
        self.take(fetched)

    def take(self, data: bytes) -> None:
        for stored in split(data):
            self.batches.append(stored)
            self.end = stored.next_offset

    @rule()
    def new_epoch(self) -> None:
        self.epoch += 1
        self.log.assign_epoch(self.epoch, self.end)

    # Cuts ---------------------------------------------------------------------------------------

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        offset = max(self.start, self.end - back)
        truncation = self.log.truncate_to(offset)
        assert (truncation is None) == (offset >= self.end)
        while self.batches and self.batches[-1].next_offset > offset:
            self.end = self.batches.pop().base_offset
        self.end = min(self.end, max(offset, self.start))
        self.flushed = min(self.flushed, self.end)
        self.epoch += 1

    @rule(ahead=st.integers(0, 20))
    def reset(self, ahead: int) -> None:
        self.start = self.end = self.end + ahead
        self.log.reset_to(self.start)
        self.batches = []
        self.flushed = self.start
        self.named = True

    # Ends ---------------------------------------------------------------------------------------

    @rule()
    def stop_and_start(self) -> None:
        recovery_point = self.log.close()
        assert recovery_point == self.end
        self.flushed = self.end
        self.named = True
        self.disk.crash()
        self.reopen(clean=True)
        assert self.log.recovery.batches_scanned == 0

    @rule()
    def flush(self) -> None:
        self.flushed = self.log.flush()
        self.named = True
        assert self.flushed == self.end

    @rule(whole=st.booleans())
    def flush_beside(self, whole: bool) -> None:
        flush = self.log.begin_flush(to_end=whole)
        flush()
        self.flushed = self.log.flushed(flush)

    @rule()
    def kill(self) -> None:
        self.disk.crash()
        self.reopen(clean=False)

    @rule(call=st.integers(1, 6), size=st.integers(0, 150), written=st.integers(0, 200))
    def kill_in_append(self, call: int, size: int, written: int) -> None:
        self.disk.before_call = dies_at(call, written)
        buffer = batch(1, size=size, time=self.time)
        try:
            append(self.log, buffer, epoch=self.epoch)
            self.take(bytes(buffer))
        except CrashNow:
            self.disk.before_call = None
            self.disk.crash()
            self.reopen(clean=False)
            if self.log.log_end_offset == self.end + 1:  # the batch was written, the rest was not
                self.take(bytes(buffer))
        self.disk.before_call = None

    @rule(seed=st.integers(0, 2**32))
    def cut_power(self, seed: int) -> None:
        self.disk.power_cut(Random(seed))
        self.reopen(clean=False, whole=False)
        if self.named:
            assert self.log.log_start_offset == self.start
        self.start = self.log.log_start_offset
        self.adopt()

    @rule(
        work=st.sampled_from(
            ["truncate", "reset", "flush", "flush_rolled", "flush_to_end", "close"]
        ),
        back=st.integers(0, 12),
        call=st.integers(1, 12),
        seed=st.none() | st.integers(0, 2**32),
    )
    def die_in(self, work: str, back: int, call: int, seed: int | None) -> None:
        """Killed, or without power, at some disk call of some work."""
        offset = max(self.start, self.end - back)
        if work == "truncate":  # it takes the whole batch that holds the offset
            below = [b.next_offset for b in self.batches if b.next_offset <= offset]
            self.flushed = min(self.flushed, max(below, default=self.start))
        elif work == "reset":
            self.flushed = 0
        self.epoch += 1
        self.disk.before_call = dies_at(call)
        with suppress(CrashNow):
            self.work(work, offset, self.end + back)
        self.disk.before_call = None
        old = self.batches
        if seed is None:
            self.disk.crash()
        else:
            self.disk.power_cut(Random(seed))
        self.reopen(clean=False, whole=False)
        if work == "reset":
            self.named = False
        elif self.named:
            assert self.log.log_start_offset == self.start
        self.start = self.log.log_start_offset
        self.adopt()
        if seed is None:
            assert self.batches == old[: len(self.batches)]
            assert len(self.batches) == len(old) or work in ("truncate", "reset")

    def work(self, work: str, cut_to: int, reset_to: int) -> None:
        match work:
            case "truncate":
                self.log.truncate_to(cut_to)
            case "reset":
                self.log.reset_to(reset_to)
            case "flush":
                self.log.flush()
            case "flush_rolled":
                self.log.begin_flush(to_end=False)()
            case "flush_to_end":
                self.log.begin_flush(to_end=True)()
            case "close":
                self.log.close()

    def adopt(self) -> None:
        assert self.log.log_end_offset >= self.flushed, "what was flushed is gone"
        # Behind the recovery point the log may be shorter, or what it was before it was cut.
        found = everything(self.log)
        flushed = [stored for stored in self.batches if stored.next_offset <= self.flushed]
        assert found[: len(flushed)] == flushed
        for one, following in pairwise(found):
            assert one.next_offset == following.base_offset
            assert one.epoch <= following.epoch
        assert all(crc_ok(stored.data, iterate(stored.data)[0]) for stored in found)
        self.batches, self.end = found, self.log.log_end_offset
        self.epoch = max([self.epoch, *(stored.epoch for stored in found)])

    def reopen(self, *, clean: bool, whole: bool = True) -> None:
        self.log = open_log(self.disk, self.config, recovery_point=self.flushed, clean=clean)
        if whole:
            assert not self.log.recovery.epochs_rebuilt
            assert self.log.log_start_offset == self.start

    @rule()
    def read(self) -> None:
        self.same_reads()
        self.same_times()

    # What must always hold ----------------------------------------------------------------------

    @invariant()
    def same_batches(self) -> None:
        assert self.log.log_end_offset == self.end
        assert self.log.log_start_offset == self.start
        assert everything(self.log) == self.batches
        assert self.log.size == sum(len(stored.data) for stored in self.batches)
        assert [h.base_offset for h in headers(self.log)] == [b.base_offset for b in self.batches]

    @invariant()
    def same_epochs(self) -> None:
        wanted: list[tuple[int, int]] = []
        for stored in self.batches:
            if not wanted or stored.epoch > wanted[-1][0]:
                wanted.append((stored.epoch, stored.base_offset))
        found = self.log.epoch_entries()
        # One more may be known, of a leader that has written nothing.
        assert found[: len(wanted)] == wanted
        assert len(found) <= len(wanted) + 1
        assert all(start == self.end for _, start in found[len(wanted) :])
        for stored in self.batches:
            assert self.log.epoch_at(stored.base_offset) == stored.epoch

    def same_reads(self) -> None:
        for index, stored in enumerate(self.batches):
            for offset in range(stored.base_offset, stored.next_offset):
                first = split(fetch(self.log, offset, 0))
                assert first == [stored], f"offset {offset}"
            got = split(fetch(self.log, stored.base_offset, 400, min_one=False))
            assert sum(len(b.data) for b in got) <= 400
            assert got == self.batches[index : index + len(got)]
            upto = self.batches[index - 1].base_offset + 1 if index else 0
            below = split(fetch(self.log, self.start, upto=upto))
            assert all(b.next_offset <= upto for b in below)
        assert fetch(self.log, self.end) == b""
        for outside in (self.start - 1, self.end + 1):
            assert isinstance(self.log.read(outside, 1, upto=self.end, min_one=True), OutOfRange)
        assert isinstance(self.log.read(self.end, 1, upto=self.end, min_one=True), LogRead)

    def same_times(self) -> None:
        for wanted in (0, self.time - 20, self.time, self.time + 4, 10**12):
            expected = None
            for stored in self.batches:
                for header in [split_header(stored)]:
                    if expected is None and header[1] >= wanted:
                        expected = next(o for o, t in header[2] if t >= wanted)
            found = self.log.offset_for_time(wanted)
            assert (None if found is None else found.offset) == expected
        latest = self.log.offset_for_latest_time()
        times = [(t, -o) for stored in self.batches for o, t in split_header(stored)[2]]
        assert (None if latest is None else (latest.timestamp, -latest.offset)) == (
            max(times) if times else None
        )


def split_header(stored: Stored) -> tuple[int, int, list[tuple[int, int]]]:
    """(base offset, largest time, (offset, time) of the records)."""
    pairs = [(record.offset, record.timestamp) for record in read_records(stored.data)]
    return stored.base_offset, max(time for _, time in pairs), pairs


TestLogAgainstModel = LogAgainstModel.TestCase
TestLogAgainstModel.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
