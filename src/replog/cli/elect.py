"""`replog elect`: give leadership back to preferred leaders, or to anybody in an emergency."""

from replog.cli.cluster_view import explain
from replog.cli.errors import OK, Failure, UsageError
from replog.cli.options import Arguments, Parser, add_cluster, add_format, examples
from replog.cli.output import columns, print_json
from replog.cli.partition_names import by_topic, resolve
from replog.cli.target import CALL_TIMEOUT_S, connect
from replog.model.errors import ErrorCode
from replog.model.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)

PREFERRED = 0
UNCLEAN = 1


def elect_options(parser: Parser) -> None:
    """Options of `replog elect`."""
    examples(
        parser,
        "replog elect --all                 every partition back to its preferred leader",
        "replog elect events events2:3      all of one topic, one partition of another",
        "replog elect events:0 --unclean    no leader, and none in sync comes back: lose records",
    )
    parser.add_argument("partitions", nargs="*", metavar="TOPIC[:PARTITION]")
    parser.add_argument("--all", action="store_true", help="every partition of every topic")
    parser.add_argument(
        "--unclean",
        action="store_true",
        help="where nobody leads: let any live replica lead; committed records may be lost",
    )
    add_cluster(parser)
    add_format(parser)


def elect(arguments: Arguments) -> int:
    """Hold elections. Partitions that need none are told apart, and are no failure."""
    if arguments.all == bool(arguments.partitions):
        raise UsageError("name partitions, or take --all")
    with connect(arguments) as client:
        wanted = None
        if not arguments.all:
            wanted = [
                TopicPartitions(topic=topic, partitions=indexes)
                for topic, indexes in by_topic(resolve(client, arguments.partitions)).items()
            ]
        answer = client.call(
            ElectLeadersRequest(
                election_type=UNCLEAN if arguments.unclean else PREFERRED,
                topic_partitions=wanted,
                timeout_ms=int(CALL_TIMEOUT_S * 1000),
            )
        )
    if not isinstance(answer, ElectLeadersResponse):
        raise Failure(f"the broker answered {type(answer).__name__}")
    return _print(arguments, answer)


def _print(arguments: Arguments, answer: ElectLeadersResponse) -> int:
    if answer.error_code and not answer.replica_election_results:
        raise Failure(f"no election was held: {explain(answer.error_code)}")
    rows = []
    refused = 0
    for result in answer.replica_election_results:
        for partition in result.partition_result:
            code = partition.error_code
            outcome = "elected"
            if code == ErrorCode.ELECTION_NOT_NEEDED:
                outcome = "not needed"
            elif code:
                outcome = explain(code, partition.error_message)
                refused += 1
            rows.append((f"{result.topic}:{partition.partition_id}", outcome))
    if arguments.format == "json":
        print_json([{"partition": name, "outcome": outcome} for name, outcome in rows])
    elif rows:
        print(columns(("PARTITION", "OUTCOME"), rows))
    else:
        print("every partition is led as it should be")
    if refused:
        raise Failure(f"{refused} of {len(rows)} partitions could not elect")
    return OK
