"""`replog group reset`: move the positions of a group that has no members."""

from datetime import datetime

from replog.cli.cluster_view import explain, metadata
from replog.cli.errors import OK, Failure, UsageError
from replog.cli.group_view import (
    EARLIEST,
    LATEST,
    OFFSET_VERSION,
    committed_offsets,
    coordinator,
    offsets_at,
    patiently,
)
from replog.cli.options import (
    Arguments,
    Parser,
    add_cluster,
    add_format,
    difference,
    examples,
    not_negative,
)
from replog.cli.output import columns, print_json
from replog.cli.partition_names import by_topic, resolve
from replog.cli.target import connect
from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from replog.runtime.client import AdminClient

MEMBERS = "it has members, which would commit over it: stop them first"


def reset_options(parser: Parser) -> None:
    """Options of `replog group reset`."""
    examples(
        parser,
        "replog group reset billing --topic events --to-earliest",
        "replog group reset billing --all-topics --to-datetime 2026-05-01T09:00:00 --dry-run",
        "replog group reset billing --topic events:0 events:2 --shift-by -100",
    )
    parser.add_argument("group", metavar="GROUP")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--topic", nargs="+", metavar="TOPIC[:PARTITION]")
    where.add_argument("--all-topics", action="store_true", help="wherever the group has positions")
    to = parser.add_mutually_exclusive_group(required=True)
    to.add_argument("--to-earliest", action="store_true", help="the first record that is there")
    to.add_argument("--to-latest", action="store_true", help="behind the last record")
    to.add_argument("--to-offset", type=not_negative, metavar="N")
    to.add_argument(
        "--to-datetime",
        metavar="WHEN",
        help="the first record of that time or later (ISO 8601; local time unless it has a zone)",
    )
    to.add_argument(
        "--shift-by", type=difference, metavar="N", help="from where it stands; may be < 0"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be, change nothing"
    )
    add_cluster(parser)
    add_format(parser)


def reset(arguments: Arguments) -> int:
    """Move positions; targets outside the log are moved to its nearer end."""
    with connect(arguments) as client:
        before = {tp: p.committed for tp, p in committed_offsets(client, arguments.group).items()}
        if arguments.all_topics:
            partitions = sorted(before)
        else:
            partitions = resolve(client, arguments.topic)
        if not partitions:
            raise Failure(f"group {arguments.group!r} has no positions; name topics with --topic")
        after = _targets(client, arguments, partitions, before)
        if not arguments.dry_run:
            _commit(client, arguments.group, after)
    if arguments.format == "json":
        print_json(
            {
                "group": arguments.group,
                "changed": not arguments.dry_run,
                "positions": [
                    {
                        "topic": tp.topic,
                        "partition": tp.partition,
                        "before": before.get(tp),
                        "after": offset,
                    }
                    for tp, offset in after.items()
                ],
            }
        )
        return OK
    print(
        columns(
            ("TOPIC", "PARTITION", "BEFORE", "AFTER"),
            [(tp.topic, tp.partition, before.get(tp), offset) for tp, offset in after.items()],
        )
    )
    if arguments.dry_run:
        print("\nnothing was changed: without --dry-run it will be")
    return OK


def _targets(
    client: AdminClient,
    arguments: Arguments,
    partitions: list[TopicPartition],
    before: dict[TopicPartition, int | None],
) -> dict[TopicPartition, int]:
    starts = offsets_at(client, partitions, EARLIEST)
    ends = offsets_at(client, partitions, LATEST)
    missing = [f"{tp.topic}:{tp.partition}" for tp in partitions if tp not in ends]
    if missing:
        raise Failure(f"no leader, or no such partition: {', '.join(missing)}")
    if arguments.to_earliest:
        return {tp: starts[tp] for tp in partitions}
    if arguments.to_latest:
        return {tp: ends[tp] for tp in partitions}
    if arguments.to_datetime is not None:
        at = offsets_at(client, partitions, _milliseconds(arguments.to_datetime))
        return {tp: at.get(tp, ends[tp]) for tp in partitions}
    wanted: dict[TopicPartition, int] = {}
    for tp in partitions:
        base = before.get(tp)
        if arguments.to_offset is not None:
            wanted[tp] = arguments.to_offset
        elif base is None:
            raise Failure(f"{tp.topic}:{tp.partition} has no position to shift")
        else:
            wanted[tp] = base + arguments.shift_by
    return {tp: min(max(offset, starts[tp]), ends[tp]) for tp, offset in wanted.items()}


def _milliseconds(text: str) -> int:
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError as error:
        raise UsageError(f"--to-datetime {text!r}: {error}") from error


def _commit(client: AdminClient, group: str, offsets: dict[TopicPartition, int]) -> None:
    """Commit as an administrator: no member, no generation. Raises Failure."""
    ids = {
        topic.name: topic.topic_id
        for topic in metadata(client, sorted({tp.topic for tp in offsets})).topics
    }
    request = OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=ids[topic],
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offsets[TopicPartition(topic, index)],
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(list(offsets)).items()
        ],
    )
    _, address = coordinator(client, group)

    def ask() -> OffsetCommitResponse | ErrorCode:
        answer = client.call_at(address, request, OFFSET_VERSION)
        if not isinstance(answer, OffsetCommitResponse):
            raise Failure(f"the coordinator answered {type(answer).__name__}")
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                    raise Failure(f"group {group!r}: {explain(partition.error_code, MEMBERS)}")
                if partition.error_code:
                    return ErrorCode(partition.error_code)
        return answer

    patiently(ask, f"the positions of group {group!r} were not changed")
