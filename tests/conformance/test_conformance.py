"""Replog answers as Apache Kafka 4.4 does, request by request.

`make conformance-record` wrote down what Kafka answers. All runs that were chosen are played at
once against one cluster; then each is a test of its own. `make test` plays each case at one of its
versions, `make conformance` at all of them.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from tests.conformance import recording
from tests.conformance.excuses import EXCUSES, excuse_of
from tests.conformance.runs import Run, all_runs, play, some_runs
from tests.support.cluster import Cluster

EVERYTHING = all_runs()
RUNS = EVERYTHING if os.environ.get("REPLOG_CONFORMANCE") else some_runs()
SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    # On a busy machine nobody is to be taken for dead: what is asked here is not about that.
    "replog.session.silence.ms": "30000",
}
PLAYED_S = 300  # for all runs together, on a machine that has much else to do


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    return recording.load()


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, tuple[str, int]]]:
    """Three brokers with the settings that Kafka's had."""
    running = Cluster(tmp_path_factory.mktemp("conformance"), first_id=1, settings=SETTINGS)
    yield {broker: ("127.0.0.1", port) for broker, port in running.ports.items()}
    running.down()


@pytest.fixture(scope="module")
def answers(
    request: pytest.FixtureRequest,
    brokers: dict[int, tuple[str, int]],
    recorded: dict[str, Any],
) -> dict[str, Any]:
    """What Replog answers in the runs that were chosen.

    Many are played at once. What differs then without an excuse is played once more, when the
    cluster has nothing else to do: a coordinator may just have begun.
    """
    chosen = [
        item.callspec.params["run"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
        if isinstance(item.callspec.params.get("run"), Run)
    ]
    found = play(chosen, brokers)
    odd = [
        run
        for run in chosen
        if excuse_of(run.name) is None
        and recording.differences(recorded.get(run.name), found[run.name])
    ]
    return found | play(odd, brokers)


@pytest.mark.timeout(PLAYED_S)
@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_answer(run: Run, recorded: dict[str, Any], answers: dict[str, Any]) -> None:
    found = answers[run.name]
    assert not isinstance(found, str), found
    different = recording.differences(recorded[run.name], found)
    excuse = excuse_of(run.name)
    if excuse is None:
        assert not different, "\n".join(different)
    else:
        assert different, f"answered as by Kafka now: take the excuse {excuse.runs!r} out"


def test_each_run_is_recorded(recorded: dict[str, Any]) -> None:
    """And nothing else: whoever changes a case records it anew."""
    assert {run.name for run in EVERYTHING} == recorded.keys()


def test_each_excuse_is_needed() -> None:
    used = {excuse_of(run.name) for run in EVERYTHING}
    assert [excuse.runs for excuse in EXCUSES if excuse not in used] == []
