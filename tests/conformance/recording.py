"""The record of what Apache Kafka answers: files of JSON, one for each area.

Answers that several versions of a case share are kept once.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.conformance.runs import Run
from tests.conformance.shown import ANY

FOLDER: Final = Path(__file__).parent / "record"


def load() -> dict[str, Any]:
    """Answers by the names of runs."""
    answers = {}
    for path in FOLDER.glob("*.json"):
        for case, kinds in json.loads(path.read_text()).items():
            for kind in kinds:
                for version in kind["versions"]:
                    answers[f"{case}.v{version}"] = kind["answers"]
    return answers


def save(runs: Iterable[Run], answers: Mapping[str, Any]) -> None:
    """Write all files anew."""
    areas: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for run in runs:
        area = areas.setdefault(run.case.area, {})
        kinds = area.setdefault(run.case.name, [])
        answer = answers[run.name]
        for kind in kinds:
            if kind["answers"] == answer:
                kind["versions"].append(run.version)
                break
        else:
            kinds.append({"versions": [run.version], "answers": answer})
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.json"):
        old.unlink()
    for name, cases in areas.items():
        lines = [f"{_compact(case)}:{_compact(kinds)}" for case, kinds in cases.items()]
        (FOLDER / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def common(one: Any, other: Any) -> Any:
    """What two recordings agree on, with ANY where they do not."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = sorted(one.keys() | other.keys())
        return {
            name: common(one[name], other[name]) if name in one and name in other else ANY
            for name in names
        }
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [common(a, b) for a, b in zip(one, other, strict=True)]
    return one if one == other else ANY


def differences(expected: Any, found: Any, path: str = "") -> list[str]:
    """Where `found` is not what was expected; in the words of a test's failure."""
    if expected == ANY:
        return []
    if isinstance(expected, dict) and isinstance(found, dict):
        names = sorted(expected.keys() | found.keys())
        return [
            text
            for name in names
            for text in differences(
                expected.get(name, "(default)"), found.get(name, "(default)"), f"{path}.{name}"
            )
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [
            text
            for index, (a, b) in enumerate(zip(expected, found, strict=True))
            for text in differences(a, b, f"{path}[{index}]")
        ]
    return [] if expected == found else [f"{path}: Kafka {expected!r}, here {found!r}"]
