"""Places that say the same thing must say the same thing."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

from replog import __version__
from replog.cli.commands import COMMANDS
from replog.cli.options import Parser

ROOT = Path(__file__).resolve().parents[2]


def test_the_changelog_knows_the_version() -> None:
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest and newest.group(1) == __version__


def test_the_file_map_covers_every_module() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    package = ROOT / "src" / "replog"
    missing = []
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        if inside.name == "__init__.py" or inside.parts[:2] == ("model", "messages"):
            continue
        if f"`{inside}`" not in text:
            missing.append(str(inside))
    assert not missing, f"docs/architecture.md does not name {missing}"


def test_the_file_map_names_nothing_that_is_gone() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    package = ROOT / "src" / "replog"
    named = re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.py)`", text)
    assert len(named) > 50
    gone = [path for path in named if not (package / path).exists()]
    assert not gone, f"docs/architecture.md names {gone}"


def test_what_the_wire_serves_is_what_the_node_handles() -> None:
    from replog.node.router import HANDLED
    from replog.wire.versions import SERVED

    runtime_answers = {20000}  # the handshake between brokers ends before the node
    assert set(SERVED) - runtime_answers == set(HANDLED)


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
