"""Partitions on a command line: `TOPIC` for all of a topic, `TOPIC:PARTITION` for one."""

from collections.abc import Sequence

from replog.cli.cluster_view import topics
from replog.cli.errors import UsageError
from replog.model.ids import TopicPartition
from replog.runtime.client import AdminClient


def parse(text: str) -> tuple[str, int | None]:
    """(topic, partition or None for all). Raises UsageError."""
    topic, colon, number = text.partition(":")
    if not colon:
        return topic, None
    if not topic or not number.isdecimal():
        raise UsageError(f"{text!r} is neither TOPIC nor TOPIC:PARTITION")
    return topic, int(number)


def resolve(client: AdminClient, words: Sequence[str]) -> list[TopicPartition]:
    """The partitions that are meant, each once. Raises Failure for a topic that is not there.

    A partition that is named is taken as it stands: the broker says whether it is there.
    """
    found: dict[TopicPartition, None] = {}
    for word in words:
        topic, index = parse(word)
        if index is not None:
            found[TopicPartition(topic, index)] = None
            continue
        for view in topics(client, [topic]):
            for partition in view.partitions:
                found[TopicPartition(view.name, partition.index)] = None
    return list(found)


def in_ranges(partitions: Sequence[TopicPartition]) -> str:
    """Partitions for people: `events:0-3,7 orders:0`."""
    shown = []
    for topic, numbers in sorted(by_topic(partitions).items()):
        spans: list[list[int]] = []
        for number in sorted(numbers):
            if spans and spans[-1][-1] == number - 1:
                spans[-1][-1] = number
            else:
                spans.append([number, number])
        words = (str(a) if a == b else f"{a}-{b}" for a, b in spans)
        shown.append(f"{topic}:{','.join(words)}")
    return " ".join(shown)


def by_topic(partitions: Sequence[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, in the order given."""
    grouped: dict[str, list[int]] = {}
    for tp in partitions:
        grouped.setdefault(tp.topic, []).append(tp.partition)
    return grouped
