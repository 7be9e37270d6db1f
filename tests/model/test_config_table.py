"""The tables of configurations: generated, honest, and cheap to load."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from replog.model.config_docs import DOCS
from replog.model.config_table import BROKER, CLIENT_METRICS, GROUP, TOPIC, ConfigKey

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "replog"
GENERATED = {
    "config_broker_table.py": PACKAGE / "model",
    "config_table.py": PACKAGE / "model",
    "config_docs.py": PACKAGE / "model",
    "configuration.md": ROOT / "docs",
}


def test_what_is_generated_is_up_to_date(tmp_path: Path) -> None:
    tool = ROOT / "tools" / "generate_config_table.py"
    subprocess.run([sys.executable, tool, "--out", tmp_path], check=True, timeout=60)
    for name, folder in GENERATED.items():
        assert (tmp_path / name).read_text() == (folder / name).read_text(), (
            f"{name}: run tools/generate_config_table.py"
        )


def test_sentences_are_about_configurations_that_there_are() -> None:
    known = BROKER | TOPIC | GROUP | CLIENT_METRICS
    assert not set(DOCS) - set(known)
    effective = {name for name, key in known.items() if key.effective}
    assert not effective - set(DOCS), "what has an effect needs a sentence"


def _code() -> str:
    """The package without the tables and what only holds their values."""
    skipped = {"broker_config.py", "topic_config.py", "config_docs.py"}
    skipped |= {"config_table.py", "config_broker_table.py"}
    paths = [path for path in PACKAGE.rglob("*.py") if path.name not in skipped]
    return "\n".join(path.read_text() for path in paths)


# Read inside broker_config.py, into values of another name, by the code named here.
READ_AS = {
    "advertised.listeners": "advertised_listeners",
    "broker.id": "node_id",
    "broker.heartbeat.interval.ms": ".ping_interval_ms",
    "broker.rack": ".rack",
    "broker.session.timeout.ms": ".replog_session_silence_ms",
    "controller.listener.names": ".listeners",
    "inter.broker.listener.name": "inter_broker_listener_name",
    "listener.security.protocol.map": ".listeners",
    "listeners": ".listeners",
    "log.dir": "log_dirs",
    "log.dirs": "log_dirs",
    "log.retention.hours": "retention_ms",
    "log.retention.minutes": "retention_ms",
    "log.roll.hours": "segment_ms",
    "log.roll.jitter.hours": "segment_jitter_ms",
    "node.id": "node_id",
    "replica.selector.class": ".rack_aware_reads",
    "replog.coordinator": ".coordinator",
    "zookeeper.connect": ".coordinator",
}


def _is_read(key: ConfigKey, code: str) -> bool:
    attribute = READ_AS.get(key.name, f".{key.name.replace('.', '_')}")
    return re.search(rf"{re.escape(attribute)}\b", code) is not None or f'"{key.name}"' in code


@pytest.mark.parametrize("table", [BROKER, TOPIC], ids=["broker", "topic"])
def test_what_is_said_to_have_an_effect_is_read(table: dict[str, ConfigKey]) -> None:
    code = _code()
    # A broker's default of a topic's configuration is read through the topic's.
    through_topics = {key.fallback for key in TOPIC.values() if key.effective}
    unread = [
        key.name
        for key in table.values()
        if key.effective and key.name not in through_topics and not _is_read(key, code)
    ]
    assert not unread, f"not read by any code: {unread}"


def test_what_is_read_is_said_to_have_an_effect() -> None:
    code = re.sub(r'"""[\s\S]*?"""', "", _code())
    silent = [
        name
        for name, key in BROKER.items()
        if not key.effective
        and re.search(rf"config\.{name.replace('.', '_')}\b|config\.\w+\(\"{name}\"", code)
    ]
    assert not silent, f"read, but documented as without effect: {silent}"


def test_tables_load_fast() -> None:
    """No time is asserted; what would cost it is: modules that a table has no need of."""
    script = (
        "import sys; before = set(sys.modules); import replog.model.config; "
        "print('\\n'.join(set(sys.modules) - before))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60
    ).stdout.split()
    assert "replog.model.config_table" in loaded
    assert not {"difflib", "replog.model.config_docs", "dataclasses", "json"} & set(loaded)
