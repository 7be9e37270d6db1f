"""`replog reassign plan | apply | status | cancel`: partitions on other brokers (KIP-455)."""

import sys
import time
from collections.abc import Sequence

from replog.cli.cluster_view import explain, metadata, topics
from replog.cli.errors import OK, Failure, UsageError
from replog.cli.options import (
    Arguments,
    Parser,
    add_cluster,
    add_format,
    examples,
    replica_count,
    seconds,
)
from replog.cli.output import columns, ids, print_json
from replog.cli.partition_names import parse, resolve
from replog.cli.reassign_plan import Move, as_json, read, spread
from replog.cli.reassign_progress import Row, Watch, look, table
from replog.cli.target import CALL_TIMEOUT_S, connect
from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from replog.runtime.client import AdminClient

CLEAR_SCREEN = "\x1b[H\x1b[2J"


# ---- plan -------------------------------------------------------------------------------


def plan_options(parser: Parser) -> None:
    """Options of `replog reassign plan`."""
    examples(
        parser,
        "replog reassign plan events --brokers 0,1,3",
        "replog reassign plan --brokers 0,1,2 --replication-factor 3 --format json > plan.json",
    )
    parser.add_argument(
        "partitions", nargs="*", metavar="TOPIC[:PARTITION]", help="default: all topics"
    )
    parser.add_argument(
        "--brokers", metavar="ID,ID", help="where replicas may be (default: all live brokers)"
    )
    parser.add_argument(
        "--replication-factor", type=replica_count, metavar="N", help="default: as it is"
    )
    add_cluster(parser)
    add_format(parser)


def plan(arguments: Arguments) -> int:
    """Print which partitions would move where. Nothing is changed."""
    with connect(arguments) as client:
        racks = {broker.node_id: broker.rack for broker in metadata(client, []).brokers}
        if arguments.brokers:
            racks = {broker: racks.get(broker) for broker in _ids(arguments.brokers, racks)}
        names = {parse(word)[0] for word in arguments.partitions}
        views = topics(client, sorted(names) or None)
        current = {
            TopicPartition(view.name, partition.index): partition.replicas
            for view in views
            for partition in view.partitions
        }
        if arguments.partitions:
            wanted = resolve(client, arguments.partitions)
            missing = [tp for tp in wanted if tp not in current]
            if missing:
                raise Failure(f"there is no partition {missing[0].topic}:{missing[0].partition}")
            current = {tp: current[tp] for tp in wanted}
    moves = spread(current, racks, arguments.replication_factor)
    if arguments.format == "json":
        print_json(as_json(moves))
    elif moves:
        rows = [
            (f"{m.tp.topic}:{m.tp.partition}", ids(current[m.tp]), ids(m.replicas)) for m in moves
        ]
        print(columns(("PARTITION", "FROM", "TO"), rows))
    else:
        print("every partition is where it should be")
    return OK


def _ids(text: str, registered: dict[int, str | None]) -> list[int]:
    words = text.split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise UsageError(f"--brokers takes ids with commas between them, not {text!r}")
    brokers = [int(word) for word in words]
    unknown = [broker for broker in brokers if broker not in registered]
    if unknown:
        raise Failure(f"broker {unknown[0]} is not registered")
    return brokers


# ---- apply and cancel -------------------------------------------------------------------


def apply_options(parser: Parser) -> None:
    """Options of `replog reassign apply`."""
    examples(
        parser,
        "replog reassign apply plan.json --wait",
        "replog reassign apply events:0=1,2 events:1=2,3",
        "replog reassign plan events --brokers 0,1 --format json | replog reassign apply -",
    )
    parser.add_argument(
        "moves",
        nargs="+",
        metavar="FILE|TOPIC:PARTITION=ID,ID",
        help="a plan in Kafka's form ('-': stdin), or moves as words",
    )
    _add_waiting(parser)
    add_cluster(parser)
    add_format(parser)


def apply(arguments: Arguments) -> int:
    """Begin moves; with --wait, show how far they are until all are over."""
    moves = read(arguments.moves)
    if not moves:
        print("nothing to move", file=sys.stderr)
        return OK
    with connect(arguments) as client:
        begun = _alter(client, moves, f"{len(moves)} partitions")
        if arguments.wait:
            _wait(client, arguments)
    if arguments.format == "json":
        print_json({"begun": begun, "done": arguments.wait})
    else:
        print(f"{'moved' if arguments.wait else 'moving'} {len(begun)} partitions")
    return OK


def cancel_options(parser: Parser) -> None:
    """Options of `replog reassign cancel`."""
    examples(parser, "replog reassign cancel events:0", "replog reassign cancel --all")
    parser.add_argument("partitions", nargs="*", metavar="TOPIC[:PARTITION]")
    parser.add_argument("--all", action="store_true", help="every move that is under way")
    add_cluster(parser)
    add_format(parser)


def cancel(arguments: Arguments) -> int:
    """End moves and leave the partitions where they were."""
    if arguments.all == bool(arguments.partitions):
        raise UsageError("name partitions, or take --all")
    with connect(arguments) as client:
        ongoing = [progress.tp for progress in look(client)]
        named = ongoing if arguments.all else resolve(client, arguments.partitions)
        whole = {parse(word)[0] for word in arguments.partitions if parse(word)[1] is None}
        # Of a whole topic only what is under way is meant.
        chosen = [tp for tp in named if tp in ongoing or tp.topic not in whole]
        cancelled = _alter(client, [Move(tp, ()) for tp in chosen], "cancelling") if chosen else []
    if arguments.format == "json":
        print_json({"cancelled": cancelled})
    else:
        print(f"cancelled {len(cancelled)} moves")
    return OK


def _alter(client: AdminClient, moves: Sequence[Move], what: str) -> list[str]:
    """Ask for the moves; no replicas stand for a cancellation. Raises Failure for what is refused,
    after the others have begun."""
    by_topic: dict[str, ReassignableTopic] = {}
    for move in moves:
        topic = by_topic.setdefault(move.tp.topic, ReassignableTopic(name=move.tp.topic))
        topic.partitions.append(
            ReassignablePartition(
                partition_index=move.tp.partition, replicas=list(move.replicas) or None
            )
        )
    answer = client.call(
        AlterPartitionReassignmentsRequest(
            topics=list(by_topic.values()), timeout_ms=int(CALL_TIMEOUT_S * 1000)
        )
    )
    if not isinstance(answer, AlterPartitionReassignmentsResponse):
        raise Failure(f"the broker answered {type(answer).__name__}")
    if answer.error_code:
        raise Failure(f"{what}: {explain(answer.error_code, answer.error_message)}")
    results = [(topic.name, p) for topic in answer.responses for p in topic.partitions]
    refused = [
        f"{name}:{p.partition_index}: {explain(p.error_code, p.error_message)}"
        for name, p in results
        if p.error_code != ErrorCode.NONE
    ]
    if refused:
        raise Failure(f"{len(refused)} of {len(results)} refused: {'; '.join(refused)}")
    return [f"{name}:{p.partition_index}" for name, p in results]


# ---- status -----------------------------------------------------------------------------


def status_options(parser: Parser) -> None:
    """Options of `replog reassign status`."""
    examples(
        parser,
        "replog reassign status                  one look, a second long",
        "replog reassign status --wait           until every move is over",
        "replog reassign status --format json",
    )
    _add_waiting(parser)
    add_cluster(parser)
    add_format(parser)


def _add_waiting(parser: Parser) -> None:
    parser.add_argument(
        "--wait", action="store_true", help="show how far it is until every move is over"
    )
    parser.add_argument(
        "--interval",
        type=seconds,
        default=1.0,
        metavar="S",
        help="seconds between looks (default: 1)",
    )


def status(arguments: Arguments) -> int:
    """Print every move that is under way. Rates come from two looks."""
    with connect(arguments) as client:
        if arguments.wait:
            _wait(client, arguments)
            return OK
        watch = Watch()
        rows = watch.rows(look(client), time.monotonic())
        if rows:
            time.sleep(arguments.interval)
            rows = watch.rows(look(client), time.monotonic())
    _show(rows, arguments)
    return OK


def _wait(client: AdminClient, arguments: Arguments) -> None:
    """Show rows until there are none."""
    watch = Watch()
    while rows := watch.rows(look(client), time.monotonic()):
        if arguments.format == "text":
            if sys.stdout.isatty():
                print(CLEAR_SCREEN, end="")
            _show(rows, arguments)
            sys.stdout.flush()
        time.sleep(arguments.interval)


def _show(rows: Sequence[Row], arguments: Arguments) -> None:
    if arguments.format == "json":
        print_json([row.as_json() for row in rows])
    elif rows:
        print(table(rows))
    else:
        print("nothing is being moved")
