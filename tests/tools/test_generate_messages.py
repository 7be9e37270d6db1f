"""The committed messages are what the script makes of the committed facts."""

import json
from pathlib import Path

import pytest

from tools import generate_messages as generator

ROOT = Path(__file__).resolve().parents[2]
WRITTEN_BY_HAND = {"__init__.py", "base.py"}


def test_committed_modules_are_the_generated_ones(tmp_path: Path) -> None:
    generated = {path.name: path.read_text() for path in generator.write(tmp_path)}
    committed = {path.name for path in generator.PACKAGE.glob("*.py")} - WRITTEN_BY_HAND
    assert committed == set(generated)
    for name, text in generated.items():
        message = f"{name} is not what tools/generate_messages.py writes: run it"
        assert (generator.PACKAGE / name).read_text() == text, message


def test_every_described_message_is_written() -> None:
    text = "".join(source for _, source in generator.modules())
    for name in generator.SCHEMAS:
        for message in json.loads((ROOT / "tools" / "schemas" / name).read_text())["messages"]:
            assert f"class {message['name']}(" in text


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("0-3", (0, 3)),
        ("2+", (2, 32767)),
        ("5", (5, 5)),
        ("none", (1, 0)),
        (None, (1, 0)),
    ],
)
def test_ranges(text: str | None, versions: tuple[int, int]) -> None:
    assert generator.parse_range(text) == versions


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("ForgottenTopicsData", "forgotten_topics_data"),
        ("V3AndBelowTopics", "v3_and_below_topics"),
        ("LastKnownElr", "last_known_elr"),
        ("ISRNodes", "isr_nodes"),
        ("From", "from_"),
    ],
)
def test_names(name: str, snake: str) -> None:
    assert generator.snake(name) == snake


def message(**field: object) -> dict[str, object]:
    return {
        "type": "request",
        "apiKey": 1,
        "name": "XRequest",
        "validVersions": "1-4",
        "flexibleVersions": "3+",
        "fields": [{"name": "A", "type": "int32", "versions": "0+", **field}],
    }


def test_facts_are_cut_to_the_versions_that_exist() -> None:
    spec = generator.Reader(message(versions="0-2"), "x").message()
    assert (spec.versions, spec.flexible) == ((1, 4), (3, 4))
    assert spec.structs[-1].fields[0].versions == (1, 2)
    assert generator.Reader(message(versions="5+"), "x").message().structs[-1].fields == []


@pytest.mark.parametrize(
    "field",
    [
        {"type": "Nowhere"},
        {"type": "Inner", "fields": []},
        {"tag": 0, "taggedVersions": "4+"},
        {"type": "bytes", "default": "x"},
    ],
)
def test_facts_that_nothing_can_be_made_of(field: dict[str, object]) -> None:
    with pytest.raises(generator.SchemaError):
        generator.Reader(message(**field), "x").message()
