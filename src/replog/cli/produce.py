"""`replog produce`: each line of stdin becomes a record, acknowledged before the command ends."""

import json
import sys
import time
from typing import Any

from replog.cli.cluster_view import explain, metadata
from replog.cli.errors import FAILED, OK, Failure
from replog.cli.options import (
    Arguments,
    Parser,
    add_cluster,
    add_format,
    examples,
    partition_number,
)
from replog.cli.target import bootstrap_servers, connect
from replog.cli.traffic import client_library
from replog.model.config_resources import ResourceType
from replog.model.errors import ErrorCode
from replog.model.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

ERRORS_SHOWN_MAX = 5
RECORD_BYTES_MAX = 1_000_000_000  # that librdkafka can be told
BATCH_BYTES = 1_000_000  # its default
FINISH_S = 120  # for the last answers
SILENCE_S = 5  # without an answer: then it is said


def produce_options(parser: Parser) -> None:
    """Options of `replog produce`."""
    examples(
        parser,
        "echo hello | replog produce events",
        "replog produce events --key-separator : < pairs.txt",
        "seq 1000 | replog produce events --compression zstd --partition 0",
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "--key-separator",
        metavar="TEXT",
        help="what stands between key and value in a line (default: lines have no key)",
    )
    parser.add_argument(
        "--partition",
        type=partition_number,
        metavar="N",
        help="write to this partition (default: by key, or spread)",
    )
    parser.add_argument("--acks", choices=("all", "1", "0"), default="all", help="default: all")
    parser.add_argument(
        "--compression", choices=("none", "gzip", "snappy", "lz4", "zstd"), default="none"
    )
    add_cluster(parser)
    add_format(parser)


def produce(arguments: Arguments) -> int:
    """Write stdin to the topic; 1 when any record was refused."""
    library = client_library()
    require_partition(arguments, require_topic(arguments))
    largest = _largest_batch(arguments)
    client = library.Producer(
        {
            "bootstrap.servers": bootstrap_servers(arguments),
            "acks": arguments.acks,
            "enable.idempotence": arguments.acks == "all",
            "compression.type": arguments.compression,
            "linger.ms": 5,
            # The topic decides what is too large, and a batch has to fit as well as a record.
            "message.max.bytes": RECORD_BYTES_MAX,
            "batch.size": min(BATCH_BYTES, largest),
            "log_level": 0,
            "error_cb": lambda error: None,
        }
    )
    outcome = _Outcome()
    partition = {} if arguments.partition is None else {"partition": arguments.partition}
    separator = arguments.key_separator.encode() if arguments.key_separator else None
    for line in sys.stdin.buffer:
        key, value = _split(line.rstrip(b"\r\n"), separator)
        while True:
            try:
                client.produce(
                    arguments.topic, value, key=key, on_delivery=outcome.answered, **partition
                )
                break
            except BufferError:
                client.poll(0.1)
                outcome.say_if_silent(len(client))
            except library.KafkaException as error:
                outcome.answered(error.args[0], None)
                break
        client.poll(0)
    outcome.unanswered = _finish(client, outcome)
    return outcome.report(arguments)


def _finish(client: Any, outcome: "_Outcome") -> int:
    """How many records are not answered when time is up."""
    until = time.monotonic() + FINISH_S
    while (unanswered := client.flush(1)) and time.monotonic() < until:
        outcome.say_if_silent(unanswered)
    return int(unanswered)


def require_topic(arguments: Arguments) -> list[int]:
    """The partitions of the topic that is meant. Raises Failure when there is none.

    Asked with a client of our own: librdkafka's question would create the topic.
    """
    name = arguments.topic
    with connect(arguments) as client:
        (found,) = metadata(client, [name]).topics
    if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise Failure(f"there is no topic {name!r}: make it with 'replog topic create {name}'")
    unfit = found.error_code != ErrorCode.LEADER_NOT_AVAILABLE or not found.partitions
    if found.error_code and unfit:
        raise Failure(f"topic {name!r}: {explain(found.error_code)}")
    return sorted(partition.partition_index for partition in found.partitions)


def require_partition(arguments: Arguments, partitions: list[int]) -> None:
    """Raises Failure when a partition is named that is not among these."""
    if arguments.partition is not None and arguments.partition not in partitions:
        raise Failure(
            f"topic {arguments.topic!r} has no partition {arguments.partition} "
            f"(it has {len(partitions)})"
        )


def _largest_batch(arguments: Arguments) -> int:
    """`max.message.bytes` of the topic."""
    message = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=ResourceType.TOPIC,
                resource_name=arguments.topic,
                configuration_keys=["max.message.bytes"],
            )
        ]
    )
    with connect(arguments) as client:
        answer = client.call(message)
    if isinstance(answer, DescribeConfigsResponse):
        for config in (config for result in answer.results for config in result.configs):
            return max(1, int(config.value or BATCH_BYTES))
    return BATCH_BYTES


def _split(line: bytes, separator: bytes | None) -> tuple[bytes | None, bytes]:
    if separator is None or separator not in line:
        return None, line
    key, _, value = line.partition(separator)
    return key, value


class _Outcome:
    def __init__(self) -> None:
        self.acknowledged = 0
        self.unanswered = 0
        self.errors: dict[str, int] = {}
        self._answered_at = time.monotonic()
        self._said = False

    def answered(self, error: Any, message: Any) -> None:
        self._answered_at = time.monotonic()
        if error is None:
            self.acknowledged += 1
        else:
            self.errors[error.str()] = self.errors.get(error.str(), 0) + 1

    def say_if_silent(self, unanswered: int) -> None:
        """Nobody should wait without knowing what for: the client tries again by itself."""
        if not self._said and time.monotonic() - self._answered_at >= SILENCE_S:
            self._said = True
            print(
                f"replog produce: no answer for {SILENCE_S} s ({unanswered} records wait), trying "
                f"on; 'replog status' may show why",
                file=sys.stderr,
                flush=True,
            )

    def report(self, arguments: Arguments) -> int:
        refused = sum(self.errors.values())
        if arguments.format == "json":
            print(
                json.dumps(
                    {
                        "acknowledged": self.acknowledged,
                        "refused": refused,
                        "unanswered": self.unanswered,
                    }
                )
            )
        for text, count in list(self.errors.items())[:ERRORS_SHOWN_MAX]:
            print(f"replog produce: {count} records refused: {text}", file=sys.stderr)
        if self.unanswered:
            print(f"replog produce: {self.unanswered} records were not answered", file=sys.stderr)
        return FAILED if refused or self.unanswered else OK
