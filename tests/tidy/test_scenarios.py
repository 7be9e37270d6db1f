"""Every row of the tables has a test, and every test that claims one has its row."""

import pytest
from tools.scenario_table import PAGES, marked, rows, with_tests

# How many there are at least: rows are never dropped.
ROWS = {"scenario": 52, "surface": 37}


@pytest.mark.parametrize("marker", PAGES)
def test_each_row_is_held_by_a_test_and_each_claim_has_its_row(marker: str) -> None:
    page = PAGES[marker]
    told, held = rows(page.read_text()), marked(marker)
    assert not (missing := sorted(set(told) - set(held))), f"no test holds {marker} {missing}"
    assert not (unknown := sorted(set(held) - set(told))), f"{page.name} has no row {unknown}"
    assert len(told) >= ROWS[marker], "rows are never dropped"
    assert all(must.strip() for must in told.values())


@pytest.mark.parametrize("marker", PAGES)
def test_the_table_of_tests_is_up_to_date(marker: str) -> None:
    page = PAGES[marker].read_text()
    assert page == with_tests(page, marker), "run: python tools/scenario_table.py"
