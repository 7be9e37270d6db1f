"""`replog consume`: records of a topic, one a line, to stdout."""

import base64
import json
import re
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from replog.cli.errors import OK, Failure, UsageError
from replog.cli.options import (
    Arguments,
    Parser,
    add_cluster,
    add_format,
    examples,
    partition_number,
    positive,
)
from replog.cli.produce import require_partition, require_topic
from replog.cli.target import CALL_TIMEOUT_S, bootstrap_servers
from replog.cli.traffic import client_library, log_end

TEMPLATE_HELP = (
    "%%t topic, %%p partition, %%o offset, %%T timestamp, %%k key, %%v value, %%%% percent"
)


def consume_options(parser: Parser) -> None:
    """Options of `replog consume`."""
    examples(
        parser,
        "replog consume events                      all records, then wait for more",
        "replog consume events -e --print '%p:%o %k=%v'",
        "replog consume events -o end --format json",
        "replog consume events --group readers      go on where the group stopped",
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "-o",
        "--offset",
        default="beginning",
        metavar="beginning|end|N",
        help="where to begin (default: beginning; with --group, only when it has no position yet)",
    )
    parser.add_argument(
        "-p", "--partition", type=partition_number, metavar="N", help="only this one"
    )
    parser.add_argument("-e", "--exit", action="store_true", help="exit at the end of the topic")
    parser.add_argument("-c", "--count", type=positive, metavar="N", help="exit after N records")
    parser.add_argument("-g", "--group", metavar="NAME", help="consume in this group, and commit")
    parser.add_argument("--print", dest="template", metavar="FORMAT", help=TEMPLATE_HELP)
    add_cluster(parser)
    add_format(parser)


def consume(arguments: Arguments) -> int:
    """Print records until the end that was asked for, or Ctrl-C."""
    if arguments.group and arguments.partition is not None:
        raise UsageError("--group shares out partitions by itself: leave --partition away")
    if arguments.group and arguments.offset.isdigit():
        raise UsageError("--group goes on where it stopped: --offset is beginning or end there")
    library = client_library()
    begin = _begin(library, arguments.offset)
    partitions = require_topic(arguments)
    if arguments.partition is not None:
        require_partition(arguments, partitions)
        partitions = [arguments.partition]
    client = library.Consumer(
        {
            "bootstrap.servers": bootstrap_servers(arguments),
            "group.id": arguments.group or "replog-consume",
            "enable.auto.commit": bool(arguments.group),
            "auto.offset.reset": "latest" if arguments.offset == "end" else "earliest",
            "enable.partition.eof": True,
            "allow.auto.create.topics": False,
            "log_level": 0,
            "error_cb": lambda error: None,
        }
    )
    unfinished = set(partitions)
    if arguments.group:
        client.subscribe(
            [arguments.topic],
            on_assign=lambda _, mine: _replace(unfinished, {place.partition for place in mine}),
        )
    else:
        client.assign(_places(library, client, arguments.topic, partitions, begin))
    # Whoever is asked to end leaves the group first: it would wait for us for a session's time.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _print_records(library, client, arguments, unfinished)
    except KeyboardInterrupt:
        pass  # the usual way to end: what was read stays read, and the group is left below
    finally:
        client.close()
    return OK


def _replace(members: set[int], new: set[int]) -> None:
    members.clear()
    members.update(new)


def _begin(library: Any, offset: str) -> int:
    named = {"beginning": library.OFFSET_BEGINNING, "end": library.OFFSET_END}
    if offset in named:
        return int(named[offset])
    if not offset.isdigit():
        raise UsageError(f"--offset is beginning, end or a number, not {offset!r}")
    return int(offset)


def _places(
    library: Any, client: Any, topic: str, partitions: Sequence[int], begin: int
) -> list[Any]:
    """Where to begin. An offset that is not there yet is no reason to begin at the beginning."""
    places = [library.TopicPartition(topic, partition, begin) for partition in partitions]
    if begin > 0:
        for place in places:
            try:
                end = log_end(client, place, CALL_TIMEOUT_S)
            except library.KafkaException as error:
                raise Failure(f"partition {place.partition} of {topic!r}: {error}") from error
            place.offset = min(begin, end)
    return places


def _print_records(library: Any, client: Any, arguments: Arguments, unfinished: set[int]) -> None:
    render = _renderer(arguments)
    left = arguments.count
    while left is None or left > 0:
        batch = client.consume(1_000 if left is None else min(left, 1_000), timeout=0.2)
        for message in batch:
            error = message.error()
            if error is None:
                unfinished.add(message.partition())
                sys.stdout.buffer.write(render(message) + b"\n")
                left = None if left is None else left - 1
            elif error.code() == library.KafkaError._PARTITION_EOF:
                unfinished.discard(message.partition())
            else:
                raise Failure(f"reading {arguments.topic!r}: {error.str()}")
        sys.stdout.buffer.flush()
        if arguments.exit and not unfinished:
            return


def _renderer(arguments: Arguments) -> Callable[[Any], bytes]:
    if arguments.template is not None:
        template = arguments.template
        return lambda message: fill(template, message)
    if arguments.format == "json":
        return lambda message: json.dumps(as_json(message)).encode()
    return lambda message: message.value() or b""


def fill(template: str, message: Any) -> bytes:
    """`template` with what `message` holds. Raises UsageError for an unknown letter."""
    return re.sub(rb"%(.?)", lambda found: _placeholder(found[1], message), template.encode())


def _placeholder(letter: bytes, message: Any) -> bytes:
    match letter:
        case b"t":
            return str(message.topic()).encode()
        case b"p":
            return str(message.partition()).encode()
        case b"o":
            return str(message.offset()).encode()
        case b"T":
            return str(message.timestamp()[1]).encode()
        case b"k":
            return bytes(message.key() or b"")
        case b"v":
            return bytes(message.value() or b"")
        case b"%":
            return b"%"
    known = TEMPLATE_HELP.replace("%%", "%")
    raise UsageError(f"--print does not know %{letter.decode(errors='replace')}: {known}")


def as_json(message: Any) -> dict[str, object]:
    """One record; bytes that are no UTF-8 come as base64 under `key_base64`, `value_base64`."""
    record: dict[str, object] = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": message.timestamp()[1],
    }
    for name, data in (("key", message.key()), ("value", message.value())):
        try:
            record[name] = None if data is None else data.decode()
        except UnicodeDecodeError:
            record[f"{name}_base64"] = base64.b64encode(data).decode()
    headers = message.headers()
    if headers:
        record["headers"] = [
            [name, None if data is None else data.decode(errors="replace")]
            for name, data in headers
        ]
    return record
