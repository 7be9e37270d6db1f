"""`replog demo failover`, whole, and that it can say no."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.cluster import replog

from replog.cli.walkthrough import STEPS

WRONG_EXPECTATION = """
import sys
import replog.cli.demo as demo
from replog.cli.main import main
from replog.cli.walkthrough import STEPS, Seat, Step
first = STEPS[0]
demo.STEPS = (Step(first.title, None, None, (Seat(0, (0, 1, 2)), *first.expected[1:])),)
demo.ROW_TIMEOUT_S = 1.5
main(["demo", "failover", "--format", "json", "--data", sys.argv[1]])
"""


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("how", [[], ["--kill"]], ids=["stopped", "killed"])
def test_all_rows_are_as_expected(tmp_path: Path, how: list[str]) -> None:
    words = ("demo", "failover", "--format", "json", "--data", "walk")
    done = replog(*words, *how, home=tmp_path, timeout_s=230)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["ok"] and [s["step"] for s in result["steps"]] == [s.title for s in STEPS]
    for step, expected in zip(result["steps"], STEPS, strict=True):
        down = 4 - len(step["seen"])  # of three brokers and the coordinator
        assert down == {"created": 0, "broker 2 stopped": 2, "broker 2 started": 0}.get(
            step["step"], 1
        )
        row = [str(seat) for seat in expected.expected]
        assert all(seen == row for seen in step["seen"].values()), step
        assert "coordinator" in step["seen"]
    assert all(check["ok"] for check in result["checks"])
    assert (tmp_path / "walk" / "broker-0" / "data" / "walk-through-0").is_dir()  # --data is kept


@pytest.mark.slow
def test_a_row_that_differs_ends_non_zero(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRONG_EXPECTATION, str(tmp_path / "walk")],
        capture_output=True,
        text=True,
        timeout=110,
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path)},
    )
    assert done.returncode == 1, done.stderr
    result = json.loads(done.stdout)
    assert not result["ok"] and not result["steps"][0]["ok"]


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "walk").mkdir()
    (tmp_path / "walk" / "mine").write_text("keep me")
    done = replog("demo", "failover", "--data", "walk", home=tmp_path)
    assert done.returncode == 1 and "not empty" in done.stderr
    assert [path.name for path in (tmp_path / "walk").iterdir()] == ["mine"]
