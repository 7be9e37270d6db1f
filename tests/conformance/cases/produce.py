"""Produce: where records go, and when they are refused for where they go."""

from typing import Any, Final

from tests.conformance.steps import LONG_AGO, Ask, Batch, Case, Step, Topic, TopicId

LATEST: Final = {
    "replica_id": -1,
    "timeout_ms": 5000,
    "topics": [{"name": "<a>", "partitions": [{"partition_index": 0, "timestamp": -1}]}],
}


def produce(records: Any, *, partition: int = 0, acks: int = -1, **given: Any) -> dict[str, Any]:
    """The body of a request for one partition of `<a>`."""
    topic = {
        "name": "<a>",
        "topic_id": TopicId("a"),
        "partition_data": [{"index": partition, "records": records}],
    }
    return {"acks": acks, "timeout_ms": 5000, "topic_data": [topic], **given}


def end(to: str = "b1") -> Ask:
    """How long the log is now."""
    return Ask("ListOffsets", LATEST, version=7, to=to)


def one(
    name: str,
    records: Any,
    versions: Any = (3, 9, 13),
    *before: Step,
    looked_at: bool = True,
    **given: Any,
) -> Case:
    """One request, and whether it made the log longer: where it waits until consumers see that."""
    steps = [*(before or (Topic("a"),)), Ask("Produce", produce(records, **given))]
    if looked_at:
        steps.append(end())
    return Case(f"produce.{name}", "Produce", steps, versions)


_RIGHT = Batch()
_STRANGER = {"topic_id": bytes(range(16)), "name": "<nobody>"}


def _to(topic: dict[str, Any], index: int = 0) -> dict[str, Any]:
    return {
        "acks": -1,
        "timeout_ms": 5000,
        "topic_data": [{**topic, "partition_data": [{"index": index, "records": _RIGHT}]}],
    }


CASES: Final = [
    one("plain", _RIGHT, "all"),
    one("three", Batch(values=[b"a", b"b", None], keys=[b"k", None, b"l"])),
    one("acks.2.partition.unknown", _RIGHT, acks=2, partition=7),
    one("acks1", _RIGHT, (3, 8, 9, 13), acks=1, looked_at=False),
    one("acks0", _RIGHT, (3, 8, 9, 13), acks=0, looked_at=False),
    *(one(f"acks.{acks}", _RIGHT, acks=acks) for acks in (2, -2, 32767)),
    *(one(f"timeout.{ms}", _RIGHT, timeout_ms=ms, looked_at=False) for ms in (-1, 0)),
    one("partition.unknown", _RIGHT, (3, 8, 9, 13), partition=7),
    one("partition.negative", _RIGHT, partition=-1),
    one("partition.acks0", _RIGHT, acks=0, partition=7),
    Case("produce.topic.unknown", "Produce", [Ask("Produce", _to(_STRANGER))], "all"),
    Case(
        "produce.topic.bad",
        "Produce",
        [Ask("Produce", _to({"name": name})) for name in ("a b", "", ".", "x" * 250)],
        (3, 9, 12),
    ),
    Case("produce.topic.noid", "Produce", [Ask("Produce", _to({}))], (13,)),
    Case(
        "produce.follower",
        "Produce",
        [Topic("a", [[2, 3, 1]]), Ask("Produce", produce(_RIGHT)), end("b2")],
        "all",
    ),
    Case(
        "produce.stranger",
        "Produce",
        [Topic("a", [[2, 3]]), Ask("Produce", produce(_RIGHT)), end("b2")],
        "all",
    ),
    Case(
        "produce.mixed",
        "Produce",
        [
            Topic("a", [[1, 2], [2, 1], [2, 3]]),
            Ask(
                "Produce",
                {
                    "acks": -1,
                    "timeout_ms": 5000,
                    "topic_data": [
                        {
                            "name": "<a>",
                            "topic_id": TopicId("a"),
                            "partition_data": [
                                {"index": index, "records": _RIGHT} for index in (0, 1, 2, 9)
                            ],
                        },
                        {**_STRANGER, "partition_data": [{"index": 0, "records": _RIGHT}]},
                    ],
                },
            ),
        ],
        "all",
    ),
    Case(
        "produce.nopartitions",
        "Produce",
        [
            Topic("a"),
            Ask(
                "Produce",
                {
                    "acks": -1,
                    "topic_data": [{"name": "<a>", "topic_id": TopicId("a"), "partition_data": []}],
                },
            ),
        ],
        (3, 9, 13),
    ),
    Case(
        "produce.twice",
        "Produce",
        [
            Topic("a"),
            Ask(
                "Produce",
                {
                    "acks": -1,
                    "topic_data": [
                        {
                            "name": "<a>",
                            "topic_id": TopicId("a"),
                            "partition_data": [
                                {"index": 0, "records": _RIGHT},
                                {"index": 0, "records": _RIGHT},
                            ],
                        }
                    ],
                },
            ),
        ],
        (9, 13),
    ),
    one("minisr", _RIGHT, (3, 9, 13), Topic("a", [[1]], {"min.insync.replicas": "2"})),
    one(
        "minisr.acks1",
        _RIGHT,
        (3, 9, 13),
        Topic("a", [[1]], {"min.insync.replicas": "2"}),
        acks=1,
    ),
    one(
        "append.time",
        _RIGHT,
        (3, 9, 13),
        Topic("a", configs={"message.timestamp.type": "LogAppendTime"}),
    ),
    one(
        "toolarge",
        Batch(values=[b"x" * 2000]),
        (3, 5, 9, 13),
        Topic("a", configs={"max.message.bytes": "1000"}),
    ),
    one(
        "toolarge.compressed",
        Batch(values=[b"x" * 2000], compression=1),
        (9,),
        Topic("a", configs={"max.message.bytes": "1000"}),
    ),
    one(
        "larger.than.segment",
        Batch(values=[b"x" * 1_100_000]),
        (9,),
        Topic("a", configs={"segment.bytes": "1048576", "max.message.bytes": "2000000"}),
    ),
    *(
        one(
            f"old.{name}",
            Batch(times=[LONG_AGO]),
            (3, 7, 8, 13),
            Topic("a", configs={config: "1000"}),
        )
        for name, config in (("before", "message.timestamp.before.max.ms"),)
    ),
    one("ahead", Batch(times=[4_000_000_000_000]), (3, 8, 13)),
    one(
        "ahead.append.time",
        Batch(times=[4_000_000_000_000]),
        (9,),
        Topic("a", configs={"message.timestamp.type": "LogAppendTime"}),
    ),
    *(
        one(f"compact.{name}", batch, (3, 7, 8, 13), Topic("a", configs={"cleanup.policy": policy}))
        for policy, name, batch in (
            ("compact", "keyless", Batch()),
            ("compact", "second", Batch(values=[b"1", b"2"], keys=[b"k", None])),
            ("compact", "keyed", Batch(keys=[b"k"])),
            ("compact", "empty.key", Batch(keys=[b""])),
            ("compact,delete", "both.keyless", Batch()),
            ("compact", "keyless.zstd", Batch(compression=4)),
        )
    ),
    Case(
        "produce.internal",
        "Produce",
        [
            Ask("OffsetCommit", {"group_id": "<g>"}, version=8, to="coordinator:<g>", check=False),
            Ask("Produce", _to({"name": "__consumer_offsets"})),
        ],
        (3, 9, 12),
    ),
    *(
        one(f"transactional.{name}", Batch(attributes=16), (3, 9, 11, 12, 13), **given)
        for name, given in (
            ("noid", {}),
            ("noproducer", {"transactional_id": "<x>"}),
        )
    ),
    Case(
        "produce.transactional.other",
        "Produce",
        [
            Topic("a"),
            Ask(
                "Produce",
                {
                    **_to({"name": "<a>", "topic_id": TopicId("a")}),
                    "topic_data": [
                        {
                            "name": "<a>",
                            "topic_id": TopicId("a"),
                            "partition_data": [
                                {"index": 0, "records": _RIGHT},
                                {"index": 7, "records": Batch(attributes=16)},
                            ],
                        }
                    ],
                },
            ),
            end(),
        ],
        (3, 9, 13),
    ),
    one("transactional.plain", _RIGHT, (3, 9, 13), transactional_id="<x>"),
]
