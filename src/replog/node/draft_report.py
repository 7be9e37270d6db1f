"""What the controller says in its log of a change that was committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.core.controller.state import Draft
from replog.model.cluster import ClusterState
from replog.model.outputs import Level

if TYPE_CHECKING:
    from replog.node.node import Node

# Partitions whose change is reported one by one; of more only the number is.
REPORTED_MAX = 20


def report_draft(node: Node, before: ClusterState, draft: Draft) -> None:
    """Say what is about to be taken over from `draft`; `before` is what held until now."""
    for tp in draft.unclean:
        node.report(
            Level.WARNING,
            f"{tp}: UNCLEAN leader election, committed records may be lost: {draft.partition(tp)}",
        )
    for tp, compared in list(draft.power_cut.items())[:REPORTED_MAX]:
        node.report(
            Level.WARNING,
            f"{tp}: POWER CUT, records that were on no stable storage may be lost: all in-sync "
            "replicas come from hosts that restarted, or from log folders that had failed; of "
            f"{compared}, the greatest leads: "
            f"{draft.partition(tp)}",
        )
    if len(draft.power_cut) > REPORTED_MAX:
        more = len(draft.power_cut) - REPORTED_MAX
        node.report(Level.WARNING, f"POWER CUT: likewise {more} more partitions")
    for broker, lost in draft.suspects.items():
        what = "its host restarted" if lost == "tail" else "a log folder is another one, or failed"
        node.report(
            Level.WARNING,
            f"broker {broker} may lack records, as {what}: it leaves ISR and ELR until it has "
            "caught up",
        )
    if len(draft.changed) > REPORTED_MAX:
        node.report(Level.INFO, f"{len(draft.changed)} partitions changed")
        return
    for tp, record in draft.changed.items():
        known = before.partition(tp)
        if known is not None:
            node.report(Level.INFO, f"{tp}: {record.diff(known)}")
