"""The simulated coordinator: reads that lag, sessions that outlive a lost quorum."""

from replog.model.coordination import Create, SetData, StoredNode
from replog.model.inputs import CoordinatorRead, CoordinatorWritten, Input, SessionStarted
from replog.sim.chance import Chance
from replog.sim.coordinator import CoordinatorService, CoordinatorSettings, Door
from replog.sim.network import Network, Weather
from replog.sim.schedule import Schedule


class Broker:
    """What is behind a door: it keeps what it is told."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.alive = True
        self.told: list[Input] = []

    def arrived(self, event: Input) -> None:
        self.told.append(event)


class Bench:
    """A coordinator that lags behind by half a second, and two brokers. Hints come very late."""

    def __init__(self) -> None:
        self.schedule = Schedule()
        chance = Chance(1)
        network = Network(self.schedule, chance, Weather(mean_ms=0.1))
        settings = CoordinatorSettings(hint_ms=1e9, slow_hint_probability=0.0)
        self.service = CoordinatorService(self.schedule, chance, network, settings)
        self.brokers = [Broker(0), Broker(1)]
        self.doors = [self.service.door(broker) for broker in self.brokers]
        for door in self.doors:
            door.start()
        self.run(10.0)
        self.service.lag_ms = 500.0

    def run(self, ms: float) -> None:
        self.schedule.run_until(self.schedule.now_ms + ms)

    def read(self, door: Door) -> dict[str, StoredNode]:
        door.read(1, ("/a",))
        self.run(50.0)
        answer = self.brokers[self.doors.index(door)].told[-1]
        assert isinstance(answer, CoordinatorRead) and answer.nodes is not None
        return answer.nodes


def test_a_read_lags_behind_the_writes_of_others_and_never_behind_ones_own() -> None:
    bench = Bench()
    writer, other = bench.doors
    writer.write(7, (Create("/a", b"1"),))
    bench.run(600.0)
    writer.write(8, (SetData("/a", b"2", 0),))
    bench.run(50.0)
    assert isinstance(bench.brokers[0].told[-1], CoordinatorWritten)
    assert bench.read(other)["/a"].data == b"1"
    assert bench.read(writer)["/a"].data == b"2"
    assert bench.service.stale_reads == 1
    bench.run(600.0)
    assert bench.read(other)["/a"].data == b"2"
    bench.service.lag_ms = 1_500.0
    assert bench.read(other)["/a"].data == b"2", "what was read once is not unread"


def test_no_session_ends_without_a_quorum() -> None:
    bench = Bench()
    door = bench.doors[0]
    assert isinstance(bench.brokers[0].told[0], SessionStarted)
    bench.service.halt()
    door.fall_silent()
    door.expire()
    bench.run(10_000.0)
    assert len(bench.service.tree.sessions()) == 2
    bench.service.go_on()
    bench.run(2_000.0)
    assert len(bench.service.tree.sessions()) == 1
