"""The offsets that one group has committed, and when they may be forgotten.

Only what is committed in the log gets in here, in the order of the log; so a reader never sees an
offset that a failover takes back.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from replog.core.group.classic_group import ClassicGroup
from replog.core.group.state import GroupState
from replog.model.errors import ErrorCode
from replog.model.ids import ZERO_TOPIC_ID, TopicPartition

NO_EXPIRY = -1


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """One position. Times are wall-clock milliseconds since 1970."""

    offset: int
    leader_epoch: int  # -1 when the client did not say
    metadata: str
    committed_wall_ms: int
    expires_wall_ms: int = NO_EXPIRY  # set by clients that ask for a retention (up to v4)
    topic_id: bytes = ZERO_TOPIC_ID  # zero when whoever committed did not know it


class Offsets:
    """All positions of one group."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[int, CommittedOffset]] = {}

    def __len__(self) -> int:
        return sum(len(partitions) for partitions in self._topics.values())

    def __bool__(self) -> bool:
        return bool(self._topics)

    def apply(self, tp: TopicPartition, committed: CommittedOffset | None) -> None:
        """The next record of the log: a position, or None for a tombstone."""
        if committed is not None:
            self._topics.setdefault(tp.topic, {})[tp.partition] = committed
            return
        partitions = self._topics.get(tp.topic)
        if partitions is not None:
            partitions.pop(tp.partition, None)
            if not partitions:
                del self._topics[tp.topic]

    def get(self, tp: TopicPartition) -> CommittedOffset | None:
        return self._topics.get(tp.topic, {}).get(tp.partition)

    def topics(self) -> Mapping[str, Mapping[int, CommittedOffset]]:
        return self._topics

    def items(self) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
        for topic, partitions in self._topics.items():
            for partition, committed in partitions.items():
                yield TopicPartition(topic, partition), committed


def check_offset(metadata: str | None, *, metadata_max_bytes: int) -> ErrorCode:
    """Whether one position of a commit can be stored. Any offset can, negative ones too."""
    # Kafka counts UTF-16 units against a limit that is named in bytes; so do we.
    if metadata is not None and len(metadata) > metadata_max_bytes // 2:
        units = len(metadata.encode("utf-16-be", "surrogatepass")) // 2
        if units > metadata_max_bytes:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def expired(
    group: ClassicGroup, offsets: Offsets, *, wall_ms: int, retention_ms: int
) -> list[TopicPartition]:
    """The positions whose time is over.

    While a group has members nothing expires. In an empty group the time runs from when it became
    empty (KIP-211); for a simple consumer, which has no group, from each commit.
    """
    if group.state is not GroupState.EMPTY:
        return []
    since = -1 if group.protocol_type is None else group.state_since_wall_ms
    return [
        tp for tp, committed in offsets.items() if _over(committed, since, wall_ms, retention_ms)
    ]


def _over(committed: CommittedOffset, since: int, wall_ms: int, retention_ms: int) -> bool:
    if committed.expires_wall_ms != NO_EXPIRY:
        return wall_ms >= committed.expires_wall_ms
    # A commit into an emptied group (by an administrator) is younger than the emptiness.
    start = max(since, committed.committed_wall_ms) if since >= 0 else committed.committed_wall_ms
    return wall_ms - start >= retention_ms
