"""Options that several commands share, and the examples at the end of each `--help`."""

import argparse
import threading
from collections.abc import Callable

INT16_MAX, INT32_MAX, INT64_MAX = 2**15 - 1, 2**31 - 1, 2**63 - 1

Arguments = argparse.Namespace
Parser = argparse.ArgumentParser


def examples(parser: Parser, *lines: str) -> None:
    """Show `lines` under "Examples" at the end of the help text."""
    parser.epilog = "Examples:\n" + "\n".join(f"  {line}" for line in lines)


def add_format(parser: Parser) -> None:
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="how results are printed (default: text)",
    )


def add_data(parser: Parser) -> None:
    parser.add_argument(
        "--data",
        type=something,
        metavar="DIR",
        help="the cluster's data folder (default: that of the last 'replog up')",
    )


def add_bootstrap(parser: Parser) -> None:
    parser.add_argument(
        "--bootstrap-server",
        type=something,
        metavar="HOST:PORT[,...]",
        help="any broker of the cluster (default: the brokers of the last 'replog up')",
    )


def add_cluster(parser: Parser) -> None:
    """Either way of naming a cluster is enough."""
    add_bootstrap(parser)
    add_data(parser)


def _whole(low: int, high: int) -> Callable[[str], int]:
    """What reads a whole number between these, as the protocol has it."""

    def number(text: str) -> int:  # argparse shows the name: "invalid number value: 'x'"
        found = int(text)
        if found < low:
            raise argparse.ArgumentTypeError(f"{text} is not a number from {low} on")
        if found > high:
            raise argparse.ArgumentTypeError(f"{text} is too large: {high} is the limit")
        return found

    return number


positive = _whole(1, INT64_MAX)
not_negative = _whole(0, INT64_MAX)
difference = _whole(-INT64_MAX, INT64_MAX)
partition_count = _whole(1, INT32_MAX)
partition_number = _whole(0, INT32_MAX)
replica_count = _whole(1, INT16_MAX)


def port(text: str) -> int:
    """A TCP port, 1 to 65535."""
    number = int(text)
    if not 1 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is not a port (1 to 65535)")
    return number


def seconds(text: str) -> float:
    """How long to wait between two looks."""
    number = float(text)
    if not 0 < number <= threading.TIMEOUT_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds, more than 0")
    return number


def something(text: str) -> str:
    """Not the empty string: `--data "$FOLDER"` must not mean another cluster when that is unset."""
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty")
    return text


def add_coordinator(parser: Parser) -> None:
    """`--coordinator`: where the brokers of a new cluster meet."""
    parser.add_argument(
        "--coordinator",
        metavar="ADDRESS",
        help="zk://HOST:PORT,HOST:PORT/CHROOT: a ZooKeeper ensemble "
        "(default: a database in the data folder)",
    )


def settings(pairs: list[str] | None, option: str) -> dict[str, str]:
    """`NAME=VALUE` pairs as a mapping. Raises UsageError for what is none, or given twice."""
    from replog.cli.errors import UsageError

    result: dict[str, str] = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{option} takes NAME=VALUE, not {pair!r}")
        if result.setdefault(name.strip(), value.strip()) != value.strip():
            raise UsageError(f"{option} gives {name.strip()} twice, with different values")
    return result
