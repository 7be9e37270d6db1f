"""Every failure scenario has a test, and every test that claims one has its row."""

from tools.scenario_table import PAGE, marked, rows, with_tests


def test_each_scenario_is_held_by_a_test_and_each_claim_has_its_row() -> None:
    told, held = rows(PAGE.read_text()), marked()
    assert not (missing := sorted(set(told) - set(held))), f"no test holds scenarios {missing}"
    assert not (unknown := sorted(set(held) - set(told))), f"{PAGE.name} has no row {unknown}"
    assert len(told) >= 49, "rows are never dropped"
    assert all(must.strip() for must in told.values())


def test_the_table_of_tests_is_up_to_date() -> None:
    page = PAGE.read_text()
    assert page == with_tests(page), "run: python tools/scenario_table.py"
