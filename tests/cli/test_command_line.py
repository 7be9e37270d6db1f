"""What every command has in common: help, exit codes, one-line errors, quick start."""

import subprocess
import sys
from pathlib import Path

import pytest

from replog.cli.commands import COMMANDS, GROUPS
from replog.cli.main import run
from replog.cli.output import columns, ids
from replog.cli.partition_names import in_ranges
from replog.model.ids import TopicPartition
from replog.version import __version__


def replog(*words: str, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(home or "/nonexistent")}
    return subprocess.run(
        [sys.executable, "-m", "replog", *words],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
    )


def test_help_lists_every_command() -> None:
    done = replog("--help")
    assert done.returncode == 0 and not done.stderr
    for command in COMMANDS:
        assert f"  {command.name}  " in done.stdout


def test_the_version_is_printed() -> None:
    done = replog("--version")
    assert (done.returncode, done.stdout) == (0, f"replog {__version__}\n")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_each_command_has_help_with_an_example(
    command: object, capsys: pytest.CaptureFixture[str]
) -> None:
    path = command.path  # type: ignore[attr-defined]  # parametrized with Command
    with pytest.raises(SystemExit) as ended:
        run([*path, "--help"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert "Examples:" in shown and f"replog {' '.join(path)}" in shown


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_lists_its_commands(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([group, "--help"]) == 0
    shown = capsys.readouterr().out
    for command in COMMANDS:
        if command.path[0] == group:
            assert command.summary in shown


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["statsu"], "replog status"),
        (["broker", "strt"], "replog broker start"),
        (["create"], "replog topic create"),
        (["--verson"], "unknown option --verson"),
        (["nonsense"], "Try 'replog --help'"),
    ],
)
def test_a_wrong_command_is_one_helpful_line(
    words: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    shown = capsys.readouterr()
    assert not shown.out
    assert hint in shown.err and shown.err.count("\n") == 1


def test_a_wrong_option_is_one_helpful_line() -> None:
    done = replog("topic", "create", "events", "--partitions", "none")
    assert done.returncode == 2 and not done.stdout
    assert "--partitions" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("topic", "create", "t", "--partition", "3"), "--partitions"),
        (("up", "--brokerz=5"), "--brokers"),
        (("consume", "t", "-x"), "unrecognized arguments: -x. Try"),
    ],
)
def test_an_option_that_is_not_there_names_the_nearest(words: tuple[str, ...], hint: str) -> None:
    done = replog(*words)
    assert done.returncode == 2 and not done.stdout
    assert hint in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("status", "--watch", "--interval", "nan"), "--interval"),
        (("group", "list", "--state", "stabel"), "Stable, Empty"),
        (("reassign", "status", "--interval", "0"), "--interval"),
        (("status", "--interval", "1e300"), "--interval"),
        (("topic", "create", "t", "--partitions", "99999999999"), "too large"),
        (("topic", "create", "t", "--replication-factor", "40000"), "too large"),
        (("topic", "alter", "t", "--partitions", "99999999999"), "too large"),
        (("produce", "t", "--partition", "99999999999"), "too large"),
        (("group", "reset", "g", "--topic", "t", "--to-offset", "9" * 30), "too large"),
        (("group", "reset", "g", "--topic", "t", "--shift-by", "9" * 30), "too large"),
        (("down", "--data", ""), "is empty"),
        (("status", "--bootstrap-server", " "), "is empty"),
        (("status", "--bootstrap-server", "localhost"), "is not HOST:PORT"),
        (("status", "--bootstrap-server", "localhost:99999"), "is not HOST:PORT"),
        (("up", "--detach", "--set", "log.dirs=/x"), "each broker has its own"),
    ],
)
def test_a_value_that_cannot_be_meant_is_a_wrong_command_line(
    words: tuple[str, ...], hint: str, tmp_path: Path
) -> None:
    done = replog(*words, home=tmp_path)
    assert done.returncode == 2 and not done.stdout
    assert hint in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error(closed: str) -> None:
    command = f"{sys.executable} -m replog --version {closed}"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_output_that_cannot_be_written_is_one_line() -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "replog", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (
        1,
        "replog: can't write: No space left on device\n",
    )


def test_a_scenario_that_is_not_there_is_named_once(tmp_path: Path) -> None:
    done = replog("sim", "--scenario", "/nosuch")
    assert done.returncode == 1
    assert done.stderr == "replog sim: /nosuch: No such file or directory\n"


def test_without_any_cluster_the_way_out_is_named(tmp_path: Path) -> None:
    done = replog("topic", "list", home=tmp_path)
    assert done.returncode == 1 and not done.stdout
    assert "replog up" in done.stderr and done.stderr.count("\n") == 1


def test_a_broker_that_does_not_answer_is_named() -> None:
    done = replog("topic", "list", "--bootstrap-server", "127.0.0.1:1")
    assert done.returncode == 1 and not done.stdout
    assert "127.0.0.1:1" in done.stderr and done.stderr.count("\n") == 1


def test_tables_fit_the_terminal_where_cells_can_be_shortened() -> None:
    header, row = ("TOPIC", "MEMBER", "LAG"), ("events", "rdkafka-7867b45c-6fc3-46b9", 12)
    table = columns(header, [row], shrinking=("TOPIC", "MEMBER"), width=30)
    assert table.splitlines() == [
        "TOPIC   MEMBER             LAG",
        "events  rdkafka-786…-46b9  12",
    ]
    for width in (31 + 8, None):  # it fits; it is no terminal
        assert row[1] in columns(header, [row], shrinking=("MEMBER",), width=width)
    assert row[1] in columns(header, [row], width=30)  # no column may be shortened
    assert "rdkafka…46b9" in columns(header, [row], shrinking=("MEMBER",), width=5)  # not further


def test_partitions_are_shown_in_ranges() -> None:
    given = [TopicPartition("b", 0), *(TopicPartition("a", index) for index in (4, 0, 1, 2, 7))]
    assert in_ranges(given) == "a:0-2,4,7 b:0"
    assert in_ranges([]) == ""


def test_names_of_strangers_stay_in_their_cell() -> None:
    shown = columns(("GROUP", "N"), [("a\x1b[2J\nb", 1), ("日本", 2), ("ü", 3)])
    assert shown.splitlines() == [
        "GROUP        N",
        "a\\x1b[2J\\nb  1",
        "日本         2",
        "ü            3",
    ]


def test_columns_are_aligned() -> None:
    shown = columns(("NAME", "N"), [("a", 1), ("longer", None)])
    assert shown == "NAME    N\na       1\nlonger  -"
    assert ids([1, 0, 2]) == "1,0,2" and ids([]) == "-"
