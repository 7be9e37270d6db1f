"""Keeps the last columns of two tables: the test files that hold each failure scenario
(docs/scenarios.md), and each thing that clients rely on (docs/conformance.md).

python tools/scenario_table.py            write it
python tools/scenario_table.py --check    exit 1 when it is not up to date
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "scenarios.md"
PAGES = {"scenario": PAGE, "surface": ROOT / "docs" / "conformance.md"}  # by marker
ROW = re.compile(r"^\| (\d+) \| (.*) \| (.*) \|(.*)\|$")


def marked(marker: str = "scenario") -> dict[int, list[str]]:
    """Test files by the rows that their `@pytest.mark.scenario(...)` name."""
    found: dict[int, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if f"mark.{marker}(" not in text:
            continue
        for row in sorted(set(_rows(ast.parse(text), marker))):
            found[row].append(path.relative_to(ROOT).as_posix())
    return dict(found)


def _rows(tree: ast.Module, marker: str) -> Iterator[int]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == marker
        ):
            yield from (a.value for a in node.args if isinstance(a, ast.Constant))  # type: ignore[misc]


def rows(page: str) -> dict[int, str]:
    """What must be, by row."""
    found = (ROW.match(line) for line in page.split("\n"))
    return {int(row[1]): row[3] for row in found if row is not None}


def with_tests(page: str, marker: str = "scenario") -> str:
    """The page with the last column as the tests have it."""
    tests = marked(marker)

    def line(text: str) -> str:
        row = ROW.match(text)
        if row is None:
            return text
        names = ", ".join(f"`{name}`" for name in tests.get(int(row[1]), []))
        return f"| {row[1]} | {row[2]} | {row[3]} | {names} |"

    return "\n".join(line(text) for text in page.split("\n"))


def main() -> int:
    stale = 0
    for marker, path in PAGES.items():
        page = path.read_text(encoding="utf-8")
        wanted = with_tests(page, marker)
        if page == wanted:
            continue
        if "--check" in sys.argv:
            print(f"docs/{path.name} is not up to date: run python tools/scenario_table.py")
            stale = 1
        else:
            path.write_text(wanted, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main())
