"""Partitions without a leader that anybody alive may lead: `unclean.leader.election.enable`.

They get a leader as soon as that is allowed, or somebody returns. Every
`unclean.leader.election.interval.ms` the controller looks whether one was left out all the same:
that it is offline is worse than any reason that there may be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from replog.core.controller.state import Draft
from replog.model.ids import NO_LEADER
from replog.node.looks import Look

if TYPE_CHECKING:
    from replog.node.node import Node


class UncleanElections(Look):
    """The look of one controllership after the other."""

    def __init__(self, node: Node) -> None:
        def interval_ms() -> int:
            return node.config.int("unclean.leader.election.interval.ms")

        super().__init__(node, interval_ms, self._consider)

    def _consider(self) -> None:
        image = self._node.controlling.image
        if image is None:
            return
        if any(record.leader == NO_LEADER for _, record in image.cluster.partitions()):
            self._node.controlling.submit(_plan, lambda error: None)  # the next look is due anyway


def _plan(draft: Draft) -> Callable[[], None]:
    draft.reconcile(
        [
            (tp, record)
            for tp, record in draft.partitions()
            if record.leader == NO_LEADER and draft.rules(tp.topic).unclean
        ]
    )
    return lambda: None
