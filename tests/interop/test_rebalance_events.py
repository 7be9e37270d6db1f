"""The judge of rebalances must itself be able to say no."""

import pytest
from tests.interop.rebalance_events import Event, judge, parse

GOOD = """
1 a assigned 0,1
2 a read 0:0
3 a read 1:0
4 a committed 0:1,1:1
5 a revoked 1
6 b assigned 1
7 b read 1:1
8 b committed 1:2
9 a killed -
10 b revoked 1
11 b assigned 0,1
12 b read 0:1
13 b left -
"""
ENDS = {0: 2, 1: 2}


def events(text: str) -> list[Event]:
    return [parse(line) for line in text.strip().splitlines()]


def test_a_good_story_passes() -> None:
    found = judge(events(GOOD), ENDS, [{}, {0: 1}, {0: 1, 1: 2}])
    assert not found.problems and not found.owner
    assert found.counts["read"] == 4


@pytest.mark.parametrize(
    ("line", "instead", "word"),
    [
        ("5 a revoked 1", "5 a revoked -", "is given partition 1, which a still has"),
        ("2 a read 0:0", "2 b read 0:0", "which it does not have"),
        ("8 b committed 1:2", "8 b committed 1:0", "from 1 back to 0"),
        ("7 b read 1:1", "7 b read 1:5", "1 of 2 records were read by nobody, the first one at 1"),
        ("13 b left -", "13 b failed never-left", "never-left"),
    ],
)
def test_each_rule_is_held(line: str, instead: str, word: str) -> None:
    found = judge(events(GOOD.replace(line, instead)), ENDS, [])
    assert any(word in problem for problem in found.problems), found.problems


def test_what_the_coordinator_says_never_goes_back() -> None:
    for snapshots in ([{0: 2}, {0: 1}], [{0: 2}, {}]):
        assert len(judge(events(GOOD), ENDS, snapshots).problems) == 1
