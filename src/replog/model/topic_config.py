"""What holds for one topic: its own overrides, else what its broker says."""

from collections.abc import Mapping

from replog.model.broker_config import BrokerConfig
from replog.model.config_table import TOPIC
from replog.model.config_values import ConfigError, Value, known_key, parse_value

# Broker configurations that fall back to others once more.
_WORKED_OUT = {
    "log.retention.ms": "log_retention_ms",
    "log.roll.ms": "log_roll_ms",
    "log.roll.jitter.ms": "log_roll_jitter_ms",
    "log.flush.interval.ms": "log_flush_interval_ms",
}


class _TopicValues:
    """Effective values of one topic; the name says which."""

    cleanup_policy: tuple[str, ...]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    index_interval_bytes: int
    max_compaction_lag_ms: int
    max_decompressed_message_bytes: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    replog_durability: str
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool


class TopicConfig(_TopicValues):
    """What holds for one topic: its own overrides, else what the broker says.

    A broken override, which only a hand in the coordinator can make, is passed over.
    """

    def __init__(self, broker: BrokerConfig, overrides: Mapping[str, str]) -> None:
        self.broker = broker  # what it was worked out from
        self.overrides = dict(overrides)
        for attribute in _TopicValues.__annotations__:
            name = attribute.replace("_", ".")
            setattr(self, attribute, topic_value(broker, name, self.overrides))
        # An acknowledged record is on stable storage on every member of the ISR.
        self.durable = self.replog_durability == "fsync"

    @property
    def compacted(self) -> bool:
        """Old records of a key may go once a newer one is there; every record has a key."""
        return "compact" in self.cleanup_policy


def topic_config(broker: BrokerConfig, overrides: Mapping[str, str]) -> TopicConfig:
    """The effective configuration of a topic with these overrides on this broker."""
    return TopicConfig(broker, overrides)


def topic_value(broker: BrokerConfig, name: str, overrides: Mapping[str, str]) -> Value:
    """One effective value of a topic. Raises ConfigError when there is no such name."""
    key = known_key(TOPIC, name)
    if name in overrides:
        try:
            return parse_value(key, overrides[name])
        except ConfigError:
            pass
    worked_out = _WORKED_OUT.get(key.fallback)
    if worked_out is not None:
        value: Value = getattr(broker, worked_out)
        return value
    if key.fallback:
        return broker.value(key.fallback)
    return parse_value(key, key.default)


def validate_topic_configs(overrides: Mapping[str, str | None]) -> ConfigError | None:
    """Why a topic can't have these overrides, or None when it can. For INVALID_CONFIG (40)."""
    values: dict[str, Value] = {}
    for name, text in overrides.items():
        try:
            key = known_key(TOPIC, name)
            if text is None:
                return ConfigError(f"{name} is null: a topic's configuration needs a value")
            values[name] = parse_value(key, text)
        except ConfigError as error:
            return error
    if values.get("remote.storage.enable") is True:
        return ConfigError("remote.storage.enable=true: there is no tiered storage")
    shortest, longest = values.get("min.compaction.lag.ms"), values.get("max.compaction.lag.ms")
    if isinstance(shortest, int) and isinstance(longest, int) and shortest > longest:
        return ConfigError(
            f"min.compaction.lag.ms={shortest} is above max.compaction.lag.ms={longest}"
        )
    return None
