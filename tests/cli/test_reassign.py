"""Plans and progress of moves, without a cluster."""

import io
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from replog.cli.errors import Failure, UsageError
from replog.cli.partition_names import by_topic, parse
from replog.cli.reassign_plan import Move, as_json, read, spread
from replog.cli.reassign_progress import Progress, Watch, duration, size, table
from replog.model.ids import TopicPartition

NO_RACKS = dict.fromkeys(range(4))


def tp(index: int) -> TopicPartition:
    return TopicPartition("t", index)


def plan(
    current: list[tuple[int, ...]],
    brokers: Mapping[int, str | None],
    replication_factor: int | None = None,
) -> list[tuple[int, ...]]:
    """Where each partition would be afterwards."""
    after = list(current)
    moves = spread(dict(zip(map(tp, range(9)), current, strict=False)), brokers, replication_factor)
    for move in moves:
        after[move.tp.partition] = move.replicas
    return after


def test_what_is_where_it_may_be_stays() -> None:
    assert plan([(0, 1), (1, 2), (2, 0)], NO_RACKS) == [(0, 1), (1, 2), (2, 0)]


def test_a_broker_is_emptied_and_the_others_share() -> None:
    after = plan([(0, 1), (1, 0), (0, 2), (2, 0)], {1: None, 2: None, 3: None})
    assert all(0 not in replicas for replicas in after)
    counts = {broker: sum(broker in replicas for replicas in after) for broker in (1, 2, 3)}
    assert max(counts.values()) - min(counts.values()) <= 1
    assert all({1, 2} & set(replicas) for replicas in after)  # what could stay has stayed


def test_a_replica_goes_to_a_rack_that_the_partition_is_not_on() -> None:
    racks = {0: "a", 1: "a", 2: "b", 3: "a"}
    assert plan([(0, 9)], racks) == [(0, 2)]


@pytest.mark.parametrize(("factor", "length"), [(1, 1), (3, 3)])
def test_the_number_of_replicas_changes(factor: int, length: int) -> None:
    after = plan([(0, 1), (1, 2), (2, 3), (3, 0)], NO_RACKS, factor)
    assert all(len(set(replicas)) == length for replicas in after)


def test_preferred_leaderships_are_shared_where_leaders_move() -> None:
    after = plan([(9, 8)] * 4, {0: None, 1: None})
    assert sorted(replicas[0] for replicas in after) == [0, 0, 1, 1]


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(Failure, match="only 2 brokers"):
        plan([(0, 1, 2)], {0: None, 1: None})


def test_a_plan_can_be_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moves = [Move(tp(0), (1, 2)), Move(tp(1), (2,))]
    text = json.dumps(as_json(moves))
    (tmp_path / "plan.json").write_text(text)
    assert read([str(tmp_path / "plan.json")]) == moves
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert read(["-"]) == moves
    assert read(["t:0=1,2", "t:1=2"]) == moves


@pytest.mark.parametrize("word", ["t=1", "t:x=1", "t:0=", "t:0=a", ":0=1"])
def test_words_that_are_no_moves(word: str) -> None:
    with pytest.raises(UsageError, match="TOPIC"):
        read([word])


def test_a_partition_that_is_moved_twice() -> None:
    with pytest.raises(UsageError, match="twice"):
        read(["t:0=1", "t:0=2"])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"partitions": [{"topic": "t"}]}'])
def test_files_that_are_no_plans(tmp_path: Path, text: str) -> None:
    (tmp_path / "p").write_text(text)
    with pytest.raises(Failure, match="is no plan"):
        read([str(tmp_path / "p")])


def test_a_word_that_is_neither_a_file_nor_a_move() -> None:
    with pytest.raises(Failure, match=r"events:0: no such file, and no move: that is TOPIC"):
        read(["events:0"])


def test_names_of_partitions() -> None:
    assert parse("t") == ("t", None)
    assert parse("t:3") == ("t", 3)
    assert by_topic([tp(1), TopicPartition("u", 0), tp(0)]) == {"t": [1, 0], "u": [0]}
    with pytest.raises(UsageError):
        parse("t:")


# ---- progress ---------------------------------------------------------------------------


def progress(moved: int, total: int | None = 1_000) -> Progress:
    return Progress(tp(0), (0, 1), (1, 2), moved, total)


def test_rate_and_eta_come_from_two_looks() -> None:
    watch = Watch()
    (first,) = watch.rows([progress(100)], 10.0)
    assert (first.rate, first.eta_s, first.stalled_s) == (None, None, None)
    (second,) = watch.rows([progress(300)], 12.0)
    assert (second.rate, second.eta_s, second.stalled_s) == (100.0, 7.0, None)
    assert (second.progress.percent, second.progress.remaining) == (30, 700)


def test_a_standstill_is_told_since_it_began() -> None:
    watch = Watch()
    watch.rows([progress(100)], 10.0)
    watch.rows([progress(300)], 11.0)
    (row,) = watch.rows([progress(300)], 13.0)
    assert (row.rate, row.eta_s, row.stalled_s) == (0.0, None, 2.0)
    (row,) = watch.rows([progress(300)], 20.0)
    assert row.stalled_s == 9.0
    (row,) = watch.rows([progress(301)], 21.0)
    assert row.stalled_s is None


def test_what_has_all_its_bytes_does_not_stand_still() -> None:
    watch = Watch()
    watch.rows([progress(1_000)], 1.0)
    (row,) = watch.rows([progress(1_000)], 5.0)
    assert row.stalled_s is None


def test_without_an_old_replica_nothing_is_known_of_the_rest() -> None:
    (row,) = Watch().rows([progress(5, None)], 1.0)
    assert row.as_json()["percent"] is None
    assert "t:0" in table([row])


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1_500, "1.5 KB"), (20_000_000, "20 MB"), (3 * 10**12, "3.0 TB")],
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (200, "3 min 20 s"), (7_500, "2 h 5 min")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
