"""Fetch sessions, followers with two requests in flight, racks, durability: one fault a test."""

from typing import Any

import pytest
from tests.node.handlers.one_broker import OneBroker, record, topic_id
from tests.node.moving import produce as produce_to
from tests.node.test_altering_configs import alter
from tests.node.town import Town

from replog.log import checkpoints
from replog.model.config_resources import ResourceType
from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.inputs import JobDone, PeerIdentity, PeerReplied, Received
from replog.model.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from replog.model.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse
from replog.model.messages.produce import TopicProduceData as ProducedTopic
from replog.model.outputs import Reply, RunJob, Send
from replog.records.batch import Record, build_batch


def batch(*values: bytes, base_offset: int = 0) -> memoryview:
    records = [
        Record(base_offset + delta, 1_700_000_000_000, None, value, ())
        for delta, value in enumerate(values)
    ]
    return memoryview(bytearray(build_batch(records, base_offset=base_offset)))


def produce(broker: OneBroker, name: str, index: int, value: bytes, *, acks: int = 1) -> Any:
    data = PartitionProduceData(index=index, records=batch(value))
    topics = [ProducedTopic(name=name, topic_id=topic_id(name), partition_data=[data])]
    request = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)
    if acks == 1:
        return broker.ask(request, ProduceResponse, version=12)
    return broker.node.step(Received(7, 999, 12, request), broker.now_ms, broker.wall_ms)


def fetch(name: str, *wanted: tuple[int, int], **fields: Any) -> FetchRequest:
    """A fetch of (partition, offset) of one topic by a consumer."""
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        for index, offset in wanted
    ]
    topics = [FetchTopic(topic_id=topic_id(name), partitions=partitions)] if wanted else []
    asked = {"max_bytes": 1 << 20, "min_bytes": 1, "max_wait_ms": 0} | fields
    return FetchRequest(topics=topics, **asked)


def served(response: FetchResponse) -> dict[int, int]:
    """Bytes by partition."""
    return {
        data.partition_index: len(data.records or b"")
        for topic in response.responses
        for data in topic.partitions
    }


@pytest.fixture
def broker() -> OneBroker:
    made = OneBroker()
    made.topic("a", record(1), record(1))
    return made


def test_who_found_the_answer_full_is_served_next(broker: OneBroker) -> None:
    for index in (0, 1):
        produce(broker, "a", index, b"x" * 1000)
    first = broker.ask(fetch("a", (0, 0), (1, 0), session_epoch=0, max_bytes=500), FetchResponse)
    who = [{index for index, size in served(first).items() if size}]
    for epoch in range(1, 5):
        again = fetch("a", session_id=first.session_id, session_epoch=epoch, max_bytes=500)
        answer = broker.ask(again, FetchResponse)
        who.append({index for index, size in served(answer).items() if size})
    assert who == [{0}, {0}, {1}, {0}, {1}]  # as by Kafka: a full fetch changes no order


def test_a_second_request_of_a_session_ends_the_wait_of_the_first(broker: OneBroker) -> None:
    first = broker.ask(fetch("a", (0, 0), session_epoch=0), FetchResponse)
    waiting = fetch("a", session_id=first.session_id, session_epoch=1, max_wait_ms=500)
    outputs = broker.node.step(Received(7, 50, 17, waiting), broker.now_ms, broker.wall_ms)
    assert not [o for o in outputs if isinstance(o, Reply)]
    more = fetch("a", (1, 0), session_id=first.session_id, session_epoch=2, max_wait_ms=500)
    outputs = broker.node.step(Received(7, 51, 17, more), broker.now_ms, broker.wall_ms)
    assert [o.token for o in outputs if isinstance(o, Reply)] == [50]


class Follower:
    """Broker 1 follows partitions 0 and 1 of `b`, which broker 2 leads."""

    def __init__(self) -> None:
        self.broker = OneBroker()
        self.broker.node.broker_epoch = 101
        self.broker.topic("b", record(2, 1), record(2, 1))
        self.sent: list[Send] = []
        self.collect()

    def collect(self, outputs: list[Any] | None = None) -> list[FetchRequest]:
        """The fetches that have left since the last look."""
        found = self.broker.node._take_outputs() if outputs is None else outputs
        sends = [o for o in found if isinstance(o, Send) and isinstance(o.message, FetchRequest)]
        self.sent += sends
        return [o.message for o in sends if isinstance(o.message, FetchRequest)]

    def answer(self, number: int, *partitions: PartitionData) -> list[FetchRequest]:
        """Let the fetch `number` (0 is the first) be answered."""
        topics = [FetchableTopicResponse(topic_id=topic_id("b"), partitions=list(partitions))]
        response = FetchResponse(session_id=5, responses=topics if partitions else [])
        token = self.sent[number].token
        broker = self.broker
        return self.collect(
            broker.node.step(PeerReplied(token, 2, response), broker.now_ms, broker.wall_ms)
        )

    def log_end(self, index: int) -> int:
        (partition,) = (p for p in self.broker.node.partitions.all() if p.tp == ("b", index))
        return partition.log_end_offset


def told(request: FetchRequest) -> dict[int, int]:
    return {p.partition: p.fetch_offset for t in request.topics for p in t.partitions}


def data(index: int, base_offset: int) -> PartitionData:
    records = batch(b"v", base_offset=base_offset)
    return PartitionData(partition_index=index, high_watermark=0, records=records)


def test_a_batch_that_comes_twice_is_taken_once_and_costs_no_backoff() -> None:
    follower = Follower()
    (first,) = (s.message for s in follower.sent)
    assert isinstance(first, FetchRequest) and told(first) == {0: 0, 1: 0}
    assert [told(r) for r in follower.answer(0)] == [{}]  # 1 is parked at the leader
    partition = next(p for p in follower.broker.node.partitions.all() if p.tp.partition == 1)
    follower.broker.node.fetchers.synced(partition)  # nothing new: nothing is sent
    assert not follower.collect()
    follower.broker.topic("b", record(2, 1, epoch=0), record(2, 1, epoch=3))
    assert [told(r) for r in follower.collect()] == [{1: 0}]  # 2 overtakes 1
    assert [told(r) for r in follower.answer(1, data(0, 0))] == [{0: 1}]  # 3
    assert follower.log_end(0) == 1
    # The leader answers 2 before it has seen 3, so with the same batch once more.
    assert follower.answer(2, data(0, 0)) == []
    assert follower.log_end(0) == 1
    assert [told(r) for r in follower.answer(3, data(0, 1))] == [{0: 2}]


def lanes(sends: list[Any]) -> dict[int, set[int]]:
    """Which partitions were asked for on which connection."""
    found: dict[int, set[int]] = {}
    for send in sends:
        if isinstance(send, Send) and isinstance(send.message, FetchRequest):
            found.setdefault(send.lane, set()).update(told(send.message))
    return found


def test_partitions_of_a_leader_are_spread_over_as_many_fetchers_as_are_set() -> None:
    broker = OneBroker(num__replica__fetchers="3")
    broker.node.broker_epoch = 101
    broker.topic("b", *(record(2, 1) for _ in range(6)))
    found = lanes(broker.node._take_outputs())
    assert sorted(found) == [0, 1, 2]
    assert sorted(map(len, found.values())) == [2, 2, 2]
    assert set().union(*found.values()) == set(range(6))


def test_the_number_of_fetchers_changes_while_they_work() -> None:
    """Partitions move to their new fetcher, and the old session forgets them."""
    town = Town(brokers=(0, 1))
    town.start()
    town.create("t", [0, 1], [0, 1], [0, 1], [0, 1])
    follower = town.node(1)

    def in_step() -> bool:
        pairs = [
            (town.node(0).partitions.get(tp), follower.partitions.get(tp))
            for tp in (TopicPartition("t", index) for index in range(4))
        ]
        return all(a and b and a.log_end_offset == b.log_end_offset > 0 for a, b in pairs)

    for count in (2, 3, 1):
        assert alter(town, ResourceType.BROKER, "", 0, num__replica__fetchers=str(count))[0] == 0
        for index in range(4):
            produce_to(town, b"v", TopicPartition("t", index))
        town.run_until(in_step)
        working = [fetcher for fetcher in follower.fetchers._fetchers.values() if fetcher.followed]
        assert len(working) == count
        assert sum(len(fetcher.followed) for fetcher in working) == 4
        held = [
            item.tp
            for session in town.node(0).fetch_sessions._sessions.values()
            for item in session.items.values()
        ]
        assert len(held) == len(set(held)) == 4, "no session holds what another one asks for"


@pytest.mark.scenario(5)
def test_the_high_watermark_of_a_diverging_answer_is_not_taken() -> None:
    """What lies below it at the leader is not what lies below it here: cut first."""
    follower = Follower()
    for offset in range(4):
        mine = build_batch([Record(offset, 1, None, b"m")], base_offset=offset, leader_epoch=0)
        answer = PartitionData(partition_index=0, high_watermark=1, records=memoryview(mine))
        follower.answer(offset, answer)
    partition = next(p for p in follower.broker.node.partitions.all() if p.tp.partition == 0)
    assert (partition.log_end_offset, partition.high_watermark) == (4, 1)
    diverging = EpochEndOffset(epoch=0, end_offset=3)
    again = follower.answer(
        4, PartitionData(partition_index=0, high_watermark=9, diverging_epoch=diverging)
    )
    assert (partition.log_end_offset, partition.high_watermark) == (3, 1)
    assert told(again[0])[0] == 3, "and it asks again from there"


@pytest.mark.scenario(55)
def test_a_log_start_beyond_what_is_held_is_followed_up_to_what_is_committed() -> None:
    """The leader deleted records that are still on their way to this follower."""
    follower = Follower()
    mine = batch(b"a", base_offset=0)
    answer = PartitionData(partition_index=0, high_watermark=9, log_start_offset=7, records=mine)
    follower.answer(0, answer)
    partition = next(p for p in follower.broker.node.partitions.all() if p.tp.partition == 0)
    start, high_watermark = partition.log_start_offset, partition.high_watermark
    assert start <= high_watermark <= partition.log_end_offset == 1


def test_after_a_power_cut_no_high_watermark_covers_what_was_cut_off() -> None:
    """The truncation is not synced, so what was cut off may be there again."""
    follower = Follower()
    for offset in range(4):
        mine = build_batch([Record(offset, 1, None, b"m")], base_offset=offset, leader_epoch=0)
        answer = PartitionData(partition_index=0, high_watermark=3, records=memoryview(mine))
        follower.answer(offset, answer)
    partition = next(p for p in follower.broker.node.partitions.all() if p.tp.partition == 0)
    folder = partition.folder
    partition.log.flush()
    diverging = EpochEndOffset(epoch=0, end_offset=3)
    follower.answer(4, PartitionData(partition_index=0, diverging_epoch=diverging))
    theirs = build_batch([Record(4, 1, None, b"t")], base_offset=3, leader_epoch=0)
    answer = PartitionData(partition_index=0, high_watermark=4, records=memoryview(theirs))
    follower.answer(5, answer)
    assert (partition.log_end_offset, partition.high_watermark) == (4, 4)

    def stored() -> int:
        folder._high_watermark_file.write_now()
        return checkpoints.read(folder.disk, checkpoints.HIGH_WATERMARKS)[0][partition.tp]

    assert stored() == 3
    flush = partition.log.begin_flush(to_end=True)
    flush()
    partition.log.flushed(flush)
    assert stored() == 4


@pytest.mark.parametrize(
    ("high_watermark", "epoch", "kept"), [(1, 1, False), (4, 1, True), (1, 0, True)]
)
def test_a_log_that_ends_where_the_leaders_begins_is_of_an_unknown_history(
    high_watermark: int, epoch: int, *, kept: bool
) -> None:
    """The leader has forgotten the epochs of what it deleted, so it finds no divergence. Records
    that were never committed would be shown after a kill that comes before the log start is on
    disk."""
    follower = Follower()
    for offset in range(4):
        mine = build_batch([Record(offset, 1, None, b"m")], base_offset=offset, leader_epoch=0)
        answer = PartitionData(
            partition_index=0, high_watermark=high_watermark, records=memoryview(mine)
        )
        follower.answer(offset, answer)
    partition = next(p for p in follower.broker.node.partitions.all() if p.tp.partition == 0)
    follower.broker.topic("b", record(2, 1, epoch=epoch), record(2, 1, epoch=0))
    for asked in (p for r in follower.collect() for t in r.topics for p in t.partitions):
        assert asked.high_watermark == high_watermark, "the leader can't tell by itself"
    theirs = build_batch([Record(4, 1, None, b"t")], base_offset=4, leader_epoch=epoch)
    answer = PartitionData(
        partition_index=0, high_watermark=5, log_start_offset=4, records=memoryview(theirs)
    )
    again = follower.answer(len(follower.sent) - 1, answer)
    assert partition.log.base_offsets[0] == (0 if kept else 4)
    assert (partition.log_start_offset, partition.log_end_offset) == (4, 5 if kept else 4)
    assert told(again[0])[0] == partition.log_end_offset, "and it asks again from there"


def test_who_leads_copies_no_more() -> None:
    follower = Follower()
    follower.broker.topic("b", record(1, 2, epoch=1), record(2, 1))
    (asked,) = follower.answer(0)
    assert [topic.partitions for topic in asked.forgotten_topics_data] == [[0]]
    assert 0 not in told(asked)


def test_a_stranger_with_a_replica_id_moves_nothing(broker: OneBroker) -> None:
    broker.topic("c", record(1, 2))
    produce(broker, "c", 0, b"x")
    partition = next(p for p in broker.node.partitions.all() if p.tp.topic == "c")
    state = ReplicaState(replica_id=2, replica_epoch=102)
    request = fetch("c", (0, 1), replica_state=state)
    request.topics[0].partitions[0].current_leader_epoch = 0
    broker.ask(request, FetchResponse)
    assert partition.high_watermark == 0
    for peer, moved in (
        (PeerIdentity(2, 99), 0),
        (PeerIdentity(3, 103), 0),
        (PeerIdentity(2, 102), 1),
    ):
        broker.node.step(Received(9, 1, 18, request, peer=peer), broker.now_ms, broker.wall_ms)
        assert partition.high_watermark == moved, peer


def test_a_replica_that_is_not_assigned_is_given_nothing(broker: OneBroker) -> None:
    """Its partition has moved away: it hears so, and is no follower any more."""
    broker.topic("c", record(1, 2))
    produce(broker, "c", 0, b"x")
    for replica, error in ((3, ErrorCode.NOT_LEADER_OR_FOLLOWER), (2, ErrorCode.NONE)):
        state = ReplicaState(replica_id=replica, replica_epoch=100 + replica)
        request = fetch("c", (0, 0), replica_state=state)
        peer = PeerIdentity(replica, 100 + replica)
        outputs = broker.node.step(
            Received(9, 1, 18, request, peer=peer), broker.now_ms, broker.wall_ms
        )
        (answer,) = (o.message for o in outputs if isinstance(o, Reply))
        assert isinstance(answer, FetchResponse)
        assert answer.responses[0].partitions[0].error_code == error


@pytest.mark.scenario(82)
@pytest.mark.parametrize("absent", ["broker epoch", "leader epoch", "replica state"])
def test_a_follower_that_leaves_an_epoch_out_moves_nothing(broker: OneBroker, absent: str) -> None:
    """As a broker of an old version would that does not know the field."""
    broker.topic("c", record(1, 2))
    produce(broker, "c", 0, b"x")
    partition = next(p for p in broker.node.partitions.all() if p.tp.topic == "c")
    request = fetch("c", (0, 1), replica_state=ReplicaState(replica_id=2, replica_epoch=102))
    request.topics[0].partitions[0].current_leader_epoch = 0
    if absent == "broker epoch":
        request.replica_state.replica_epoch = -1
    elif absent == "leader epoch":
        request.topics[0].partitions[0].current_leader_epoch = -1
    else:
        request.replica_state, request.replica_id = ReplicaState(), 2
    broker.node.step(
        Received(9, 1, 18, request, peer=PeerIdentity(2, 102)), broker.now_ms, broker.wall_ms
    )
    assert partition.high_watermark == 0
    assert partition.leader is not None and partition.leader.progress[2].log_end_offset == -1


@pytest.mark.parametrize(
    ("offset", "last_epoch", "high_watermark", "counts"),
    [
        (2, 0, 1, False),
        (2, 0, 2, True),  # what is committed is of one history
        (2, -1, 0, True),  # it has nothing
        (3, 1, 1, True),  # the epoch of the record before is known here
    ],
)
def test_who_may_be_of_another_history_is_not_counted(
    broker: OneBroker, offset: int, last_epoch: int, high_watermark: int, *, counts: bool
) -> None:
    """It will copy the log anew. Counted before, and elected before it has done so, it would show
    records that were never committed."""
    for epoch, values in enumerate([(b"x", b"y"), (b"z",)]):
        broker.topic("c", record(1, epoch=epoch))
        for value in values:
            produce(broker, "c", 0, value)
    partition = next(p for p in broker.node.partitions.all() if p.tp.topic == "c")
    partition.log.start_at(2)
    broker.topic("c", record(1, 2, epoch=2))
    state = ReplicaState(replica_id=2, replica_epoch=102)
    request = fetch("c", (0, offset), replica_state=state)
    asked = request.topics[0].partitions[0]
    asked.current_leader_epoch = 2
    asked.last_fetched_epoch = last_epoch
    asked.high_watermark = high_watermark
    peer = PeerIdentity(2, 102)
    broker.node.step(Received(9, 1, 18, request, peer=peer), broker.now_ms, broker.wall_ms)
    leader = partition.leader
    assert leader is not None
    assert leader.progress[2].log_end_offset == (offset if counts else -1)


@pytest.mark.surface(42)
@pytest.mark.scenario(78)
def test_consumers_are_sent_to_an_in_sync_replica_in_their_rack() -> None:
    broker = OneBroker(
        broker__rack="r1",
        replica__selector__class="org.apache.kafka.common.replica.RackAwareReplicaSelector",
    )
    broker.broker(2, rack="r2")
    broker.broker(3, rack="r3")
    broker.topic("d", record(1, 2, 3))
    produce(broker, "d", 0, b"x")
    partition = next(iter(broker.node.partitions.all()))

    def preferred(rack: str) -> int:
        response = broker.ask(fetch("d", (0, 0), rack_id=rack), FetchResponse)
        return response.responses[0].partitions[0].preferred_read_replica

    assert preferred("r2") == -1  # nobody knows yet that 2 holds anything
    for peer in (2, 3):
        broker.node.partitions.follower_fetched(partition, PeerIdentity(peer, 100 + peer), 1)
    assert preferred("r2") == 2
    assert preferred("r3") == 3
    assert preferred("r1") == -1
    assert preferred("elsewhere") == -1


def test_a_consumer_that_comes_back_from_a_follower_is_answered_in_its_session() -> None:
    broker = OneBroker(
        broker__rack="r1",
        replica__selector__class="org.apache.kafka.common.replica.RackAwareReplicaSelector",
    )
    broker.broker(2, rack="r2")
    broker.topic("d", record(1, 2))
    produce(broker, "d", 0, b"x")
    partition = next(iter(broker.node.partitions.all()))
    broker.node.partitions.follower_fetched(partition, PeerIdentity(2, 102), 1)
    first = broker.ask(fetch("d", (0, 0), rack_id="r2", session_epoch=0), FetchResponse)
    assert first.responses[0].partitions[0].preferred_read_replica == 2
    # The follower could not be reached. The next fetch has nothing new to tell.
    again = fetch("d", rack_id="r2", session_id=first.session_id, session_epoch=1)
    second = broker.ask(again, FetchResponse)
    assert second.responses[0].partitions[0].preferred_read_replica == 2


@pytest.mark.scenario(78)
def test_a_follower_serves_its_committed_records_while_nobody_leads() -> None:
    follower = Follower()
    follower.answer(0, PartitionData(partition_index=0, high_watermark=1, records=batch(b"v")))
    follower.broker.topic("b", record(2, 1, leader=-1, epoch=1), record(2, 1))
    for epoch, error in (
        (0, ErrorCode.NONE),
        (1, ErrorCode.NONE),
        (2, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        request = fetch("b", (0, 0))
        request.topics[0].partitions[0].current_leader_epoch = epoch
        partition = follower.broker.ask(request, FetchResponse).responses[0].partitions[0]
        assert partition.error_code == error, epoch
        assert bool(partition.records) == (error is ErrorCode.NONE)


def test_with_fsync_an_acknowledgement_waits_for_the_disk() -> None:
    broker = OneBroker()
    broker.topic("e", record(1), replog__durability="fsync")
    outputs = produce(broker, "e", 0, b"x", acks=-1)
    assert not [o for o in outputs if isinstance(o, Reply)]
    (job,) = (o for o in outputs if isinstance(o, RunJob))
    assert not [o for o in produce(broker, "e", 0, b"y", acks=-1) if isinstance(o, RunJob)]
    job.work()
    outputs = broker.node.step(JobDone(job.token), broker.now_ms, broker.wall_ms)
    assert len([o for o in outputs if isinstance(o, Reply)]) == 1  # the second waits for its own
    assert len([o for o in outputs if isinstance(o, RunJob)]) == 1


def test_a_client_is_sent_what_fits_and_a_follower_whole_batches(broker: OneBroker) -> None:
    broker.topic("c", record(1, 2))
    for value in (b"x" * 50, b"y" * 50):
        produce(broker, "c", 0, value)
    size = len(batch(b"x" * 50))
    partition = next(p for p in broker.node.partitions.all() if p.tp.topic == "c")
    broker.node.partitions.follower_fetched(partition, PeerIdentity(2, 102), 2)
    asked = fetch("c", (0, 0))
    asked.topics[0].partitions[0].partition_max_bytes = size + 7
    assert served(broker.ask(asked, FetchResponse)) == {0: size + 7}
    state = ReplicaState(replica_id=2, replica_epoch=102)
    copied = fetch("c", (0, 0), replica_state=state)
    copied.topics[0].partitions[0].partition_max_bytes = size + 7
    request = Received(9, 1, 18, copied, peer=PeerIdentity(2, 102))
    (reply,) = (
        o
        for o in broker.node.step(request, broker.now_ms, broker.wall_ms)
        if isinstance(o, Reply) and o.connection == 9
    )
    assert isinstance(reply.message, FetchResponse)
    assert served(reply.message) == {0: size}


@pytest.mark.parametrize("version", [4, 12, 18])
def test_a_negative_limit_is_an_error_of_each_partition_that_has_something(
    broker: OneBroker, version: int
) -> None:
    broker.topic("c", record(1), record(1))
    produce(broker, "c", 0, b"x")
    asked = fetch("c", (0, 0), (1, 0), max_bytes=-1, min_bytes=0)
    asked.topics[0].topic = "c"
    answer = broker.ask(asked, FetchResponse, version=version)
    errors = {p.partition_index: p.error_code for t in answer.responses for p in t.partitions}
    assert errors == {0: ErrorCode.UNKNOWN_SERVER_ERROR, 1: ErrorCode.NONE}
