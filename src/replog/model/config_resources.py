"""What has configurations, by its number in Kafka's protocol."""

from enum import IntEnum


class ResourceType(IntEnum):
    """A kind of resource. Every one but loggers keeps its configurations in the coordinator."""

    TOPIC = 2
    BROKER = 4  # by id; "" stands for the default of all brokers
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
