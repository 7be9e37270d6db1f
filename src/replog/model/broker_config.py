"""What one broker was told: values, listeners, and where its cluster meets."""

from collections.abc import Mapping
from os.path import abspath
from typing import NamedTuple

from replog.model.config_open import OPEN_PREFIXES, broker_key
from replog.model.config_table import BROKER
from replog.model.config_values import ConfigError, Value, known_key, parse_value
from replog.model.listeners import Listener, advertised, listening

ZOOKEEPER_PORT = 2181
PING_INTERVAL_MS_MAX = 250  # unless somebody sets it
REQUEST_THREADS = 2  # the same

_CORDONED = "cordoned.log.dirs"
_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS


class CoordinatorAddress(NamedTuple):
    """Where the brokers of a cluster meet."""

    kind: str  # "sqlite" or "zk"
    path: str  # of the database, or HOST:PORT,HOST:PORT/CHROOT

    def __str__(self) -> str:
        return f"zk://{self.path}" if self.kind == "zk" else f"{self.kind}:{self.path}"


class _BrokerValues:
    """Attributes that hold a value of the table as it is; the name says which."""

    auto_create_topics_enable: bool
    auto_leader_rebalance_enable: bool
    background_threads: int
    connections_max_idle_ms: int
    controlled_shutdown_enable: bool
    controlled_shutdown_max_retries: int
    controlled_shutdown_retry_backoff_ms: int
    controller_socket_timeout_ms: int
    default_replication_factor: int
    delete_topic_enable: bool
    fetch_max_bytes: int
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_retention_check_interval_ms: int
    log_segment_bytes: int
    log_segment_delete_delay_ms: int
    max_connections: int
    max_connections_per_ip: int
    max_incremental_fetch_session_cache_slots: int
    message_max_bytes: int
    min_insync_replicas: int
    num_partitions: int
    num_recovery_threads_per_data_dir: int
    num_replica_fetchers: int
    offset_metadata_max_bytes: int
    offsets_commit_timeout_ms: int
    offsets_load_buffer_size: int
    offsets_retention_check_interval_ms: int
    offsets_retention_minutes: int
    offsets_topic_compression_codec: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    producer_id_expiration_ms: int
    queued_max_request_bytes: int
    queued_max_requests: int
    replica_fetch_backoff_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    replica_lag_time_max_ms: int
    replica_socket_timeout_ms: int
    replog_session_silence_ms: int
    request_timeout_ms: int
    socket_listen_backlog_size: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    transaction_max_timeout_ms: int
    unclean_leader_election_enable: bool


class _NamedValues:
    """Access to any broker configuration by its name.

    The methods stand in an order in which none hides the built-in type that a later one names.
    """

    given: dict[str, str]
    dynamic: dict[str, str]
    dynamic_default: dict[str, str]

    def value(self, name: str) -> Value:
        """The value of any broker configuration. Raises ConfigError for an unknown name."""
        return parse_value(known_key(BROKER, name), self.text(name))

    def text(self, name: str) -> str | None:
        """As `value`, in the form in which it was given."""
        for layer in (self.dynamic, self.dynamic_default, self.given):
            if name in layer:
                return layer[name]
        return broker_key(name).default

    def list(self, name: str) -> tuple[str, ...]:
        """The items of a list; empty when not set."""
        value = self.value(name)
        return value if isinstance(value, tuple) else ()

    def int(self, name: str) -> int:
        """A number; raises ConfigError when it is not set and has no default."""
        value = self.value(name)
        if value is None or isinstance(value, bool | float | str | tuple):
            raise ConfigError(f"{name} must be set to a whole number")
        return value

    long = int

    def bool(self, name: str) -> bool:
        """True or false."""
        return self.value(name) is True

    def str(self, name: str) -> str | None:
        """The text of a string, class or password; None when not set."""
        return self.text(name)


class BrokerConfig(_BrokerValues, _NamedValues):
    """Everything that one broker was told. Raises ConfigError when it can't be meant so.

    `given` holds what was set, by name, as text. `dynamic` and `dynamic_default` are what was set
    later for this broker and for all brokers; they go before `given`.
    """

    node_id: int
    rack: str | None
    listeners: tuple[Listener, ...]
    advertised_listeners: tuple[Listener, ...]  # same order; an empty host is the runtime's to fill
    inter_broker_listener_name: str
    log_dirs: tuple[str, ...]
    coordinator: CoordinatorAddress | None  # None: this broker is a cluster of its own

    def __init__(
        self,
        given: Mapping[str, str],
        *,
        dynamic: Mapping[str, str] | None = None,
        dynamic_default: Mapping[str, str] | None = None,
    ) -> None:
        self.given = dict(given)
        self.dynamic = dict(dynamic or {})
        self.dynamic_default = dict(dynamic_default or {})
        for layer in (self.given, self.dynamic_default, self.dynamic):
            for name, text in layer.items():
                if not name.startswith(OPEN_PREFIXES):
                    parse_value(known_key(BROKER, name), text)
        for attribute in _BrokerValues.__annotations__:
            setattr(self, attribute, self.value(attribute.replace("_", ".")))
        self.replog_session_silence_ms = self._session_silence_ms()
        self.node_id = self._node_id()
        for name in ("node.id", "broker.id"):  # each stands for the other, as in Kafka
            self.given.setdefault(name, str(self.node_id))
        self.rack = self.str("broker.rack") or None
        self.listeners = listening(self.list("listeners"), *self._listener_words())
        self.advertised_listeners = advertised(self.list("advertised.listeners"), self.listeners)
        self.inter_broker_listener_name = self._inter_broker_listener_name()
        self.log_dirs = self.list("log.dirs") or self.list("log.dir")
        self.coordinator = self._coordinator()
        self._check_together()

    # ---- worked out ---------------------------------------------------------------------

    def with_dynamic(
        self, *, dynamic: Mapping[str, str], dynamic_default: Mapping[str, str]
    ) -> "BrokerConfig":
        """This configuration under other dynamic values."""
        return BrokerConfig(self.given, dynamic=dynamic, dynamic_default=dynamic_default)

    @property
    def ping_interval_ms(self) -> int:
        """How often this broker tells the others that it lives, in ms. Kafka's default would be too
        seldom for ours of `replog.session.silence.ms`: it counts only when set."""
        name = "broker.heartbeat.interval.ms"
        if name in self.given:
            return self.int(name)
        return min(PING_INTERVAL_MS_MAX, self.replog_session_silence_ms // 4)

    @property
    def request_threads(self) -> int:
        """How many threads check and compress batches. They take turns with the one that serves all
        clients, which Kafka's default of eight would starve: it counts only when set."""
        name = "num.io.threads"
        if any(name in layer for layer in (self.dynamic, self.dynamic_default, self.given)):
            return self.int(name)
        return REQUEST_THREADS

    @property
    def cordoned_log_dirs(self) -> frozenset[str]:
        """Folders that take no new partitions (KIP-1066), as absolute paths."""
        named = self.list(_CORDONED)
        return frozenset(map(abspath, self.log_dirs if "*" in named else named))

    def check_cordoned(self) -> None:
        """Raises ConfigError for a folder that is none of `log.dirs`."""
        unknown = self.cordoned_log_dirs - set(map(abspath, self.log_dirs))
        if unknown:
            raise ConfigError(
                f"{_CORDONED}={self.text(_CORDONED)}: {', '.join(sorted(unknown))} is not in "
                f"log.dirs={','.join(self.log_dirs)}"
            )

    @property
    def max_connections_per_ip_overrides(self) -> dict[str, int]:
        """How many connections a host may have that is named, by its name or address."""
        items = (self.str("max.connections.per.ip.overrides") or "").split(",")
        pairs = (item.strip().rpartition(":") for item in items if item.strip())
        return {host.strip().strip("[]"): int(number) for host, _, number in pairs}

    @property
    def rack_aware_reads(self) -> bool:
        """Consumers that name their rack are sent to an in-sync replica in it (KIP-392)."""
        selector = self.str("replica.selector.class") or ""
        return selector.endswith("RackAwareReplicaSelector")

    @property
    def log_retention_ms(self) -> int:
        """Age at which segments go, in ms; -1 for never. `.ms`, then `.minutes`, then `.hours`."""
        for name, unit in (("ms", 1), ("minutes", _MINUTE_MS), ("hours", _HOUR_MS)):
            value = self.value(f"log.retention.{name}")
            if isinstance(value, int):
                return -1 if value < 0 else value * unit
        return -1

    @property
    def log_roll_ms(self) -> int:
        """Age at which a new segment begins, in ms. `.ms` goes before `.hours`."""
        value = self.value("log.roll.ms")
        return value if isinstance(value, int) else self.int("log.roll.hours") * _HOUR_MS

    @property
    def log_roll_jitter_ms(self) -> int:
        """How much sooner a segment may roll, in ms. `.ms` goes before `.hours`."""
        value = self.value("log.roll.jitter.ms")
        return value if isinstance(value, int) else self.int("log.roll.jitter.hours") * _HOUR_MS

    @property
    def log_flush_interval_ms(self) -> int:
        """Age at which unsynced records are synced, in ms."""
        value = self.value("log.flush.interval.ms")
        return value if isinstance(value, int) else self.int("log.flush.scheduler.interval.ms")

    def _node_id(self) -> int:
        node_id, broker_id = self.value("node.id"), self.value("broker.id")
        if broker_id == -1:  # the default: Kafka's old way to ask for a generated id
            broker_id = None
        if node_id is None and broker_id is None:
            raise ConfigError("node.id is not set: give each broker of a cluster a number")
        if node_id is not None and broker_id is not None and node_id != broker_id:
            raise ConfigError(f"node.id={node_id} and broker.id={broker_id} disagree")
        return self.int("node.id" if node_id is not None else "broker.id")

    def _session_silence_ms(self) -> int:
        silence, timeout = "replog.session.silence.ms", "broker.session.timeout.ms"
        if timeout not in self.given:
            return self.int(silence)
        if silence in self.given and self.int(silence) != self.int(timeout):
            raise ConfigError(
                f"{silence}={self.int(silence)} and {timeout}={self.int(timeout)} disagree"
            )
        return self.int(timeout)

    def _listener_words(self) -> tuple[dict[str, str], frozenset[str]]:
        """Security protocol by listener name, and the names that are not for brokers."""
        protocols = {}
        for item in (self.str("listener.security.protocol.map") or "").split(","):
            name, _, protocol = item.strip().partition(":")
            if name:
                protocols[name.strip().upper()] = protocol.strip().upper()
        controllers = self.list("controller.listener.names")
        return protocols, frozenset(name.upper() for name in controllers)

    def _inter_broker_listener_name(self) -> str:
        named = self.str("inter.broker.listener.name")
        names = [listener.name for listener in self.listeners]
        if named:
            if named.upper() not in names:
                raise ConfigError(f"inter.broker.listener.name={named}: not among listeners")
            return named.upper()
        protocol = self.str("security.inter.broker.protocol")
        return protocol if protocol in names else names[0]

    def _coordinator(self) -> CoordinatorAddress | None:
        address, zookeeper = self.str("replog.coordinator"), self.str("zookeeper.connect")
        found = None
        if zookeeper:
            found = CoordinatorAddress("zk", _ensemble("zookeeper.connect", zookeeper))
        if address:
            named = _coordinator_address(address)
            if found is not None and found != named:
                raise ConfigError(
                    f"replog.coordinator={address} and zookeeper.connect={zookeeper} disagree"
                )
            found = named
        return found

    def _check_together(self) -> None:
        """What single values can't tell, and what would be dangerous to ignore."""
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ConfigError(
                f"group.min.session.timeout.ms={self.group_min_session_timeout_ms} is above "
                f"group.max.session.timeout.ms={self.group_max_session_timeout_ms}"
            )
        if self.replica_fetch_wait_max_ms > self.replica_lag_time_max_ms:
            raise ConfigError(
                f"replica.fetch.wait.max.ms={self.replica_fetch_wait_max_ms} is above "
                f"replica.lag.time.max.ms={self.replica_lag_time_max_ms}: followers would be "
                "taken for slow"
            )
        if self.ping_interval_ms >= self.replog_session_silence_ms:
            raise ConfigError(
                f"broker.heartbeat.interval.ms={self.ping_interval_ms} must be below "
                f"replog.session.silence.ms={self.replog_session_silence_ms}, or each broker would "
                "be taken for dead; broker.session.timeout.ms sets that as well"
            )
        if not self.log_dirs or not all(self.log_dirs):
            raise ConfigError(f"log.dirs={','.join(self.log_dirs)}: folders expected")
        if len(set(self.log_dirs)) < len(self.log_dirs):
            raise ConfigError(f"log.dirs={','.join(self.log_dirs)}: a folder is named twice")
        if _CORDONED not in self.dynamic:  # there it is judged when it is set
            self.check_cordoned()
        if self.str("authorizer.class.name"):
            raise ConfigError(
                f"authorizer.class.name={self.str('authorizer.class.name')}: authorizers are not "
                "supported yet, and without one everybody may do everything"
            )
        if self.bool("remote.log.storage.system.enable"):
            raise ConfigError("remote.log.storage.system.enable=true: there is no tiered storage")
        if self.bool("zookeeper.set.acl") and not self.str("replog.zookeeper.digest"):
            raise ConfigError(
                "zookeeper.set.acl=true: replog.zookeeper.digest=USER:PASSWORD must say whose the "
                "nodes are"
            )


def _coordinator_address(text: str) -> CoordinatorAddress:
    if text.startswith("zk://"):
        return CoordinatorAddress("zk", _ensemble("replog.coordinator", text[len("zk://") :]))
    kind, _, path = text.partition(":")
    if kind != "sqlite" or not path:
        raise ConfigError(
            f"replog.coordinator={text}: sqlite:PATH or zk://HOST:PORT,HOST:PORT/CHROOT expected"
        )
    return CoordinatorAddress(kind, path)


def _ensemble(name: str, text: str) -> str:
    """HOST:PORT,HOST:PORT/CHROOT in one spelling: every port named, no slash at the end."""
    servers, slash, chroot = text.strip().partition("/")
    parts = [part.strip() for part in servers.split(",")]
    chroot = (slash + chroot).rstrip("/")
    named = []
    for part in parts:
        host, colon, port = part.rpartition(":")
        if not colon or part.endswith("]"):
            host, port = part, str(ZOOKEEPER_PORT)
        if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
            raise ConfigError(f"{name}={text}: {part!r} is not HOST:PORT")
        named.append(f"{host}:{port}")
    if "//" in chroot:
        raise ConfigError(f"{name}={text}: {chroot!r} is not the path of a node")
    return ",".join(named) + chroot
