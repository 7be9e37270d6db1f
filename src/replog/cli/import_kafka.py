"""`replog import kafka-data`: topics, records, committed offsets of Apache Kafka's data folders."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replog.cli.errors import OK, Failure, UsageError
from replog.cli.options import (
    Arguments,
    Parser,
    add_data,
    add_format,
    examples,
    port,
    positive,
)
from replog.cli.output import columns, print_json
from replog.model.ids import INTERNAL_TOPICS, topic_id_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from replog.cli.kafka_import import TopicPlan
    from replog.cli.kafka_offsets import Offsets
    from replog.cli.kafka_staging import Staged
    from replog.runtime.local_cluster import LocalCluster


def import_kafka_options(parser: Parser) -> None:
    """Options of `replog import kafka-data`."""
    examples(
        parser,
        "replog import kafka-data /var/lib/kafka/data --dry-run",
        "replog import kafka-data /var/lib/kafka/data --data ./cluster",
        "replog import kafka-data node1/data node2/data node3/data --restart",
        "replog import kafka-data /var/lib/kafka/data --topic orders "
        "--config orders:retention.ms=604800000",
    )
    parser.add_argument(
        "folders", nargs="+", metavar="DIR", help="a log folder (log.dirs) of Kafka 2.8 or later"
    )
    parser.add_argument(
        "--topic", action="append", metavar="NAME", help="only this topic; repeatable"
    )
    parser.add_argument(
        "--skip", action="append", metavar="NAME", help="not this topic; repeatable"
    )
    parser.add_argument(
        "--config",
        action="append",
        metavar="TOPIC:NAME=VALUE",
        help="a topic's configuration, instead of or beside what the folder tells; repeatable",
    )
    parser.add_argument(
        "--replication-factor",
        type=positive,
        metavar="N",
        help="copies of each partition (default: 3, or as many as there are brokers)",
    )
    parser.add_argument(
        "--brokers", type=positive, metavar="N", help="of a cluster that is made (default: 3)"
    )
    parser.add_argument(
        "--port", type=port, metavar="PORT", help="of a cluster that is made (default: 9092)"
    )
    parser.add_argument(
        "--restart",
        action="store_true",
        help="stop the brokers for the import when they run, and start them again",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be imported, and change nothing"
    )
    add_data(parser)
    add_format(parser)


def import_kafka(arguments: Arguments) -> int:
    """Check, copy, prove, register. Nothing is left when it fails."""
    from replog.cli.kafka_folders import LogFolders
    from replog.cli.kafka_import import Import, StoppedCluster, Wanted, plan

    with LogFolders([Path(folder) for folder in arguments.folders]) as folders:
        found = folders.look()
        with (
            _stopped(arguments) as cluster,
            StoppedCluster(cluster, look_only=arguments.dry_run) as target,
        ):
            factor = arguments.replication_factor or min(3, len(target.broker_ids))
            wanted = Wanted(
                topics=frozenset(arguments.topic or ()),
                skip=frozenset(arguments.skip or ()),
                configs=_configs(arguments.config),
                replication_factor=factor,
            )
            todo = plan(found, wanted, target)
            if not arguments.dry_run:
                with _progress(todo.bytes * (2 + factor)) as advance:
                    work = Import(todo, target, advance)
                    work.run()
        if not arguments.dry_run and work.offsets:
            _commit(cluster, work.offsets)
    topics = [_described(topic) for topic in todo.topics]
    partitions = [] if arguments.dry_run else [_proven(s) for s in work.staged.values()]
    if arguments.format == "json":
        print_json(
            {
                "data": str(cluster.data_dir),
                "dry_run": arguments.dry_run,
                "topics": topics,
                "partitions": partitions,
                "committed_offsets": [] if arguments.dry_run else _committed(work.known_offsets),
                "notes": todo.notes,
            }
        )
        return OK
    for note in todo.notes:
        print(f"note: {note}", file=sys.stderr)
    print(_text(topics, partitions, dry_run=arguments.dry_run))
    if not arguments.dry_run and not cluster.running():
        print(f"start the cluster with: replog up --data {cluster.data_dir}", file=sys.stderr)
    return OK


def _configs(pairs: list[str] | None) -> dict[str, dict[str, str]]:
    result: dict[str, dict[str, str]] = {}
    for pair in pairs or []:
        topic, colon, setting = pair.partition(":")
        name, equals, value = setting.partition("=")
        if not (topic and colon and name and equals):
            raise UsageError(f"--config takes TOPIC:NAME=VALUE, not {pair!r}")
        result.setdefault(topic, {})[name.strip()] = value.strip()
    return result


@contextmanager
def _stopped(arguments: Arguments) -> Iterator["LocalCluster"]:
    """The cluster, while none of its brokers runs. Those that ran run again afterwards, whatever
    happened; a cluster that was made for the import goes again when that fails."""
    from replog.cli.target import data_folder
    from replog.runtime.last_up import default_data_dir
    from replog.runtime.local_cluster import PLAN_FILE, ClusterError, LocalCluster

    folder = data_folder(arguments) or default_data_dir()
    try:
        if not (folder / PLAN_FILE).exists():
            with _made(folder, arguments) as cluster:
                yield cluster
            return
        cluster = LocalCluster.load(folder)
        running = [] if arguments.dry_run else cluster.running()
        if running and not arguments.restart:
            raise Failure(
                f"brokers {', '.join(map(str, running))} of {cluster.data_dir} are running: stop "
                "them with 'replog down', or give --restart to have it done, and undone"
            )
        if running:
            cluster.down()
        try:
            yield cluster
        finally:
            for broker_id in running:
                cluster.start(broker_id, timeout_s=0)
            if running:
                cluster.wait_ready(brokers=running)
    except ClusterError as error:
        raise Failure(str(error)) from error


@contextmanager
def _made(folder: Path, arguments: Arguments) -> Iterator["LocalCluster"]:
    """A new cluster, as `replog up` would make it."""
    from replog.cli.up import local_defaults
    from replog.runtime.local_cluster import LocalCluster

    brokers = arguments.brokers or 3
    cluster = LocalCluster.plan(
        folder, brokers=brokers, port=arguments.port or 9092, settings=local_defaults(brokers)
    )
    if arguments.dry_run:
        yield cluster
        return
    before = set(folder.iterdir()) if folder.exists() else None
    try:
        cluster.make()
        yield cluster
    except BaseException:
        for child in folder.iterdir() if folder.exists() else ():
            if before is None or child not in before:
                shutil.rmtree(child) if child.is_dir() else child.unlink()
        if before is None and folder.exists():
            folder.rmdir()
        raise


@contextmanager
def _progress(total: int) -> Iterator["Callable[[int], None]"]:
    """Shown on a terminal only; results go to stdout."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    with Progress(
        TextColumn("copying and checking"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as shown:
        task = shown.add_task("import", total=max(total, 1))
        yield lambda done: shown.update(task, advance=done)


def _commit(cluster: "LocalCluster", offsets: "Offsets") -> None:
    """Where the cluster keeps offsets already. Brokers that do not run are started for that."""
    from replog.cli.kafka_offsets import commit
    from replog.runtime.client import AdminClient, ClientError
    from replog.runtime.local_cluster import ClusterError

    stopped = not cluster.running()
    try:
        if stopped:
            cluster.up(fork=False, remember=False)
            cluster.wait_ready()
        with AdminClient(cluster.bootstrap_servers) as client:
            refused = commit(client, offsets)
    except (ClusterError, ClientError) as error:
        raise Failure(
            f"topics are imported, but offsets could not be committed: {error}"
        ) from error
    finally:
        if stopped:
            cluster.down()
    if refused:
        raise Failure("topics are imported, but not these offsets: " + "; ".join(refused))


def _committed(offsets: "Offsets") -> list[dict[str, Any]]:
    return [
        {
            "group": group,
            "topic": tp.topic,
            "partition": tp.partition,
            "offset": committed.offset,
            "metadata": committed.metadata,
        }
        for group, found in sorted(offsets.items())
        for tp, committed in sorted(found.items())
    ]


def _described(topic: "TopicPlan") -> dict[str, Any]:
    return {
        "name": topic.found.name,
        "topic_id": topic_id_text(topic.found.topic_id),
        "internal": topic.found.name in INTERNAL_TOPICS,
        "bytes": topic.bytes,
        "configs": topic.configs,
        "partitions": [
            {"partition": index, "replicas": list(replicas), "source": str(copy.directory)}
            for index, replicas in enumerate(topic.replicas)
            for copy in (topic.found.copies[index],)
        ],
    }


def _proven(staged: "Staged") -> dict[str, Any]:
    return {
        "topic": staged.copy.tp.topic,
        "partition": staged.copy.tp.partition,
        "log_start_offset": staged.log_start,
        "log_end_offset": staged.end_offset,
        "leader_epoch": staged.latest_epoch,
        "batches": staged.content.batches,
        "records": staged.content.records,
        "bytes": staged.content.bytes,
        "sha256": staged.content.checksum,
        "open_transactions": staged.open_transactions,
        "cut": staged.cut,
    }


def _text(topics: list[dict[str, Any]], partitions: list[dict[str, Any]], *, dry_run: bool) -> str:
    if dry_run:
        table = columns(
            ("TOPIC", "ID", "PARTITIONS", "BYTES"),
            [(t["name"], t["topic_id"], len(t["partitions"]), t["bytes"]) for t in topics],
        )
        return f"{table}\nnothing was changed"
    header = ("TOPIC", "PARTITION", "START", "END", "BATCHES", "RECORDS", "BYTES", "SHA-256")
    table = columns(
        header,
        [
            (
                p["topic"],
                p["partition"],
                p["log_start_offset"],
                p["log_end_offset"],
                p["batches"],
                p["records"],
                p["bytes"],
                p["sha256"][:16],
            )
            for p in partitions
        ],
    )
    records = sum(p["records"] for p in partitions)
    return (
        f"{table}\n{len(topics)} topics, {len(partitions)} partitions, {records} records imported; "
        "each was read back and is what the folder holds"
    )
