"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""

from typing import Any, Final

from tests.conformance.cases.fetch import fetch, part
from tests.conformance.cases.fetch import topic as fetched
from tests.conformance.steps import LONG_AGO, Ask, Batch, Case, Step, Topic, Write

SPREAD: Final = Write(
    "a", Batch(values=[b"a", b"b", b"c"], times=[LONG_AGO + t for t in (0, 10, 20)])
)
BACKWARDS: Final = Write("a", Batch(values=[b"d", b"e"], times=[LONG_AGO + t for t in (30, 15)]))
SPECIAL: Final = {
    "latest": -1,
    "earliest": -2,
    "max": -3,
    "earliest.local": -4,
    "latest.tiered": -5,
    "earliest.pending": -6,
    "minus7": -7,
    "minus100": -100,
    "zero": 0,
    "exact": LONG_AGO + 10,
    "between": LONG_AGO + 11,
    "late": LONG_AGO + 30,
    "after": LONG_AGO + 31,
    "far": 1 << 62,
}


def look(timestamp: int, partition: int = 0, *, name: str = "<a>", **given: Any) -> dict[str, Any]:
    partitions = [{"partition_index": partition, "timestamp": timestamp, **given}]
    return {
        "replica_id": -1,
        "timeout_ms": 5000,
        "topics": [{"name": name, "partitions": partitions}],
    }


def one(name: str, *steps: Step, versions: Any = (1, 4, 7, 11)) -> Case:
    return Case(f"listoffsets.{name}", "ListOffsets", [Topic("a"), *steps], versions)


def epochs(*asked: tuple[int, int, int], replica: int = -1) -> dict[str, Any]:
    """(partition, current epoch, epoch)"""
    partitions = [
        {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
        for partition, current, epoch in asked
    ]
    return {"replica_id": replica, "topics": [{"topic": "<a>", "partitions": partitions}]}


def delete(offset: int, partition: int = 0, *, name: str = "<a>") -> dict[str, Any]:
    return {
        "timeout_ms": 10000,
        "topics": [
            {"name": name, "partitions": [{"partition_index": partition, "offset": offset}]}
        ],
    }


def deleted(name: str, *steps: Step, versions: Any = (0, 2), **configs: str) -> Case:
    given = {key.replace("_", "."): value for key, value in configs.items()}
    topic = Topic("a", configs=given)
    return Case(f"deleterecords.{name}", "DeleteRecords", [topic, *steps], versions)


_LIST = [
    *(
        one(
            f"at.{name}",
            SPREAD,
            BACKWARDS,
            Ask("ListOffsets", look(at)),
            versions="all" if -100 < at < -2 else (1, 3, 4, 7, 11),
        )
        for name, at in SPECIAL.items()
    ),
    *(
        one(f"empty.{name}", Ask("ListOffsets", look(SPECIAL[name])), versions=(1, 4, 7, 8, 11))
        for name in ("latest", "earliest", "max", "zero", "far", "earliest.local")
    ),
    *(
        one(
            f"append.time.{name}",
            Topic("b", configs={"message.timestamp.type": "LogAppendTime"}),
            Write("b", Batch(values=[b"1", b"2"])),
            Ask("ListOffsets", look(at, name="<b>")),
            versions=(1, 11),
        )
        for name, at in (("max", -3), ("zero", 0), ("long.ago", LONG_AGO))
    ),
    *(
        one(
            f"compressed.{name}",
            Write("a", Batch(values=[b"a", b"b"], times=[LONG_AGO, LONG_AGO + 9], compression=4)),
            Ask("ListOffsets", look(at)),
            versions=(1, 11),
        )
        for name, at in (("max", -3), ("second", LONG_AGO + 1))
    ),
    one("max.equal", SPREAD, SPREAD, Ask("ListOffsets", look(-3)), versions=(7, 11)),
    one(
        "isolation",
        SPREAD,
        *(Ask("ListOffsets", {**look(-1), "isolation_level": level}) for level in (1, 2, -1)),
        versions=(2, 7, 11),
    ),
    *(
        one(
            f"epoch.{epoch}",
            SPREAD,
            *(Ask("ListOffsets", look(at, current_leader_epoch=epoch)) for at in (-1, LONG_AGO)),
            versions=(4, 11),
        )
        for epoch in (0, 1, -2)
    ),
    one("partition.unknown", Ask("ListOffsets", look(-1, 9)), versions="all"),
    one("partition.negative", Ask("ListOffsets", look(-1, -1))),
    one("topic.unknown", Ask("ListOffsets", look(-1, name="<nobody>")), versions="all"),
    one("topic.bad", *(Ask("ListOffsets", look(-1, name=name)) for name in ("a b", "", ".."))),
    *(
        Case(
            f"listoffsets.{role}",
            "ListOffsets",
            [Topic("a", [replicas]), Ask("ListOffsets", look(-1), to="b2")],
            "all",
        )
        for role, replicas in (("follower", [1, 2, 3]), ("stranger", [1, 3]))
    ),
    *(
        one(
            f"replica.{number}",
            SPREAD,
            *(Ask("ListOffsets", {**look(-1), "replica_id": number}, to=to) for to in ("b1", "b2")),
        )
        for number in (-2, 1, 7)
    ),
    one(
        "twice",
        SPREAD,
        Ask(
            "ListOffsets",
            {
                "replica_id": -1,
                "topics": [
                    {
                        "name": "<a>",
                        "partitions": [{"partition_index": 0, "timestamp": at} for at in (-1, -2)],
                    }
                ],
            },
        ),
    ),
    one(
        "nopartitions",
        Ask("ListOffsets", {"topics": [{"name": "<a>", "partitions": []}, {"name": "<b>"}]}),
    ),
    Case(
        "listoffsets.isolation.5",
        "ListOffsets",
        [
            Topic("a"),
            Ask(
                "ListOffsets",
                {
                    "replica_id": -1,
                    "isolation_level": 5,
                    "topics": [*look(-1)["topics"], {"name": "<b>"}, *look(-2)["topics"]],
                },
            ),
        ],
        (2, 7, 11),
    ),
    one(
        "topic.twice",
        SPREAD,
        Ask(
            "ListOffsets",
            {
                "replica_id": -1,
                "topics": [
                    {"name": "<a>", "partitions": [{"partition_index": 0, "timestamp": at}]}
                    for at in (-1, -2)
                ],
            },
        ),
    ),
    one(
        "timeout",
        SPREAD,
        *(Ask("ListOffsets", {**look(-1), "timeout_ms": ms}) for ms in (0, -1)),
        versions=(10, 11),
    ),
]
_EPOCHS = [
    Case(
        f"epochs.{name}",
        "OffsetForLeaderEpoch",
        [Topic("a"), SPREAD, Ask("OffsetForLeaderEpoch", epochs(*asked))],
        "all",
    )
    for name, asked in {
        "latest": [(0, -1, 0)],
        "future": [(0, -1, 1)],
        "undefined": [(0, -1, -1)],
        "minus2": [(0, -1, -2)],
        "current": [(0, 0, 0)],
        "current.future": [(0, 5, 0)],
        "unknown.partition": [(9, -1, 0), (-1, -1, 0)],
        "twice": [(0, -1, 0), (0, -1, 1)],
    }.items()
] + [
    Case(
        "epochs.empty",
        "OffsetForLeaderEpoch",
        [Topic("a"), Ask("OffsetForLeaderEpoch", epochs((0, -1, 0), (0, -1, 3)))],
        "all",
    ),
    Case(
        "epochs.follower",
        "OffsetForLeaderEpoch",
        [
            Topic("a", [[2, 1], [2, 3]]),
            Ask("OffsetForLeaderEpoch", epochs((0, -1, 0), (1, -1, 0), (0, 5, 0))),
        ],
        "all",
    ),
    Case(
        "epochs.replica",
        "OffsetForLeaderEpoch",
        [
            Topic("a"),
            SPREAD,
            *(
                Ask("OffsetForLeaderEpoch", epochs((0, -1, 0), replica=number))
                for number in (-2, 2, 7)
            ),
        ],
        (3, 4),
    ),
    Case(
        "epochs.topic.unknown",
        "OffsetForLeaderEpoch",
        [
            Ask(
                "OffsetForLeaderEpoch",
                {"topics": [{"topic": name, "partitions": [{"partition": 0, "leader_epoch": 0}]}]},
            )
            for name in ("<nobody>", "a b", "")
        ],
        (2, 4),
    ),
]
_DELETE = [
    *(
        deleted(
            f"to.{offset}",
            SPREAD,
            Ask("DeleteRecords", delete(offset)),
            Ask("ListOffsets", look(-2), 7),
            Ask("Fetch", fetch(fetched(part())), 12),
            versions="all",
        )
        for offset in (-2, -1, 0, 1, 3, 4)
    ),
    deleted("again", SPREAD, *(Ask("DeleteRecords", delete(offset)) for offset in (2, 1, 2, 0))),
    deleted(
        "inside",
        Write("a", Batch(values=[b"a", b"b"])),
        Ask("DeleteRecords", delete(1)),
        Ask("Fetch", fetch(fetched(part(offset=1))), 12),
        Ask("ListOffsets", look(LONG_AGO), 7),
        Ask("ListOffsets", look(-3), 7),
    ),
    deleted(
        "compact",
        Write("a", Batch(keys=[b"k"])),
        Ask("DeleteRecords", delete(1)),
        cleanup_policy="delete,compact",
    ),
    Case(
        "deleterecords.compacted",
        "DeleteRecords",
        [Topic("a", configs={"cleanup.policy": "compact"}), Ask("DeleteRecords", delete(0))],
        (0, 2),
    ),
    deleted(
        "internal",
        Ask("FindCoordinator", {"key": "<g>"}, 3, to="any", check=False),
        Ask("DeleteRecords", delete(0, name="__consumer_offsets")),
        Ask("DeleteRecords", delete(0, 99, name="__consumer_offsets")),
        Ask("DeleteRecords", delete(0, -1, name="__consumer_offsets")),
    ),
    deleted("partition.unknown", Ask("DeleteRecords", delete(0, 9))),
    deleted(
        "topic.unknown",
        Ask("DeleteRecords", delete(0, name="<nobody>")),
        Ask("DeleteRecords", delete(0, name="a b")),
    ),
    Case(
        "deleterecords.follower",
        "DeleteRecords",
        [
            Topic("a", [[2, 1], [2, 3]]),
            Ask(
                "DeleteRecords",
                {
                    "timeout_ms": 10000,
                    "topics": [
                        {
                            "name": "<a>",
                            "partitions": [{"partition_index": n, "offset": 0} for n in (0, 1)],
                        }
                    ],
                },
            ),
        ],
        "all",
    ),
    deleted(
        "twice",
        SPREAD,
        Ask(
            "DeleteRecords",
            {
                "timeout_ms": 10000,
                "topics": [
                    {
                        "name": "<a>",
                        "partitions": [{"partition_index": 0, "offset": n} for n in (1, 2)],
                    }
                ],
            },
        ),
    ),
    Case(
        "deleterecords.segments",
        "DeleteRecords",
        [
            Topic("a", configs={"segment.bytes": "1048576"}),
            Write("a", Batch(values=[b"x" * 900_000])),
            Write("a", Batch(values=[b"y" * 900_000])),
            Ask("DeleteRecords", delete(-1)),
            Ask("ListOffsets", look(-2), 7),
        ],
        (2,),
    ),
]

CASES: Final = [*_LIST, *_EPOCHS, *_DELETE]
