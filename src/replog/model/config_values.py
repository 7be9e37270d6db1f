"""How the text of one configuration becomes a value, and when it is refused."""

import math
from collections.abc import Mapping

from replog.model.config_table import ConfigKey

Value = bool | int | float | str | tuple[str, ...] | None

_BITS = {"short": 16, "int": 32, "long": 64}
_NUMBER_KINDS = frozenset({*_BITS, "double"})
_BOOLEANS = {"true": True, "false": False}


class ConfigError(Exception):
    """A configuration that can't be used; the text names it, its value and what is expected."""


def known_key(table: Mapping[str, ConfigKey], name: str) -> ConfigKey:
    """The row of `name`. Raises ConfigError with the nearest name when there is none."""
    key = table.get(name)
    if key is None:
        from difflib import get_close_matches  # costs start-up time that only mistakes need

        near = get_close_matches(name, table, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(f"unknown configuration {name!r}{hint}")
    return key


def parse_value(key: ConfigKey, text: str | None) -> Value:
    """The value of `key` given as `text`; None stands for "not set" and stays None.

    Raises ConfigError when `text` is not of the key's type or fails its check.
    """
    if text is None:
        return None
    value: Value
    match key.kind:
        case "boolean":
            value = _BOOLEANS.get(text.strip().lower())
            if value is None:
                raise _refusal(key, text, "true or false expected")
        case "short" | "int" | "long":
            value = _whole_number(key, text)
        case "double":
            value = _number(key, text)
        case "list":
            value = tuple(item.strip() for item in text.split(",")) if text.strip() else ()
        case _:
            value = text
    if key.check:
        _check(key, text, value)
    return value


def value_text(key: ConfigKey, text: str | None) -> str | None:
    """A valid `text` in the form in which tools show it: `TRUE` as `true`, ` 10` as `10`."""
    value = parse_value(key, text)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, tuple):
        return ",".join(value)
    return text


def _whole_number(key: ConfigKey, text: str) -> int:
    digits = text.strip()
    if not digits.lstrip("+-").isascii() or not digits.lstrip("+-").isdigit():
        raise _refusal(key, text, f"a whole number ({key.kind}) expected")
    try:
        number = int(digits)
    except ValueError as error:  # two signs, or more digits than any type has
        raise _refusal(key, text, f"a whole number ({key.kind}) expected") from error
    limit = 1 << (_BITS[key.kind] - 1)
    if not -limit <= number < limit:
        raise _refusal(key, text, f"{-limit} to {limit - 1} expected ({key.kind})")
    return number


def _number(key: ConfigKey, text: str) -> float:
    try:
        number = float(text.strip())
    except ValueError as error:
        raise _refusal(key, text, "a number expected") from error
    if math.isnan(number):
        raise _refusal(key, text, "a number expected")
    return number


def _check(key: ConfigKey, text: str, value: Value) -> None:
    """Hold `value` against the key's check: `>=N`, `N..M`, a choice `a|b`, or a named rule."""
    check = key.check
    if key.kind in _NUMBER_KINDS:
        if not isinstance(value, int | float):
            return
        if check.startswith(">="):
            if value < float(check[2:]):
                raise _refusal(key, text, f"at least {check[2:]} expected")
            return
        lowest, highest = check.split("..")
        if not float(lowest) <= value <= float(highest):
            raise _refusal(key, text, f"{lowest} to {highest} expected")
    elif check == "throttled":
        _check_throttled(key, text)
    else:
        choices = check.split("|")
        given = value if isinstance(value, tuple) else (value,)
        if any(item not in choices for item in given):
            several = "a list of" if key.kind == "list" else "one of"
            raise _refusal(key, text, f"{several} {', '.join(choices)} expected")


def _check_throttled(key: ConfigKey, text: str) -> None:
    """`*`, nothing, or pairs PARTITION:BROKER."""
    if text.strip() in ("", "*"):
        return
    for item in text.split(","):
        partition, colon, broker = item.strip().partition(":")
        if not (colon and partition.isdecimal() and broker.isdecimal()):
            raise _refusal(key, text, "* or a list PARTITION:BROKER,PARTITION:BROKER expected")


def _refusal(key: ConfigKey, text: str, expectation: str) -> ConfigError:
    # A secret must not end up in a log or in an answer.
    shown = "..." if key.kind == "password" else text
    return ConfigError(f"{key.name}={shown}: {expectation}")
