"""`replog topic list | describe | delete`."""

from dataclasses import asdict
from typing import Any

from replog.cli.cluster_view import TopicView, add_eligible, add_replicas, explain, topics
from replog.cli.errors import OK, Failure
from replog.cli.options import Arguments, Parser, add_cluster, add_format, examples
from replog.cli.output import columns, ids, print_json
from replog.cli.target import CALL_TIMEOUT_S, connect
from replog.model.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)


def list_topics_options(parser: Parser) -> None:
    """Options of `replog topic list`."""
    examples(parser, "replog topic list", "replog topic list --internal --format json")
    parser.add_argument("--internal", action="store_true", help="internal topics too")
    add_cluster(parser)
    add_format(parser)


def list_topics(arguments: Arguments) -> int:
    """Print one line for each topic."""
    with connect(arguments) as client:
        found = [view for view in topics(client) if arguments.internal or not view.internal]
    if arguments.format == "json":
        print_json([summary(view) for view in found])
    else:
        print(topic_table(found))
    return OK


def topic_table(views: list[TopicView]) -> str:
    """One line a topic, with what is wrong with it."""
    return columns(
        ("TOPIC", "PARTITIONS", "REPLICATION", "MIN-ISR", "OFFLINE", "UNDER-REPLICATED"),
        [
            (
                view.name,
                len(view.partitions),
                view.replication_factor,
                view.promise,
                view.offline,
                view.under_replicated,
            )
            for view in views
        ],
    )


def summary(view: TopicView) -> dict[str, Any]:
    """A topic in JSON, without its partitions. `promise` is m."""
    return {
        "name": view.name,
        "topic_id": view.topic_id,
        "internal": view.internal,
        "partitions": len(view.partitions),
        "replication_factor": view.replication_factor,
        "min_insync_replicas": view.min_insync_replicas,
        "promise": view.promise,
        "offline_partitions": view.offline,
        "under_replicated_partitions": view.under_replicated,
    }


def describe_options(parser: Parser) -> None:
    """Options of `replog topic describe`."""
    examples(
        parser,
        "replog topic describe events",
        "replog topic describe --bootstrap-server 127.0.0.1:9092 --format json",
    )
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help="default: all but internal ones")
    add_cluster(parser)
    add_format(parser)


def describe(arguments: Arguments) -> int:
    """Print partitions, and each replica as its own broker describes it."""
    with connect(arguments) as client:
        found = topics(client, arguments.topics or None)
        if not arguments.topics:
            found = [view for view in found if not view.internal]
        add_eligible(client, found)
        add_replicas(client, found)
    if arguments.format == "json":
        print_json([described(view) for view in found])
    else:
        print("\n\n".join(_describe_text(view) for view in found))
    return OK


def described(view: TopicView) -> dict[str, Any]:
    """A topic in JSON, with partitions and replicas."""
    return summary(view) | {
        "partitions": [
            {
                "partition": p.index,
                "leader": p.leader,
                "leader_epoch": p.leader_epoch,
                "assigned_replicas": list(p.replicas),
                "in_sync_replicas": list(p.isr),
                "out_of_sync_replicas": list(p.osr),
                "eligible_leader_replicas": list(p.elr),
                "replicas": [asdict(replica) for replica in p.details],
            }
            for p in view.partitions
        ]
    }


def _describe_text(view: TopicView) -> str:
    head = (
        f"{view.name}  id {view.topic_id}  partitions {len(view.partitions)}  "
        f"replication {view.replication_factor}  min.insync.replicas {view.min_insync_replicas}"
    )
    partitions = columns(
        ("PARTITION", "LEADER", "EPOCH", "AR", "ISR", "OSR", "ELR"),
        [
            (
                p.index,
                p.leader if p.leader >= 0 else "none",
                p.leader_epoch,
                ids(p.replicas),
                ids(p.isr),
                ids(p.osr),
                ids(p.elr),
            )
            for p in view.partitions
        ],
    )
    replicas = columns(
        ("PARTITION", "BROKER", "ROLE", "START", "LEO", "HW", "EPOCH", "CAUGHT-UP"),
        [
            (
                p.index,
                replica.broker,
                replica.role,
                replica.log_start_offset,
                replica.log_end_offset,
                replica.high_watermark,
                replica.leader_epoch,
                _ago(replica.caught_up_ms_ago),
            )
            for p in view.partitions
            for replica in p.details
        ],
    )
    return f"{head}\n{partitions}\n\n{replicas}"


def _ago(ms: int | None) -> str | None:
    return None if ms is None or ms < 0 else f"{ms} ms ago"


def delete_options(parser: Parser) -> None:
    """Options of `replog topic delete`."""
    examples(parser, "replog topic delete events", "replog topic delete a b c")
    parser.add_argument("topics", nargs="+", metavar="TOPIC")
    add_cluster(parser)
    add_format(parser)


def delete(arguments: Arguments) -> int:
    """Delete topics with their records. Each is tried, also when one of them is not there."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in arguments.topics],
        topic_names=list(arguments.topics),
        timeout_ms=int(CALL_TIMEOUT_S * 1000),
    )
    with connect(arguments) as client:
        response = client.call(request)
    if not isinstance(response, DeleteTopicsResponse):
        raise Failure(f"the broker answered {type(response).__name__}")
    refused = {
        result.name or "?": explain(result.error_code, result.error_message)
        for result in response.responses
        if result.error_code
    }
    deleted = [name for name in arguments.topics if name not in refused]
    if arguments.format == "json":
        print_json({"deleted": deleted, "refused": refused})
    else:
        for name in deleted:
            print(f"deleted {name}")
    if refused:
        raise Failure("; ".join(f"{name!r} not deleted: {why}" for name, why in refused.items()))
    return OK
