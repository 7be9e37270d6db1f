"""`replog topic alter`: more partitions, and other settings."""

from replog.cli.alterations import add_alterations, alter, alterations
from replog.cli.cluster_view import explain
from replog.cli.errors import OK, Failure, UsageError
from replog.cli.options import Arguments, Parser, add_cluster, add_format, examples, partition_count
from replog.cli.output import print_json
from replog.cli.target import CALL_TIMEOUT_S, connect
from replog.model.config_resources import ResourceType
from replog.model.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from replog.runtime.client import AdminClient


def alter_topic_options(parser: Parser) -> None:
    """Options of `replog topic alter`."""
    examples(
        parser,
        "replog topic alter events --partitions 6",
        "replog topic alter events --config retention.ms=86400000 --unset segment.bytes",
        "replog topic alter events --append cleanup.policy=compact --dry-run",
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "--partitions",
        type=partition_count,
        metavar="N",
        help="how many it has then; never fewer. Keys go to other partitions from then on",
    )
    parser.add_argument(
        "--config", action="append", metavar="NAME=VALUE", help="set a configuration; repeatable"
    )
    add_alterations(parser)
    add_cluster(parser)
    add_format(parser)


def alter_topic(arguments: Arguments) -> int:
    """Settings first, then partitions; what is refused leaves the rest as it was."""
    wanted = alterations(arguments, arguments.config, "--config")
    if not wanted and arguments.partitions is None:
        raise UsageError("nothing to do: take --partitions, --config, --unset, ...")
    topic, dry_run = arguments.topic, arguments.dry_run
    with connect(arguments) as client:
        if arguments.partitions is not None:
            _grow(client, topic, arguments.partitions, dry_run=True)
        if wanted:
            alter(client, ResourceType.TOPIC, topic, wanted, dry_run=dry_run)
        if arguments.partitions is not None and not dry_run:
            _grow(client, topic, arguments.partitions, dry_run=False)
    if arguments.format == "json":
        print_json(
            {
                "topic": topic,
                "changed": not dry_run,
                "names": [config.name for config in wanted],
                "partitions": arguments.partitions,
            }
        )
        return OK
    changes = [config.name for config in wanted]
    if arguments.partitions is not None:
        changes.append(f"partitions {arguments.partitions}")
    print(f"{topic}: {'can be changed' if dry_run else 'changed'}: {', '.join(changes)}")
    return OK


def _grow(client: AdminClient, topic: str, count: int, *, dry_run: bool) -> None:
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=topic, count=count, assignments=None)],
        timeout_ms=int(CALL_TIMEOUT_S * 1000),
        validate_only=dry_run,
    )
    answer = client.call(request)
    if not isinstance(answer, CreatePartitionsResponse) or len(answer.results) != 1:
        raise Failure(f"the broker answered {type(answer).__name__}")
    (result,) = answer.results
    if result.error_code:
        raise Failure(f"no new partitions: {explain(result.error_code, result.error_message)}")
