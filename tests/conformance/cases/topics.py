"""CreateTopics, DeleteTopics, CreatePartitions, Metadata and DescribeTopicPartitions."""

from typing import Any, Final

from tests.conformance.steps import Ask, Case, Topic, TopicId

NOBODY: Final = bytes(range(16))
BAD_NAMES: Final = {
    "space": "a b",
    "empty": "",
    "dot": ".",
    "dots": "..",
    "slash": "a/b",
    "colon": "a:b",
    "star": "*",
    "umlaut": "ä",
    "newline": "a\n",
    "length250": "x" * 250,
}


def create(*topics: dict[str, Any], **given: Any) -> dict[str, Any]:
    return {"topics": list(topics), "timeout_ms": 10000, **given}


def new(name: str = "<n>", partitions: int = 1, replicas: int = 1, **given: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas, **given}


def assigned(*replicas: list[int], first: int = 0, **given: Any) -> dict[str, Any]:
    assignments = [
        {"partition_index": index, "broker_ids": brokers}
        for index, brokers in enumerate(replicas, first)
    ]
    return new(partitions=-1, replicas=-1, assignments=assignments, **given)


def made(name: str, *bodies: dict[str, Any], versions: Any = (2, 4, 5, 7)) -> Case:
    asks = [Ask("CreateTopics", body, hide=("configs", "topic_id"), own=False) for body in bodies]
    return Case(f"createtopics.{name}", "CreateTopics", asks, versions)


def metadata(*topics: dict[str, Any] | str, **given: Any) -> dict[str, Any]:
    named = [{"name": each} if isinstance(each, str) else each for each in topics]
    return {"topics": named, "allow_auto_topic_creation": False, **given}


def grow(count: int, name: str = "<a>", **given: Any) -> dict[str, Any]:
    topic = {"name": name, "count": count, "assignments": given.pop("assignments", None)}
    return {"topics": [topic], "timeout_ms": 10000, **given}


def _brokers(*replicas: list[int]) -> list[dict[str, Any]]:
    return [{"broker_ids": brokers} for brokers in replicas]


# Valid, and not as brokers would write it.
ODD: Final = {
    "segment.bytes": " 1048576",
    "preallocate": "TRUE",
    "cleanup.policy": " compact , delete",
    "min.cleanable.dirty.ratio": "5e-1",
}
_CREATE = [
    made("plain", create(new()), create(new()), versions="all"),
    made("defaults", create(new(partitions=-1, replicas=-1)), versions="all"),
    made("validate", create(new(), validate_only=True), create(new(), validate_only=True)),
    *(
        made(f"partitions.{count}", create(new(partitions=count)), versions=(2, 7))
        for count in (0, -2, 3, 10001)
    ),
    *(
        made(f"replicas.{count}", create(new(replicas=count)), versions=(2, 7))
        for count in (0, -2, 2, 4)
    ),
    *(made(f"name.{key}", create(new(name)), versions=(2, 7)) for key, name in BAD_NAMES.items()),
    made("name.length249", create(new(f"<n>{'x' * 230}")), versions=(7,)),
    made("name.collision.at.once", create(new("<n>.a"), new("<n>_a")), versions=(2, 7)),
    made("name.collision", create(new("<n>.a")), create(new("<n>_a")), versions=(2, 7)),
    made("internal", create(new("__cluster_metadata")), versions=(2, 7)),
    made("twice", create(new(), new()), versions=(2, 7)),
    made(
        "twice.in.no.time",
        create(new(), new(), new("__cluster_metadata"), timeout_ms=0),
        create(new(), new(), new("<m>"), timeout_ms=0),
        create(timeout_ms=-1),
        versions=(2, 7),
    ),
    made(
        "twice.many",
        create(new("<n>", 10001), new("<n>", 10001)),
        create(new("<n>", 10001), new("<n>"), new("<m>", 10001)),
        versions=(2, 7),
    ),
    made("two", create(new("<n>"), new("<m>", 0)), versions=(2, 7)),
    made("nothing", create(), versions=(2, 7)),
    *(made(f"timeout.{ms}", create(new(), timeout_ms=ms), versions=(2, 7)) for ms in (0, -1)),
    *(
        made(f"assigned.{name}", create(body), versions=(2, 7))
        for name, body in {
            "one": assigned([1, 2]),
            "two": assigned([1, 2], [2, 3]),
            "gap": {
                **assigned([1]),
                "assignments": [{"partition_index": n, "broker_ids": [1]} for n in (0, 2)],
            },
            "from1": assigned([1], first=1),
            "negative": assigned([1], first=-1),
            "same.partition": {
                **assigned([1]),
                "assignments": [{"partition_index": 0, "broker_ids": [n]} for n in (1, 2)],
            },
            "nobrokers": assigned([]),
            "broker.twice": assigned([1, 1]),
            "broker.unknown": assigned([1, 9]),
            "broker.negative": assigned([-1]),
            "different.counts": assigned([1, 2], [3]),
            "with.partitions": assigned([1]) | {"num_partitions": 1},
            "with.replicas": assigned([1]) | {"replication_factor": 1},
        }.items()
    ),
    Case(
        "createtopics.configs",
        "CreateTopics",
        [
            Ask(
                "CreateTopics",
                create(
                    new(
                        configs=[
                            {"name": "retention.ms", "value": "5000"},
                            {"name": "cleanup.policy", "value": "compact"},
                        ]
                    )
                ),
                hide=("topic_id",),
                only={
                    "configs": (
                        "name",
                        [
                            "retention.ms",
                            "cleanup.policy",
                            "segment.bytes",
                            "min.insync.replicas",
                            "compression.type",
                            "max.message.bytes",
                        ],
                    )
                },
            ),
        ],
        (5, 6, 7),
    ),
    Case(
        "createtopics.configs.as.given",
        "CreateTopics",
        [
            Ask(
                "CreateTopics",
                create(
                    new(configs=[{"name": name, "value": value} for name, value in ODD.items()])
                ),
                hide=("topic_id",),
                only={"configs": ("name", [*ODD])},
            ),
        ],
        (5, 7),
    ),
    Case(
        "createtopics.then.metadata",
        "CreateTopics",
        [
            Ask(
                "CreateTopics",
                create(assigned([2, 3, 1], [3, 1, 2])),
                save={"id": "topics.0.topic_id"},
                hide=("configs",),
            ),
            Ask("Metadata", metadata("<n>"), 12, until="topics.0.partitions.1.leader_id"),
        ],
        (7,),
    ),
]
_DELETE = [
    Case(
        "deletetopics.plain",
        "DeleteTopics",
        [
            Topic("a"),
            Topic("b"),
            Ask(
                "DeleteTopics",
                {
                    "topic_names": ["<a>", "<b>"],
                    "timeout_ms": 10000,
                    "topics": [{"name": "<a>"}, {"name": None, "topic_id": TopicId("b")}],
                },
            ),
            Ask(
                "DeleteTopics",
                {
                    "topic_names": ["<a>", "<b>"],
                    "timeout_ms": 10000,
                    "topics": [{"name": "<a>"}, {"name": None, "topic_id": TopicId("b")}],
                },
            ),
        ],
        "all",
    ),
    *(
        Case(
            f"deletetopics.{name}",
            "DeleteTopics",
            [
                Topic("a"),
                Ask(
                    "DeleteTopics",
                    {
                        "timeout_ms": 10000,
                        "topics": topics,
                        "topic_names": [t["name"] for t in topics if t["name"] is not None],
                    },
                ),
            ],
            versions,
        )
        for name, topics, versions in (
            ("unknown", [{"name": "<nobody>"}], (1, 5, 6)),
            ("bad", [{"name": "a b"}, {"name": ""}], (1, 5, 6)),
            ("twice", [{"name": "<a>"}, {"name": "<a>"}], (1, 5, 6)),
            ("neither", [{"name": None}], (6,)),
            ("both", [{"name": "<a>", "topic_id": NOBODY}], (6,)),
            ("id.unknown", [{"name": None, "topic_id": NOBODY}], (6,)),
            ("id.twice", [{"name": None, "topic_id": TopicId("a")}] * 2, (6,)),
            ("name.and.id", [{"name": "<a>"}, {"name": None, "topic_id": TopicId("a")}], (6,)),
            ("nothing", [], (1, 6)),
        )
    ),
    Case(
        "deletetopics.timeout.0",
        "DeleteTopics",
        [
            Topic("a"),
            Ask(
                "DeleteTopics",
                {"topic_names": ["<a>"], "topics": [{"name": "<a>"}], "timeout_ms": 0},
            ),
        ],
        (1, 6),
    ),
    *(
        Case(
            f"deletetopics.in.no.time.{name}",
            "DeleteTopics",
            [
                Topic("a"),
                Ask(
                    "DeleteTopics",
                    {
                        "timeout_ms": 0,
                        "topics": topics,
                        "topic_names": [t["name"] for t in topics if t["name"] is not None],
                    },
                ),
            ],
            versions,
        )
        for name, topics, versions in (
            ("nothing", [], (1, 6)),
            ("twice", [{"name": "<a>"}, {"name": "<a>"}], (1, 6)),
            ("twice.and.other", [{"name": "<a>"}, {"name": "<a>"}, {"name": "<b>"}], (1, 6)),
            ("neither", [{"name": None}, {"name": "<a>", "topic_id": NOBODY}], (6,)),
            ("id.twice", [{"name": None, "topic_id": TopicId("a")}] * 2, (6,)),
            ("id", [{"name": None, "topic_id": TopicId("a")}], (6,)),
        )
    ),
]
_GROW = [
    Case(
        f"createpartitions.{name}",
        "CreatePartitions",
        [Topic("a", [[1, 2], [2, 3]]), *(Ask("CreatePartitions", body) for body in bodies)],
        versions,
    )
    for name, versions, bodies in (
        ("plain", "all", [grow(3), grow(3)]),
        ("same", (0, 3), [grow(2)]),
        ("fewer", (0, 3), [grow(1)]),
        ("zero", (0, 3), [grow(0)]),
        ("negative", (0, 3), [grow(-1)]),
        ("many", (0, 3), [grow(10003)]),
        ("validate", (0, 3), [grow(3, validate_only=True), grow(3, validate_only=True)]),
        ("unknown", (0, 3), [grow(3, "<nobody>"), grow(3, "a b"), grow(3, "")]),
        (
            "twice",
            (0, 3),
            [
                {
                    "timeout_ms": 10000,
                    "topics": [{"name": "<a>", "count": n, "assignments": None} for n in (3, 4)],
                }
            ],
        ),
        ("timeout.0", (0, 3), [grow(3, timeout_ms=0)]),
        (
            "twice.in.no.time",
            (0, 3),
            [
                {
                    "timeout_ms": 0,
                    "topics": [{"name": n, "count": 3, "assignments": None} for n in names],
                }
                for names in (["<a>", "<a>"], ["<a>", "<a>", "<b>"], [])
            ],
        ),
        ("nothing", (0, 3), [{"topics": [], "timeout_ms": 10000}]),
        *(
            (f"assigned.{key}", (0, 3), [grow(3, assignments=_brokers(*replicas))])
            for key, replicas in {
                "plain": [[3, 1]],
                "none": [],
                "nobrokers": [[]],
                "toomany": [[3, 1], [1, 2]],
                "other.count": [[3]],
                "twice": [[3, 3]],
                "unknown": [[3, 9]],
                "negative": [[-1, 1]],
            }.items()
        ),
    )
]
_GROW.append(
    Case(
        "createpartitions.internal.not.more",
        "CreatePartitions",
        [
            Ask("FindCoordinator", {"key": "<g>"}, 3, to="any", check=False),
            *(Ask("CreatePartitions", grow(count, "__consumer_offsets")) for count in (1, 5, -1)),
        ],
        (0, 3),
    )
)
_METADATA = [
    Case(
        "metadata.plain",
        "Metadata",
        [Topic("a", [[1, 2, 3], [2, 3, 1], [3, 1, 2]]), Ask("Metadata", metadata("<a>"))],
        "all",
    ),
    Case(
        "metadata.all",
        "Metadata",
        [Topic("a"), Ask("Metadata", {"topics": None}, own=True)],
        range(1, 14),
    ),
    Case("metadata.none", "Metadata", [Ask("Metadata", metadata(), own=True)], range(1, 14)),
    Case("metadata.unknown", "Metadata", [Ask("Metadata", metadata("<nobody>"))], range(4, 14)),
    Case(
        "metadata.auto",
        "Metadata",
        [
            Ask("Metadata", {"topics": [{"name": "<n>"}]}),
            Ask(
                "Metadata",
                metadata("<n>"),
                12,
                until="topics.0.partitions.0.leader_id",
                hide=("topic_id", "leader_id", "replica_nodes", "isr_nodes"),
            ),
        ],
        "all",
    ),
    *(
        Case(
            f"metadata.name.{key}",
            "Metadata",
            [
                Ask("Metadata", {"topics": [{"name": name}], "allow_auto_topic_creation": auto})
                for auto in (True, False)
            ],
            (4, 9, 12),
        )
        for key, name in BAD_NAMES.items()
    ),
    *(
        Case(
            f"metadata.id.{name}",
            "Metadata",
            [Topic("a"), Ask("Metadata", metadata(*topics))],
            versions,
        )
        for name, topics, versions in (
            ("plain", [{"name": None, "topic_id": TopicId("a")}], (10, 11, 12, 13)),
            ("unknown", [{"name": None, "topic_id": NOBODY}], (10, 11, 12, 13)),
            ("zero", [{"name": None}], (10, 12, 13)),
            ("with.name", [{"name": "<a>", "topic_id": TopicId("a")}], (10, 12, 13)),
            ("other.name", [{"name": "<b>", "topic_id": TopicId("a")}], (10, 12, 13)),
            ("mixed", [{"name": "<a>"}, {"name": None, "topic_id": TopicId("a")}], (12, 13)),
        )
    ),
    Case(
        "metadata.twice",
        "Metadata",
        [Topic("a"), Ask("Metadata", metadata("<a>", "<a>"))],
        (1, 9, 12),
    ),
    Case(
        "metadata.mixed",
        "Metadata",
        [Topic("a"), Ask("Metadata", metadata("<a>", "<b>", "a b"))],
        (4, 9, 12),
    ),
    Case(
        "metadata.operations",
        "Metadata",
        [
            Topic("a"),
            Ask(
                "Metadata",
                metadata(
                    "<a>",
                    "<nobody>",
                    "a b",
                    include_cluster_authorized_operations=True,
                    include_topic_authorized_operations=True,
                ),
            ),
        ],
        range(8, 14),
    ),
    Case(
        "metadata.internal",
        "Metadata",
        [
            Ask("OffsetCommit", {"group_id": "<g>"}, 8, to="coordinator:<g>", check=False),
            Ask("Metadata", metadata("__consumer_offsets"), hide=("partitions", "topic_id")),
        ],
        (1, 9, 12),
    ),
]
_PARTITIONS = [
    Case(
        f"topicpartitions.{name}",
        "DescribeTopicPartitions",
        [
            Topic("a", [[1, 2, 3], [2, 3, 1], [3, 1, 2]]),
            Topic("b"),
            *(Ask("DescribeTopicPartitions", body, ordered=True) for body in bodies),
        ],
    )
    for name, bodies in {
        "plain": [{"topics": [{"name": "<b>"}, {"name": "<a>"}]}],
        "unknown": [{"topics": [{"name": name}]} for name in ("<c>", "a b", "")],
        "twice": [{"topics": [{"name": "<a>"}, {"name": "<a>"}]}],
        "limit": [
            {"topics": [{"name": "<a>"}, {"name": "<b>"}], "response_partition_limit": n}
            for n in (2, 3, 4, 0, -1, 5000)
        ],
        "limit.unknown": [
            {"topics": [{"name": "<b>"}, {"name": "<c>"}], "response_partition_limit": 1}
        ],
        "cursor": [
            {
                "topics": [{"name": "<a>"}, {"name": "<b>"}],
                "cursor": {"topic_name": "<a>", "partition_index": n},
            }
            for n in (0, 1, 3, 9)
        ],
        "cursor.negative": [
            {"topics": [{"name": "<a>"}], "cursor": {"topic_name": "<a>", "partition_index": -1}}
        ],
        "cursor.negative.twice": [
            {
                "topics": [{"name": name} for name in names],
                "cursor": {"topic_name": "<a>", "partition_index": -1},
            }
            for names in (["<b>", "<a>", "<b>"], [])
        ],
        "cursor.before": [
            {
                "topics": [{"name": "<a>"}, {"name": "<b>"}, {"name": "<aa>"}],
                "response_partition_limit": 1,
                "cursor": {"topic_name": "<aa>", "partition_index": 2},
            }
        ],
        "cursor.other": [
            {"topics": [{"name": "<a>"}], "cursor": {"topic_name": "<b>", "partition_index": 0}}
        ],
        "cursor.unknown": [
            {"topics": [{"name": "<a>"}], "cursor": {"topic_name": "<c>", "partition_index": 0}}
        ],
    }.items()
]

CASES: Final = [*_CREATE, *_DELETE, *_GROW, *_METADATA, *_PARTITIONS]
