"""Compaction where producers are idempotent or write transactions."""

import pytest
from tests.log.batches import append, headers, open_log
from tests.log.compaction import DAY, NOW, compact, keyed, left, rules, seal, values, write

from replog.log.config import LogConfig
from replog.log.partition_log import PartitionLog
from replog.records.batch import (
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    Producer,
    Record,
    build_batch,
)
from replog.records.rewrite import delete_horizon
from replog.sim.mem_disk import MemDisk

CONFIG = LogConfig(segment_bytes=2_000, index_interval_bytes=100, cleanup_policy=("compact",))


def a_log(config: LogConfig = CONFIG) -> tuple[MemDisk, PartitionLog]:
    disk = MemDisk()
    return disk, open_log(disk, config)


@pytest.mark.surface(60)
def test_the_last_batch_of_a_producer_stays_without_its_records() -> None:
    disk, log = a_log()
    append(log, keyed(("a", "1"), time=NOW, producer=Producer(7, 0, 0)))
    append(log, keyed(("a", "2"), ("b", "1"), time=NOW, producer=Producer(7, 0, 1)))
    append(log, keyed(("a", "3"), ("b", "2"), time=NOW))
    seal(log)
    compact(disk, log)
    empty, full = headers(log)
    assert (empty.producer_id, empty.base_sequence, empty.last_sequence) == (7, 1, 2)
    assert (empty.base_offset, empty.last_offset, empty.count) == (1, 2, 0)
    assert (full.base_offset, full.count) == (3, 2)
    write(log, [("c", "1")])
    seal(log)
    compact(disk, log, rules(wall_ms=NOW + DAY))
    assert headers(log)[0].producer_id == 7, "until producer.id.expiration.ms has passed"
    write(log, [("c", "2")])
    seal(log)
    compact(disk, log, rules(wall_ms=NOW + DAY + 1))
    assert next(h.base_offset for h in headers(log)) == 3


def marker(producer_id: int, kind: int, *, epoch: int = 0, time: int = NOW) -> bytearray:
    key = (0).to_bytes(2, "big") + kind.to_bytes(2, "big")
    return bytearray(
        build_batch(
            [Record(0, time, key, b"\0" * 6)],
            producer=Producer(producer_id, epoch, -1),
            attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
        )
    )


def in_transaction(producer_id: int, sequence: int, *pairs: tuple[str, str | None]) -> bytearray:
    return keyed(
        *pairs,
        time=NOW,
        producer=Producer(producer_id, 0, sequence),
        attributes=TRANSACTIONAL_BIT,
    )


def shown(log: PartitionLog) -> list[tuple[int, str]]:
    return [(h.base_offset, "marker" if h.control else f"{h.count} records") for h in headers(log)]


def test_aborted_records_go_and_supersede_nothing() -> None:
    disk, log = a_log()
    write(log, [("a", "old")])
    append(log, in_transaction(1, 0, ("a", "aborted")))
    append(log, in_transaction(2, 0, ("b", "committed")))
    append(log, marker(1, 0))
    append(log, marker(2, 1))
    write(log, [("c", "1")])
    seal(log)
    compact(disk, log)
    assert values(left(log)) == {"a": "old", "b": "committed", "c": "1"}
    # The aborted batch stays without records: it is the last of producer 1.
    assert shown(log) == [
        (0, "1 records"),
        (1, "0 records"),
        (2, "1 records"),
        (3, "marker"),
        (4, "marker"),
        (5, "1 records"),
    ]


@pytest.mark.surface(60)
def test_a_marker_outlives_its_transactions_records_by_delete_retention() -> None:
    disk, log = a_log()
    later = 10 * DAY  # nobody is an active producer any more
    append(log, in_transaction(1, 0, ("a", "1")))
    append(log, marker(1, 1))
    append(log, in_transaction(1, 1, ("b", "aborted")))
    append(log, marker(1, 0))
    write(log, [("a", "2")])
    seal(log)
    steps = [
        (later, {1: None, 3: None}),  # their records were still there when the pass began
        (later + 10, {1: later + 110, 3: later + 110}),
        (later + 109, {1: later + 110, 3: later + 110}),
        (later + 110, {}),
    ]
    for wall_ms, markers in steps:
        compact(disk, log, rules(wall_ms=wall_ms, delete_retention_ms=100))
        found = {h.base_offset: delete_horizon(h) for h in headers(log) if h.control}
        assert found == markers, wall_ms
        assert values(left(log))["a"] == "2"
        write(log, [("c", str(wall_ms))])
        seal(log)


@pytest.mark.surface(60)
def test_a_marker_stays_as_long_as_an_empty_batch_of_its_transaction() -> None:
    """Which is there for the state of its producer: as in Apache Kafka 4.4."""
    disk, log = a_log()
    append(log, in_transaction(1, 0, ("a", "1")))
    append(log, marker(1, 0))
    write(log, [("a", "2")])
    seal(log)
    for wall_ms in (NOW, NOW + 1_000, NOW + 2_000):
        compact(disk, log, rules(wall_ms=wall_ms, delete_retention_ms=100))
        write(log, [("c", str(wall_ms))])
        seal(log)
        assert shown(log)[:2] == [(0, "0 records"), (1, "marker")]
        assert delete_horizon(headers(log)[1]) is None


@pytest.mark.surface(60)
def test_nothing_from_an_undecided_transaction_on_is_touched() -> None:
    disk, log = a_log(LogConfig(segment_bytes=100, cleanup_policy=("compact",)))
    write(log, [("a", "1")], [("a", "2")])
    append(log, in_transaction(1, 0, ("b", "1")))
    write(log, [("b", "2")], [("a", "3")])
    seal(log)
    compact(disk, log)
    assert left(log) == [(1, "a", "2"), (2, "b", "1"), (3, "b", "2"), (4, "a", "3")]
    assert log.cleaned_to == 2
    append(log, marker(1, 0))
    seal(log)
    compact(disk, log)
    assert values(left(log)) == {"a": "3", "b": "2"}
    assert [o for o, _, _ in left(log)] == [3, 4]


def test_control_records_of_other_kinds_stay() -> None:
    disk, log = a_log()
    append(log, marker(-1, 2))
    append(log, marker(-1, 2))
    write(log, [("a", "1")], [("a", "2")])
    seal(log)
    compact(disk, log)
    assert shown(log) == [(0, "marker"), (1, "marker"), (3, "1 records")]
