"""Keeps the file map of docs/architecture.md: each module, with the first sentence about it.

python tools/file_map.py            write it
python tools/file_map.py --check    exit 1 when it is not up to date
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "replog"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN = "<!-- file map: written by tools/file_map.py -->"
END = "<!-- end of file map -->"
ROOMS = (
    "cli",
    "testing",
    "runtime",
    "sim",
    "node",
    "wire",
    "core",
    "log",
    "records",
    "codec",
    "model",
)


def purpose(path: Path) -> str:
    """The first sentence of a module's docstring, on one line."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[.!?]) (?=[A-Z`])", paragraph)[0]


def section(room: str) -> list[str]:
    """The map of one room: its purpose, then its modules."""
    lines = [f"### `{room}`", "", purpose(PACKAGE / room / "__init__.py"), ""]
    for path in sorted((PACKAGE / room).rglob("*.py")):
        inside = path.relative_to(PACKAGE)
        if inside.parts[:2] == ("model", "messages"):
            continue
        if path.name == "__init__.py":
            continue
        lines.append(f"- `{inside}`: {purpose(path)}")
    return [*lines, ""]


def file_map() -> str:
    """The whole map, as it belongs between the two marks."""
    lines: list[str] = []
    for room in ROOMS:
        if (PACKAGE / room / "__init__.py").exists():
            lines += section(room)
        if room == "model":
            lines += [
                "- `model/messages/`: one module for each API, with requests and responses; "
                "written by `tools/generate_messages.py`.",
                "",
            ]
    lines += [f"- `{name}`: {purpose(PACKAGE / name)}" for name in ("version.py", "__main__.py")]
    return "\n".join(lines)


def with_map(page: str) -> str:
    """`page` with the map as it should be now. Raises ValueError when the marks are missing."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} lacks the marks of the file map")
    return f"{before}{BEGIN}\n\n{file_map()}\n\n{END}{after}"


def main() -> int:
    page = PAGE.read_text()
    wanted = with_map(page)
    if "--check" in sys.argv[1:]:
        if page != wanted:
            print("docs/architecture.md is not up to date: run tools/file_map.py", file=sys.stderr)
        return int(page != wanted)
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
