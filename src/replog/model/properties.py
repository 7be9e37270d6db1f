"""Kafka's `server.properties`: the file format of `java.util.Properties`."""

from collections.abc import Mapping

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Names and values of a properties file; a name that comes twice has its last value.

    A line is `name=value`, `name: value` or `name value`. `#` and `!` begin a comment, a backslash
    at the end of a line joins the next one, and escapes are Java's (`\\t`, `\\u0041`, `\\=`).
    """
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        end = _name_end(line)
        rest = line[end:].lstrip(" \t\f")
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(" \t\f")
        found[_unescape(line[:end])] = _unescape(rest)
    return found


def _logical_lines(text: str) -> list[str]:
    """Lines without comments and blanks, continuations joined."""
    lines: list[str] = []
    pending = ""
    for natural in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = pending + natural.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending = line[:-1]
            continue
        pending = ""
        lines.append(line)
    if pending:
        lines.append(pending)
    return lines


def _name_end(line: str) -> int:
    """Where the name ends: at the first separator that is not escaped."""
    index = 0
    while index < len(line):
        if line[index] == "\\":
            index += 2
            continue
        if line[index] in "=: \t\f":
            return index
        index += 1
    return len(line)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out = []
    index = 0
    while index < len(text):
        char = text[index]
        index += 1
        if char != "\\" or index == len(text):
            out.append(char)
            continue
        char = text[index]
        index += 1
        if char == "u" and _is_hex(text[index : index + 4]):
            out.append(chr(int(text[index : index + 4], 16)))
            index += 4
        else:
            out.append(_ESCAPES.get(char, char))
    return "".join(out)


def _is_hex(digits: str) -> bool:
    return len(digits) == 4 and all(digit in "0123456789abcdefABCDEF" for digit in digits)


def format_properties(values: Mapping[str, str]) -> str:
    """The file that holds these values: the inverse of `parse_properties`."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in values.items())


def _escaped(value: str) -> str:
    """A value as part of a line; one that begins with a space would lose it."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return "\\" + text if text.startswith((" ", "\t", "\f")) else text
