"""Producers that repeat themselves, and leaders that must know it."""

import pytest
from tests.node.moving import assigned, create, elect, members, move
from tests.node.town import Town
from tests.scenarios.stage import (
    a_town,
    alike,
    copies_nothing,
    cut_from_peers,
    expire_unheard,
    isr,
    nothing,
    reconnect,
    replica,
    values,
)

from replog.model.errors import ErrorCode
from replog.model.inputs import CoordinatorReach
from replog.model.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from replog.model.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from replog.model.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from replog.model.messages.update_cluster import UpdateClusterRequest
from replog.node import producer_ids
from replog.records.batch import Producer, Record, build_batch

PRODUCER_ID = 4711
FORGOTTEN_AFTER_MS = 601_000  # expiry is looked for every ten minutes


@pytest.fixture
def town() -> Town:
    """Broker 0 is the controller."""
    return a_town()


def begin(town: Town, sequence: int, *, at: int | None = None, timeout_ms: int = 3_000) -> int:
    """Send the batch with this sequence, of one record; returns the connection."""
    batch = build_batch(
        [Record(0, town.wall_ms, None, b"seq %d" % sequence)],
        producer=Producer(PRODUCER_ID, 0, sequence),
    )
    data = PartitionProduceData(index=0, records=memoryview(bytearray(batch)))
    request = ProduceRequest(
        acks=-1,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name="t", partition_data=[data])],
    )
    return town.ask_later(members(town)[0] if at is None else at, request, version=9)


def result(town: Town, connection: int) -> PartitionProduceResponse:
    town.run_until(lambda: town.answered(connection))
    return town.answer(connection, ProduceResponse).responses[0].partition_responses[0]


def send(town: Town, sequence: int, *, at: int | None = None) -> tuple[ErrorCode, int]:
    """Error and base offset."""
    part = result(town, begin(town, sequence, at=at))
    return ErrorCode(part.error_code), part.base_offset


def sequences(town: Town, broker: int) -> list[bytes]:
    return values(town, broker)


def delete_records(town: Town, before: int) -> None:
    asked = DeleteRecordsPartition(partition_index=0, offset=before)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="t", partitions=[asked])], timeout_ms=5_000
    )
    answer = town.ask(members(town)[0], request, DeleteRecordsResponse)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


def fail_over(town: Town) -> int:
    """Another broker leads; returns which."""
    before = members(town)[0]
    town.kill(before)
    town.run_until(lambda: members(town)[0] not in (-1, before))
    return members(town)[0]


@pytest.mark.surface(51)
@pytest.mark.scenario(63)
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_write_that_timed_out_and_was_committed_is_there_once(
    town: Town, elsewhere: bool
) -> None:
    """The retry is told the offset of the first try, by a new leader as well."""
    create(town, "t", [1, 2, 0], min__insync__replicas="2")
    assert send(town, 0) == (ErrorCode.NONE, 0)
    copies_nothing(town, 0, 2)
    first = begin(town, 1, timeout_ms=300)
    assert result(town, first).error_code == ErrorCode.REQUEST_TIMED_OUT
    town.lose_send = nothing
    town.run_until(lambda: alike(town, 0, 1, 2))
    if elsewhere:
        fail_over(town)
    assert send(town, 1) == (ErrorCode.NONE, 1)
    assert send(town, 2) == (ErrorCode.NONE, 2)
    assert sequences(town, members(town)[0]) == [b"seq 0", b"seq 1", b"seq 2"]


@pytest.mark.surface(51)
@pytest.mark.scenario(65)
def test_five_in_flight_the_first_fails_and_the_leader_changes(town: Town) -> None:
    """What comes after the gap is refused until the gap is filled; the new leader knows the last
    five from its log."""
    create(town, "t", [1, 2, 0], min__insync__replicas="2")
    for sequence in range(5):
        assert send(town, sequence) == (ErrorCode.NONE, sequence)
    late = [begin(town, sequence) for sequence in (6, 7, 8, 9)]  # 5 was lost under way
    errors = {ErrorCode(result(town, connection).error_code) for connection in late}
    assert errors == {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
    fail_over(town)
    assert send(town, 6)[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    for sequence in range(5):
        assert send(town, sequence) == (ErrorCode.NONE, sequence), "a repetition"
    for sequence in range(5, 10):
        assert send(town, sequence) == (ErrorCode.NONE, sequence)
    assert send(town, 4)[0] is not ErrorCode.NONE, "too old to be told from a new one"
    expected = [b"seq %d" % sequence for sequence in range(10)]
    assert sequences(town, members(town)[0]) == expected


@pytest.mark.scenario(7, 65)
def test_a_leader_that_was_replaced_and_not_told_calls_nothing_a_gap(town: Town) -> None:
    """librdkafka takes a gap for the end: it is nobody's word but the leader's."""
    create(town, "t", [1, 2, 0], min__insync__replicas="1")
    assert send(town, 0) == (ErrorCode.NONE, 0)
    town.lose_send = cut_from_peers(1)
    expire_unheard(town, 1)
    town.run_until(lambda: members(town)[0] == 2)
    assert send(town, 1) == (ErrorCode.NONE, 1)
    assert send(town, 2, at=1)[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER, "1 is missing here alone"
    town.cut_from_coordinator.discard(1)
    assert send(town, 2, at=1)[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER, "its session is over"
    town.lose_send = nothing
    reconnect(town, 1)
    assert send(town, 2) == (ErrorCode.NONE, 2)
    assert send(town, 4)[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.scenario(65)
def test_a_leader_that_was_not_told_of_the_next_one_calls_nothing_a_gap(town: Town) -> None:
    """It is registered all the same: the coordinator has to be asked who leads."""
    create(town, "t", [2, 1, 0], min__insync__replicas="1")
    assert send(town, 0) == (ErrorCode.NONE, 0)
    assert fail_over(town) == 1
    town.start(2)
    town.run_until(lambda: isr(town) == [0, 1, 2])
    town.lose_send = lambda source, target, message: (
        target == 1 and isinstance(message, UpdateClusterRequest)
    )
    assert elect(town, 0) == [ErrorCode.NONE]
    assert members(town)[0] == 2
    assert send(town, 1) == (ErrorCode.NONE, 1)
    late = [begin(town, sequence, at=1) for sequence in (2, 3, 4)]
    errors = {ErrorCode(result(town, connection).error_code) for connection in late}
    assert errors == {ErrorCode.NOT_LEADER_OR_FOLLOWER}


@pytest.mark.scenario(66)
def test_a_producer_that_was_forgotten_goes_on_where_it_was() -> None:
    town = a_town(0, producer__id__expiration__ms="1000")
    create(town, "t", [0])
    for sequence in range(7):
        assert send(town, sequence)[0] is ErrorCode.NONE
    town.run(FORGOTTEN_AFTER_MS)
    assert send(town, 7) == (ErrorCode.NONE, 7), "any first sequence of an unknown producer"
    assert send(town, 9)[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "known again"
    assert send(town, 8) == (ErrorCode.NONE, 8)


@pytest.mark.scenario(66)
def test_a_producer_whose_records_are_deleted_is_still_known(town: Town) -> None:
    """Its state outlives its records, on the leader and on whoever leads next."""
    create(town, "t", [1, 2, 0])
    for sequence in range(7):
        assert send(town, sequence)[0] is ErrorCode.NONE
    delete_records(town, 7)
    assert send(town, 6) == (ErrorCode.NONE, 6), "a repetition of what is deleted"
    fail_over(town)
    assert send(town, 9)[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(town, 7) == (ErrorCode.NONE, 7)


@pytest.mark.scenario(53, 66)
@pytest.mark.parametrize("restarted", [False, True])
def test_a_replica_that_never_had_a_producers_records_knows_the_producer(
    town: Town, *, restarted: bool
) -> None:
    """It begins where the leader's log does, on an empty disk; what came before, it is told."""
    create(town, "t", [1, 2])
    for sequence in range(7):
        assert send(town, sequence)[0] is ErrorCode.NONE
    town.kill(2)
    town.replace_disk(2)
    delete_records(town, 7)
    town.start(2)
    town.run_until(lambda: isr(town) == [1, 2])
    if restarted:
        town.kill(2)
        town.start(2)
        town.run_until(lambda: isr(town) == [1, 2])
    assert fail_over(town) == 2
    assert send(town, 9)[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "a gap is a gap"
    assert send(town, 6) == (ErrorCode.NONE, 6), "a repetition of what is deleted"
    assert send(town, 7) == (ErrorCode.NONE, 7)


@pytest.mark.scenario(53, 66)
def test_a_replica_of_which_power_left_its_start_alone_knows_the_producer_again(
    town: Town,
) -> None:
    create(town, "t", [1, 2])
    for sequence in range(7):
        assert send(town, sequence)[0] is ErrorCode.NONE
    delete_records(town, 7)
    town.run(1_000)
    town.kill(2)
    disk = town.disk(2)
    for name in disk.list("t-0"):
        if name.endswith((".log", ".index", ".timeindex", ".snapshot")):
            disk.remove(f"t-0/{name}")
    town.start(2)
    town.run_until(lambda: isr(town) == [1, 2])
    town.run(200)
    assert fail_over(town) == 2
    assert send(town, 9)[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "a gap is a gap"
    assert send(town, 7) == (ErrorCode.NONE, 7)


@pytest.mark.scenario(53, 66)
def test_a_replica_of_which_power_left_its_start_alone_copies_what_came_behind_it(
    town: Town,
) -> None:
    """The answer that tells it of the producer has records, too, which are not taken: it asks for
    them again from where it was, and the leader does not send them unless it is told so."""
    create(town, "t", [1, 2])
    for sequence in range(9):
        assert send(town, sequence)[0] is ErrorCode.NONE
        if sequence == 6:
            delete_records(town, 7)
    town.run(1_000)
    town.kill(2)
    disk = town.disk(2)
    for name in disk.list("t-0"):
        if name != "partition.metadata":
            disk.remove(f"t-0/{name}")
    town.start(2)
    town.run_until(lambda: isr(town) == [1, 2])
    assert replica(town, 2).log_end_offset == 9


@pytest.mark.scenario(53, 66)
def test_a_replica_that_power_left_nothing_of_what_it_copied_knows_the_producer(
    town: Town,
) -> None:
    """The leader keeps the last batches of a producer, and they all came behind the start of its
    log: what the producer had written before that is looked up."""
    create(town, "t", [1])
    for sequence in range(22):
        assert send(town, sequence)[0] is ErrorCode.NONE
    delete_records(town, 12)
    assert move(town, [2]) is ErrorCode.NONE
    town.run_until(lambda: assigned(town)[0] == [2])
    assert replica(town, 2).log_start_offset == 12
    town.kill(2)
    town.disk(2).open(f"t-0/{12:020}.log").truncate(0)
    town.start(2)
    town.run_until(lambda: members(town)[0] == 2)
    assert replica(town, 2).log_end_offset == 12
    assert send(town, 22)[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "ten records are lost"
    assert send(town, 12) == (ErrorCode.NONE, 12)


@pytest.mark.scenario(87)
@pytest.mark.parametrize("all_are", [False, True], ids=["alone", "with all others"])
def test_a_broker_without_the_coordinator_gives_ids_that_nobody_else_gives(
    town: Town, all_are: bool
) -> None:
    """librdkafka asks the broker that it is connected to, and no other one, until it has an id."""
    if all_are:
        town.coordinator_down = True
    else:
        expire_unheard(town, 2)
    town.run(5_000)
    ids = [take_id(town, broker) for broker in (2, 1, 0, 2, 1, 0)]
    assert len(set(ids)) == len(ids)


@pytest.mark.scenario(87)
@pytest.mark.parametrize("victim", [0, 2], ids=["controller", "other"])
def test_a_broker_that_has_no_ids_left_asks_the_controller(
    victim: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_ids, "BLOCK_SIZE", 3)
    town = a_town()
    expire_unheard(town, victim)
    town.post(town.lives[victim], CoordinatorReach(False))
    town.run(5_000)
    assert town.controller != victim
    ids = [take_id(town, broker) for broker in (1, 2, 0, *[victim] * 9)]
    assert len(set(ids)) == len(ids)


@pytest.mark.scenario(87)
def test_nobody_has_ids_left_and_clients_are_told_to_ask_again(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_ids, "BLOCK_SIZE", 1)
    town.coordinator_down = True
    for broker in (0, 2):
        town.post(town.lives[broker], CoordinatorReach(False))
        ask_id(town, broker)
    town.run(1)
    asked = [ask_id(town, broker) for broker in (0, 2)]
    town.run_until(lambda: all(town.answered(connection) for connection in asked))
    for connection in asked:
        answer = town.answer(connection, InitProducerIdResponse)
        assert ErrorCode(answer.error_code) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def ask_id(town: Town, broker: int) -> int:
    """Begin to; returns the connection."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    return town.ask_later(broker, request, version=4)


def take_id(town: Town, broker: int) -> int:
    connection = ask_id(town, broker)
    town.run_until(lambda: town.answered(connection))
    answer = town.answer(connection, InitProducerIdResponse)
    assert ErrorCode(answer.error_code) is ErrorCode.NONE
    return answer.producer_id
