"""`replog topic create`, with an assignment that can be chosen exactly."""

from replog.cli.cluster_view import explain, metadata
from replog.cli.errors import OK, Failure, UsageError
from replog.cli.options import (
    Arguments,
    Parser,
    add_cluster,
    add_format,
    examples,
    not_negative,
    partition_count,
    replica_count,
    settings,
)
from replog.cli.output import print_json
from replog.cli.target import CALL_TIMEOUT_S, connect
from replog.core.controller.placement import assign_replicas
from replog.model.errors import ErrorCode, Refused
from replog.model.ids import topic_id_text
from replog.model.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from replog.runtime.client import AdminClient

BROKER_DEFAULT = -1


def create_options(parser: Parser) -> None:
    """Options of `replog topic create`."""
    examples(
        parser,
        "replog topic create events --partitions 3 --replication-factor 3",
        "replog topic create audit --replication-factor 3 --config min.insync.replicas=2",
        "replog topic create walk --partitions 3 --replication-factor 3 --start-index 1 --shift 1",
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "--partitions",
        type=partition_count,
        metavar="N",
        help="default: num.partitions of the broker",
    )
    parser.add_argument(
        "--replication-factor",
        type=replica_count,
        metavar="N",
        help="default: default.replication.factor of the broker",
    )
    parser.add_argument(
        "--config", action="append", metavar="NAME=VALUE", help="topic configuration; repeatable"
    )
    parser.add_argument(
        "--start-index",
        type=not_negative,
        metavar="N",
        help="place the first replica of partition 0 on this broker in id order (default: random)",
    )
    parser.add_argument(
        "--shift",
        type=not_negative,
        metavar="N",
        help="distance from first to second replica, less one (default: random)",
    )
    parser.add_argument(
        "--if-not-exists", action="store_true", help="succeed when the topic is already there"
    )
    add_cluster(parser)
    add_format(parser)


def create(arguments: Arguments) -> int:
    """Create one topic, and say what it became."""
    if (arguments.start_index is None) != (arguments.shift is None):
        raise UsageError("--start-index and --shift go together")
    topic = CreatableTopic(
        name=arguments.topic,
        num_partitions=arguments.partitions or BROKER_DEFAULT,
        replication_factor=arguments.replication_factor or BROKER_DEFAULT,
        configs=[
            CreatableTopicConfig(name=name, value=value)
            for name, value in settings(arguments.config, "--config").items()
        ],
    )
    with connect(arguments) as client:
        if arguments.start_index is not None:
            if not arguments.partitions or not arguments.replication_factor:
                raise UsageError("--start-index needs --partitions and --replication-factor")
            assign(client, topic, start_index=arguments.start_index, shift=arguments.shift)
        result = create_topic(client, topic)
    if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and arguments.if_not_exists:
        return _print(arguments, result, created=False)
    if result.error_code:
        raise Failure(
            f"topic {arguments.topic!r} not created: "
            f"{explain(result.error_code, result.error_message)}"
        )
    return _print(arguments, result, created=True)


def assign(client: AdminClient, topic: CreatableTopic, *, start_index: int, shift: int) -> None:
    """Turn partitions and replication factor of `topic` into an explicit assignment.

    Raises Failure when there are too few live brokers.
    """
    brokers = {broker.node_id: broker.rack for broker in metadata(client, []).brokers}
    placed = assign_replicas(
        brokers,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        start_index=start_index,
        shift=shift,
    )
    if isinstance(placed, Refused):
        raise Failure(f"topic {topic.name!r} not created: {explain(placed.error, placed.message)}")
    topic.assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
        for index, replicas in enumerate(placed)
    ]
    topic.num_partitions = topic.replication_factor = BROKER_DEFAULT


def create_topic(client: AdminClient, topic: CreatableTopic) -> CreatableTopicResult:
    """Ask for one topic; the result may hold an error code."""
    response = client.call(
        CreateTopicsRequest(topics=[topic], timeout_ms=int(CALL_TIMEOUT_S * 1000))
    )
    if not isinstance(response, CreateTopicsResponse) or len(response.topics) != 1:
        raise Failure(f"the broker answered {type(response).__name__} to a creation")
    return response.topics[0]


def _print(arguments: Arguments, result: CreatableTopicResult, *, created: bool) -> int:
    if arguments.format == "json":
        print_json(
            {
                "name": result.name,
                "created": created,
                "topic_id": topic_id_text(result.topic_id) if created else None,
                "partitions": result.num_partitions if created else None,
                "replication_factor": result.replication_factor if created else None,
            }
        )
    elif created:
        print(
            f"created {result.name}: partitions {result.num_partitions}, "
            f"replication {result.replication_factor}, id {topic_id_text(result.topic_id)}"
        )
    else:
        print(f"{result.name} is already there")
    return OK
