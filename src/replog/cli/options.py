"""Options that several commands share, and the examples at the end of each `--help`."""

import argparse

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
        metavar="DIR",
        help="the cluster's data folder (default: that of the last 'replog up')",
    )


def add_bootstrap(parser: Parser) -> None:
    parser.add_argument(
        "--bootstrap-server",
        metavar="HOST:PORT[,...]",
        help="any broker of the cluster (default: the brokers of the last 'replog up')",
    )


def add_cluster(parser: Parser) -> None:
    """Either way of naming a cluster is enough."""
    add_bootstrap(parser)
    add_data(parser)


def positive(text: str) -> int:
    """A whole number from 1 on."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 on")
    return number


def not_negative(text: str) -> int:
    """A whole number from 0 on."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0 on")
    return number


def port(text: str) -> int:
    """A TCP port, 1 to 65535."""
    number = int(text)
    if not 1 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is not a port (1 to 65535)")
    return number


# argparse names the type in its message: "invalid ... value: 'x'"
positive.__name__ = not_negative.__name__ = "number"
port.__name__ = "port"


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
