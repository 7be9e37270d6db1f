"""A compacted log against plain dictionaries: appends, cuts, compactions, retention, crashes.

What was written at an offset is read there or not at all; which records may be gone is worked out
from the keys alone.
"""

from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.log.batches import append, everything, fetch, headers, open_log, split
from tests.log.compaction import compact, flush, keyed, left, rules, seal

from replog.log.config import LogConfig
from replog.log.retention import Retention, due
from replog.records.batch import crc_ok, iterate, read_records
from replog.sim.mem_disk import MemDisk

DELETE_RETENTION_MS = 50


class CompactedLogAgainstModel(RuleBasedStateMachine):
    @initialize(
        segment_bytes=st.sampled_from([150, 400, 1_500]), interval=st.sampled_from([1, 200])
    )
    def make(self, segment_bytes: int, interval: int) -> None:
        self.config = LogConfig(
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            cleanup_policy=("compact", "delete"),
            segment_ms=10**15,
        )
        self.disk = MemDisk()
        self.log = open_log(self.disk, self.config)
        self.written: dict[int, tuple[str, str | None]] = {}
        self.committed = 0
        self.start = 0  # as on stable storage
        self.flushed = 0
        self.now = 1_000_000
        # Tombstone's offset -> before when it must not go.
        self.tombstones: dict[int, int] = {}

    # What happens to the log --------------------------------------------------------------------

    @rule(
        keys=st.lists(st.integers(0, 6), min_size=1, max_size=5),
        nulls=st.integers(0, 31),
        compression=st.sampled_from([0, 0, 3]),
        size=st.integers(0, 60),
    )
    def produce(self, keys: list[int], nulls: int, compression: int, size: int) -> None:
        self.now += 1
        base = self.log.log_end_offset
        pairs = [
            (f"k{key}", None if nulls >> i & 1 else f"{base + i}." + "v" * size)
            for i, key in enumerate(keys)
        ]
        append(self.log, keyed(*pairs, time=self.now, compression=compression))
        self.written.update({base + i: pair for i, pair in enumerate(pairs)})

    @rule()
    def commit(self) -> None:
        self.committed = self.log.log_end_offset

    @rule(back=st.integers(0, 8))
    def cut(self, back: int) -> None:
        offset = max(self.committed, self.log.log_end_offset - back)
        self.log.truncate_to(offset)
        self.flushed = min(self.flushed, self.log.log_end_offset)
        self.written = {o: p for o, p in self.written.items() if o < self.log.log_end_offset}

    @rule()
    def roll(self) -> None:
        seal(self.log)
        self.flushed = max(self.flushed, self.log.recovery_point)
        self.move_start(self.start)

    @rule(keys_max=st.sampled_from([2, 5, 1_000]), later=st.integers(0, 60))
    def compact(self, keys_max: int, later: int) -> None:
        self.now += later
        flush(self.log)
        self.flushed = max(self.flushed, self.log.recovery_point)
        before = self.log.cleaned_to
        with_rules = rules(
            wall_ms=self.now, delete_retention_ms=DELETE_RETENTION_MS, keys_max=keys_max
        )
        work = compact(self.disk, self.log, with_rules, stable=self.committed)
        if work is None:
            return
        assert work.failure is None and before < self.log.cleaned_to <= self.committed
        for offset in range(self.log.cleaned_to):
            if offset in self.written and self.written[offset][1] is None:
                self.tombstones.setdefault(offset, self.now + DELETE_RETENTION_MS)

    @rule(size=st.integers(0, 1_500))
    def retain(self, size: int) -> None:
        found = due(
            self.log.segments,
            Retention(bytes=size),
            wall_ms=self.now,
            committed=self.committed,
            end_offset=self.log.log_end_offset,
        )
        if found is not None:
            if found.segments == len(self.log.segments):
                self.log.roll()
            self.move_start(self.log.segments[found.segments].base_offset)
            assert self.log.size <= size or self.log.below_start() == 0

    @rule(ahead=st.integers(0, 10))
    def delete_records(self, ahead: int) -> None:
        self.move_start(min(self.log.log_start_offset + ahead, self.committed))

    def move_start(self, offset: int) -> None:
        assert offset <= self.committed, "past the high watermark"
        self.log.start_at(offset)
        self.start = max(self.start, self.log.log_start_offset)
        for path in self.log.leave(100, self.log.log_start_offset):
            self.disk.remove(path)

    # Ends ---------------------------------------------------------------------------------------

    @rule(clean=st.booleans())
    def stop_and_start(self, clean: bool) -> None:
        if clean:
            self.flushed = self.log.close()
        self.disk.crash()
        self.reopen(clean=clean)

    @rule(seed=st.integers(0, 2**32))
    def cut_power(self, seed: int) -> None:
        self.disk.power_cut(Random(seed))
        self.reopen(clean=False)
        end = self.log.log_end_offset
        assert end >= self.flushed
        self.committed = max(self.start, min(self.committed, end))
        # What was cut off before may be there again: the log is what it is.
        for stored in everything(self.log):
            for record in read_records(stored.data):
                if record.offset >= self.flushed:
                    value = None if record.value is None else record.value.decode()
                    self.written[record.offset] = ((record.key or b"").decode(), value)
        self.written = {o: pair for o, pair in self.written.items() if o < end}

    def reopen(self, *, clean: bool) -> None:
        cleaned = self.log.cleaned_to
        self.log = open_log(
            self.disk,
            self.config,
            recovery_point=self.flushed,
            clean=clean,
            log_start_offset=self.start,
        )
        self.log.cleaned_to = min(cleaned, self.log.log_end_offset)
        self.log.leave(100, self.log.log_start_offset)

    # What must always hold ----------------------------------------------------------------------

    @invariant()
    def same_records(self) -> None:
        start, cleaned = self.log.log_start_offset, self.log.cleaned_to
        found = {o: (k, v) for o, k, v in left(self.log) if o >= start}
        newest: dict[str, int] = {}
        for offset, (key, _) in sorted(self.written.items()):
            if offset < cleaned:
                newest[key] = offset
        for offset, pair in self.written.items():
            if offset < start:
                continue
            if offset >= cleaned or newest[pair[0]] == offset:
                may_be_gone = pair[1] is None and self.tombstones.get(offset, 10**18) <= self.now
                assert offset in found or (offset < cleaned and may_be_gone), f"{offset} is gone"
            else:
                assert offset not in found, f"{offset} was superseded by {newest[pair[0]]}"
        assert all(self.written[offset] == pair for offset, pair in found.items())

    @invariant()
    def same_reads(self) -> None:
        log = self.log
        found = everything(log)
        for offset in range(log.log_start_offset, log.log_end_offset):
            first = split(fetch(log, offset, 0))
            assert first == [next(s for s in found if s.next_offset > offset)]
        assert [h.base_offset for h in headers(log)][-len(found) :] == [
            stored.base_offset for stored in found
        ]
        assert all(crc_ok(stored.data, iterate(stored.data)[0]) for stored in found)

    @invariant()
    def bounds(self) -> None:
        log = self.log
        assert self.start == log.log_start_offset <= self.committed <= log.log_end_offset
        bases = [segment.base_offset for segment in log.segments]
        assert bases == sorted(set(bases)) and bases[0] <= log.log_start_offset


TestCompactedLogAgainstModel = CompactedLogAgainstModel.TestCase
TestCompactedLogAgainstModel.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
