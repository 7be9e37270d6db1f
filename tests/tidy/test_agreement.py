"""Places that say the same thing must say the same thing."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

from tools.file_map import with_map

from replog import __version__
from replog.cli.commands import COMMANDS
from replog.cli.options import Parser
from replog.node.router import FROM_ANYBODY, FROM_BROKERS
from replog.wire.versions import SERVED, Audience

ROOT = Path(__file__).resolve().parents[2]


def test_the_changelog_knows_the_version() -> None:
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest and newest.group(1) == __version__


def test_the_file_map_is_up_to_date() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert page == with_map(page), "run: python tools/file_map.py"
    assert page.count("- `") > 100


def test_what_the_wire_serves_is_what_the_node_handles() -> None:
    handshake = {20000}  # ends in the runtime, before there is anything for a node
    by_audience = {
        frozenset({Audience.CLIENTS, Audience.TOOLS}): FROM_ANYBODY,
        frozenset({Audience.PEERS}): FROM_BROKERS,
    }
    for audience, handlers in by_audience.items():
        served = {key for key, api in SERVED.items() if api.audience in audience} - handshake
        assert served == {request.API_KEY for request in handlers}


def test_every_command_explains_itself_with_an_example() -> None:
    for command in COMMANDS:
        parser = Parser(prog=command.name)
        getattr(importlib.import_module(command.module), f"{command.function}_options")(parser)
        assert parser.epilog and f"replog {command.name}" in parser.epilog, command.name
        assert "--format" in parser.format_help() or command.name == "broker run", command.name


def test_decision_records_are_short_and_numbered() -> None:
    records = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
    assert [int(path.name[:4]) for path in records] == list(range(1, len(records) + 1))
    for path in records:
        text = path.read_text()
        assert text.count("\n") <= 40, f"{path.name}: 40 lines at most"
        for heading in ("## Context", "## Decision", "## Consequences"):
            assert heading in text, f"{path.name} lacks {heading}"


def test_links_in_documents_lead_somewhere() -> None:
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_help_and_brokers_need_no_terminal_library() -> None:
    script = (
        "import sys\n"
        "import replog.cli.main, replog.cli.broker, replog.runtime.broker\n"
        "loaded = {'rich', 'typer', 'click', 'confluent_kafka'} & set(sys.modules)\n"
        "sys.exit(f'imported {sorted(loaded)}' if loaded else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
