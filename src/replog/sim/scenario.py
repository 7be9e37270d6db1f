"""Plans as files: what a seed stands for, or what was left of it after shrinking, in JSON.

A file says everything that the plan says, so a run of it is the same for ever, also when seeds come
to stand for other plans. Fields that have their default are left out; a file with a field that is
not known is refused rather than half understood.
"""

import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from replog.sim.plan import Plan

FORMAT: Final = 1
LINE_MAX: Final = 100  # what fits in so many columns stays on one line


class BadScenario(Exception):
    """A file is no scenario. The message says where, and why."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A plan with what is to be known of it."""

    what: str  # in a sentence
    plan: Plan
    found: str = ""  # the rule that did not hold when it was written; empty: all is well


def to_text(scenario: Scenario) -> str:
    """The file."""
    document = {
        "format": FORMAT,
        "what": scenario.what,
        "found": scenario.found,
        "plan": _plain(scenario.plan),
    }
    return _layout(document, 0) + "\n"


def from_text(text: str) -> Scenario:
    """What `to_text` wrote. Raises BadScenario."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise BadScenario(f"no JSON: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BadScenario(f'no scenario: "format" is not {FORMAT}')
    rest = {name: value for name, value in document.items() if name != "format"}
    scenario: Scenario = _build(Scenario, rest, "the scenario")
    return scenario


# ---- values to JSON -------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return {
            field.name: _plain(getattr(value, field.name))
            for field in fields(value)
            if getattr(value, field.name) != _default(field)
        }
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _layout(value: Any, indent: int) -> str:
    """JSON with one line for whatever fits in one: faults are a table then."""
    short = json.dumps(value)
    if len(short) + indent <= LINE_MAX or not isinstance(value, dict | list):
        return short
    front = " " * (indent + 2)
    if isinstance(value, dict):
        lines = [f"{json.dumps(name)}: {_layout(item, indent + 2)}" for name, item in value.items()]
        opening, closing = "{}"
    else:
        lines = [_layout(item, indent + 2) for item in value]
        opening, closing = "[]"
    inside = ",\n".join(front + line for line in lines)
    return f"{opening}\n{inside}\n{' ' * indent}{closing}"


# ---- JSON to values -------------------------------------------------------------------------


def _build(kind: Any, value: Any, where: str) -> Any:
    origin = get_origin(kind)
    if is_dataclass(kind):
        return _build_dataclass(kind, value, where)
    if origin is tuple:
        return _build_tuple(get_args(kind), value, where)
    if origin is dict:
        _expect(isinstance(value, dict), where, "an object")
        item = get_args(kind)[1]
        return {name: _build(item, v, f"{where}.{name}") for name, v in value.items()}
    if origin in (Union, UnionType):
        options = get_args(kind)
        if value is None and type(None) in options:
            return None
        return _build(next(o for o in options if o is not type(None)), value, where)
    if isinstance(kind, type) and issubclass(kind, Enum):
        known = {member.value: member for member in kind}
        _expect(value in known, where, f"one of {', '.join(map(str, known))}")
        return known[value]
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    _expect(type(value) is kind, where, f"of type {kind.__name__}")
    return value


@lru_cache
def _hints(kind: Any) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _build_dataclass(kind: Any, value: Any, where: str) -> Any:
    _expect(isinstance(value, dict), where, "an object")
    known = {field.name: field for field in fields(kind)}
    for name in value:
        _expect(name in known, f"{where}.{name}", "known")
    needed = [name for name, field in known.items() if _default(field) is MISSING]
    for name in needed:
        _expect(name in value, f"{where}.{name}", "there")
    hints = _hints(kind)
    return kind(**{n: _build(hints[n], item, f"{where}.{n}") for n, item in value.items()})


def _build_tuple(kinds: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    _expect(isinstance(value, list), where, "a list")
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    _expect(len(value) == len(kinds), where, f"a list of {len(kinds)}")
    pairs = zip(kinds, value, strict=True)
    return tuple(_build(kind, item, f"{where}[{i}]") for i, (kind, item) in enumerate(pairs))


def _expect(holds: bool, where: str, what: str) -> None:
    if not holds:
        raise BadScenario(f"{where} is not {what}")
