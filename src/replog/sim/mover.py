"""The simulated operator: moves partitions between brokers, cancels moves, and holds elections.

Any target is asked for, of any length, also while another move is under way and whoever is dead.
When the world is healed it wants every partition on all brokers again, so that all logs can be
compared.
"""

from collections.abc import Sequence
from typing import Final

from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.messages import Message
from replog.model.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from replog.model.messages.elect_leaders import ElectLeadersRequest
from replog.sim.client import Ground, SimClient

PREFERRED, UNCLEAN = 0, 1  # kinds of elections (KIP-460)
TIMEOUT_MS: Final = 500
PAUSE_MEAN_MS: Final = 250.0
ASK_AGAIN_MS: Final = 60.0
LATE_MS: Final = 2 * TIMEOUT_MS  # after it nothing that was asked before is carried out any more


class SimMover(SimClient):
    """One operator, who waits for no one."""

    def __init__(
        self, ground: Ground, name: str, partitions: Sequence[TopicPartition], *, unclean: bool
    ) -> None:
        """`unclean`: where nobody in sync is left, anybody may lead by the operator's order."""
        super().__init__(ground, name, ())
        self._partitions = list(partitions)
        self._unclean = unclean
        self.moves = 0  # that were begun
        self.elections = 0  # that were asked for
        self._unsettled: list[TopicPartition] | None = None  # None: the world is not healed yet

    def start(self) -> None:
        """Begin, once the topics are there."""
        self._later()

    def settle(self) -> None:
        """The world is healed: bring everything back to all brokers."""
        self._unsettled = list(self._partitions)
        self.later(LATE_MS, self._bring_back)

    def _later(self) -> None:
        pause = self.ground.chance.delay(f"{self.name}/pause", PAUSE_MEAN_MS)
        self.later(pause, self._act)

    def _act(self) -> None:
        if self._unsettled is not None:
            return
        tp = self._partitions[int(self.draw("partition") * len(self._partitions))]
        what = self.draw("what")
        if what < 0.3:
            self.elections += 1
            kind = UNCLEAN if self._unclean and self.draw("kind") < 0.5 else PREFERRED
            request = ElectLeadersRequest(
                election_type=kind, topic_partitions=None, timeout_ms=TIMEOUT_MS
            )
            self.ask(self._any_broker(), request, lambda answer: None, TIMEOUT_MS * 1.5)
        else:
            self._move(tp, None if what < 0.45 else self._target())
        self._later()

    def _target(self) -> list[int]:
        left = list(self.ground.brokers)
        count = 1 + int(self.draw("length") * len(left))
        return [left.pop(int(self.draw("target") * len(left))) for _ in range(count)]

    def _move(
        self, tp: TopicPartition, replicas: list[int] | None, *, settling: bool = False
    ) -> None:
        topic = ReassignableTopic(
            name=tp.topic,
            partitions=[ReassignablePartition(partition_index=tp.partition, replicas=replicas)],
        )
        request = AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)

        def answered(message: Message | None) -> None:
            error = ErrorCode.NETWORK_EXCEPTION
            if isinstance(message, AlterPartitionReassignmentsResponse) and message.responses:
                error = ErrorCode(message.responses[0].partitions[0].error_code)
            if error is ErrorCode.NONE:
                self.moves += 1
                if settling and self._unsettled is not None:
                    self._unsettled = [other for other in self._unsettled if other != tp]

        self.ask(self._any_broker(), request, answered, TIMEOUT_MS * 1.5)

    def _bring_back(self) -> None:
        for tp in self._unsettled or ():
            self._move(tp, list(self.ground.brokers), settling=True)
        if self._unsettled:
            self.later(ASK_AGAIN_MS, self._bring_back)

    def _any_broker(self) -> int:
        brokers = self.ground.brokers
        return brokers[int(self.draw("broker") * len(brokers))]
