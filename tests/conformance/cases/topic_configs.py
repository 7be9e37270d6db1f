"""Every configuration of topics with values of every kind, when one is made and later."""

from typing import Any, Final

from tests.conformance.cases.topics import create, new
from tests.conformance.steps import Ask, Case, Step, Topic

from replog.model.config_resources import ResourceType
from replog.model.config_table import TOPIC as KEYS

TOPIC: Final = int(ResourceType.TOPIC)
NAMES: Final = sorted(name for name in KEYS if not name.startswith("replog."))
VALUES: Final = (
    "",
    "x",
    "-1",
    "-2",
    "-3",
    "0",
    "1",
    " 1",
    "1.5",
    "0.5",
    "1024",
    "1048576",
    "2147483647",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "true",
    "FALSE",
    "yes",
    "compact",
    "delete,compact",
    "compact,compact",
    "none",
    "gzip",
    "GZIP",
    "snappy,lz4",
    "producer",
    "CreateTime",
    "createtime",
    "*",
    "0:1",
    "0:1,0:2",
    "0:x",
    # As Java reads numbers and lists, or does not.
    "+5",
    "-0",
    "5 ",
    "5_0",
    "1e3",
    "5e-1",
    ".5",
    "5.",
    "0.5f",
    "0.5d",
    "0x10",
    "0x1p-1",
    "nan",
    "inf",
    "Infinity",
    "\u0663",
    "tru",
    " true",
    " compact ",
    "compact, delete",
    "compact,",
    ",compact",
    ",",
    " 0:1 , 0:2 ",
    "*,0:1",
    "0:1:2",
    "0:-1",
    "-1:0",
    "none,0:1",
)


def _named(config: str, value: str | None) -> list[dict[str, Any]]:
    return [{"name": config, "value": value}]


def _create(config: str) -> Case:
    topics = [new(f"<n{i}>", configs=_named(config, value)) for i, value in enumerate(VALUES)]
    body = create(*topics, validate_only=True)
    return Case(
        f"createtopics.config.{config}",
        "CreateTopics",
        [Ask("CreateTopics", body, hide=("configs",))],
    )


def alter(name: str, *steps: Step, versions: Any = (0, 1)) -> Case:
    return Case(f"incremental.{name}", "IncrementalAlterConfigs", [Topic("a"), *steps], versions)


def change(
    config: str,
    value: str | None,
    operation: int = 0,
    *,
    name: str = "<a>",
    kind: int = TOPIC,
    validate: bool = False,
) -> Ask:
    configs = [{"name": config, "config_operation": operation, "value": value}]
    return changes(configs, name=name, kind=kind, validate=validate)


def changes(
    configs: list[dict[str, Any]], *, name: str = "<a>", kind: int = TOPIC, validate: bool = False
) -> Ask:
    resources = [{"resource_type": kind, "resource_name": name, "configs": configs}]
    return Ask("IncrementalAlterConfigs", {"resources": resources, "validate_only": validate})


def describe(*configs: str, name: str = "<a>", kind: int = TOPIC) -> Ask:
    resources = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": list(configs)}
    ]
    return Ask(
        "DescribeConfigs", {"resources": resources, "include_synonyms": True}, 4, patient=False
    )


SET, DELETE, APPEND, SUBTRACT = range(4)


def _operations(config: str, old: str, *values: str) -> Case:
    """APPEND and SUBTRACT, of each value to the old one, and what there is then."""
    steps: list[Step] = []
    for value in values:
        for operation in (APPEND, SUBTRACT):
            steps += [change(config, old), change(config, value, operation), describe(config)]
    return alter(f"list.{config}", *steps, versions=(1,))


_ALTER = [
    *(
        alter(
            f"value.{config}",
            *(change(config, value, validate=True) for value in ("", "x", "-2", "1", None)),
            versions=(1,),
        )
        for config in NAMES
    ),
    alter(
        "set",
        change("retention.ms", "5000"),
        describe("retention.ms"),
        change("retention.ms", None, DELETE),
        describe("retention.ms"),
        change("retention.ms", "7", DELETE),
    ),
    alter("null", *(change("retention.ms", None, operation) for operation in range(4))),
    alter(
        "unknown",
        *(change("no.such", "1", operation) for operation in range(4)),
        change("", "1"),
        change("Retention.ms", "1"),
        change("num.partitions", "1"),
    ),
    *(alter(f"operation.{n}", change("retention.ms", "1", n)) for n in (-1, 4, 9)),
    alter("not.a.list", change("retention.ms", "1", APPEND), change("retention.ms", "1", SUBTRACT)),
    _operations("cleanup.policy", "delete", "compact", "delete", "x", "", "compact,delete"),
    _operations(
        "leader.replication.throttled.replicas", "0:1,0:2", "0:3", "0:1", "0:1,0:2", "*", ""
    ),
    _operations("follower.replication.throttled.replicas", "*", "0:3", "*", ""),
    alter(
        "same.twice",
        changes([{"name": "retention.ms", "config_operation": 0, "value": v} for v in ("1", "2")]),
        describe("retention.ms"),
    ),
    alter(
        "two",
        changes(
            [
                {"name": "retention.ms", "config_operation": 0, "value": "1"},
                {"name": "segment.ms", "config_operation": 0, "value": "x"},
            ]
        ),
        describe("retention.ms"),
    ),
    alter(
        "topic.unknown",
        change("retention.ms", "1", name="<nobody>"),
        change("retention.ms", "1", name="a b"),
        change("retention.ms", "1", name=""),
        change("retention.ms", "x", name="<nobody>"),
        change("no.such", "1", name="<nobody>"),
        change("retention.ms", "1", APPEND, name="<nobody>"),
    ),
    alter(
        "shown",
        *(
            step
            for config, value in (
                *(
                    ("min.cleanable.dirty.ratio", text)
                    for text in ("1", "5e-1", " .50", "0.5f", "0x1p-1", "1e-5", "0.001", "-0")
                ),
                ("retention.ms", "+05"),
                ("retention.ms", "\u0663"),
                ("preallocate", " TRUE"),
                ("cleanup.policy", " compact , delete "),
                ("follower.replication.throttled.replicas", " 0:1 , 0:2 "),
                ("compression.type", " gzip"),
            )
            for step in (change(config, value), describe(config))
        ),
        versions=(1,),
    ),
    alter(
        "shown.twice",
        *(
            step
            for config, value in (
                ("cleanup.policy", "delete, compact,delete"),
                ("leader.replication.throttled.replicas", "0:1,0:1"),
            )
            for step in (change(config, value), describe(config))
        ),
        versions=(1,),
    ),
    alter("nothing", changes([]), Ask("IncrementalAlterConfigs", {"resources": []})),
    alter(
        "resource.twice",
        Ask(
            "IncrementalAlterConfigs",
            {
                "resources": [
                    {
                        "resource_type": TOPIC,
                        "resource_name": "<a>",
                        "configs": [{"name": "retention.ms", "config_operation": 0, "value": v}],
                    }
                    for v in ("1", "2")
                ]
            },
        ),
    ),
    alter(
        "resource.two",
        Ask(
            "IncrementalAlterConfigs",
            {
                "resources": [
                    {
                        "resource_type": TOPIC,
                        "resource_name": name,
                        "configs": [{"name": "retention.ms", "config_operation": 0, "value": "1"}],
                    }
                    for name in ("<a>", "<nobody>")
                ]
            },
        ),
    ),
    *(alter(f"kind.{kind}", change("retention.ms", "1", kind=kind)) for kind in (0, 1, 3, 64, -1)),
    *(
        alter(f"cross.{name}", *(change(config, value) for config, value in pairs), versions=(1,))
        for name, pairs in {
            "local.retention": [
                ("retention.ms", "1000"),
                ("local.retention.ms", "2000"),
                ("local.retention.bytes", "5"),
            ],
            "lags": [("max.compaction.lag.ms", "10"), ("min.compaction.lag.ms", "20")],
            "remote": [("remote.storage.enable", "true")],
            "remote.delete": [("remote.log.delete.on.disable", "true")],
        }.items()
    ),
]


def old(
    name: str,
    *configs: list[tuple[str, str | None]],
    topic: str = "<a>",
    kind: int = TOPIC,
    then: str = "retention.ms",
) -> Case:
    steps: list[Step] = []
    for each in configs:
        named = [{"name": config, "value": value} for config, value in each]
        resources = [{"resource_type": kind, "resource_name": topic, "configs": named}]
        steps += [Ask("AlterConfigs", {"resources": resources}), describe(then)]
    return Case(f"alterconfigs.{name}", "AlterConfigs", [Topic("a"), *steps], (0, 1, 2))


_OLD = [
    old("plain", [("retention.ms", "5")], [("segment.ms", "7")], []),
    old("null", [("retention.ms", None)]),
    old("invalid", [("retention.ms", "x")], [("no.such", "1")], [("", "1")]),
    old("twice", [("retention.ms", "1"), ("retention.ms", "2")]),
    old("partly", [("retention.ms", "1"), ("segment.ms", "x")]),
    old("topic.unknown", [("retention.ms", "1")], [("retention.ms", "x")], topic="<nobody>"),
    old("topic.bad", [("retention.ms", "1")], topic="a b"),
    *(old(f"kind.{kind}", [("retention.ms", "1")], kind=kind) for kind in (0, 3, -1)),
]

CASES: Final = [*(_create(config) for config in NAMES), *_ALTER, *_OLD]
