"""`replog sim`: a verdict for people and for programs, and one line that replays a failure."""

import json

import pytest
from tests.sim.mutants import mutated

from replog.cli.main import run


def test_a_seed_that_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "--seed", "2", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["failed"] == [] and told["seeds"] == 1 and told["first_seed"] == 2
    assert told["counts"]["records acknowledged (acks=all)"] > 0


def test_a_seed_that_fails_is_replayed_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with mutated("acks=all is answered before the commit"):
        assert run(["sim", "--seed", "3", "--seeds", "5"]) == 1
    told = capsys.readouterr()
    assert "replog sim --seed 3" in told.err
    assert "acks=all is given for committed records only" in told.err
    assert "b0" in told.err, "with what each broker lived through"
    assert "1 seeds from 3: 1 failed" in told.out, "the first failure ends the search"
