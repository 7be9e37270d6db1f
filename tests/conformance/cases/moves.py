"""ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments."""

from typing import Any, Final

from tests.conformance.cases.topics import metadata
from tests.conformance.steps import Ask, Batch, Case, Step, Topic, Write

LAYOUT: Final = [[1, 2], [2, 3], [3, 1]]


def elect(*partitions: int, kind: int = 0, name: str = "<a>", **given: Any) -> Ask:
    chosen = [{"topic": name, "partitions": list(partitions)}]
    return Ask(
        "ElectLeaders",
        {"election_type": kind, "topic_partitions": chosen, "timeout_ms": 10000, **given},
    )


def move(*moves: tuple[int, list[int] | None], name: str = "<a>", **given: Any) -> Ask:
    partitions = [{"partition_index": index, "replicas": to} for index, to in moves]
    body = {"topics": [{"name": name, "partitions": partitions}], "timeout_ms": 10000, **given}
    return Ask("AlterPartitionReassignments", body)


def moved(name: str, *steps: Step, versions: Any = (0, 1)) -> Case:
    return Case(
        f"reassign.{name}", "AlterPartitionReassignments", [Topic("a", LAYOUT), *steps], versions
    )


# Answered until the move is over: what it left is what counts, and other brokers are told of it a
# moment later than the controller, which says that it is over.
SETTLED: Final = Ask("Metadata", metadata("<a>"), 12, to="controller")
UNTIL_DONE: Final = Ask(
    "ListPartitionReassignments",
    {"topics": [{"name": "<a>", "partition_indexes": [0, 1, 2]}], "timeout_ms": 10000},
    0,
    until_empty="topics",
)

TWICE: Final = [{"topic": "<a>", "partitions": indexes} for indexes in ([0], [0, 1])]
EVERYTHING: Final = Ask("ElectLeaders", {"topic_partitions": None, "timeout_ms": 10000}, own=True)

CASES: Final = [
    *(
        Case(f"electleaders.{name}", "ElectLeaders", [Topic("a", LAYOUT), *asks], versions)
        for name, versions, asks in (
            ("plain", (0, 1, 2), [elect(0, 1)]),
            ("unclean", (1, 2), [elect(0, kind=1)]),
            ("partition.unknown", (0, 2), [elect(0, 9), elect(-1)]),
            ("topic.unknown", (0, 2), [elect(0, name="<nobody>"), elect(0, name="a b")]),
            ("twice", (0, 2), [elect(0, 0)]),
            ("nothing", (0, 2), [elect(), elect(0, topic_partitions=[])]),
            (
                "nothing.in.no.time",
                (0, 2),
                [elect(0, topic_partitions=[], timeout_ms=0, kind=kind) for kind in (0, 2)],
            ),
            ("topic.twice", (0, 2), [elect(topic_partitions=TWICE)]),
            ("everything", (0, 2), [EVERYTHING]),
            ("kind", (1, 2), [elect(0, kind=2), elect(0, kind=-1)]),
            ("timeout", (0, 2), [elect(0, timeout_ms=0), elect(0, timeout_ms=-1)]),
            ("kind.in.no.time", (1, 2), [elect(0, kind=2, timeout_ms=0)]),
        )
    ),
    *(
        moved(
            f"in.no.time.{allowed}",
            move((0, [2, 3]), timeout_ms=0, allow_replication_factor_change=allowed == "any"),
        )
        for allowed in ("any", "same")
    ),
    moved(
        "no.topics",
        *(
            Ask(
                "AlterPartitionReassignments",
                {"topics": [], "timeout_ms": ms, "allow_replication_factor_change": allowed},
            )
            for ms in (10000, 0)
            for allowed in (True, False)
        ),
    ),
    moved("plain", Write("a", Batch()), move((0, [2, 3])), UNTIL_DONE, SETTLED),
    moved("same", move((0, [1, 2])), UNTIL_DONE, SETTLED),
    moved("reordered", move((0, [2, 1])), UNTIL_DONE, SETTLED),
    moved("more", move((2, [3, 1, 2])), UNTIL_DONE, SETTLED),
    moved(
        "more.forbidden",
        move((2, [3, 1, 2]), allow_replication_factor_change=False),
        move((0, [1]), allow_replication_factor_change=False),
        move((0, [2, 3]), allow_replication_factor_change=False),
    ),
    moved("fewer", move((0, [2])), UNTIL_DONE, SETTLED),
    moved("leader.leaves", Write("a", Batch()), move((0, [3])), UNTIL_DONE, SETTLED),
    moved("cancel.none", move((0, None), (1, None))),
    *(
        moved(f"bad.{name}", move((0, replicas)))
        for name, replicas in {
            "empty": [],
            "twice": [1, 1],
            "unknown": [1, 9],
            "negative": [-1],
        }.items()
    ),
    moved("partition.unknown", move((9, [1]), (-1, [1]))),
    moved("topic.unknown", move((0, [1]), name="<nobody>"), move((0, [1]), name="a b")),
    moved("partition.twice", move((0, [1, 2]), (0, [1, 2]))),
    moved("partition.twice.cancelled", move((0, [2, 3]), (0, None))),
    moved("partition.twice.moved", move((0, [2, 3]), (0, [3, 1]))),
    moved("nothing", move(), Ask("AlterPartitionReassignments", {"topics": []})),
    moved("timeout", move((0, [1, 2]), timeout_ms=0)),
    Case(
        "listreassignments.plain",
        "ListPartitionReassignments",
        [
            Topic("a", LAYOUT),
            *(
                Ask("ListPartitionReassignments", {"topics": topics, "timeout_ms": 10000}, own=True)
                for topics in (
                    [{"name": "<a>", "partition_indexes": [0, 9]}],
                    [{"name": "<nobody>", "partition_indexes": [0]}],
                    [],
                    None,
                )
            ),
        ],
    ),
]
