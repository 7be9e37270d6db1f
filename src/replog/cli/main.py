"""The `replog` command: finds the command, parses its options, turns failures into exit codes.

Exit codes: 0 done, 1 failed, 2 the command line is wrong. Data goes to stdout, everything else to
stderr.
"""

import argparse
import difflib
import importlib
import io
import os
import sys
from typing import NoReturn

from replog.cli.commands import COMMANDS, GROUPS, Command, find
from replog.cli.errors import FAILED, OK, USAGE, Failure

WIDTH = max(len(command.name) for command in COMMANDS) + 2  # of the column with commands
TAGLINE = "Replog: a partitioned, replicated commit log that speaks the Kafka wire protocol."
START = """\
Start here:
  replog up --detach          three brokers on this machine, on ports 9092 to 9094
  replog topic create events --partitions 3 --replication-factor 3
  replog demo failover        kill leaders and watch that nothing is lost

'replog COMMAND --help' explains a command, with examples."""


class Parser(argparse.ArgumentParser):
    """Answers a wrong command line with one line that helps, not with a page of usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message}. Try '{self.prog} --help'.\n")

    def read(self, words: list[str]) -> argparse.Namespace:
        """What `words` say; an option that there is not names the one that is nearest."""
        arguments, unknown = self.parse_known_args(words)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._meant(unknown)}")
        return arguments

    def _meant(self, unknown: list[str]) -> str:
        for word in unknown:
            name = word.partition("=")[0]
            close = difflib.get_close_matches(name, self._option_string_actions, n=1)
            if name.startswith("--") and close:
                return f" (did you mean {close[0]}?)"
        return ""


def main(words: list[str] | None = None) -> NoReturn:
    """Run the command line and end the process with its exit code."""
    _open_what_is_closed()
    try:
        code = run(sys.argv[1:] if words is None else words)
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
        code = OK
    except KeyboardInterrupt:  # while modules are loaded, or output is written
        code = FAILED
    except OSError as error:
        print(f"replog: can't write: {error.strerror}", file=sys.stderr)
        _forget_stdout()
        code = FAILED
    sys.exit(code)


def run(words: list[str]) -> int:
    """Run one command line; returns the exit code.

    Raises SystemExit for `--help` and for options that the command does not take.
    """
    found = find(words)
    if found is None:
        return _without_command(words)
    command, rest = found
    module = importlib.import_module(command.module)
    parser = Parser(
        prog=f"replog {command.name}",
        description=f"{command.summary[0].upper()}{command.summary[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    getattr(module, f"{command.function}_options")(parser)
    arguments = parser.read(rest)
    try:
        code = getattr(module, command.function)(arguments)
    except Failure as failure:
        print(f"replog {command.name}: {failure}", file=sys.stderr)
        return failure.exit_code
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"replog {command.name}: {_said(error)}", file=sys.stderr)
        _forget_stdout()
        return FAILED
    except KeyboardInterrupt:
        print(f"replog {command.name}: interrupted", file=sys.stderr)
        return FAILED
    return int(code)


def _said(error: OSError) -> str:
    named = f"{error.filename}: " if error.filename else ""
    return f"{named}{error.strerror or error}"


def _open_what_is_closed() -> None:
    """Stand in for standard streams that whoever started us has closed, and let no name of a topic
    or a group end a command because the terminal can't show it."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            while os.open(os.devnull, os.O_RDWR) < number:
                pass  # the lowest number that is free comes first
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _forget_stdout() -> None:
    # Nobody takes our output, or nobody wants more (`| head`). Flushing at exit must not complain.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _without_command(words: list[str]) -> int:
    if words and words[0] == "--version":
        from replog.version import __version__

        print(f"replog {__version__}")
        return OK
    if not words or words[0] in ("--help", "-h", "help"):
        print(_help())
        return OK if words else USAGE
    group = words[0]
    if group in GROUPS and (len(words) == 1 or words[1] in ("--help", "-h")):
        print(_group_help(group))
        return OK if len(words) > 1 else USAGE
    print(f"replog: {_what_is_wrong(words)}. Try 'replog --help'.", file=sys.stderr)
    return USAGE


def _what_is_wrong(words: list[str]) -> str:
    if words[0].startswith("-"):
        return f"unknown option {words[0]}"
    names = [command.name for command in COMMANDS]
    close = (
        difflib.get_close_matches(" ".join(words[:2]), names, n=1)
        or difflib.get_close_matches(words[0], names, n=1)
        or [name for name in names if name.endswith(f" {words[0]}")]
    )
    asked = " ".join(words[:2]) if words[0] in GROUPS else words[0]
    hint = f" (did you mean 'replog {close[0]}'?)" if close else ""
    return f"there is no command '{asked}'{hint}"


def _lines(commands: list[Command], cut: int) -> str:
    return "\n".join(f"  {' '.join(c.path[cut:]):<{WIDTH}}{c.summary}" for c in commands)


def _help() -> str:
    return (
        f"Usage: replog COMMAND [OPTIONS]\n\n{TAGLINE}\n\n"
        f"Commands:\n{_lines(list(COMMANDS), 0)}\n\n"
        f"  {'--version':<{WIDTH}}print the version\n\n{START}"
    )


def _group_help(group: str) -> str:
    commands = [command for command in COMMANDS if command.path[0] == group]
    return (
        f"Usage: replog {group} COMMAND [OPTIONS]\n\n{GROUPS[group].capitalize()}\n\n"
        f"Commands:\n{_lines(commands, 1)}\n\n"
        f"'replog {group} COMMAND --help' explains a command, with examples."
    )
