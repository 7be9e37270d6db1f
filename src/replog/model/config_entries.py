"""Configurations as tools see them: effective value, where it comes from, and what it goes before.

A value may be set in several places. `synonyms` lists them, the one that counts first: a topic's
own override, the dynamic value of the broker, that of all brokers, the broker's file, the default
(KIP-226).
"""

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from replog.model.broker_config import BrokerConfig
from replog.model.config_open import OPEN_PREFIXES, UNKNOWN_KIND, base_name, broker_key
from replog.model.config_table import BROKER, CLIENT_METRICS, GROUP, TOPIC, ConfigKey
from replog.model.config_values import ConfigError, value_text
from replog.model.topic_config import topic_value


class ConfigSource(IntEnum):
    """Where a value comes from, by its number in DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


# The number of a type in DescribeConfigs.
CONFIG_TYPES: Mapping[str, int] = {
    UNKNOWN_KIND: 0,
    "boolean": 1,
    "string": 2,
    "int": 3,
    "short": 4,
    "long": 5,
    "double": 6,
    "list": 7,
    "class": 8,
    "password": 9,
}

# Configurations that mean the same in different units: the first one that is set counts.
_FAMILIES = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_FAMILY = {name: family for family in _FAMILIES for name in family}


# Rates that tools set for a while: shown while they are set, and without a default.
SHOWN_WHEN_SET = frozenset(
    (
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    )
)


class ConfigSynonym(NamedTuple):
    """One place where a value is set."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One configuration of a resource."""

    key: ConfigKey
    value: str | None  # None also for what must not be shown
    source: ConfigSource
    synonyms: tuple[ConfigSynonym, ...]

    @property
    def sensitive(self) -> bool:
        return is_sensitive(self.key)

    @property
    def type_number(self) -> int:
        return CONFIG_TYPES[self.key.kind]


def is_sensitive(key: ConfigKey) -> bool:
    """Whether its value must not be shown: a secret, or what may be one."""
    return key.kind in ("password", UNKNOWN_KIND)


def topic_entries(broker: BrokerConfig, overrides: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """Every configuration of a topic with these overrides, by name."""
    for name, key in TOPIC.items():
        synonyms = _broker_synonyms(broker, key.fallback) if key.fallback else []
        if name in overrides:
            own = _shown(key, overrides[name])
            synonyms.insert(0, ConfigSynonym(name, own, ConfigSource.TOPIC))
            value = own
        else:
            value = _text(topic_value(broker, name, overrides))
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
        if source is ConfigSource.DEFAULT and is_own(name):
            continue
        yield ConfigEntry(key, value, source, tuple(synonyms))


def is_own(name: str) -> bool:
    """A configuration of Replog's own: shown where it is set, so that the list of a topic is
    otherwise the one that tools know."""
    return name.startswith("replog.")


def broker_entries(broker: BrokerConfig) -> Iterator[ConfigEntry]:
    """Every configuration of a broker, by name; last those with open names that are set."""
    layers = (broker.given, broker.dynamic_default, broker.dynamic)
    open_names = {n for layer in layers for n in layer if n.startswith(OPEN_PREFIXES)}
    for name in (*BROKER, *sorted(open_names)):
        key = broker_key(name)
        synonyms = _broker_synonyms(broker, name)
        if name in SHOWN_WHEN_SET and not synonyms:
            continue
        value = _shown(key, synonyms[0].value if synonyms else broker.text(name))
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
        yield ConfigEntry(key, value, source, tuple(synonyms))


def dynamic_default_entries(broker: BrokerConfig) -> Iterator[ConfigEntry]:
    """What was set for all brokers while they ran, by name."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    for name, text in broker.dynamic_default.items():
        key = broker_key(name)
        value = _as_given(key, text)
        yield ConfigEntry(key, value, source, (ConfigSynonym(name, value, source),))


def group_entries(broker: BrokerConfig, own: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """The configurations of a group: its own settings, else what its broker says."""
    for name, key in GROUP.items():
        synonyms = _broker_synonyms(broker, key.fallback) if key.fallback else []
        if not synonyms:
            synonyms = [ConfigSynonym(name, key.default, ConfigSource.DEFAULT)]
        if name in own:
            synonyms.insert(0, ConfigSynonym(name, _shown(key, own[name]), ConfigSource.GROUP))
        value = _shown(key, synonyms[0].value)
        yield ConfigEntry(key, value, synonyms[0].source, tuple(synonyms))


def client_metrics_entries(own: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """The configurations of a client metrics subscription."""
    for name, key in CLIENT_METRICS.items():
        if name in own:
            value, source = _shown(key, own[name]), ConfigSource.CLIENT_METRICS
            yield ConfigEntry(key, value, source, (ConfigSynonym(name, value, source),))
        else:
            yield ConfigEntry(key, key.default, ConfigSource.DEFAULT, ())


def _broker_synonyms(broker: BrokerConfig, name: str) -> list[ConfigSynonym]:
    """The places where a broker configuration is set, the one that counts first.

    Those of a family count from the configuration that was asked for on: `log.retention.hours`
    is only a synonym of a `log.retention.ms` that is set.
    """
    family = _FAMILY.get(name, (name,))
    base = base_name(name)
    if base in BROKER:
        family = (name, base)
    layers: tuple[tuple[ConfigSource, Callable[[str], str | None]], ...] = (
        (ConfigSource.DYNAMIC_BROKER, broker.dynamic.get),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER, broker.dynamic_default.get),
        (ConfigSource.STATIC_BROKER, broker.given.get),
        (ConfigSource.DEFAULT, _default),
    )
    found = [
        ConfigSynonym(member, _as_given(broker_key(member), text), source)
        for source, lookup in layers
        for member in family
        if (text := lookup(member)) is not None
    ]
    while found and found[0].name != name:
        found.pop(0)
    return found


def _default(name: str) -> str | None:
    return None if name in SHOWN_WHEN_SET else broker_key(name).default


def _as_given(key: ConfigKey, text: str | None) -> str | None:
    """So brokers show each place where a value is set; nothing of a secret."""
    return None if is_sensitive(key) else text


def _shown(key: ConfigKey, text: str | None) -> str | None:
    """`text` in its usual form; nothing of a secret; what is broken, or of an open name, as it
    stands."""
    if is_sensitive(key):
        return None
    if key.name.startswith(OPEN_PREFIXES):
        return text
    try:
        return value_text(key, text)
    except ConfigError:
        return text


def _text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)
