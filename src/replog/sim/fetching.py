"""How a simulated consumer asks one broker: with everything in each fetch, or in a fetch
session."""

from collections.abc import Mapping
from typing import NamedTuple

from replog.model.ids import TopicPartition
from replog.model.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)

NO_SESSION = -1
NEW_SESSION = 0


class Wanted(NamedTuple):
    """From where one partition is to be read."""

    offset: int
    leader_epoch: int
    last_epoch: int  # of the last batch read; -1 when there is none, or the version can't tell it


class FetchConversation:
    """Fetches to one broker. `told` is what the broker knows, or was told in the last fetch."""

    def __init__(self, *, session: bool, rack: str, max_wait_ms: int) -> None:
        self.told: dict[TopicPartition, Wanted] = {}
        self._session = session
        self._rack = rack
        self._max_wait_ms = max_wait_ms
        self._id = 0
        self._epoch = NEW_SESSION if session else NO_SESSION

    def request(
        self, wanted: Mapping[TopicPartition, Wanted], topic_ids: Mapping[str, bytes]
    ) -> FetchRequest:
        """The next fetch."""
        if self._epoch in (NO_SESSION, NEW_SESSION):
            self.told = {}
        changed = {tp: what for tp, what in wanted.items() if self.told.get(tp) != what}
        forgotten = [tp for tp in self.told if tp not in wanted]
        self.told = dict(wanted)
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=self._max_wait_ms,
            min_bytes=1,
            max_bytes=16_384,
            session_id=self._id,
            session_epoch=self._epoch,
            topics=_topics(changed, topic_ids),
            forgotten_topics_data=[
                ForgottenTopic(topic=tp.topic, topic_id=topic_ids[tp.topic], partitions=[tp[1]])
                for tp in forgotten
            ],
            rack_id=self._rack,
        )

    def answered(self, response: FetchResponse | None) -> None:
        """An answer came; None: the connection broke, and nobody knows what the broker knows."""
        if not self._session:
            return
        if response is None or response.error_code or not (self._id or response.session_id):
            self._id = 0
            self._epoch = NEW_SESSION
        elif self._epoch == NEW_SESSION:
            self._id = response.session_id
            self._epoch = 1
        else:
            self._epoch += 1


def _topics(
    changed: Mapping[TopicPartition, Wanted], topic_ids: Mapping[str, bytes]
) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for tp, what in changed.items():
        topic = topics.get(tp.topic)
        if topic is None:
            topic = topics[tp.topic] = FetchTopic(topic=tp.topic, topic_id=topic_ids[tp.topic])
        topic.partitions.append(
            FetchPartition(
                partition=tp.partition,
                current_leader_epoch=what.leader_epoch,
                fetch_offset=what.offset,
                last_fetched_epoch=what.last_epoch,
                partition_max_bytes=4_096,
            )
        )
    return list(topics.values())
