"""How `replog consume` prints a record."""

import pytest

from replog.cli.consume import as_json, fill
from replog.cli.errors import UsageError


class Record:
    """A record as the client library hands it over."""

    def __init__(self, key: bytes | None, value: bytes | None) -> None:
        self._key = key
        self._value = value

    def topic(self) -> str:
        return "events"

    def partition(self) -> int:
        return 2

    def offset(self) -> int:
        return 40

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_700_000_000_000

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return [("trace", b"x1"), ("empty", None)]


def test_the_template_is_filled_from_the_record() -> None:
    record = Record(b"k", b"v%o")
    assert fill("%t-%p@%o %k=%v (100%%) %T", record) == b"events-2@40 k=v%o (100%) 1700000000000"


def test_what_is_absent_prints_as_nothing() -> None:
    assert fill("[%k][%v]", Record(None, None)) == b"[][]"


@pytest.mark.parametrize("template", ["%x", "100%"])
def test_an_unknown_letter_is_a_usage_error(template: str) -> None:
    with pytest.raises(UsageError, match="--print does not know"):
        fill(template, Record(b"", b""))


def test_json_keeps_bytes_that_are_no_text() -> None:
    shown = as_json(Record(None, b"\xff\x00"))
    assert shown["key"] is None and shown["value_base64"] == "/wA="
    assert shown["headers"] == [["trace", "x1"], ["empty", None]]
    assert as_json(Record(b"a", "grün".encode()))["value"] == "grün"
