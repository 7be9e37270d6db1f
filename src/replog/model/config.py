"""Configurations of one broker and of one topic, under Kafka's names.

An attribute has the name of its configuration with `_` for `.`: `config.request_timeout_ms` is
`request.timeout.ms`. Attributes are worked out once, since hot code reads them; everything else is
there by name: `config.int("num.io.threads")`. docs/configuration.md lists all names.
"""

from replog.model.broker_config import BrokerConfig, CoordinatorAddress
from replog.model.config_values import ConfigError
from replog.model.listeners import Listener
from replog.model.properties import parse_properties
from replog.model.topic_config import (
    TopicConfig,
    topic_config,
    topic_value,
    validate_topic_configs,
)

__all__ = [
    "BrokerConfig",
    "ConfigError",
    "CoordinatorAddress",
    "Listener",
    "TopicConfig",
    "parse_properties",
    "topic_config",
    "topic_value",
    "validate_topic_configs",
]
