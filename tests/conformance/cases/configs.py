"""Configurations of brokers, groups and what else has some; DescribeConfigs of all of them."""

from dataclasses import replace
from typing import Any, Final

from tests.conformance.cases.topic_configs import (
    APPEND,
    DELETE,
    NAMES,
    SET,
    SUBTRACT,
    TOPIC,
    alter,
    change,
    changes,
    describe,
)
from tests.conformance.steps import Ask, Case, Topic

from replog.model.config_resources import ResourceType
from replog.model.config_table import BROKER as BROKER_KEYS
from replog.model.config_table import GROUP as GROUP_KEYS

BROKER: Final = int(ResourceType.BROKER)
GROUP: Final = int(ResourceType.GROUP)
METRICS: Final = int(ResourceType.CLIENT_METRICS)
LOGGER: Final = int(ResourceType.BROKER_LOGGER)

# Whose values are the machine's or the test's own.
PLACES: Final = (
    "listener",
    "log.dir",
    "node.id",
    "broker.id",
    "broker.rack",
    "zookeeper",
    "replog.",
)
BROKER_NAMES: Final = sorted(
    name for name in BROKER_KEYS if not any(place in name for place in PLACES)
)
# Names that Kafka 4.4 knows no more: it takes them for those of plug-ins.
FORMER: Final = frozenset(
    (
        "allow.everyone.if.no.acl.found",
        "controlled.shutdown.max.retries",
        "controlled.shutdown.retry.backoff.ms",
        "inter.broker.protocol.version",
        "leader.imbalance.per.broker.percentage",
        "log.message.format.version",
        "reserved.broker.max.id",
        "super.users",
        "unclean.leader.election.interval.ms",
    )
)
# Set for the recorder, to make Kafka quick; and defaults of our own.
OTHERWISE: Final = (
    "controller.quorum.",
    "process.roles",
    "log.cleaner.backoff.ms",
    "log.flush.start.offset.checkpoint.interval.ms",
    "log.retention.check.interval.ms",
    "share.coordinator.state.topic.",
    "transaction.state.log.",
    "max.connections",
    "queued.max.request.bytes",
)
SHOWN_NAMES: Final = [
    name
    for name in BROKER_NAMES
    if name not in FORMER and not any(part in name for part in OTHERWISE)
]


def asked(*resources: dict[str, Any], **given: Any) -> Ask:
    return Ask("DescribeConfigs", {"resources": list(resources), **given}, patient=False)


def resource(kind: int, name: str, keys: list[str] | None = None) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name, "configuration_keys": keys}


def described(name: str, *steps: Ask, versions: Any = (1, 2, 3, 4)) -> Case:
    return Case(f"describeconfigs.{name}", "DescribeConfigs", [Topic("a"), *steps], versions)


_DESCRIBE = [
    described("topic", asked(resource(TOPIC, "<a>", NAMES))),
    described("topic.synonyms", asked(resource(TOPIC, "<a>", NAMES), include_synonyms=True)),
    described(
        "topic.set",
        change("cleanup.policy", "compact"),
        asked(
            resource(TOPIC, "<a>", ["cleanup.policy", "segment.ms", "retention.ms"]),
            include_synonyms=True,
        ),
        versions=(1, 4),
    ),
    described("keys.none", asked(resource(TOPIC, "<a>", []))),
    described("keys.unknown", asked(resource(TOPIC, "<a>", ["no.such", "retention.ms"]))),
    described(
        "topic.unknown",
        asked(resource(TOPIC, "<nobody>"), resource(TOPIC, "a b"), resource(TOPIC, "")),
    ),
    described(
        "twice",
        asked(resource(TOPIC, "<a>", ["retention.ms"]), resource(TOPIC, "<a>", ["segment.ms"])),
    ),
    described("broker", asked(resource(BROKER, "1", SHOWN_NAMES)), versions=(4,)),
    described(
        "broker.synonyms",
        asked(resource(BROKER, "1", SHOWN_NAMES), include_synonyms=True),
        versions=(4,),
    ),
    described(
        "broker.other",
        asked(resource(BROKER, "2", ["num.partitions"])),
        asked(resource(BROKER, "99")),
        asked(resource(BROKER, "x")),
        asked(resource(BROKER, "-1")),
    ),
    described(
        "broker.id", asked(resource(BROKER, "1", ["broker.id", "node.id"]), include_synonyms=True)
    ),
    described("broker.all", asked(resource(BROKER, "", ["num.partitions"]))),
    described(
        "group",
        asked(resource(GROUP, "<g>", sorted(GROUP_KEYS)), include_synonyms=True),
        asked(resource(GROUP, "")),
        versions=(1, 4),
    ),
    described(
        "metrics", asked(resource(METRICS, "<m>")), asked(resource(METRICS, "")), versions=(1, 4)
    ),
    *(described(f"kind.{kind}", asked(resource(kind, "<a>"))) for kind in (0, 1, 3, 64, -1)),
    described("nothing", asked()),
]


def _named(config: str, operation: int) -> list[dict[str, Any]]:
    return [{"name": config, "config_operation": operation, "value": "1"}]


def _broker(config: str) -> list[Ask]:
    values = ("1", "x", "")
    asks = [change(config, value, name="1", kind=BROKER, validate=True) for value in values]
    return [*asks, change(config, "1", name="", kind=BROKER, validate=True)]


def _kept(name: str, config: str, value: str) -> Case:
    """Set it on b3 for a while. `<x>` is a listener that nobody else knows."""
    asks = [
        change(config, value, name="3", kind=BROKER),
        describe(config, name="3", kind=BROKER),
        change(config, None, DELETE, name="3", kind=BROKER),
        describe(config, name="3", kind=BROKER),
    ]
    steps = [replace(ask, to="b3") for ask in asks]
    return Case(f"incremental.broker.kept.{name}", "IncrementalAlterConfigs", steps)


_OF_A_LISTENER: Final = (
    ("max.connections", ("5", "x", "-1", "")),
    ("max.connection.creation.rate", ("5", "x")),
    ("num.network.threads", ("4", "x", "100")),
    ("num.partitions", ("5", "x")),
    ("log.cleaner.threads", ("2", "-1")),
    ("ssl.keystore.type", ("PKCS12", "")),
    ("ssl.client.auth", ("required", "x")),
    ("principal.builder.class", ("x",)),
    ("connections.max.reauth.ms", ("5", "x")),
    ("plain.connections.max.reauth.ms", ("5", "x")),
    ("broker.id", ("5", "x")),
    ("no.such", ("1",)),
)
_GROUP_TYPES: Final = ("consumer", "share", "streams")
# Where Kafka draws the line, and what lists may hold.
_BOUNDS: Final = (
    *((f"group.{g}.assignment.interval.ms", ("-1", "0", "15000", "15001")) for g in _GROUP_TYPES),
    ("log.cleaner.backoff.ms", ("-1", "0")),
    ("log.cleaner.io.buffer.size", ("-1", "0")),
    ("log.cleaner.threads", ("0", "1", "2", "3")),
    ("log.local.retention.ms", ("604800000", "604800001", "-1")),
    ("log.local.retention.bytes", ("5", "-1")),
    ("log.remote.copy.lag.ms", ("604800000", "604800001", "-1")),
    ("log.remote.copy.lag.bytes", ("604800001", "-1")),
    ("log.retention.ms", ("0", "-1", "1")),
    ("max.connection.creation.rate", ("0", "1")),
    ("max.connections", ("0", "1")),
    ("max.connections.per.ip", ("0", "1")),
    ("remote.fetch.max.wait.ms", ("0", "1")),
    ("remote.list.offsets.request.timeout.ms", ("0", "1")),
    ("remote.log.index.file.cache.total.size.bytes", ("0", "1")),
    ("remote.log.manager.copy.max.bytes.per.second", ("0", "1")),
    ("remote.log.manager.fetch.max.bytes.per.second", ("0", "1")),
    ("remote.log.manager.follower.thread.pool.size", ("0", "1", "4", "5")),
    ("ssl.client.auth", ("required", "none", "x")),
    *((name, ("", ",", "a,", "a,a", "a")) for name in ("config.providers", "ssl.cipher.suites")),
    ("sasl.enabled.mechanisms", ("", "PLAIN,", "PLAIN,PLAIN")),
    ("sasl.kerberos.principal.to.local.rules", ("", "a,a", "a,")),
    ("log.cleanup.policy", ("compact,compact", "compact,", "")),
)
_SETTINGS: Final = [
    *(
        Case(
            f"incremental.broker.bounds.{config}",
            "IncrementalAlterConfigs",
            [change(config, value, name="1", kind=BROKER, validate=True) for value in values],
        )
        for config, values in _BOUNDS
    ),
    *(
        Case(
            f"incremental.broker.listener.{config}",
            "IncrementalAlterConfigs",
            [
                change(
                    f"listener.name.plaintext.{config}", value, name=n, kind=BROKER, validate=True
                )
                for value in values
                for n in ("1", "")
            ],
        )
        for config, values in _OF_A_LISTENER
    ),
    _kept("type", "listener.name.<x>.ssl.keystore.type", "PKCS12"),
    _kept("number", "listener.name.<x>.max.connection.creation.rate", " 5"),
    _kept("password", "listener.name.<x>.ssl.keystore.password", "secret"),
    _kept("jaas", "listener.name.<x>.scram-sha-256.sasl.jaas.config", "a b required c=d;"),
    _kept("as.given", "num.recovery.threads.per.data.dir", " 03"),
    _kept("twice", "config.providers", "a, a"),
    _kept("unknown", "listener.name.<x>.no.such", "1"),
    _kept("plugin", "rsm.config.<x>", "1"),
    _kept("leader.rate", "leader.replication.throttled.rate", "1000000000"),
    _kept("folder.rate", "replica.alter.log.dirs.io.max.bytes.per.second", "1000000000"),
]

_BROKERS = [
    *_SETTINGS,
    *(
        Case(f"incremental.broker.{config}", "IncrementalAlterConfigs", _broker(config))
        for config in BROKER_NAMES
        if config not in FORMER
    ),
    Case(
        "incremental.broker.name",
        "IncrementalAlterConfigs",
        [
            change("log.cleaner.threads", "1", name=name, kind=BROKER, validate=True)
            for name in ("2", "99", "x", "-1", " 1")
        ],
    ),
    Case(
        "incremental.broker.ways",
        "IncrementalAlterConfigs",
        [
            change("log.cleanup.policy", "compact", operation, name="1", kind=BROKER, validate=True)
            for operation in (APPEND, SUBTRACT, DELETE)
        ],
    ),
    Case(
        "incremental.broker.no.list",
        "IncrementalAlterConfigs",
        [
            change(config, "1", operation, name=name, kind=BROKER, validate=True)
            for config in ("no.such", "num.partitions", "listener.name.plaintext.x", "")
            for operation in (APPEND, SUBTRACT)
            for name in ("1", "")
        ],
    ),
    Case(
        "incremental.broker.reporters",
        "IncrementalAlterConfigs",
        [
            change("metric.reporters", reporter, way, name="1", kind=BROKER, validate=True)
            for reporter in ("org.apache.kafka.common.metrics.JmxReporter", "")
            for way in (SET, APPEND, SUBTRACT)
        ],
    ),
    Case(
        "incremental.broker.unknown",
        "IncrementalAlterConfigs",
        [
            change(config, "1", name="1", kind=BROKER, validate=True)
            for config in ("no.such", "log.cleaner.thread", "retention.ms", "")
        ],
    ),
    Case(
        "incremental.logger",
        "IncrementalAlterConfigs",
        [
            change("replog.no.such", "INFO", name="1", kind=LOGGER, validate=True),
            change("replog.no.such", "INFO", 9, name="1", kind=LOGGER, validate=True),
            changes([], name="1", kind=LOGGER, validate=True),
            changes([*_named("x", SET), *_named("x", SET)], name="1", kind=LOGGER, validate=True),
        ],
    ),
    *(
        Case(
            f"incremental.no.list.{what}",
            "IncrementalAlterConfigs",
            [
                change(config, "x", APPEND, name=name, kind=kind, validate=True)
                for name in names
                for config in ("no.such", "retention.ms", "cleanup.policy")
            ],
        )
        for what, kind, names in (
            ("topic", TOPIC, ("", ".", "a b", "<nobody>")),
            ("broker", BROKER, ("x", "2", "99")),
            ("group", GROUP, ("", "<g>")),
            ("metrics", METRICS, ("", "<m>")),
            ("other", 0, ("<a>",)),
        )
    ),
]
_GROUPS = [
    *(
        Case(
            f"incremental.group.{config}",
            "IncrementalAlterConfigs",
            [
                change(config, value, name="<g>", kind=GROUP, validate=True)
                for value in (
                    "",
                    "x",
                    "-1",
                    "0",
                    "1",
                    "5000",
                    "45000",
                    "50000",
                    "1000000",
                    "true",
                    "earliest",
                    "read_committed",
                    None,
                )
            ],
        )
        for config in sorted(GROUP_KEYS)
    ),
    alter(
        "group.set",
        change("consumer.session.timeout.ms", "50000", name="<g>", kind=GROUP),
        describe("consumer.session.timeout.ms", name="<g>", kind=GROUP),
        change("consumer.session.timeout.ms", None, DELETE, name="<g>", kind=GROUP),
        describe("consumer.session.timeout.ms", name="<g>", kind=GROUP),
    ),
    alter(
        "group.odd",
        change("no.such", "1", name="<g>", kind=GROUP),
        change("consumer.session.timeout.ms", "50000", name="", kind=GROUP),
    ),
]
_LISTS_OF_OTHERS = [
    *(
        Case(
            f"incremental.items.{config}",
            "IncrementalAlterConfigs",
            [change(config, value, name="<n>", kind=kind, validate=True) for value in values],
        )
        for kind, config, values in (
            (METRICS, "match", (",", "client_id=a,", "client_id=a,client_id=a", "client_id=a=b")),
            (METRICS, "metrics", (",", "a,", "a,a", "a")),
            (GROUP, "streams.rack.aware.assignment.tags", (",", "a,", "a,a", "a")),
            (GROUP, "share.auto.offset.reset", (" latest", "latest ", "LATEST")),
        )
    ),
    *(
        Case(
            f"incremental.{what}.lists",
            "IncrementalAlterConfigs",
            [
                change(config, value, operation, name="<n>", kind=kind, validate=True)
                for config, value in values.items()
                for operation in (APPEND, SUBTRACT)
            ],
        )
        for what, kind, values in (
            (
                "metrics",
                METRICS,
                {"match": "client_id=a", "metrics": "a", "interval.ms": "100", "x": "1"},
            ),
            (
                "group",
                GROUP,
                {
                    "streams.rack.aware.assignment.tags": "a",
                    "consumer.session.timeout.ms": "50000",
                    "x": "1",
                },
            ),
        )
    ),
]
_METRICS = [
    alter(
        "metrics.set",
        change("interval.ms", "100", name="<m>", kind=METRICS),
        describe("interval.ms", "match", "metrics", name="<m>", kind=METRICS),
        Ask("ListConfigResources", {"resource_types": [METRICS]}, 1, own=True),
        Ask("ListConfigResources", {}, 0, own=True),
        change("interval.ms", None, DELETE, name="<m>", kind=METRICS),
        describe("interval.ms", name="<m>", kind=METRICS),
    ),
    alter(
        "metrics.values",
        *(
            change(config, value, name="<m>", kind=METRICS, validate=True)
            for config in ("interval.ms", "match", "metrics", "no.such")
            for value in (
                "",
                "x",
                "0",
                "100",
                "99",
                "3600001",
                "client_id=a",
                "client_id=[",
                "a=b",
                "*",
                "org.apache.kafka.",
            )
        ),
        versions=(1,),
    ),
    Case(
        "listconfigresources.kinds",
        "ListConfigResources",
        [
            Topic("a"),
            *(
                Ask("ListConfigResources", {"resource_types": kinds}, own=True)
                for kinds in ([TOPIC], [GROUP], [0], [99], [TOPIC, TOPIC], [])
            ),
            Ask("ListConfigResources", {"resource_types": [BROKER]}),
            Ask("ListConfigResources", {"resource_types": [LOGGER]}),
        ],
        (1,),
    ),
]

CASES: Final = [*_DESCRIBE, *_BROKERS, *_GROUPS, *_LISTS_OF_OTHERS, *_METRICS]
