"""Any history of kills, stops, restarts and power cuts, one power cut at a time, loses nothing that
was acknowledged with `min.insync.replicas=2`, and ends with equal logs."""

import random

import pytest
from tests.node.moving import begin_produce, create, held, produced, state
from tests.node.town import Town

from replog.core.controller import stored
from replog.model.errors import ErrorCode

ACTIONS = 40
BROKERS = (0, 1, 2)


class History:
    """One random history."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.town = Town()
        self.town.start()
        self.town.run(100)
        create(self.town, "t", [0, 1, 2], min__insync__replicas="2")
        self.sent: dict[int, bytes] = {}  # connection -> value
        self.count = 0
        self.cut: int | None = None  # whose power was cut, until it is in sync again
        self.did: list[str] = []

    def up(self, broker: int) -> bool:
        return self.town.lives[broker].alive

    def act(self) -> None:
        town, rng = self.town, self.rng
        now = state(town)
        if self.cut is not None and self.up(self.cut) and now["leader"] >= 0:
            # Nothing else may be lost before it has again what it lacked.
            self.cut = None if self.cut in now["isr"] else self.cut
        broker = rng.choice(BROKERS)
        what = rng.choice(("produce", "start") * 4 + ("kill", "kill", "stop", "cut", "cut", "wait"))
        self.did.append(f"{what} {broker}")
        if what == "produce":
            self.produce()
        elif what == "start" and not self.up(broker):
            town.start(broker)
        elif what == "kill" and self.up(broker):
            town.kill(broker)
        elif what == "stop" and self.up(broker):
            town.stop(broker)
        elif what == "cut" and self.up(broker) and self.cut in (None, broker):
            town.cut_power(broker)
            self.cut = broker
        town.run(rng.choice((1, 20, 400)))

    def produce(self) -> None:
        leader = state(self.town)["leader"]
        if leader >= 0 and self.up(leader):
            for _ in range(self.rng.randint(1, 3)):
                self.count += 1
                value = b"value %05d." % self.count
                self.sent[begin_produce(self.town, value)] = value

    def acknowledged(self) -> list[bytes]:
        return [
            value
            for connection, value in self.sent.items()
            if produced(self.town, connection) is ErrorCode.NONE
        ]

    def mend(self) -> None:
        town = self.town
        town.run(20_000)  # who was told to stop has stopped
        for broker in BROKERS:
            if not self.up(broker):
                town.start(broker)
        town.run_until(lambda: sorted(state(town)["isr"]) == [0, 1, 2], limit_ms=60_000)
        town.run(1_000)


@pytest.mark.parametrize("seed", range(25))
def test_one_power_cut_at_a_time_loses_nothing(seed: int) -> None:
    history = History(seed)
    for _ in range(ACTIONS):
        history.act()
    history.mend()
    town = history.town
    told = "; ".join(history.did)
    logs = [held(town, broker) for broker in BROKERS]
    assert logs[0] is not None and logs[0] == logs[1] == logs[2], told
    for value in history.acknowledged():
        assert logs[0].count(value) == 1, f"{value!r} is lost: {told}"
    assert stored.LOSSES not in town.tree.nodes, told


def test_the_histories_are_about_something() -> None:
    histories = [History(seed) for seed in range(6)]
    for history in histories:
        for _ in range(ACTIONS):
            history.act()
        history.town.run(4_000)
    assert sum(len(history.acknowledged()) for history in histories) > 60
    reports = [line for history in histories for line in history.town.reports]
    assert any("may lack records" in line for line in reports)
    assert any("elr () -> (" in line for line in reports)
