"""`replog up` and `replog down`: a cluster of true brokers on this machine."""

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from replog.cli.errors import OK, Failure, UsageError
from replog.cli.options import (
    Arguments,
    Parser,
    add_coordinator,
    add_data,
    add_format,
    examples,
    not_negative,
    port,
    positive,
    settings,
)
from replog.cli.output import print_json

if TYPE_CHECKING:
    from replog.runtime.local_cluster import LocalCluster

READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
OF_EACH_BROKER = frozenset({"node.id", "broker.id", "listeners", "log.dirs", "log.dir"})

# Some clients know a topic's partitions only 100 ms after they have asked for a broker. A member
# that leads its group sooner assigns none, and joins again when it knows more. kafka-python loses
# the assignment of that round if it comes between two calls of poll, and reads nothing any more.
GATHERING_MS = 300


def local_defaults(brokers: int) -> dict[str, str]:
    """What a cluster on one machine needs other than Kafka's defaults. Kept in cluster.json.

    Internal topics can't have more replicas than there are brokers, topics that are made on first
    use should show replication, and a group of one machine need not wait three seconds for members.
    """
    copies = str(min(3, brokers))
    return {
        "default.replication.factor": copies,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": str(min(2, brokers)),
        "group.initial.rebalance.delay.ms": str(GATHERING_MS),
    }


def up_options(parser: Parser) -> None:
    """Options of `replog up`."""
    examples(
        parser,
        "replog up                                  three brokers until Ctrl-C",
        "replog up --detach                         in the background; 'replog down' stops them",
        "replog up --brokers 5 --port 19092 --data ./cluster --detach",
        "replog up --set min.insync.replicas=2 --set num.partitions=6",
        "replog up --coordinator zk://zk1:2181,zk2:2181,zk3:2181/replog",
    )
    parser.add_argument("--brokers", type=positive, metavar="N", help="default: 3")
    parser.add_argument(
        "--port",
        type=port,
        metavar="PORT",
        help="of the first broker; the others take the next ones (default: 9092)",
    )
    parser.add_argument("--first-id", type=not_negative, metavar="ID", help="default: 0")
    parser.add_argument(
        "--set",
        action="append",
        metavar="NAME=VALUE",
        help="any Kafka broker configuration, for all brokers; repeatable",
    )
    parser.add_argument(
        "--detach", action="store_true", help="return when the brokers are ready, and leave them"
    )
    add_coordinator(parser)
    add_data(parser)
    add_format(parser)


def up(arguments: Arguments) -> int:
    """Start the brokers; without --detach, wait for Ctrl-C and stop them."""
    from replog.runtime.last_up import default_data_dir
    from replog.runtime.local_cluster import ClusterError

    folder = Path(arguments.data) if arguments.data else default_data_dir()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        cluster = _plan(folder, arguments)
        cluster.up()
    except ClusterError as error:
        raise Failure(str(error)) from error
    try:
        cluster.wait_ready(READY_TIMEOUT_S)
        _announce(cluster, arguments)
        if not arguments.detach:
            signal.pause()
    except ClusterError as error:
        # Brokers that did not find together are no cluster: leave none of them behind.
        _stop(cluster)
        raise Failure(str(error)) from error
    except KeyboardInterrupt:
        print("\nstopping ...", file=sys.stderr, flush=True)
        stopped = cluster.running()
        _stop(cluster)
        if arguments.format == "text":  # as JSON there is one document, which has been printed
            print(_stopped_text(cluster, stopped), flush=True)
    return OK


def _plan(folder: Path, arguments: Arguments) -> "LocalCluster":
    """What is to be started: the cluster that the folder holds, changed by what is given anew."""
    from replog.runtime.local_cluster import PLAN_FILE, LocalCluster

    brokers, first_id, first_port = arguments.brokers, arguments.first_id, arguments.port
    known: dict[str, str] = {}
    if (folder / PLAN_FILE).exists():
        there = LocalCluster.load(folder)
        brokers = brokers or len(there.members)
        first_id = there.members[0].broker_id if first_id is None else first_id
        first_port = first_port or there.members[0].port
        known = dict(there.settings)
    brokers = brokers or 3
    given = settings(arguments.set, "--set")
    for name in OF_EACH_BROKER & given.keys():
        raise UsageError(f"--set {name}: each broker has its own, by --first-id, --port and --data")
    if arguments.coordinator:
        given = settings(
            [f"replog.coordinator={arguments.coordinator}", *(arguments.set or ())], "--set"
        )
    return LocalCluster.plan(
        folder,
        brokers=brokers,
        first_id=first_id or 0,
        port=first_port or 9092,
        settings=local_defaults(brokers) | known | given,
    )


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _announce(cluster: "LocalCluster", arguments: Arguments) -> None:
    brokers = cluster.status()
    if arguments.format == "json":
        print_json(
            {
                "bootstrap_servers": cluster.bootstrap_servers,
                "data": str(cluster.data_dir),
                "brokers": [
                    {"broker": b.broker_id, "port": b.port, "pid": b.pid, "state": b.state.value}
                    for b in brokers
                ],
            }
        )
    else:
        stop = "Ctrl-C"
        if arguments.detach:
            stop = "replog down" + (f" --data {arguments.data}" if arguments.data else "")
        print(
            f"brokers            {', '.join(f'{b.broker_id} (pid {b.pid})' for b in brokers)}\n"
            f"bootstrap servers  {cluster.bootstrap_servers}\n"
            f"data folder        {cluster.data_dir}\n"
            f"stop with          {stop}",
            flush=True,
        )


def _stop(cluster: "LocalCluster") -> None:
    from replog.runtime.local_cluster import ClusterError

    try:
        cluster.down(STOP_TIMEOUT_S)
    except ClusterError as error:
        raise Failure(str(error)) from error


def down_options(parser: Parser) -> None:
    """Options of `replog down`."""
    examples(parser, "replog down", "replog down --data ./cluster")
    add_data(parser)
    add_format(parser)


def down(arguments: Arguments) -> int:
    """Stop all brokers of the cluster in good order."""
    from replog.cli.target import local_cluster

    cluster = local_cluster(arguments)
    running = cluster.running()
    _stop(cluster)
    if arguments.format == "json":
        print_json({"data": str(cluster.data_dir), "stopped": running})
    else:
        print(_stopped_text(cluster, running))
    return OK


def _stopped_text(cluster: "LocalCluster", stopped: list[int]) -> str:
    if not stopped:
        return f"no broker of {cluster.data_dir} was running"
    return f"stopped {len(stopped)} brokers; data stays in {cluster.data_dir}"
