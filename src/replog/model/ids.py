"""Identifiers that every room uses."""

import base64
from typing import NamedTuple

NO_LEADER = -1
NO_EPOCH = -1
NO_OFFSET = -1
NO_BROKER = -1

# Topic ids are the 16 raw bytes of the UUID: they are compared and looked up far more often than
# shown.
ZERO_TOPIC_ID = bytes(16)

GROUP_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC})


class TopicPartition(NamedTuple):
    """One partition of a topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def topic_id_text(topic_id: bytes) -> str:
    """The 22 characters of URL-safe base64 by which Kafka's tools and files show a topic id."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def topic_id_from_text(text: str) -> bytes:
    """The inverse of `topic_id_text`. Raises ValueError when `text` is not such an id."""
    topic_id = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(topic_id) != 16:
        raise ValueError(f"topic id {text!r} has {len(topic_id)} bytes, 16 expected")
    return topic_id
