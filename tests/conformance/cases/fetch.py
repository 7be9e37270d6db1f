"""Fetch: limits, errors, followers, epochs and sessions."""

from collections.abc import Sequence
from typing import Any, Final

from tests.conformance.steps import Ask, Batch, Case, Saved, Step, Topic, TopicId, Write

SIZE: Final = 5_000  # of a value; a batch of one has about 70 bytes more
THREE: Final = [Write("a", Batch(values=[bytes([65 + n]) * SIZE])) for n in range(3)]


def part(partition: int = 0, offset: int = 0, **given: Any) -> dict[str, Any]:
    return {
        "partition": partition,
        "fetch_offset": offset,
        "partition_max_bytes": 1048576,
        **given,
    }


def topic(*parts: dict[str, Any], name: str = "a") -> dict[str, Any]:
    return {"topic": f"<{name}>", "topic_id": TopicId(name), "partitions": list(parts)}


def fetch(
    *topics: dict[str, Any], wait: int = 0, least: int = 0, most: int = 1 << 20, **given: Any
) -> dict[str, Any]:
    """The body of a request; all of partition 0 of `<a>` if no topic is given."""
    return {
        "max_wait_ms": wait,
        "min_bytes": least,
        "max_bytes": most,
        "topics": list(topics) or [topic(part())],
        **given,
    }


def ask(*topics: dict[str, Any], to: str = "b1", **given: Any) -> Ask:
    return Ask("Fetch", fetch(*topics, **given), to=to)


def one(name: str, *steps: Step, versions: Any = (4, 11, 12, 13, 18)) -> Case:
    return Case(f"fetch.{name}", "Fetch", [Topic("a"), *steps], versions)


def _forget(*partitions: int, name: str = "a") -> list[dict[str, Any]]:
    return [{"topic": f"<{name}>", "topic_id": TopicId(name), "partitions": list(partitions)}]


def session(name: str, *steps: Step, versions: Any = (7, 12, 13, 18)) -> Case:
    """A session of partitions 0 and 1 is open, and its id saved."""
    opened = Ask(
        "Fetch",
        fetch(topic(part(0), part(1)), session_epoch=0),
        save={"s": "session_id"},
        hide=("session_id",),
    )
    start = [Topic("a", [[1, 2, 3], [1, 2, 3], [1, 2, 3]]), Write("a", Batch())]
    return Case(f"fetch.session.{name}", "Fetch", [*start, opened, *steps], versions)


def more(epoch: int, *topics: dict[str, Any], **given: Any) -> Ask:
    body = {**fetch(*topics), "topics": list(topics), "session_id": Saved("s")}
    body |= {"session_epoch": epoch, **given}
    return Ask("Fetch", body, hide=("session_id",), ordered=True)


def _limits() -> Sequence[Case]:
    sizes = (-1, 0, 1, 16, 17, 61, 5_070, 5_100, 10_100, 10_139, 10_140, 10_141, 10_200, 15_000)
    return [
        *(
            one(
                f"limit.partition.{size}",
                *THREE,
                ask(topic(part(partition_max_bytes=size))),
                versions=(4, 12) if size >= 0 else (4, 12, 13, 18),
            )
            for size in sizes
        ),
        *(
            one(
                f"limit.all.{size}",
                *THREE,
                ask(most=size),
                versions=(4, 12) if size >= 0 else (4, 12, 13, 18),
            )
            for size in sizes
        ),
        one("limit.negative.end", ask(most=-1), ask(topic(part(partition_max_bytes=-1)))),
        *(
            Case(
                f"fetch.limit.two.{size}",
                "Fetch",
                [
                    Topic("a", [[1, 2, 3], [1, 2, 3]]),
                    *(Write("a", Batch(values=[b"x" * SIZE] * 2), number) for number in (0, 1)),
                    Ask("Fetch", fetch(topic(part(0), part(1)), most=size), ordered=True),
                ],
                (12,),
            )
            for size in (0, 5_000, 10_073, 10_074, 12_000, 25_000)
        ),
    ]


CASES: Final = [
    one("plain", Write("a", Batch(values=[b"a", b"b"])), ask(), versions="all"),
    one("empty", ask()),
    one("middle", *THREE, ask(topic(part(offset=1)))),
    one("inside.batch", Write("a", Batch(values=[b"a", b"b", b"c"])), ask(topic(part(offset=1)))),
    one("end", *THREE, ask(topic(part(offset=3)))),
    one("beyond", *THREE, ask(topic(part(offset=4))), versions=(4, 5, 11, 12, 13, 18)),
    *(one(f"offset.{at}", *THREE, ask(topic(part(offset=at)))) for at in (-1, -2, 1 << 60)),
    one("partition.unknown", ask(topic(part(9))), versions="all"),
    one("partition.negative", ask(topic(part(-1)))),
    one(
        "partition.first.unknown", Topic("b"), ask(topic(part(9), part()), topic(part(), name="b"))
    ),
    one("partition.twice", *THREE, ask(topic(part(), part(offset=2)))),
    Case(
        "fetch.topic.unknown",
        "Fetch",
        [
            Ask(
                "Fetch",
                fetch({"topic": "<nobody>", "topic_id": bytes(range(16)), "partitions": [part()]}),
            )
        ],
        "all",
    ),
    Case(
        "fetch.topic.bad",
        "Fetch",
        [Ask("Fetch", fetch({"topic": name, "partitions": [part()]})) for name in ("a b", "", ".")],
        (4, 12),
    ),
    Case("fetch.topic.noid", "Fetch", [Ask("Fetch", fetch({"partitions": [part()]}))], (13, 18)),
    one("nopartitions", ask(topic())),
    Case("fetch.notopics", "Fetch", [Ask("Fetch", {**fetch(), "topics": []})], (4, 12, 18)),
    *(
        Case(
            f"fetch.{role}.b{to}",
            "Fetch",
            [Topic("a", [replicas]), Write("a", Batch()), ask(to=f"b{to}", wait=2000, least=1)],
            "all",
        )
        for role, replicas, to in (("follower", [1, 2, 3], 2), ("stranger", [1, 3], 2))
    ),
    *(
        one(
            f"epoch.{epoch}",
            *THREE,
            ask(topic(part(current_leader_epoch=epoch))),
            versions=(9, 12, 18),
        )
        for epoch in (0, 1, -2, 1 << 30)
    ),
    *(
        one(
            f"epoch.follower.{epoch}",
            ask(topic(part(current_leader_epoch=epoch)), to="b2"),
            versions=(9, 12, 18),
        )
        for epoch in (0, 1)
    ),
    *(
        one(
            f"lastepoch.{epoch}",
            *THREE,
            ask(topic(part(offset=1, last_fetched_epoch=epoch))),
            versions=(12, 18),
        )
        for epoch in (0, 1, 7)
    ),
    one(
        "lastepoch.committed",
        *THREE,
        ask(topic(part(offset=9, last_fetched_epoch=0)), isolation_level=1),
        versions=(12, 18),
    ),
    *(one(f"isolation.{level}", *THREE, ask(isolation_level=level)) for level in (1, 2, -1)),
    *(
        one(
            f"replica.{number}",
            *THREE,
            ask(replica_id=number, replica_state={"replica_id": number}),
            versions=(4, 12),
        )
        for number in (-2, -3, 1, 7)
    ),
    one("rack", *THREE, ask(rack_id="r"), versions=(11, 12, 18)),
    one("wait", ask(wait=50, least=1)),
    one("wait.negative", ask(wait=-1, least=1), versions=(12,)),
    one("least.negative", *THREE, ask(least=-1), versions=(12,)),
    one("cluster.other", ask(cluster_id="somebody else's"), versions=(12, 18)),
    *_limits(),
    session("idle", more(1)),
    session("news", more(1, topic(part(0, 1), part(1))), Write("a", Batch()), more(2), more(3)),
    session("add", more(1, topic(part(2))), more(2)),
    session("forget", more(1, forgotten_topics_data=_forget(0)), Write("a", Batch()), more(2)),
    session("forget.all", more(1, forgotten_topics_data=_forget(0, 1)), more(2)),
    session("forget.unknown", more(1, forgotten_topics_data=_forget(7))),
    session("epoch.again", more(1), more(1)),
    session("epoch.skipped", more(2)),
    session("epoch.negative", more(-1), more(1)),
    session("epoch.minus2", more(-2)),
    session("epoch.0", more(0, topic(part(0)))),
    session("partition.unknown", more(1, topic(part(9))), more(2)),
    session("offset.beyond", more(1, topic(part(0, 9))), more(2)),
    session(
        "diverging",
        more(1, topic(part(0, 9, last_fetched_epoch=0))),
        more(2),
        more(3, topic(part(1))),
        more(4, topic(part(0, 1, last_fetched_epoch=0))),
        more(5),
        versions=(12, 13, 18),
    ),
    session("order.named", Write("a", Batch(), 1), more(1, topic(part(1), part(0))), more(2)),
    session(
        "order.turn",
        Write("a", Batch(), 1),
        *(more(epoch, max_bytes=10) for epoch in range(1, 5)),
        more(5),
    ),
    session(
        "order.again",
        Write("a", Batch(), 1),
        more(1, forgotten_topics_data=_forget(0)),
        more(2, topic(part(0))),
        more(3, topic(part(0), part(1)), max_bytes=10),
        more(4, topic(part(1, 1))),
        more(5, topic(part(1))),
    ),
    session("other.broker", Ask("Fetch", {**more(1).body}, to="b2")),
    one(
        "session.unknown",
        Ask("Fetch", fetch(session_id=12345, session_epoch=1)),
        versions=(7, 12, 18),
    ),
    one("session.none", Ask("Fetch", fetch(session_id=0, session_epoch=1)), versions=(7, 12)),
    one("session.final", Ask("Fetch", fetch(session_id=12345, session_epoch=-1)), versions=(7, 12)),
    one(
        "session.start",
        Ask("Fetch", fetch(session_id=12345, session_epoch=0), hide=("session_id",)),
        versions=(7, 12),
    ),
]
