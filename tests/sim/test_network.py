"""The simulated network keeps order and loses only tails."""

from itertools import pairwise
from typing import Any

import pytest

from replog.log.disk import DiskFile
from replog.model.inputs import ConnectionClosed, Received
from replog.model.messages import Message
from replog.model.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from replog.model.records import FileRange
from replog.sim.chance import Chance
from replog.sim.connection import Connection
from replog.sim.mem_disk import MemDisk
from replog.sim.network import EndOfStream, Network, Pipe, Weather
from replog.sim.schedule import Schedule, Target
from replog.sim.transfer import Parcel, Plain
from replog.sim.violation import Violation


class Bench:
    """A network and one pipe whose deliveries are kept with their times."""

    def __init__(self, seed: int = 1, weather: Weather | None = None) -> None:
        self.schedule = Schedule()
        self.network = Network(self.schedule, Chance(seed), weather or Weather(mean_ms=5.0))
        self.got: list[tuple[float, Any]] = []
        self.pipe = Pipe(self.network, ("a", "b"), self.take)

    def take(self, item: Any) -> None:
        self.got.append((self.schedule.now_ms, item))

    @property
    def items(self) -> list[Any]:
        return [item for _, item in self.got]


@pytest.mark.parametrize("seed", range(5))
def test_items_arrive_in_the_order_in_which_they_were_put(seed: int) -> None:
    bench = Bench(seed, Weather(mean_ms=5.0, spike_probability=0.3, spike_ms=100.0))
    for number in range(50):
        bench.pipe.put(number)
    bench.schedule.run_until(10_000.0)
    assert bench.items == list(range(50))
    assert bench.network.late_messages > 0


def test_a_cut_link_holds_everything_back_until_it_is_mended() -> None:
    bench = Bench()
    link = ("a", "b")
    bench.network.cut([link])
    bench.network.cut([link])
    bench.pipe.put("early")
    bench.schedule.run_until(1_000.0)
    bench.network.mend([link])
    bench.schedule.run_until(2_000.0)
    assert bench.items == [], "cut twice, mended once"
    bench.network.mend([link])
    bench.schedule.run_until(2_001.0)
    assert bench.items == ["early"]


def test_a_cut_is_one_way() -> None:
    bench = Bench()
    bench.network.cut([("b", "a")])
    bench.pipe.put("through")
    bench.schedule.run_until(1_000.0)
    assert bench.items == ["through"]


@pytest.mark.parametrize("seed", range(20))
def test_a_stream_that_ends_has_lost_a_tail_only(seed: int) -> None:
    bench = Bench(seed)
    for number in range(8):
        bench.pipe.put(number)
    bench.pipe.finish("broken")
    bench.pipe.put("too late")
    bench.schedule.run_until(1_000.0)
    *before, end = bench.items
    assert before == list(range(len(before)))
    assert isinstance(end, EndOfStream) and end.reason == "broken"


def test_how_much_of_a_stream_arrives_differs_by_seed() -> None:
    lengths = set()
    for seed in range(20):
        bench = Bench(seed)
        for number in range(4):
            bench.pipe.put(number)
        bench.pipe.finish("broken")
        bench.schedule.run_until(1_000.0)
        lengths.add(len(bench.items) - 1)
    assert lengths == {0, 1, 2, 3, 4}


def test_a_dropped_stream_delivers_nothing_more() -> None:
    bench = Bench()
    bench.pipe.put("lost")
    bench.pipe.drop()
    bench.schedule.run_until(1_000.0)
    assert bench.items == []


def test_choices_of_one_site_do_not_shift_those_of_another() -> None:
    alone, together = Chance(7), Chance(7)
    expected = [alone.at("here").random() for _ in range(5)]
    found = []
    for _ in range(5):
        together.at("elsewhere").random()
        found.append(together.at("here").random())
    assert found == expected


def test_what_is_due_at_one_instant_keeps_its_order() -> None:
    order: list[str] = []

    class Named(Target):
        def take(self, item: Any) -> None:
            order.append(f"{self.name}{item}")

    schedule = Schedule()
    first, second = Named("x"), Named("y")
    schedule.at(5.0, first, 1)
    schedule.at(5.0, second, 1)
    schedule.at(1.0, second, 0)
    schedule.at(-3.0, first, 0)
    schedule.run_until(5.0)
    assert order == ["x0", "y0", "x1", "y1"]
    assert schedule.now_ms == 5.0


def test_a_sender_that_falls_silent_is_noticed_late_and_what_it_sent_arrives() -> None:
    bench = Bench()
    bench.pipe.put("sent")
    bench.pipe.fall_silent(500.0)
    bench.pipe.put("never sent")
    bench.schedule.run_until(499.0)
    assert bench.items == ["sent"]
    bench.schedule.run_until(501.0)
    assert isinstance(bench.items[-1], EndOfStream) and len(bench.items) == 2


def test_a_link_that_drips_has_a_pause_after_each_message() -> None:
    bench = Bench()
    bench.network.drip([("a", "b")], 100.0)
    for number in range(4):
        bench.pipe.put(number)
    bench.schedule.run_until(1_000.0)
    times = [at for at, _ in bench.got]
    assert all(later - earlier >= 99.9 for earlier, later in pairwise(times))
    bench.network.drip([("a", "b")], 0.0)
    began = bench.schedule.now_ms
    bench.pipe.put("quick")
    bench.schedule.run_until(2_000.0)
    assert bench.got[-1][0] - began < 99.0


def some_records(name: str) -> DiskFile:
    file = MemDisk().open(name, create=True)
    file.append((b"records",))
    return file


def fetched(file: DiskFile) -> FetchResponse:
    part = PartitionData(partition_index=0, records=FileRange(file, 0, 7))
    return FetchResponse(responses=[FetchableTopicResponse(partitions=[part])])


def test_an_answer_whose_file_was_cut_before_it_was_read_is_told_apart() -> None:
    """A process that dies in the step that cut it sends it no more."""
    file = some_records("f")
    parcel = Parcel(fetched(file))
    assert not parcel.changed
    file.truncate(3)
    assert parcel.changed
    with pytest.raises(Violation, match="never change"):
        parcel.freeze()


class Ends:
    """Both ends of a connection: a client that asks twice, and a broker that answers when told."""

    def __init__(self) -> None:
        self.connections: dict[int, Connection] = {}
        self.taken: list[Received] = []
        self.answers: list[Message] = []
        self.over = ""

    def greeted(self, connection: Connection) -> None:
        connection.welcome(1)

    def connected(self, connection: Connection, acceptor_epoch: int) -> None:
        for _ in range(2):
            connection.ask(FetchRequest(), 12)

    def arrived(self, event: Received | ConnectionClosed) -> None:
        if isinstance(event, Received):
            self.taken.append(event)

    def answered(self, connection: Connection, message: Message) -> None:
        self.answers.append(message)

    def closed(self, connection: Connection, reason: str) -> None:
        self.over = reason


@pytest.mark.parametrize("answered", [(1, 2), (1,)], ids=["both left", "one waits for its turn"])
def test_two_logs_that_one_step_cuts_are_told_of_one_after_the_other(
    answered: tuple[int, ...],
) -> None:
    """What is told first is not what the first answer holds."""
    bench, ends = Bench(), Ends()
    connection = Connection(
        bench.network,
        7,
        ends,
        link=("a", "b"),
        find=lambda: ends,
        courier=Plain(),
        client_id="c",
    )
    bench.schedule.run_until(1_000.0)
    assert [request.token for request in ends.taken] == [1, 2]
    files = [some_records("first"), some_records("second")]
    for token, file in zip((1, 2), files, strict=True):
        if token in answered:
            connection.answer(token, fetched(file))
    if len(answered) == 1:
        connection.slots[0].answer = Parcel(fetched(files[1]))
    for file in files:
        file.truncate(0)
    assert connection.invalidate(files[1], 0)
    assert not connection.invalidate(files[0], 0), "it is closed"
    bench.schedule.run_until(2_000.0)
    assert ends.answers == [] and ends.over == "the log was truncated"
