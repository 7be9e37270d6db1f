"""Rules of logs, restarts and the coordinator, each broken by a patch."""

from typing import Any

from tests.sim.patches import Patch

from replog.core.controller import registrations
from replog.log import recovery
from replog.model.cluster import BrokerLife
from replog.model.partition import PartitionRecord
from replog.node.damaged_logs import DamagedLogs
from replog.node.log_replay import LogReplay
from replog.sim.mem_disk import MemDisk


def _lost_nothing(before: BrokerLife | None, now: BrokerLife | None) -> str | None:
    return None


def _recover_nothing(
    segments: Any, epochs: Any, recovery_point: int, report: Any, *, log_start_offset: int
) -> None:
    recovery.trust(segments, epochs, report)


def _no_names_kept(self: MemDisk, path: str) -> None:
    self.enter("sync_directory", path)


def _answer_before_all_is_read(self: LogReplay[Any]) -> None:
    self._on_done(True)


def _begin_anew_at_once(self: DamagedLogs, record: PartitionRecord, damaged_epoch: int) -> bool:
    return record.online and record.leader != self._node.broker_id


STORAGE: dict[str, tuple[Patch, ...]] = {
    "a host that restarted counts as before": ((registrations, "may_have_lost", _lost_nothing),),
    "nothing is checked when a log is opened": ((recovery, "recover", _recover_nothing),),
    "names of files are not made durable": ((MemDisk, "sync_directory", _no_names_kept),),
    "a group coordinator answers before it has read its log": (
        (LogReplay, "begin", _answer_before_all_is_read),
    ),
    "a damaged log is thrown away while others rely on it": (
        (DamagedLogs, "may_begin_anew", _begin_anew_at_once),
    ),
}
