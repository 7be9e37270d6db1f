"""`replog broker start | stop | kill | pause | resume | run`: one broker."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from replog.cli.errors import OK, Failure
from replog.cli.options import Arguments, Parser, add_data, add_format, examples, not_negative
from replog.cli.output import print_json

if TYPE_CHECKING:
    from replog.runtime.local_cluster import LocalCluster


def _options(parser: Parser, verb: str) -> None:
    examples(parser, f"replog broker {verb} 1", f"replog broker {verb} 1 --data ./cluster")
    parser.add_argument("id", type=not_negative, metavar="ID", help="broker id")
    add_data(parser)
    add_format(parser)


def start_options(parser: Parser) -> None:
    """Options of `replog broker start`."""
    _options(parser, "start")


def stop_options(parser: Parser) -> None:
    """Options of `replog broker stop`."""
    _options(parser, "stop")


def kill_options(parser: Parser) -> None:
    """Options of `replog broker kill`."""
    _options(parser, "kill")


def pause_options(parser: Parser) -> None:
    """Options of `replog broker pause`."""
    _options(parser, "pause")


def resume_options(parser: Parser) -> None:
    """Options of `replog broker resume`."""
    _options(parser, "resume")


def start(arguments: Arguments) -> int:
    """Start a broker that was stopped or killed, and wait until it has joined."""
    return _do(arguments, "started", lambda cluster: cluster.start(arguments.id))


def stop(arguments: Arguments) -> int:
    """SIGTERM: leaderships move first, then the process ends."""
    return _do(arguments, "stopped", lambda cluster: cluster.stop(arguments.id))


def kill(arguments: Arguments) -> int:
    """SIGKILL: as a crash."""
    return _do(arguments, "killed", lambda cluster: cluster.kill(arguments.id))


def pause(arguments: Arguments) -> int:
    """SIGSTOP: the process is there, and does nothing."""
    return _do(arguments, "paused", lambda cluster: cluster.pause(arguments.id))


def resume(arguments: Arguments) -> int:
    """SIGCONT: the process goes on where it was frozen."""
    return _do(arguments, "resumed", lambda cluster: cluster.resume(arguments.id))


def _do(arguments: Arguments, done: str, act: Callable[["LocalCluster"], object]) -> int:
    from replog.cli.target import local_cluster
    from replog.runtime.local_cluster import ClusterError

    cluster = local_cluster(arguments)
    try:
        act(cluster)
    except ClusterError as error:
        raise Failure(str(error)) from error
    if arguments.format == "json":
        print_json({"broker": arguments.id, "data": str(cluster.data_dir), "done": done})
    else:
        print(f"{done} broker {arguments.id}")
    return OK


def run_options(parser: Parser) -> None:
    """Options of `replog broker run`."""
    examples(
        parser,
        "replog broker run --config /etc/replog/server.properties",
        "",
        "The file takes Kafka's names. Three such files make a cluster:",
        "  node.id=1",
        "  listeners=PLAINTEXT://127.0.0.1:9092",
        "  log.dirs=/var/lib/replog/1",
        "  replog.coordinator=sqlite:/var/lib/replog/coordinator/replog.db",
    )
    parser.add_argument(
        "--config", required=True, metavar="FILE", help="a server.properties with Kafka's names"
    )


def run(arguments: Arguments) -> int:
    """Be one broker, in the foreground, until SIGTERM."""
    from replog.runtime.broker import run_broker

    return run_broker(Path(arguments.config))
