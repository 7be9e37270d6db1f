"""OffsetCommit, OffsetFetch and OffsetDelete."""

from typing import Any, Final

from tests.conformance.cases.groups import (
    AT,
    SUBSCRIBED,
    describe,
    join,
    joined,
    leave,
    listed,
    stable,
)
from tests.conformance.steps import Ask, Batch, Case, Pause, Saved, Step, Topic, TopicId, Write

TOPICS: Final = [Topic("a", [[1, 2], [2, 3]])]


def commit(
    *offsets: int,
    member: Any = "",
    generation: int = -1,
    metadata: str | None = "m",
    version: int | None = None,
    to: str = AT,
    check: bool = True,
    topic: str = "a",
    epoch: int = -1,
    patient: bool = True,
    **given: Any,
) -> Ask:
    partitions = [
        {
            "partition_index": index,
            "committed_offset": offset,
            "committed_metadata": metadata,
            "committed_leader_epoch": epoch,
        }
        for index, offset in enumerate(offsets)
    ]
    topics = [{"name": f"<{topic}>", "topic_id": TopicId("a"), "partitions": partitions}]
    body = {
        "group_id": "<g>",
        "generation_id_or_member_epoch": generation,
        "member_id": member,
        "topics": topics,
        **given,
    }
    return Ask("OffsetCommit", body, version, to=to, check=check, patient=patient)


def commit_naming_the_topic_each_time(*partitions: dict[str, Any]) -> Ask:
    """A commit of one topic with an entry of its own for each partition."""
    topics = [
        {"name": "<a>", "topic_id": TopicId("a"), "partitions": [partition]}
        for partition in partitions
    ]
    return Ask("OffsetCommit", {"group_id": "<g>", "topics": topics}, to=AT)


def commit_of(*partitions: int) -> Ask:
    """A commit of so many first partitions in each entry for a topic, beside an unknown one."""
    topics = [
        {
            "name": "<a>",
            "topic_id": TopicId("a"),
            "partitions": [{"partition_index": n} for n in range(count)],
        }
        for count in partitions
    ]
    unknown = {"name": "<nobody>", "topic_id": bytes(range(16))}
    return Ask("OffsetCommit", {"group_id": "<g>", "topics": [unknown, *topics]}, to=AT)


def fetch(
    *partitions: int,
    everything: bool = False,
    group: str = "<g>",
    version: int | None = None,
    to: str = AT,
    **given: Any,
) -> Ask:
    topic = {"name": "<a>", "partition_indexes": list(partitions)}
    with_id = {**topic, "topic_id": TopicId("a")}
    body = {
        "group_id": group,
        "topics": None if everything else [topic],
        "groups": [{"group_id": group, "topics": None if everything else [with_id]}],
        **given,
    }
    return Ask("OffsetFetch", body, version, to=to, own=False)


def forget(*partitions: int, topic: str = "<a>", group: str = "<g>", to: str = AT) -> Ask:
    asked = [{"name": topic, "partitions": [{"partition_index": index} for index in partitions]}]
    return Ask("OffsetDelete", {"group_id": group, "topics": asked}, to=to)


def case(api: str, name: str, *steps: Step, versions: Any = "all") -> Case:
    return Case(name, api, [*TOPICS, *steps], versions)


SOME: Final = (2, 5, 6, 7, 9, 10)
BOTH: Final = {"member": Saved("m"), "generation": 1}

_COMMIT = [
    case("OffsetCommit", "offsetcommit.plain", commit(5, 7), fetch(0, 1, version=9)),
    case("OffsetCommit", "offsetcommit.member", *stable(), commit(5, **BOTH), fetch(0, version=9)),
    *(
        case("OffsetCommit", f"offsetcommit.{name}", *stable(), commit(5, **given), versions=SOME)
        for name, given in {
            "nobody": {},
            "generation.old": {"member": Saved("m"), "generation": 0},
            "generation.new": {"member": Saved("m"), "generation": 2},
            "generation.none": {"member": Saved("m"), "generation": -1},
            "stranger": {"member": "who", "generation": 1},
            "stranger.none": {"member": "who"},
            "nameless": {"member": "", "generation": 1},
            "instance": {**BOTH, "group_instance_id": "i"},
        }.items()
    ),
    case("OffsetCommit", "offsetcommit.rebalancing", *joined(), commit(5, **BOTH), versions=SOME),
    case(
        "OffsetCommit",
        "offsetcommit.nogroup.member",
        commit(5, member="who", generation=1),
        versions=SOME,
    ),
    case(
        "OffsetCommit",
        "offsetcommit.emptied",
        *stable(),
        leave(Saved("m"), version=3),
        commit(5),
        commit(5, **BOTH),
        versions=SOME,
    ),
    *(
        case(
            "OffsetCommit",
            f"offsetcommit.value.{name}",
            commit(5, **given),
            fetch(0, version=9),
            versions=(2, 8, 10),
        )
        for name, given in {
            "null": {"metadata": None},
            "empty": {"metadata": ""},
            "umlaut": {"metadata": "ä"},
            "long": {"metadata": "x" * 4097},
            "longest": {"metadata": "x" * 4096},
            "epoch": {"epoch": 3},
            "epoch.minus2": {"epoch": -2},
        }.items()
    ),
    *(
        case(
            "OffsetCommit",
            f"offsetcommit.offset.{offset}",
            commit(offset),
            fetch(0, version=9),
            versions=(2, 8),
        )
        for offset in (0, -1, -2, 1 << 62)
    ),
    case("OffsetCommit", "offsetcommit.partition.unknown", commit(1, 2, 3), versions="all"),
    case(
        "OffsetCommit", "offsetcommit.topic.unknown", commit(1, topic="nobody"), versions=(2, 8, 9)
    ),
    case(
        "OffsetCommit",
        "offsetcommit.topic.noid",
        Ask(
            "OffsetCommit",
            {
                "group_id": "<g>",
                "topics": [
                    {"topic_id": bytes(range(16)), "partitions": [{"partition_index": 0}]},
                    {"partitions": [{"partition_index": 0}]},
                ],
            },
            to=AT,
        ),
        versions=(10,),
    ),
    case(
        "OffsetCommit",
        "offsetcommit.group.empty",
        commit(4, group_id="", to="coordinator:"),
        fetch(0, group="", version=7, to="coordinator:"),
        versions=(2, 8),
    ),
    case("OffsetCommit", "offsetcommit.wrongbroker", commit(1, to="other:<g>", patient=False)),
    case("OffsetCommit", "offsetcommit.nothing", commit(), versions=SOME),
    case(
        "OffsetCommit",
        "offsetcommit.retention",
        commit(3, retention_time_ms=1000),
        fetch(0, version=9),
        versions=(2, 3, 4),
    ),
    case(
        "OffsetCommit",
        "offsetcommit.retention.longest",
        commit(3, retention_time_ms=(1 << 63) - 1),
        fetch(0, version=9),
        versions=(2, 3, 4),
    ),
    *(
        case("OffsetCommit", f"offsetcommit.topic.bare.{name}", asked, versions=(2, 8, 9, 10))
        for name, asked in (("alone", commit_of(0)), ("beside", commit_of(1, 1)))
    ),
    *(
        case(
            "OffsetCommit",
            f"offsetcommit.topic.twice.{name}",
            commit_naming_the_topic_each_time(
                *({"partition_index": n, "committed_offset": 1} for n in numbers)
            ),
            versions=(2, 8, 10),
        )
        for name, numbers in (("known", (0, 1)), ("unknown", (0, 9)), ("nowhere", (8, 9)))
    ),
    case(
        "OffsetCommit",
        "offsetcommit.twice",
        commit_naming_the_topic_each_time(
            *(
                {"partition_index": 0, "committed_offset": n, "committed_metadata": ""}
                for n in (1, 2)
            )
        ),
        fetch(0, version=9),
        versions=(2, 8, 10),
    ),
]
_FETCH = [
    case("OffsetFetch", "offsetfetch.plain", commit(5, 7, version=8, check=False), fetch(0, 1)),
    case("OffsetFetch", "offsetfetch.none", fetch(0, 1)),
    case("OffsetFetch", "offsetfetch.unknown", commit(5, version=8, check=False), fetch(0, 9)),
    case(
        "OffsetFetch",
        "offsetfetch.all",
        commit(5, 7, version=8, check=False),
        fetch(everything=True),
        versions=range(2, 11),
    ),
    case(
        "OffsetFetch",
        "offsetfetch.nothing",
        commit(5, version=8, check=False),
        Ask(
            "OffsetFetch",
            {"group_id": "<g>", "topics": [], "groups": [{"group_id": "<g>", "topics": []}]},
            to=AT,
        ),
    ),
    case(
        "OffsetFetch",
        "offsetfetch.topic.unknown",
        Ask(
            "OffsetFetch",
            {
                "group_id": "<g>",
                "topics": [{"name": "<nobody>", "partition_indexes": [0]}],
                "groups": [
                    {
                        "group_id": "<g>",
                        "topics": [
                            {
                                "name": "<nobody>",
                                "topic_id": bytes(range(16)),
                                "partition_indexes": [0],
                            }
                        ],
                    }
                ],
            },
            to=AT,
        ),
    ),
    case(
        "OffsetFetch",
        "offsetfetch.stable",
        commit(5, version=8, check=False),
        fetch(0, require_stable=True),
        versions=(7, 8, 9, 10),
    ),
    case(
        "OffsetFetch",
        "offsetfetch.many",
        commit(5, version=8, check=False),
        Ask(
            "OffsetFetch",
            {
                "groups": [
                    {
                        "group_id": group,
                        "topics": [
                            {"name": "<a>", "topic_id": TopicId("a"), "partition_indexes": [0]}
                        ],
                    }
                    for group in ("<g>", "<g>")
                ]
            },
            to=AT,
        ),
        versions=(8, 9, 10),
    ),
    case(
        "OffsetFetch",
        "offsetfetch.wrongbroker",
        Ask("OffsetFetch", fetch(0).body, to="other:<g>", patient=False),
    ),
    case("OffsetFetch", "offsetfetch.group.empty", fetch(0, group="", to="coordinator:")),
    *(
        case(
            "OffsetFetch",
            f"offsetfetch.member.{name}",
            *stable(),
            commit(5, version=8, check=False, **BOTH),
            Ask(
                "OffsetFetch",
                {
                    "groups": [
                        {
                            "group_id": "<g>",
                            "member_id": member,
                            "member_epoch": epoch,
                            "topics": None,
                        }
                    ]
                },
                to=AT,
            ),
            versions=(9, 10),
        )
        for name, member, epoch in (
            ("right", Saved("m"), 1),
            ("stranger", "who", 1),
            ("null", None, 1),
            ("epoch", Saved("m"), 9),
        )
    ),
]
# A topic that is always there, and that no run has named itself.
KNOWN: Final = "__consumer_offsets"


def saying(version: int, topic: str) -> list[dict[str, Any]]:
    """What a member offers that is subscribed to a topic: the fields of version 0 alone."""
    prefix = version.to_bytes(2, "big", signed=True)
    name = len(topic).to_bytes(2, "big") + topic.encode()
    return [{"name": "range", "metadata": prefix + b"\0\0\0\1" + name + b"\xff\xff\xff\xff"}]


def forget_naming_each_time(*partitions: int | None) -> Ask:
    """A topic with an entry of its own for each partition; None: an unknown one that has none."""
    asked = [
        {"name": "<nobody>"}
        if index is None
        else {"name": "<a>", "partitions": [{"partition_index": index}]}
        for index in partitions
    ]
    return Ask("OffsetDelete", {"group_id": "<g>", "topics": asked}, to=AT)


_DELETE = [
    *(
        case(
            "OffsetDelete",
            f"offsetdelete.topic.twice.{name}",
            commit(5, 7, version=8, check=False),
            forget_naming_each_time(*partitions),
        )
        for name, partitions in (
            ("known", (0, 1)),
            ("unknown", (0, 9)),
            ("bare", (None,)),
            ("beside.bare", (0, 1, None)),
        )
    ),
    *(
        case(
            "OffsetDelete",
            f"offsetdelete.subscribed.version.{version}",
            *joined(protocols=saying(version, KNOWN)),
            forget(0, topic=KNOWN),
            forget(0),
        )
        for version in (-1, 0, 1, 3, 99)
    ),
    case(
        "OffsetDelete",
        "offsetdelete.subscribed.late",
        *joined(protocols=saying(0, "t")),
        join(line="second", later=True, version=3, protocols=saying(0, KNOWN)),
        Pause(200),
        forget(0, topic=KNOWN),
    ),
    case(
        "OffsetDelete",
        "offsetdelete.plain",
        commit(5, 7, version=8, check=False),
        forget(0),
        fetch(0, 1, version=8),
        forget(0, 9),
    ),
    case("OffsetDelete", "offsetdelete.nogroup", forget(0)),
    case(
        "OffsetDelete",
        "offsetdelete.last",
        commit(5, version=8, check=False),
        forget(0),
        forget(0),
        describe(5),
        listed(5),
    ),
    case(
        "OffsetDelete",
        "offsetdelete.topic.unknown",
        commit(5, version=8, check=False),
        forget(0, topic="<nobody>"),
        forget(0, topic="a b"),
    ),
    case("OffsetDelete", "offsetdelete.nothing", commit(5, version=8, check=False), forget()),
    case("OffsetDelete", "offsetdelete.group.empty", forget(0, group="", to="coordinator:")),
    case(
        "OffsetDelete",
        "offsetdelete.subscribed",
        *joined(protocols=[{"name": "range", "metadata": SUBSCRIBED}]),
        commit(5, version=8, check=False, **BOTH),
        forget(0),
    ),
    case(
        "OffsetDelete",
        "offsetdelete.unreadable",
        *joined(protocols=[{"name": "range", "metadata": b"?"}]),
        forget(0),
    ),
    case("OffsetDelete", "offsetdelete.connect", *joined(protocol_type="connect"), forget(0)),
    case(
        "OffsetDelete",
        "offsetdelete.wrongbroker",
        Ask("OffsetDelete", forget(0).body, to="other:<g>", patient=False),
    ),
]
_TOPIC_GONE = [
    Case(
        "offsetfetch.topic.deleted",
        "OffsetFetch",
        [
            *TOPICS,
            Write("a", Batch()),
            commit(5, version=8, check=False),
            Ask("DeleteTopics", {"topics": [{"name": "<a>"}], "timeout_ms": 10000}, 6, check=False),
            Ask(
                "Metadata",
                {"topics": [{"name": "<a>"}], "allow_auto_topic_creation": False},
                12,
                until_empty="topics.0.partitions",
                check=False,
                hide=("topic_id",),
            ),
        ],
        (9,),
    ),
]

CASES: Final = [*_COMMIT, *_FETCH, *_DELETE, *_TOPIC_GONE]
