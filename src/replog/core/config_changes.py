"""What becomes of a resource's settings when somebody alters them, and why that may be refused.

Pure: the settings that hold now come in, those that shall hold go out. Brokers ask before they pass
a request on, and the controller asks again with what is stored then.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from replog.core.topics import topic_name_fault
from replog.model.config import BrokerConfig, ConfigError, topic_value, validate_topic_configs
from replog.model.config_open import OPEN_PREFIXES, base_name
from replog.model.config_resources import ResourceType
from replog.model.config_table import BROKER, CLIENT_METRICS, GROUP, TOPIC, ConfigKey
from replog.model.config_values import OutOfRange, UnknownName, Value, known_key, parse_value
from replog.model.errors import ErrorCode, Refused
from replog.model.messages.base import STRING_BYTES_MAX

MIN_ISR = "min.insync.replicas"
ALL_BROKERS = ""
FOR_EVER = -1  # of retention
_AS_LONG_AS_ALL = -2  # of retention on a broker's own disks

# Kafka changes these while a broker runs; here the listeners are those of the start.
_AT_START = ("listeners", "listener.security.protocol.map")
# What differs from broker to broker, and so can't be set for all of them.
_OF_ONE_BROKER = (*_AT_START, "cordoned.log.dirs", "principal.builder.class")
_OF_ONE_BROKER_PREFIXES = ("ssl.", "sasl.")
# What can be set for one listener of all brokers; all else of a listener is one broker's.
_OF_ALL_BROKERS = ("max.connection.creation.rate", "max.connections", "num.network.threads")
# What belongs to one listener: its name goes before, as in listener.name.internal.ssl.key.password.
_OF_ONE_LISTENER = (
    "principal.builder.class",
    "ssl.engine.factory.class",
    "ssl.key.password",
    "ssl.keystore.",
    "ssl.truststore.",
)
_PLUG_INS = ("metric.reporters",)
# Pools of threads, which Kafka's brokers let grow and shrink by half at a time.
_POOLS = frozenset(
    (
        "background.threads",
        "log.cleaner.threads",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.follower.thread.pool.size",
        "remote.log.reader.threads",
    )
)

# Nobody could connect. A broker may begin so.
_PER_ADDRESS = "max.connections.per.ip"  # nothing, unless some are named
_NOT_NOTHING = ("max.connection.creation.rate", "max.connections", _PER_ADDRESS)
# Lists in which anything goes.
_ANY_ITEMS = ("config.providers",)
# Whose lists can be appended to. Kafka looks for no others.
_WITH_LISTS = (ResourceType.TOPIC, ResourceType.BROKER)

_TABLES: Mapping[ResourceType, Mapping[str, ConfigKey]] = {
    ResourceType.TOPIC: TOPIC,
    ResourceType.BROKER: BROKER,
    ResourceType.GROUP: GROUP,
    ResourceType.CLIENT_METRICS: CLIENT_METRICS,
}
# Which error a setting that can't be is, by kind, as Kafka has it.
_FAULT: Mapping[ResourceType, ErrorCode] = {
    ResourceType.TOPIC: ErrorCode.INVALID_CONFIG,
    ResourceType.BROKER: ErrorCode.INVALID_REQUEST,
    ResourceType.GROUP: ErrorCode.INVALID_CONFIG,
    ResourceType.CLIENT_METRICS: ErrorCode.INVALID_CONFIG,
}


class AlterOp(IntEnum):
    """What is done to one setting (KIP-339)."""

    SET = 0
    DELETE = 1  # back to what it falls back to
    APPEND = 2  # to a list, what is not in it yet
    SUBTRACT = 3  # from a list


@dataclass(frozen=True, slots=True)
class Alteration:
    """One setting of one resource."""

    name: str
    value: str | None
    op: int = AlterOp.SET


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """What one request wants of one resource. `anew`: settings that are not named go."""

    kind: int
    name: str
    alterations: tuple[Alteration, ...]
    anew: bool = False


def check_form(change: ConfigChange) -> Refused | None:
    """What can be said without knowing what is set, in the order in which Kafka says it."""
    refused = check_alterations(change)
    if refused is None and change.kind != ResourceType.BROKER:
        refused = _refuse_lists(change)
    return refused or check_name(change.kind, change.name)


def check_alterations(change: ConfigChange) -> Refused | None:
    """Whether names come once, and values where they are needed."""
    counts = Counter(alteration.name for alteration in change.alterations)
    twice = next((name for name, count in counts.items() if count > 1), None)
    if twice is not None:
        return Refused(ErrorCode.INVALID_REQUEST, f"{twice} comes more than once")
    for alteration in change.alterations:
        if alteration.op not in AlterOp.__members__.values():
            return Refused(
                ErrorCode.INVALID_REQUEST, f"{alteration.name}: unknown operation {alteration.op}"
            )
        if alteration.value is None and alteration.op != AlterOp.DELETE:
            return Refused(ErrorCode.INVALID_REQUEST, f"{alteration.name} is null")
    return None


def _refuse_lists(change: ConfigChange) -> Refused | None:
    """Whether what is to be altered as a list is one."""
    for name, op in ((a.name, a.op) for a in change.alterations):
        if op not in (AlterOp.APPEND, AlterOp.SUBTRACT) or change.kind not in _TABLES:
            continue
        kind = ResourceType(change.kind)
        try:
            key = known_key(_TABLES[kind], name)
        except ConfigError as error:
            return Refused(ErrorCode.INVALID_CONFIG, str(error))
        if key.kind != "list" or kind not in _WITH_LISTS:
            text = f"{name} is not a list: it can't be altered by {AlterOp(op).name}"
            return Refused(ErrorCode.INVALID_CONFIG, text)
    return None


def check_name(kind: int, name: str) -> Refused | None:
    """Whether settings of such a resource can be stored."""
    if kind not in _TABLES:
        return Refused(ErrorCode.INVALID_REQUEST, f"resources of type {kind} can't be altered")
    if kind == ResourceType.BROKER:
        if name == ALL_BROKERS or (name.isascii() and name.isdigit()):
            return None
        return Refused(ErrorCode.INVALID_REQUEST, f"broker id {name!r} is not a number")
    if not name:
        what = ResourceType(kind).name.lower().replace("_", " ")
        return Refused(ErrorCode.INVALID_REQUEST, f"a {what} is altered by its name")
    fault = topic_name_fault(name) if kind == ResourceType.TOPIC else None
    return None if fault is None else Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)


def altered(
    change: ConfigChange, current: Mapping[str, str], broker: BrokerConfig
) -> dict[str, str] | Refused:
    """The settings after `change`, which passed `check_form`. `broker` tells what lists begin with
    that are not set."""
    kind = ResourceType(change.kind)
    refused = _refuse_lists(change)
    if refused is not None:
        return refused
    try:
        after = _merged(kind, change, current, broker)
        _check(kind, change, after, broker)
    except ConfigError as error:
        return Refused(_error_of(kind, error), str(error))
    return _refuse_min_isr(change, current, after) or after


def _error_of(kind: ResourceType, error: ConfigError) -> ErrorCode:
    if kind is ResourceType.CLIENT_METRICS and isinstance(error, UnknownName | OutOfRange):
        return ErrorCode.INVALID_REQUEST
    return _FAULT[kind]


def _merged(
    kind: ResourceType, change: ConfigChange, current: Mapping[str, str], broker: BrokerConfig
) -> dict[str, str]:
    after = {} if change.anew else dict(current)
    for alteration in change.alterations:
        name, value = alteration.name, alteration.value or ""
        if alteration.op == AlterOp.DELETE:
            after.pop(name, None)
            continue
        if alteration.op != AlterOp.SET:
            items = _items(after[name] if name in after else _inherited(kind, name, broker))
            given = [item.strip() for item in value.split(",")]
            if alteration.op == AlterOp.APPEND:
                items += [item for item in dict.fromkeys(given) if item not in items]
            else:
                items = [item for item in items if item not in given]
            value = ",".join(items)
            size = len(value.encode())
            if size > STRING_BYTES_MAX:  # nobody could be told of it
                raise ConfigError(f"{name}: a list of {size} bytes: too long")
        after[name] = value
    return after


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _inherited(kind: ResourceType, name: str, broker: BrokerConfig) -> str:
    """What a list is while it is not set here."""
    if kind is ResourceType.TOPIC:
        value = topic_value(broker, name, {})
        return ",".join(value) if isinstance(value, tuple) else ""
    return broker.text(name) or ""


def _check(
    kind: ResourceType, change: ConfigChange, after: Mapping[str, str], broker: BrokerConfig
) -> None:
    """Raises ConfigError for settings that can't hold."""
    if kind is ResourceType.TOPIC:
        named = {alteration.name for alteration in change.alterations}
        others = {name: text for name, text in after.items() if name not in named}
        # What an earlier release stored, and this one does not take, keeps no other from changing.
        judged = after if validate_topic_configs(others) is None else _only(named, after)
        fault = validate_topic_configs(judged)
        if fault is not None:
            raise fault
        return
    for name in (a.name for a in change.alterations if a.op != AlterOp.DELETE):
        if kind is ResourceType.BROKER:
            _check_dynamic(name, for_all=change.name == ALL_BROKERS)
            _check_broker(name, after[name], broker)
            continue
        key = known_key(_TABLES[kind], name)
        value = parse_value(key, after[name])
        _check_items(key, value, twice=kind is ResourceType.CLIENT_METRICS)
        if kind is ResourceType.GROUP:
            _check_group(key, value, broker)


def _only(names: Collection[str], settings: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in settings.items() if name in names}


def _check_items(key: ConfigKey, value: Value, *, twice: bool = False) -> None:
    """No item of a list is empty, or named twice, unless it may be. Raises ConfigError."""
    if not isinstance(value, tuple) or key.name in _ANY_ITEMS:
        return
    if not all(value) or (len(set(value)) < len(value) and not twice):
        raise ConfigError(f"{key.name}={','.join(value)}: items that are there, and once, expected")


def _check_dynamic(name: str, *, for_all: bool) -> None:
    """Whether a broker's setting can change while it runs. Raises ConfigError."""
    if for_all and _of_one_broker(name):
        raise ConfigError(f"{name} differs from broker to broker: set it for each of them")
    if name.startswith(OPEN_PREFIXES):
        return
    if name.startswith(_OF_ONE_LISTENER):
        raise ConfigError(f"{name} belongs to a listener: set listener.name.NAME.{name}")
    check_not_fixed(name)


def check_not_fixed(name: str) -> None:
    """Whether brokers can take a setting that they know while they run. Raises ConfigError."""
    if known_key(BROKER, name).read_only or name in _AT_START:
        raise ConfigError(
            f"{name} can't be changed while a broker runs: set it in the broker's configuration "
            "file or with --set, and restart the broker"
        )


def _of_one_broker(name: str) -> bool:
    base = base_name(name)
    if base is not None:
        return base not in _OF_ALL_BROKERS
    return name in _OF_ONE_BROKER or name.startswith(_OF_ONE_BROKER_PREFIXES)


def _check_broker(name: str, text: str, broker: BrokerConfig) -> None:
    """Whether a broker, or one of its listeners, can have this value. Raises ConfigError."""
    key = BROKER.get(base_name(name) or name)
    if key is None:  # nobody knows what it is
        return
    value = parse_value(key, text)
    if (key.kind == "class" or key.name in _PLUG_INS) and text not in ("", key.default):
        raise ConfigError(f"{name}={text}: there are no plug-ins")
    _check_items(key, value)
    others = broker.str("max.connections.per.ip.overrides") if key.name == _PER_ADDRESS else None
    if value == 0 and key.name in _NOT_NOTHING and not others:
        raise ConfigError(f"{name}={text}: at least 1 expected")
    if key.name in _POOLS and isinstance(value, int):
        _check_pool(name, value, broker.int(key.name))


def _check_pool(name: str, value: int, current: int) -> None:
    """Raises ConfigError."""
    if not max(1, current // 2) <= value <= max(1, 2 * current):
        raise ConfigError(
            f"{name}={value}: it is {current} now, and changes by half or to the double at once"
        )


def _check_group(key: ConfigKey, value: object, broker: BrokerConfig) -> None:
    """Brokers bound what a group may ask for. Raises ConfigError."""
    prefix, _, rest = key.fallback.removeprefix("group.").partition(".")
    if not rest or not isinstance(value, int):
        return
    for word, beyond in (("min", -1), ("max", 1)):
        bound_name = f"group.{prefix}.{word}.{rest}"
        if rest == "num.standby.replicas":
            bound_name = f"group.{prefix}.{word}.standby.replicas"
        bound = broker.value(bound_name) if bound_name in BROKER else None
        if isinstance(bound, int) and (value - bound) * beyond > 0:
            side = "below" if beyond < 0 else "above"
            raise ConfigError(f"{key.name}={value} is {side} {bound_name}={bound}")


def _refuse_min_isr(
    change: ConfigChange, current: Mapping[str, str], after: Mapping[str, str]
) -> Refused | None:
    """One value for all brokers decides who may be elected, whoever leads (KIP-966)."""
    if change.kind != ResourceType.BROKER:
        return None
    if change.name == ALL_BROKERS and MIN_ISR in current and MIN_ISR not in after:
        text = f"{MIN_ISR} of all brokers can be changed, but not be taken away"
        return Refused(ErrorCode.INVALID_CONFIG, text)
    if change.name != ALL_BROKERS and any(a.name == MIN_ISR for a in change.alterations):
        text = f"{MIN_ISR} is the same on all brokers: set the default of all, or that of a topic"
        return Refused(ErrorCode.INVALID_CONFIG, text)
    return None


def contradictions(config: BrokerConfig) -> Iterator[str]:
    """What settings of a broker that runs have to do with each other, where they can't be so."""
    for what in ("consumer", "share", "streams"):
        name = f"group.{what}.assignment.interval.ms"
        least, most = (f"group.{what}.{word}.assignment.interval.ms" for word in ("min", "max"))
        if not config.int(least) <= config.int(name) <= config.int(most):
            yield f"{name}={config.int(name)}: {least} to {most} expected"
    for unit, kept in (
        ("ms", config.log_retention_ms),
        ("bytes", config.int("log.retention.bytes")),
    ):
        local, lag = f"log.local.retention.{unit}", f"log.remote.copy.lag.{unit}"
        here = config.int(local)
        if here == _AS_LONG_AS_ALL:
            here = kept
        if kept != FOR_EVER and (here == FOR_EVER or here > kept):
            yield f"{local}={here}: at most {kept} expected, as long as all is kept"
        if here != FOR_EVER and config.int(lag) > here:
            yield f"{lag}={config.int(lag)}: at most {here} expected, {local}"
