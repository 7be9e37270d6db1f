"""`replog sim`: a verdict for people and for programs, and one line that replays a failure."""

import json
from pathlib import Path

import pytest
from tests.sim.mutants import mutated

from replog.cli.main import run

BROKEN = "acks=all is answered before the commit"
RULE = "acks=all is given for committed records only"


def test_a_seed_that_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "--seed", "2", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["failed"] == [] and told["seeds"] == 1 and told["first_seed"] == 2
    assert told["counts"]["records acknowledged (acks=all)"] > 0


def test_a_seed_that_fails_is_replayed_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with mutated(BROKEN):
        assert run(["sim", "--seed", "3", "--seeds", "5", "--messages"]) == 1
    told = capsys.readouterr()
    assert "replay it with: replog sim --seed 3\n" in told.err
    assert RULE in told.err
    assert "leads, epoch 0, ISR" in told.err, "with what each broker lived through"
    assert "ProduceRequest" in told.err, "and its last messages"
    assert "1 seed from 3: 1 failed" in told.out, "the first failure ends the search"


def test_a_failure_is_shrunk_to_a_file_that_replays_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "small.json"
    shrink = ["sim", "--seed", "3", "--duration", "1", "--shrink", "--output", str(file)]
    with mutated(BROKEN):
        assert run(shrink) == 1
        told = capsys.readouterr().err
        assert f"replay it with: replog sim --scenario {file}\n" in told
        assert run(["sim", "--scenario", str(file), "--format", "json"]) == 1
    failure = json.loads(capsys.readouterr().out)["failed"][0]
    assert failure["problem"].startswith(RULE)
    assert {"broker": "b0", "what": "process b0.1 starts"}.items() <= failure["timeline"][0].items()
    plan = json.loads(file.read_text())["plan"]
    assert plan["events"] == [] and len(plan["producers"]) == 1, "no fault is needed"
    assert run(["sim", "--scenario", str(file)]) == 0, "what is not broken passes"


def test_many_seeds_in_several_processes(capsys: pytest.CaptureFixture[str]) -> None:
    runs = ["sim", "--seed", "5", "--seeds", "2", "--duration", "1", "--format", "json"]
    assert run([*runs, "--jobs", "1"]) == run([*runs, "--jobs", "2", "--keep-going"]) == 0
    lines = capsys.readouterr().out.split("\n}\n")
    one, two = (json.loads(line + "\n}") for line in lines[:2])
    assert one["counts"] == two["counts"], "the same runs"


def test_many_seeds_tell_how_far_they_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replog.cli.sim.MANY", 3)
    monkeypatch.setattr("replog.cli.sim.TOLD_EVERY_S", 0)
    runs = ["sim", "--seed", "5", "--duration", "1", "--jobs", "1", "--seeds"]
    assert run([*runs, "3"]) == run([*runs, "2"]) == 0
    told = capsys.readouterr().err.splitlines()
    assert [line.partition(",")[0] for line in told] == ["1 of 3 seeds", "2 of 3 seeds"]


def test_a_kind_of_fault_that_never_happens_can_be_a_failure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["sim", "--seed", "5", "--duration", "1", "--every-fault"]) == 1
    assert "these faults never happened:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no JSON"),
        ("{}", '"format" is not 1'),
        ('{"format": 1, "what": "x", "plan": {"seed": 1}}', "scenario.plan.framed is not there"),
        ('{"format": 1, "what": "x", "plan": {"sed": 1}}', "scenario.plan.sed is not known"),
    ],
)
def test_a_file_that_is_no_scenario(
    text: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file.json").write_text(text)
    assert run(["sim", "--scenario", str(tmp_path / "file.json")]) != 0
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        ["--scenario", "x", "--duration", "1"],
        ["--scenario", "x", "--seeds", "2"],
        ["--output", "x"],
    ],
)
def test_options_that_contradict(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", *options]) == 2
    assert capsys.readouterr().err
