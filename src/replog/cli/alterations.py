"""Altering configurations from a command line: what `config set` and `topic alter` share."""

from replog.cli.cluster_view import explain
from replog.cli.errors import Failure, UsageError
from replog.cli.options import Arguments, Parser, settings
from replog.core.config_changes import AlterOp
from replog.model.config_resources import ResourceType
from replog.model.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from replog.runtime.client import AdminClient


def add_alterations(parser: Parser) -> None:
    """Options that say what is to be altered, besides plain `NAME=VALUE`."""
    parser.add_argument(
        "--unset",
        action="append",
        metavar="NAME",
        help="back to what it falls back to; repeatable",
    )
    parser.add_argument(
        "--append", action="append", metavar="NAME=ITEM[,...]", help="add items to a list"
    )
    parser.add_argument(
        "--subtract", action="append", metavar="NAME=ITEM[,...]", help="take items out of a list"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say whether it would work")


def alterations(arguments: Arguments, pairs: list[str], option: str) -> list[AlterableConfig]:
    """What the command line asks for. Raises UsageError when a name comes twice."""
    found = [
        AlterableConfig(name=name, config_operation=op, value=value)
        for op, values in (
            (AlterOp.SET, settings(pairs, option)),
            (AlterOp.APPEND, settings(arguments.append, "--append")),
            (AlterOp.SUBTRACT, settings(arguments.subtract, "--subtract")),
        )
        for name, value in values.items()
    ]
    found += [
        AlterableConfig(name=name, config_operation=AlterOp.DELETE, value=None)
        for name in arguments.unset or []
    ]
    names = [config.name for config in found]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{name} comes more than once")
    return found


def alter(
    client: AdminClient,
    kind: ResourceType,
    name: str,
    configs: list[AlterableConfig],
    *,
    dry_run: bool,
) -> None:
    """Alter settings of one resource; a broker's at that broker. Raises Failure."""
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)],
        validate_only=dry_run,
    )
    broker = int(name) if kind is ResourceType.BROKER and name else None
    answer = client.call(request, broker=broker)
    if not isinstance(answer, IncrementalAlterConfigsResponse) or len(answer.responses) != 1:
        raise Failure(f"the broker answered {type(answer).__name__}")
    (result,) = answer.responses
    if result.error_code:
        raise Failure(f"nothing is changed: {explain(result.error_code, result.error_message)}")
