"""What clients were promised and what they saw, in their own words: values, not offsets alone."""

from dataclasses import dataclass, field

from replog.model.ids import TopicPartition


@dataclass(slots=True)
class Sent:
    """The batches of one producer to one partition, in the order in which it wants them."""

    producer: str
    idempotent: bool
    values: list[bytes] = field(default_factory=list)
    acknowledged: dict[bytes, int] = field(default_factory=dict)  # acks=all: value -> offset


@dataclass(slots=True)
class Seen:
    """What one consumer read of one partition from offset 0 on: CRC and epoch of each batch."""

    consumer: str
    batches: list[tuple[int, int, int, int]] = field(default_factory=list)  # base, next, epoch, crc


@dataclass(slots=True)
class History:
    """All of it."""

    sent: dict[tuple[str, TopicPartition], Sent] = field(default_factory=dict)
    seen: dict[tuple[str, TopicPartition], Seen] = field(default_factory=dict)
    producer_ids: dict[int, str] = field(default_factory=dict)  # producer id -> who got it
    acknowledged: int = 0  # records, with acks=all
    weakly_acknowledged: int = 0  # records, with acks=1
    retries: int = 0  # batches that were sent again
    consumed: int = 0  # records
    commits: int = 0  # of offsets, acknowledged
    read_back: int = 0  # of them, from coordinators
    resets: int = 0  # of consumers to the start of a log
    unreadable: int = 0  # batches that consumers could not read, as a bit was wrong
    restarts: int = 0  # of producers that the cluster had forgotten with their records
    sent_elsewhere: int = 0  # answers of leaders that named a follower to read from
    read_from_followers: int = 0  # answers of followers with records in reach
    refusals: dict[str, int] = field(
        default_factory=dict
    )  # error name -> how often a client met it

    def sent_by(self, producer: str, tp: TopicPartition, *, idempotent: bool) -> Sent:
        """The record of one producer and partition, begun when there is none."""
        key = (producer, tp)
        found = self.sent.get(key)
        if found is None:
            found = self.sent[key] = Sent(producer, idempotent)
        return found

    def seen_by(self, consumer: str, tp: TopicPartition) -> Seen:
        """The record of one consumer and partition, begun when there is none."""
        key = (consumer, tp)
        found = self.seen.get(key)
        if found is None:
            found = self.seen[key] = Seen(consumer)
        return found

    def refused(self, name: str) -> None:
        """A client met an error."""
        self.refusals[name] = self.refusals.get(name, 0) + 1
