"""Simulated committers: each stores a rising offset in a group of its own, and reads it back.

What was acknowledged is read again from whoever acknowledged it last, and at the end from the
coordinator of the healed world. It is never less, and never more than what was asked for, but for a
request without an answer that came to the coordinator late: it may take an offset back, as nothing
in a commit without members tells that it is an old one.
"""

from typing import Final, Protocol

from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.messages import Message
from replog.model.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from replog.model.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from replog.model.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from replog.sim.client import Ground, SimClient
from replog.sim.history import History
from replog.sim.violation import Violation

GROUP_KEY: Final = 0
TIMEOUT_MS: Final = 600.0
READ_SHARE: Final = 0.3  # of the requests
NONE_STORED: Final = -1
RETRIABLE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)


class OffsetsWitness(Protocol):
    """Knows what the cluster has said of its losses."""

    def may_have_lost_offsets(self) -> bool:
        """Committed offsets may be lost."""
        ...


class Account:
    """What was asked for by one committer and what it was told, and so what may be stored."""

    def __init__(self) -> None:
        self.asked = NONE_STORED
        self.confirmed = NONE_STORED
        self._open: set[int] = set()  # had no answer, and may still be under way

    def ask(self) -> int:
        """The next offset, which is asked for now."""
        self.asked += 1
        return self.asked

    def acknowledged(self, offset: int) -> None:
        """The commit of this offset succeeded."""
        self.confirmed = offset

    def unanswered(self, offset: int) -> None:
        """The sender gave up: the commit was carried out, or will be, or never is."""
        self._open.add(offset)

    def nothing_promised(self) -> None:
        """The cluster has said that offsets may be lost."""
        self.confirmed = NONE_STORED

    def read(self, found: int | None) -> bool:
        """Whether this may be what is stored."""
        if found is None:
            return False
        if found < self.confirmed and found in self._open:
            self._open.remove(found)  # it came late, and comes only once
            self.confirmed = found
        return self.confirmed <= found <= self.asked


class SimCommitter(SimClient):
    """One committer. Offsets are its counter, not positions that anybody has read."""

    def __init__(
        self,
        ground: Ground,
        name: str,
        tp: TopicPartition,
        *,
        interval_ms: float,
        history: History,
        witness: OffsetsWitness,
    ) -> None:
        super().__init__(ground, name, (tp.topic,))
        self._tp = tp
        self._interval_ms = interval_ms
        self._history = history
        self._witness = witness
        self._coordinator = -1
        self._confirmed_by = -1  # the coordinator of the last acknowledged commit
        self._account = Account()
        self._last = False  # only the final reading is to be done
        self.finished = False

    def start(self) -> None:
        """Begin, once the topics are there."""
        self.refresh()
        self._soon()

    def finish(self) -> None:
        """No new commits: read once more from whoever is coordinator now. May be called again."""
        if self.finished:
            self.finished = False
            self._soon()
        self._last = True
        self._coordinator = self._confirmed_by = -1

    def _soon(self) -> None:
        pause = self.ground.chance.delay(f"{self.name}/pause", self._interval_ms)
        self.later(pause, self._act)

    def _act(self) -> None:
        if self.finished:
            return
        if self._coordinator < 0 or self._tp.topic not in self.topic_ids:
            self._find()
        elif self._last or (
            self._coordinator == self._confirmed_by and self.draw("read") < READ_SHARE
        ):
            self._read()
        else:
            self._commit()

    def _lost(self, error: ErrorCode | None) -> None:
        """The coordinator is elsewhere, or busy: look for it again."""
        if error is not None:
            self._history.refused(error.name)
        self._coordinator = -1
        self._soon()

    # ---- the coordinator ----------------------------------------------------------------------

    def _find(self) -> None:
        brokers = self.ground.brokers
        broker_id = brokers[int(self.draw("broker") * len(brokers))]
        request = FindCoordinatorRequest(key_type=GROUP_KEY, coordinator_keys=[self.name])
        self.ask(broker_id, request, self._on_found, TIMEOUT_MS)

    def _on_found(self, message: Message | None) -> None:
        if isinstance(message, FindCoordinatorResponse) and not message.coordinators[0].error_code:
            self._coordinator = message.coordinators[0].node_id
        self._soon()

    # ---- commits --------------------------------------------------------------------------------

    def _commit(self) -> None:
        asked, coordinator = self._account.ask(), self._coordinator
        part = OffsetCommitRequestPartition(
            partition_index=self._tp.partition, committed_offset=asked, committed_metadata=""
        )
        topic = OffsetCommitRequestTopic(
            name=self._tp.topic, topic_id=self.topic_ids[self._tp.topic], partitions=[part]
        )
        request = OffsetCommitRequest(group_id=self.name, topics=[topic])
        self.ask(
            coordinator,
            request,
            lambda message: self._on_committed(asked, coordinator, message),
            TIMEOUT_MS,
        )

    def _on_committed(self, asked: int, coordinator: int, message: Message | None) -> None:
        if not isinstance(message, OffsetCommitResponse):
            self._account.unanswered(asked)
            self._lost(None)
            return
        error = ErrorCode(message.topics[0].partitions[0].error_code)
        if error is ErrorCode.NONE:
            self._history.commits += 1
            self._account.acknowledged(asked)
            self._confirmed_by = coordinator
            self._soon()
        elif error in RETRIABLE:
            self._lost(error)
        else:
            raise Violation("a commit is answered as it may be", f"{self.name}: {error.name}")

    # ---- reading back ---------------------------------------------------------------------------

    def _read(self) -> None:
        topic = OffsetFetchRequestTopics(
            name=self._tp.topic,
            topic_id=self.topic_ids[self._tp.topic],
            partition_indexes=[self._tp.partition],
        )
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=self.name, topics=[topic])]
        )
        final = self._last
        self.ask(
            self._coordinator,
            request,
            lambda message: self._on_read(message, final=final),
            TIMEOUT_MS,
        )

    def _on_read(self, message: Message | None, *, final: bool) -> None:
        if not isinstance(message, OffsetFetchResponse):
            self._lost(None)
            return
        group = message.groups[0]
        error = ErrorCode(group.error_code)
        if error is ErrorCode.NONE:
            error = ErrorCode(group.topics[0].partitions[0].error_code)
        if error in RETRIABLE:
            self._lost(error)
            return
        found = group.topics[0].partitions[0].committed_offset if not error else None
        if self._witness.may_have_lost_offsets():
            self._account.nothing_promised()
        elif not self._account.read(found):
            raise Violation(
                "an acknowledged commit is read back",
                f"{self.name}: {found} ({error.name}) from broker {self._coordinator}, "
                f"{self._account.confirmed} was acknowledged, {self._account.asked} was asked for",
            )
        self._history.read_back += 1
        self.finished = final
        self._soon()
