"""How the text of one configuration becomes a value, and when it is refused."""

import contextlib
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal

from replog.model.config_table import ConfigKey

Value = bool | int | float | str | tuple[str, ...] | None

_BITS = {"short": 16, "int": 32, "long": 64}
_NUMBER_KINDS = frozenset({*_BITS, "double"})
_CLIENT_ATTRIBUTES = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
_BOOLEANS = {"true": True, "false": False}
# As Java writes them: with the letter of a type at the end, or in hexadecimal.
_DECIMAL = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFdD]?", re.ASCII)
_HEXADECIMAL = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?\d+)[fFdD]?", re.ASCII
)
_SHOWN_MAX = 1_000  # characters of a value that is refused
_DIGITS_MAX = 10  # of a number of connections. Python reads no number that has thousands.
# Numbers from the first on, and below the second, are shown without an exponent.
_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e7


class ConfigError(Exception):
    """A configuration that can't be used; the text names it, its value and what is expected."""


class UnknownName(ConfigError):
    """There is no configuration of that name."""


class OutOfRange(ConfigError):
    """A number that is smaller or greater than it may be."""


def known_key(table: Mapping[str, ConfigKey], name: str) -> ConfigKey:
    """The row of `name`. Raises ConfigError with the nearest name when there is none."""
    key = table.get(name)
    if key is None:
        from difflib import get_close_matches  # costs start-up time that only mistakes need

        near = get_close_matches(name, table, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UnknownName(f"unknown configuration {name!r}{hint}")
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
            value = text.strip()
    if key.check:
        _check(key, text, value)
    return value


def value_text(key: ConfigKey, text: str | None) -> str | None:
    """A valid `text` in the form in which tools show it: `TRUE` as `true`, ` 10` as `10`, `a, a` as
    `a`, and numbers as Java shows them."""
    value = parse_value(key, text)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number_text(value)
    if isinstance(value, tuple):
        return ",".join(value if key.check == "throttled" else dict.fromkeys(value))
    return value


def _whole_number(key: ConfigKey, text: str) -> int:
    digits = text.strip()
    if not digits.lstrip("+-").isdecimal():
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
    stripped = text.strip()
    if found := _DECIMAL.fullmatch(stripped):
        return float(found[1])
    if found := _HEXADECIMAL.fullmatch(stripped):
        with contextlib.suppress(OverflowError):
            return float.fromhex(found[1])
    raise _refusal(key, text, "a number expected")


def _number_text(number: float) -> str:
    if math.isinf(number):  # 1e999 is one for Java, too
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or _PLAIN_FROM <= abs(number) < _PLAIN_BELOW:
        return repr(number)
    mantissa, _, exponent = f"{Decimal(repr(number)).normalize():E}".partition("E")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def _check(key: ConfigKey, text: str, value: Value) -> None:
    """Hold `value` against the key's check: `>=N`, `N..M`, `N|M..O`, a choice `a|b`, or a named
    rule."""
    check = key.check
    if key.kind in _NUMBER_KINDS:
        if not isinstance(value, int | float):
            return
        if check.startswith(">="):
            if value < float(check[2:]):
                raise OutOfRange(str(_refusal(key, text, f"at least {check[2:]} expected")))
            return
        ranges = [each.split("..") for each in check.split("|")]
        if not any(float(each[0]) <= value <= float(each[-1]) for each in ranges):
            expected = " or ".join(" to ".join(each) for each in ranges)
            raise OutOfRange(str(_refusal(key, text, f"{expected} expected")))
    elif check in _RULES:
        _RULES[check](key, text)
    else:
        choices = check.split("|")
        given = value if isinstance(value, tuple) else (value,)
        if any(item not in choices for item in given):
            several = "a list of" if key.kind == "list" else "one of"
            raise _refusal(key, text, f"{several} {', '.join(choices)} expected")


def _check_throttled(key: ConfigKey, text: str) -> None:
    """`*`, nothing, or pairs PARTITION:BROKER, among which may be empty ones."""
    items = [part.strip() for part in text.split(",") if part.strip()]
    if items == ["*"]:
        return
    for item in items:
        partition, colon, broker = item.partition(":")
        if not (colon and partition.isdecimal() and broker.isdecimal()):
            raise _refusal(key, text, "* or a list PARTITION:BROKER,PARTITION:BROKER expected")


def _check_client_match(key: ConfigKey, text: str) -> None:
    """Nothing, or pairs of an attribute of clients and a regular expression (KIP-714)."""
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, pattern = item.partition("=")
        if name.strip() not in _CLIENT_ATTRIBUTES or not equals or "=" in pattern:
            expected = f"a list NAME=PATTERN expected, NAME one of {', '.join(_CLIENT_ATTRIBUTES)}"
            raise _refusal(key, text, expected)
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:  # a{9999999999}, ((((((((
            raise _refusal(key, text, f"{name.strip()} has no pattern: {error}") from error


def _check_per_address(key: ConfigKey, text: str) -> None:
    """Nothing, or pairs of an address and a number."""
    for item in filter(None, (part.strip() for part in text.split(","))):
        host, _, number = item.rpartition(":")
        if not host or not number.isdecimal() or len(number) > _DIGITS_MAX:
            raise _refusal(key, text, "a list HOST:NUMBER,HOST:NUMBER expected")


def _check_offset_reset(key: ConfigKey, text: str) -> None:
    """Where a share group begins (KIP-932)."""
    value = text.strip()
    if value not in ("earliest", "latest") and not value.startswith("by_duration:P"):
        raise _refusal(key, text, "earliest, latest or by_duration:PnDTnHnMn.nS expected")


_RULES: Mapping[str, Callable[[ConfigKey, str], None]] = {
    "throttled": _check_throttled,
    "per-address": _check_per_address,
    "client-match": _check_client_match,
    "offset-reset": _check_offset_reset,
}


def _refusal(key: ConfigKey, text: str, expectation: str) -> ConfigError:
    # A secret must not end up in a log or in an answer.
    shown = "" if key.kind == "password" else text[:_SHOWN_MAX]
    if shown != text:
        shown += "..."
    return ConfigError(f"{key.name}={shown}: {expectation}")
