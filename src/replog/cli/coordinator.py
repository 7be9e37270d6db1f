"""`replog coordinator export | import`: what a stopped cluster has agreed on, elsewhere."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from replog.cli.errors import OK, Failure, UsageError
from replog.cli.options import Arguments, Parser, add_data, add_format, examples, settings
from replog.cli.output import print_json
from replog.cli.target import local_cluster

if TYPE_CHECKING:
    from replog.runtime.coordination.port import Coordination
    from replog.runtime.local_cluster import LocalCluster


def export_tree_options(parser: Parser) -> None:
    """Options of `replog coordinator export`."""
    examples(
        parser,
        "replog coordinator export --file tree.json            of the last 'replog up'",
        "replog coordinator export --coordinator zk://zk1:2181/replog --file tree.json",
    )
    _common(parser)
    parser.add_argument("--file", required=True, metavar="FILE", help="is written; - for stdout")


def import_tree_options(parser: Parser) -> None:
    """Options of `replog coordinator import`."""
    examples(
        parser,
        "replog down --data ./cluster",
        "replog coordinator export --data ./cluster --file tree.json",
        "replog coordinator import --data ./cluster --file tree.json --coordinator zk://zk1/replog",
        "replog up --data ./cluster --detach           the same cluster, now in ZooKeeper",
        "",
        "Records stay where they are. Without --data the coordinator is filled, and the address is",
        "for you to write into the brokers' files.",
    )
    _common(parser)
    parser.add_argument("--file", required=True, metavar="FILE", help="what export has written")


def _common(parser: Parser) -> None:
    parser.add_argument(
        "--coordinator",
        metavar="ADDRESS",
        help="sqlite:PATH or zk://HOST:PORT,HOST:PORT/CHROOT (default for export: where the "
        "brokers of the data folder meet)",
    )
    parser.add_argument(
        "--set",
        action="append",
        metavar="NAME=VALUE",
        help="a broker configuration for the way there, such as zookeeper.ssl.client.enable=true",
    )
    add_data(parser)
    add_format(parser)


def export_tree(arguments: Arguments) -> int:
    """Write the tree to a file that only its owner can read: the brokers' secret is in it."""
    from replog.runtime.coordination.transfer import TransferError, registered, to_json
    from replog.runtime.coordination.transfer import export_tree as read_tree

    cluster = None if arguments.coordinator else _stopped(arguments)
    with _open(arguments, cluster) as coordination:
        try:
            document = read_tree(coordination)
        except TransferError as error:
            raise Failure(str(error)) from error
        if cluster is None and (brokers := registered(coordination)):
            raise Failure(f"brokers {', '.join(brokers)} are registered: stop them first")
    text = to_json(document) + "\n"
    if arguments.file == "-":
        sys.stdout.write(text)
        return OK
    try:
        descriptor = os.open(arguments.file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w") as file:
            file.write(text)
    except OSError as error:
        raise Failure(f"{arguments.file} can't be written: {error.strerror}") from error
    _say(arguments, "exported", len(document.nodes))
    return OK


def import_tree(arguments: Arguments) -> int:
    """Fill an empty coordinator; the cluster of `--data` meets there from now on."""
    from replog.runtime.coordination.transfer import TransferError, from_json
    from replog.runtime.coordination.transfer import import_tree as make_tree

    if not arguments.coordinator:
        raise UsageError("where to? Name it: --coordinator zk://HOST:PORT,HOST:PORT/CHROOT")
    cluster = _stopped(arguments) if arguments.data else None
    try:
        document = from_json(Path(arguments.file).read_text())
    except OSError as error:
        raise Failure(f"{arguments.file} can't be read: {error.strerror}") from error
    except TransferError as error:
        raise Failure(f"{arguments.file}: {error}") from error
    with _open(arguments, None) as coordination:
        try:
            count = make_tree(coordination, document)
        except TransferError as error:
            raise Failure(f"{arguments.coordinator}: {error}") from error
    if cluster is not None:
        cluster.meet_at(arguments.coordinator, settings(arguments.set, "--set"))
    _say(arguments, "imported", count)
    return OK


def _stopped(arguments: Arguments) -> "LocalCluster":
    """The cluster of this machine that is meant. Raises Failure when a broker of it runs."""
    cluster = local_cluster(arguments)
    running = cluster.running()
    if running:
        raise Failure(f"brokers {', '.join(map(str, running))} run: stop them with 'replog down'")
    return cluster


@contextmanager
def _open(arguments: Arguments, cluster: "LocalCluster | None") -> Iterator["Coordination"]:
    """The coordinator of `cluster`, else the one that is named."""
    from replog.model.config import BrokerConfig, ConfigError
    from replog.runtime.coordination.opening import open_coordination
    from replog.runtime.coordination.port import CoordinationError

    named = {"node.id": "0", "replog.coordinator": str(arguments.coordinator)}
    try:
        given = settings(arguments.set, "--set")
        config = BrokerConfig({**named, **given}) if cluster is None else cluster.config
        coordination = open_coordination(config)
    except (ConfigError, CoordinationError) as error:
        raise Failure(str(error)) from error
    try:
        yield coordination
    except CoordinationError as error:
        raise Failure(str(error)) from error
    finally:
        coordination.close()


def _say(arguments: Arguments, done: str, count: int) -> None:
    if arguments.format == "json":
        print_json({done: count, "file": arguments.file})
    else:
        print(f"{done} {count} nodes")
