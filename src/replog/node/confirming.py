"""Whether this broker leads what it believes to lead, by the coordinator's own account.

A leader that was replaced and was not told yet (cut from the coordinator, or from its peers) may
take what others wrote after it for missing. Before it says so to a client for whom that is the end
(`handlers.produce`), it asks. What is read may be old, so a write goes first: a broker reads
nothing older than its own last write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from replog.core.controller import stored
from replog.model.coordination import StoredNode, WriteDone
from replog.model.inputs import CoordinatorRead, CoordinatorWritten

if TYPE_CHECKING:
    from replog.model.ids import TopicPartition
    from replog.node.node import Node
    from replog.node.partition import Partition


# A coordinator that can't be reached must not hold up what clients wait for on the same connection.
WAIT_MS: Final = 500


class _Question(NamedTuple):
    tp: TopicPartition
    topic_id: bytes
    leader_epoch: int
    on_answer: Callable[[bool], None]


class Confirming:
    """Questions about leaderships: those that come while one is on its way go together, next."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._questions: list[_Question] = []
        self._asking = False

    def ask(self, partition: Partition, on_answer: Callable[[bool], None]) -> None:
        """`on_answer(True)` runs in a later step when `partition` was still led by this broker, in
        its present leader epoch, after this call; `on_answer(False)` when it was not, or nobody
        could say."""
        question = _Question(partition.tp, partition.topic_id, partition.leader_epoch, on_answer)
        self._questions.append(question)
        if not self._asking:
            self._begin()

    def _begin(self) -> None:
        node = self._node
        asked, self._questions = self._questions, []
        self._asking = True
        paths = tuple(dict.fromkeys(stored.partition_path(question.tp) for question in asked))

        def written(outcome: CoordinatorWritten) -> None:
            if isinstance(outcome.result, WriteDone):
                node.read_coordinator(paths, read)
            else:
                settle({})

        def read(answer: CoordinatorRead) -> None:
            settle(answer.nodes or {})

        def settle(nodes: dict[str, StoredNode]) -> None:
            if not asked:
                return  # it took too long
            settled, asked[:] = list(asked), []
            timer.cancel()
            self._asking = False
            if self._questions:
                self._begin()
            for question in settled:
                question.on_answer(self._leads(question, nodes))

        timer = node.timers.call_at(node.now_ms + WAIT_MS, lambda: settle({}))
        node.lease.ask_coordinator(written)

    def _leads(self, question: _Question, nodes: dict[str, StoredNode]) -> bool:
        node = nodes.get(stored.partition_path(question.tp))
        if node is None:
            return False
        try:
            led = stored.decode_leader(node.data, question.topic_id)
        except stored.BadNode:
            return False
        return led == (self._node.broker_id, question.leader_epoch)
