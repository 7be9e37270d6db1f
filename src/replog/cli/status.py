"""`replog status`: brokers, topics, and whether the promise of each topic holds right now."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from replog.cli.cluster_view import (
    FolderView,
    Losses,
    TopicView,
    Troubles,
    losses,
    metadata,
    topics,
    troubles,
)
from replog.cli.errors import OK, Failure
from replog.cli.options import Arguments, Parser, add_cluster, add_format, examples, seconds
from replog.cli.output import columns, print_json
from replog.cli.target import connect, data_folder, local_cluster
from replog.cli.topic import summary, topic_table
from replog.model.messages.metadata import MetadataResponse
from replog.runtime.processes import ProcessState

PRESENT = (ProcessState.RUNNING.value, "alive")
CLEAR_SCREEN = "\x1b[H\x1b[2J"


def status_options(parser: Parser) -> None:
    """Options of `replog status`."""
    examples(parser, "replog status", "replog status --watch", "replog status --format json")
    parser.add_argument("--watch", action="store_true", help="show it anew until Ctrl-C")
    parser.add_argument(
        "--interval", type=seconds, default=1.0, metavar="S", help="seconds between (default: 1)"
    )
    add_cluster(parser)
    add_format(parser)


def status(arguments: Arguments) -> int:
    """Print the state of the cluster, once or for ever."""
    if not arguments.watch:
        _print(_look(arguments), arguments.format)
        return OK
    try:
        while True:
            _show_again(arguments)
            time.sleep(arguments.interval)
    except KeyboardInterrupt:
        return OK


@dataclass(frozen=True, slots=True)
class BrokerView:
    """One broker: what metadata says, and what its process does when it is on this machine."""

    broker_id: int
    address: str
    state: str
    pid: int | None
    controller: bool


@dataclass(frozen=True, slots=True)
class Overview:
    """All that one look at the cluster shows."""

    cluster_id: str | None
    data: str | None
    brokers: Sequence[BrokerView]
    topics: Sequence[TopicView]
    losses: Losses | None  # None: the controller can't be asked
    troubles: Troubles

    @property
    def verdict(self) -> str:
        """One sentence: what is wrong, worst first."""
        offline = sum(view.offline for view in self.topics)
        behind = sum(view.under_replicated for view in self.topics)
        if offline:
            return f"{offline} partitions have no leader"
        if behind:
            return f"{behind} partitions have fewer in-sync replicas than assigned"
        if self.troubles.damaged:
            return f"{len(self.troubles.damaged)} logs are not sound"
        if unusable := [folder for folder in self.troubles.folders if not folder.usable]:
            return f"{len(unusable)} log folders can't be written to"
        if self.troubles.coordinator_away_s:
            return "the coordinator can't be used"
        if absent := [broker for broker in self.brokers if broker.state not in PRESENT]:
            return ", ".join(f"broker {broker.broker_id} is {broker.state}" for broker in absent)
        return "healthy"


def _show_again(arguments: Arguments) -> None:
    try:
        overview = _look(arguments)
    except Failure as failure:
        # Watching goes on: the cluster may come back, and that is what one waits to see.
        print(f"{CLEAR_SCREEN if sys.stdout.isatty() else ''}{failure}", flush=True)
        return
    if arguments.format == "text" and sys.stdout.isatty():
        print(CLEAR_SCREEN, end="")
    _print(overview, arguments.format)
    sys.stdout.flush()


def _look(arguments: Arguments) -> Overview:
    with connect(arguments) as client:
        answer = metadata(client, [])
        found = topics(client)
        lost = losses(client, answer.controller_id)
        told = troubles(client, [broker.node_id for broker in answer.brokers])
    folder = None if arguments.bootstrap_server else data_folder(arguments)
    return Overview(
        answer.cluster_id,
        str(folder) if folder else None,
        _brokers(arguments, answer, _holders(found), local=folder is not None),
        found,
        lost,
        told,
    )


def _holders(views: Sequence[TopicView]) -> set[int]:
    """Who should hold replicas: metadata does not name a broker that is gone."""
    return {b for view in views for partition in view.partitions for b in partition.replicas}


def _brokers(
    arguments: Arguments, answer: MetadataResponse, holders: set[int], *, local: bool
) -> list[BrokerView]:
    alive = {b.node_id: f"{b.host}:{b.port}" for b in answer.brokers}
    views = []
    processes = {p.broker_id: p for p in local_cluster(arguments).status()} if local else {}
    for broker_id in sorted(alive.keys() | processes.keys() | holders):
        process = processes.get(broker_id)
        registered = broker_id in alive
        state = "alive" if registered else "gone"
        if process is not None:
            state = process.state.value
            if process.state is ProcessState.RUNNING and not registered:
                state = "joining"
        address = alive.get(broker_id) or (f"127.0.0.1:{process.port}" if process else "-")
        views.append(
            BrokerView(
                broker_id,
                address,
                state,
                process.pid if process else None,
                broker_id == answer.controller_id,
            )
        )
    return views


def _print(overview: Overview, form: str) -> None:
    if form == "json":
        print_json(_as_json(overview))
        return
    where = f"  data {overview.data}" if overview.data else ""
    brokers = columns(
        ("BROKER", "ADDRESS", "STATE", "PID", "ROLE"),
        [
            (b.broker_id, b.address, b.state, b.pid, "controller" if b.controller else "")
            for b in overview.brokers
        ],
    )
    print(f"cluster {overview.cluster_id}{where}  {overview.verdict}\n\n{brokers}")
    for folder in overview.troubles.folders:
        print("\n" + _about(folder))
    for log in overview.troubles.damaged:
        print(f"\nlog of {log.partition} on broker {log.broker} not sound: {log.reason}")
    if away := overview.troubles.coordinator_away_s:
        brokers_away = ", ".join(f"{broker} ({s:.0f} s)" for broker, s in sorted(away.items()))
        print(
            f"\nelections, changes of in-sync replicas and of topics wait: brokers {brokers_away} "
            "can't use the coordinator"
        )
    lost = overview.losses
    if lost is not None and (lost.unclean or lost.power_cut):
        print(
            f"\ncommitted records may be missing after {lost.unclean} unclean elections and "
            f"{lost.power_cut} after a power cut or a loss of disks; the controllers' logs "
            "name them"
        )
    if overview.topics:
        print(
            f"\n{topic_table(list(overview.topics))}\n\nM: acks=all is taken only while that many "
            "replicas are in sync,\n   the smaller of min.insync.replicas and REPLICATION."
        )


def _about(folder: FolderView) -> str:
    where = f"log folder {folder.path} of broker {folder.broker}"
    told = []
    if not folder.usable:
        what = "is full, and only read from" if folder.state == "full" else "failed"
        told.append(f"{where} {what}, with {folder.replicas} replicas: {folder.reason}")
    if folder.strays:
        told.append(
            f"{where} keeps what belongs to no topic any more, to be removed by hand: "
            + ", ".join(folder.strays)
        )
    return "\n".join(told)


def _as_json(overview: Overview) -> dict[str, Any]:
    return {
        "cluster_id": overview.cluster_id,
        "data": overview.data,
        "verdict": overview.verdict,
        "losses": None
        if overview.losses is None
        else {
            "unclean_elections": overview.losses.unclean,
            "power_cut_elections": overview.losses.power_cut,
        },
        "coordinator_away_s": {str(b): s for b, s in overview.troubles.coordinator_away_s.items()},
        "damaged_logs": [
            {"broker": log.broker, "partition": log.partition, "reason": log.reason}
            for log in overview.troubles.damaged
        ],
        "log_folders": [
            {
                "broker": folder.broker,
                "path": folder.path,
                "state": folder.state,
                "reason": folder.reason,
                "replicas": folder.replicas,
                "strays": list(folder.strays),
            }
            for folder in overview.troubles.folders
        ],
        "brokers": [
            {
                "broker": b.broker_id,
                "address": b.address,
                "state": b.state,
                "pid": b.pid,
                "controller": b.controller,
            }
            for b in overview.brokers
        ],
        "topics": [summary(view) for view in overview.topics],
    }
