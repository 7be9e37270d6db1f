"""`replog config get | set`: settings of topics, brokers and groups while they are in use."""

from typing import Any

from replog.cli.alterations import add_alterations, alter, alterations
from replog.cli.cluster_view import explain
from replog.cli.errors import OK, Failure, UsageError
from replog.cli.options import (
    Arguments,
    Parser,
    add_cluster,
    add_format,
    examples,
    not_negative,
)
from replog.cli.output import columns, print_json
from replog.cli.target import connect
from replog.model.config_entries import ConfigSource
from replog.model.config_resources import ResourceType
from replog.model.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from replog.runtime.client import AdminClient

SOURCES = {
    ConfigSource.TOPIC: "topic",
    ConfigSource.DYNAMIC_BROKER: "broker, dynamic",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "all brokers, dynamic",
    ConfigSource.STATIC_BROKER: "broker's file",
    ConfigSource.DEFAULT: "default",
    ConfigSource.CLIENT_METRICS: "subscription",
    ConfigSource.GROUP: "group",
}


def _add_resource(parser: Parser) -> None:
    resource = parser.add_mutually_exclusive_group(required=True)
    resource.add_argument("--topic", metavar="TOPIC")
    resource.add_argument("--broker", type=not_negative, metavar="ID")
    resource.add_argument(
        "--all-brokers", action="store_true", help="what was set for all while they run"
    )
    resource.add_argument("--group", metavar="GROUP")
    resource.add_argument("--client-metrics", metavar="SUBSCRIPTION")


def _resource(arguments: Arguments) -> tuple[ResourceType, str]:
    if arguments.topic is not None:
        return ResourceType.TOPIC, arguments.topic
    if arguments.group is not None:
        return ResourceType.GROUP, arguments.group
    if arguments.client_metrics is not None:
        return ResourceType.CLIENT_METRICS, arguments.client_metrics
    return ResourceType.BROKER, "" if arguments.all_brokers else str(arguments.broker)


def get_options(parser: Parser) -> None:
    """Options of `replog config get`."""
    examples(
        parser,
        "replog config get --topic events                       what differs from the defaults",
        "replog config get --topic events --all                 everything",
        "replog config get --broker 1 log.retention.ms          one value, and where it comes from",
        "replog config get --all-brokers --format json",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: what is set somewhere")
    _add_resource(parser)
    parser.add_argument("--all", action="store_true", help="defaults too")
    add_cluster(parser)
    add_format(parser)


def get(arguments: Arguments) -> int:
    """Print settings, their values and sources; of names that are given, all sources."""
    kind, name = _resource(arguments)
    with connect(arguments) as client:
        found = describe(client, kind, name, arguments.names)
    unknown = [n for n in arguments.names if n not in {config.name for config in found}]
    if not arguments.names and not arguments.all:
        found = [config for config in found if config.config_source != ConfigSource.DEFAULT]
    found.sort(key=lambda config: config.name)
    if arguments.format == "json":
        print_json([_as_json(config) for config in found])
    else:
        rows = [
            (config.name, _value(config.value), _source(config.config_source), _beside(config))
            for config in found
        ]
        print(columns(("NAME", "VALUE", "SOURCE", "INSTEAD OF"), rows))
    if unknown:
        raise Failure(f"nothing is set, and nothing falls back, for {', '.join(unknown)}")
    return OK


def describe(
    client: AdminClient, kind: ResourceType, name: str, keys: list[str]
) -> list[DescribeConfigsResourceResult]:
    """Configurations of one resource; a broker's are asked of that broker. Raises Failure."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=keys or None
            )
        ],
        include_synonyms=True,
    )
    broker = int(name) if kind is ResourceType.BROKER and name else None
    answer = client.call(request, broker=broker)
    if not isinstance(answer, DescribeConfigsResponse) or len(answer.results) != 1:
        raise Failure(f"the broker answered {type(answer).__name__}")
    (result,) = answer.results
    if result.error_code:
        what = f"{kind.name.lower().replace('_', ' ')} {name!r}" if name else "the default"
        raise Failure(f"{what}: {explain(result.error_code, result.error_message)}")
    return result.configs


def _value(value: str | None) -> str | None:
    return '""' if value == "" else value


def _source(number: int) -> str:
    try:
        return SOURCES[ConfigSource(number)]
    except (KeyError, ValueError):
        return f"source {number}"


def _beside(config: DescribeConfigsResourceResult) -> str:
    """What the value goes before: the places after the first."""
    return ", ".join(
        f"{_value(s.value)} ({s.name if s.source == ConfigSource.DEFAULT else _source(s.source)})"
        for s in config.synonyms[1:]
    )


def _as_json(config: DescribeConfigsResourceResult) -> dict[str, Any]:
    return {
        "name": config.name,
        "value": config.value,
        "source": _source(config.config_source),
        "read_only": config.read_only,
        "sensitive": config.is_sensitive,
        "synonyms": [
            {"name": s.name, "value": s.value, "source": _source(s.source)} for s in config.synonyms
        ],
    }


def alter_settings_options(parser: Parser) -> None:
    """Options of `replog config set`."""
    examples(
        parser,
        "replog config set --topic events retention.ms=86400000 segment.bytes=67108864",
        "replog config set --topic events --append cleanup.policy=compact --unset segment.bytes",
        "replog config set --all-brokers log.retention.ms=86400000 --dry-run",
        "replog config set --broker 2 max.connections=100",
    )
    parser.add_argument("settings", nargs="*", metavar="NAME=VALUE")
    _add_resource(parser)
    add_alterations(parser)
    add_cluster(parser)
    add_format(parser)


def alter_settings(arguments: Arguments) -> int:
    """Alter settings; what is not named stays. Takes effect at once."""
    kind, name = _resource(arguments)
    wanted = alterations(arguments, arguments.settings, "config set")
    if not wanted:
        raise UsageError("nothing to do: name settings as NAME=VALUE, or --unset NAME")
    with connect(arguments) as client:
        alter(client, kind, name, wanted, dry_run=arguments.dry_run)
    if arguments.format == "json":
        print_json({"changed": not arguments.dry_run, "names": [c.name for c in wanted]})
    else:
        names = ", ".join(config.name for config in wanted)
        print(f"{'can be changed' if arguments.dry_run else 'changed'}: {names}")
    return OK
