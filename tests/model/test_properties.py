"""The file format of `server.properties`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replog.model.config import parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("# a comment\n! another\n\n   \n", {}),
        ("a=1\nb = 2\n  c  =  3  ", {"a": "1", "b": "2", "c": "3  "}),
        ("a:1\nb : 2\nc 3\nd\t=\t4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("a=b=c\nu=PLAINTEXT://h:1", {"a": "b=c", "u": "PLAINTEXT://h:1"}),
        ("a=1\\\n   2\\\n3\nb=4", {"a": "123", "b": "4"}),
        ("a=1\\\n# no comment\nb=2", {"a": "1# no comment", "b": "2"}),
        ("a=even\\\\\nb=2", {"a": "even\\", "b": "2"}),
        ("path=C:\\\\x\\ty\\u0041\\=", {"path": "C:\\x\tyA="}),
        ("a\\ b\\=c=1", {"a b=c": "1"}),
        ("a=\\u00g1", {"a": "u00g1"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("only", {"only": ""}),
        ("a=1\\", {"a": "1"}),
        ("a=#1", {"a": "#1"}),
    ],
)
def test_lines(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    for name, value in parse_properties(text).items():
        assert isinstance(name, str) and isinstance(value, str)


@given(st.dictionaries(st.from_regex(r"[a-z.]+", fullmatch=True), st.text("abc=: \t\\#!")))
def test_what_is_escaped_comes_back(values: dict[str, str]) -> None:
    def escaped(value: str) -> str:
        return "".join("\\t" if c == "\t" else f"\\{c}" if c in " \\" else c for c in value)

    text = "\n".join(f"{name}={escaped(value)}" for name, value in values.items())
    assert parse_properties(text) == values
