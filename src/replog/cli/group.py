"""`replog group list | describe | delete`."""

import argparse
from typing import Any

from replog.cli.cluster_view import explain
from replog.cli.errors import OK, Failure
from replog.cli.group_view import GroupView, coordinator, describe, list_groups, patiently
from replog.cli.options import Arguments, Parser, add_cluster, add_format, examples
from replog.cli.output import columns, print_json, printable, terminal_width
from replog.cli.partition_names import by_topic, in_ranges, resolve
from replog.cli.target import connect
from replog.model.errors import ErrorCode
from replog.model.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from replog.model.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from replog.runtime.client import AdminClient

STATES = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance")


def list_all_options(parser: Parser) -> None:
    """Options of `replog group list`."""
    examples(
        parser,
        "replog group list",
        "replog group list --state empty --format json",
    )
    parser.add_argument(
        "--state",
        action="append",
        type=_state,
        metavar="STATE",
        help=f"of {', '.join(STATES)}; repeatable",
    )
    add_cluster(parser)
    add_format(parser)


def _state(text: str) -> str:
    """A broker finds no group in a state that there is not, and does not say so."""
    for state in STATES:
        if state.lower() == text.lower():
            return state
    raise argparse.ArgumentTypeError(f"{text} is no state: {', '.join(STATES)}")


def list_all(arguments: Arguments) -> int:
    """Print one line for each group of the cluster."""
    with connect(arguments) as client:
        found = list_groups(client, arguments.state or [])
    if arguments.format == "json":
        print_json(
            [
                {
                    "group": line.group,
                    "state": line.state,
                    "type": line.kind,
                    "protocol_type": line.protocol_type,
                    "coordinator": line.coordinator,
                }
                for line in found
            ]
        )
    else:
        rows = [
            (line.group, line.state, line.kind, line.protocol_type or "-", line.coordinator)
            for line in found
        ]
        print(columns(("GROUP", "STATE", "TYPE", "PROTOCOL", "COORDINATOR"), rows))
    return OK


def show_options(parser: Parser) -> None:
    """Options of `replog group describe`."""
    examples(
        parser,
        "replog group describe billing",
        "replog group describe billing --members",
        "replog group describe billing shipping --format json",
    )
    parser.add_argument("groups", nargs="+", metavar="GROUP")
    parser.add_argument("--members", action="store_true", help="members and what each was assigned")
    add_cluster(parser)
    add_format(parser)


def show(arguments: Arguments) -> int:
    """Print where groups stand: committed offset, end and lag of each partition."""
    with connect(arguments) as client:
        views = [describe(client, group) for group in arguments.groups]
    if arguments.format == "json":
        print_json([_as_json(view) for view in views])
    else:
        print("\n\n".join(_as_text(view, members=arguments.members) for view in views))
    return OK


def _as_text(view: GroupView, *, members: bool) -> str:
    lags = [position.lag for position in view.positions if position.lag is not None]
    head = (
        f"{printable(view.group)}  state {view.state}  protocol {view.protocol or '-'}  "
        f"coordinator {view.coordinator}  members {len(view.members)}  lag {sum(lags)}"
    )
    if members:
        table = columns(
            ("MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS"),
            [
                (
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.host,
                    in_ranges(member.partitions) or "-",
                )
                for member in view.members
            ],
            shrinking=("MEMBER", "INSTANCE", "CLIENT"),
            width=terminal_width(),
        )
    else:
        table = columns(
            ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "HOST"),
            [
                (
                    position.tp.topic,
                    position.tp.partition,
                    position.committed,
                    position.end,
                    position.lag,
                    position.member.member_id if position.member else None,
                    position.member.host if position.member else None,
                )
                for position in view.positions
            ],
            shrinking=("TOPIC", "MEMBER"),
            width=terminal_width(),
        )
    return f"{head}\n{table}"


def _as_json(view: GroupView) -> dict[str, Any]:
    return {
        "group": view.group,
        "state": view.state,
        "protocol_type": view.protocol_type,
        "protocol": view.protocol,
        "coordinator": view.coordinator,
        "members": [
            {
                "member": member.member_id,
                "instance": member.instance_id,
                "client": member.client_id,
                "host": member.host,
                "partitions": [
                    {"topic": tp.topic, "partition": tp.partition} for tp in member.partitions
                ],
            }
            for member in view.members
        ],
        "positions": [
            {
                "topic": position.tp.topic,
                "partition": position.tp.partition,
                "committed": position.committed,
                "end": position.end,
                "lag": position.lag,
                "metadata": position.metadata,
                "member": position.member.member_id if position.member else None,
            }
            for position in view.positions
        ],
    }


def delete_options(parser: Parser) -> None:
    """Options of `replog group delete`."""
    examples(
        parser,
        "replog group delete old-job older-job",
        "replog group delete billing --offsets events events2:3    only these positions",
    )
    parser.add_argument("groups", nargs="+", metavar="GROUP")
    parser.add_argument(
        "--offsets",
        nargs="+",
        metavar="TOPIC[:PARTITION]",
        help="forget the positions in these, and leave the groups",
    )
    add_cluster(parser)
    add_format(parser)


def delete(arguments: Arguments) -> int:
    """Delete groups without members, or some of their positions."""
    faults = []
    done = []
    with connect(arguments) as client:
        for group in arguments.groups:
            if arguments.offsets:
                fault = _forget(client, group, arguments.offsets)
            else:
                fault = _delete(client, group)
            if fault is None:
                done.append(group)
            else:
                faults.append(f"group {group!r}: {fault}")
    if arguments.format == "json":
        print_json({"deleted": done, "failed": faults})
    else:
        for group in done:
            print(f"forgot positions of {group}" if arguments.offsets else f"deleted {group}")
    if faults:
        raise Failure("; ".join(faults))
    return OK


def _delete(client: AdminClient, group: str) -> str | None:
    """Why the group is not deleted, or None when it is."""
    _, address = coordinator(client, group)

    def ask() -> tuple[int, str | None] | ErrorCode:
        answer = client.call_at(address, DeleteGroupsRequest(groups_names=[group]))
        if not isinstance(answer, DeleteGroupsResponse):
            raise Failure(f"the coordinator answered {type(answer).__name__}")
        (result,) = answer.results
        if result.error_code == ErrorCode.NON_EMPTY_GROUP:
            return result.error_code, "it has members: stop them first"
        if result.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            return result.error_code, "there is no such group"
        return ErrorCode(result.error_code) if result.error_code else (0, None)

    code, text = patiently(ask, f"group {group!r} is not deleted")
    return explain(code, text) if code else None


def _forget(client: AdminClient, group: str, words: list[str]) -> str | None:
    """Why positions are not forgotten, or None when all are."""
    _, address = coordinator(client, group)
    topics = [
        OffsetDeleteRequestTopic(
            name=topic,
            partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes],
        )
        for topic, indexes in by_topic(resolve(client, words)).items()
    ]
    answer = client.call_at(address, OffsetDeleteRequest(group_id=group, topics=topics))
    if not isinstance(answer, OffsetDeleteResponse):
        raise Failure(f"the coordinator answered {type(answer).__name__}")
    if answer.error_code:
        return explain(answer.error_code)
    refused = [
        f"{topic.name}:{p.partition_index}: {explain(p.error_code)}"
        for topic in answer.topics
        for p in topic.partitions
        if p.error_code
    ]
    return "; ".join(refused) or None
