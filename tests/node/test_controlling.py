"""The controller's pipeline on real nodes: each test is named by what happens to it."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.node.town import Town

from replog.core.controller import stored
from replog.core.controller.changes import new_partition
from replog.core.controller.registrations import take_registrations
from replog.core.controller.state import Draft
from replog.model.cluster import TopicRecord
from replog.model.coordination import (
    CONTROLLER_EPOCH,
    Check,
    Create,
    Operation,
    SetData,
    WriteError,
    WriteFailed,
)
from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.inputs import PeerIdentity, Received
from replog.model.messages.alter_partition import AlterPartitionRequest
from replog.model.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from replog.model.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from replog.node.cluster_image import full_image
from replog.node.controlling import INTENTS_MAX

T0 = TopicPartition("t", 0)


@pytest.fixture
def town() -> Town:
    town = Town()
    town.start()
    town.run(100)
    return town


def create(name: str, *, replicas: int = 3, timeout_ms: int = 5_000) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=replicas)
    return CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms)


def delete(name: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=5_000)


def makes_topic(operations: tuple[Operation, ...]) -> bool:
    return any(op.path == "/brokers/topics/t" for op in operations if isinstance(op, Create))


# ---- a good day -------------------------------------------------------------------------


def test_a_cluster_comes_up_with_one_controller(town: Town) -> None:
    assert town.controller == 0
    for broker_id in town.brokers:
        node = town.node(broker_id)
        assert node.membership.active
        assert sorted(node.cluster.brokers) == [0, 1, 2]
        assert node.cluster.controller_id == 0
        assert node.cluster.brokers[broker_id].broker_epoch == node.broker_epoch


def test_the_walk_through(town: Town) -> None:
    town.create("t", [1, 0, 2], [2, 1, 0], [0, 2, 1])
    assert town.everybody_sees("t", (1, [1, 0, 2]), (2, [2, 1, 0]), (0, [0, 2, 1]))
    town.stop(0)
    town.run_until(lambda: town.everybody_sees("t", (1, [1, 2]), (2, [2, 1]), (2, [2, 1])))
    town.stop(2)
    town.run_until(lambda: town.everybody_sees("t", (1, [1]), (1, [1]), (1, [1])))
    town.start(0)
    town.run_until(lambda: town.everybody_sees("t", *[(1, [1, 0])] * 3))
    town.start(2)
    town.run_until(lambda: town.everybody_sees("t", *[(1, [1, 0, 2])] * 3))
    town.stop(1)
    town.run_until(lambda: town.everybody_sees("t", (0, [0, 2]), (2, [0, 2]), (0, [0, 2])))


@pytest.mark.scenario(41)
def test_every_multi_begins_with_the_check_of_the_controller_epoch(town: Town) -> None:
    written: list[tuple[Operation, ...]] = []

    def watch(broker: int, operations: tuple[Operation, ...]) -> bool:
        written.append(operations)
        return False

    town.lose_write_reply = watch
    town.create("t", [1, 0, 2])
    town.kill(1)
    town.run(100)
    town.ask(2, delete("t"), DeleteTopicsResponse)
    assert len(written) >= 3
    version = town.tree.nodes[CONTROLLER_EPOCH].version
    assert all(ops[0] == Check(CONTROLLER_EPOCH, version) for ops in written)


def test_what_waits_while_a_write_is_under_way_travels_together(town: Town) -> None:
    written: list[tuple[Operation, ...]] = []

    def watch(broker: int, operations: tuple[Operation, ...]) -> bool:
        written.append(operations)
        return False

    town.lose_write_reply = watch
    asked = [town.ask_later(0, create(f"t{n}")) for n in range(5)]
    town.run_until(lambda: all(town.answered(connection) for connection in asked))
    assert len(written) == 2  # the first alone, the others while it was under way
    for connection in asked:
        answer = town.answer(connection, CreateTopicsResponse)
        assert answer.topics[0].error_code == ErrorCode.NONE


def test_twins_in_one_multi_see_each_other(town: Town) -> None:
    asked = [town.ask_later(0, create(name)) for name in ("first", "a", "a", "x.y", "x_y")]
    town.run_until(lambda: all(town.answered(connection) for connection in asked))
    errors = [town.answer(c, CreateTopicsResponse).topics[0].error_code for c in asked]
    assert errors == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.NONE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]


# ---- brokers come and go -----------------------------------------------------------------


def test_a_restart_that_nobody_saw_is_a_death_and_a_birth(town: Town) -> None:
    town.create("t", [1, 0, 2])
    town.pause(0)  # the controller looks away
    town.kill(1)
    town.start(1)
    town.resume(0)
    town.run_until(lambda: town.everybody_sees("t", (0, [0, 2, 1])))
    assert town.record(1, "t").leader_epoch == 1


def test_a_restart_while_there_is_no_controller_is_seen_by_the_next(town: Town) -> None:
    town.create("t", [1, 2, 0])
    town.pause(2)  # so that broker 1 restarts before anybody is controller again
    town.kill(0)
    town.kill(1)
    town.start(1)
    town.resume(2)
    town.run_until(lambda: town.everybody_sees("t", (2, [2, 1])))
    assert town.record(1, "t").leader_epoch >= 1


@pytest.mark.parametrize("order", list(itertools.permutations((0, 1, 2))))
def test_all_die_one_by_one_and_come_back_in_any_order(town: Town, order: tuple[int, ...]) -> None:
    town.create("t", [0, 1, 2])
    for broker_id in (0, 2, 1):
        town.kill(broker_id)
        town.run(100)
    for broker_id in order:
        town.start(broker_id)
        town.run(100)
        # Only broker 1 saw the last records, so nobody leads before it is back.
        back = town.lives[1].alive
        assert town.record(broker_id, "t").leader == (1 if back else -1)
    town.run_until(lambda: town.record(1, "t").leader == 1)
    town.run_until(lambda: set(town.record(0, "t").isr) == {0, 1, 2})


@pytest.mark.parametrize("first", [0, 1, 2])
def test_all_die_at_once_and_whoever_returns_first_leads(town: Town, first: int) -> None:
    town.create("t", [0, 1, 2])
    for broker_id in town.brokers:
        town.kill(broker_id)
    town.start(first)
    town.run(100)
    assert town.record(first, "t").leader == first
    town.start(*[broker for broker in town.brokers if broker != first])
    town.run_until(lambda: set(town.record(0, "t").isr) == {0, 1, 2})
    assert town.record(0, "t").leader == first


def test_leadership_does_not_move_back(town: Town) -> None:
    town.create("t", [1, 0, 2])
    town.kill(1)
    town.run(100)
    town.start(1)
    town.run_until(lambda: town.everybody_sees("t", (0, [0, 2, 1])))
    town.run(5_000)
    assert town.everybody_sees("t", (0, [0, 2, 1]))


@pytest.mark.scenario(51)
def test_an_unclean_election_only_where_it_is_allowed_and_never_in_silence(town: Town) -> None:
    town.settings = {"unclean.leader.election.enable": "true"}
    for broker_id in town.brokers:
        town.kill(broker_id)
        town.start(broker_id)
    town.create("t", [1, 0])
    town.kill(0)
    town.run(100)
    town.kill(1)
    town.run(100)
    town.start(0)
    town.run_until(lambda: town.everybody_sees("t", (0, [0])))
    assert any("UNCLEAN" in line for line in town.reports)


@pytest.mark.scenario(40)
def test_a_new_controller_holds_every_partition_against_who_is_alive(town: Town) -> None:
    town.create("t", [1, 0])
    town.kill(0)
    town.run(100)
    town.kill(1)
    town.run(100)
    assert town.record(2, "t").leader == -1
    # A hand edits the store, and makes the controller load it again; no broker has come or gone.
    path = stored.partition_path(T0)
    dead_leads = town.tree.nodes[path].data.replace(b'"leader":-1', b'"leader":1')
    town.tree.write(None, [SetData(path, dead_leads), SetData(CONTROLLER_EPOCH, b"7")])
    town.create("u", [2])
    assert town.node(2).cluster.controller_epoch == 8
    assert town.record(2, "t").leader == -1


# ---- the controller fails -----------------------------------------------------------------


@pytest.mark.scenario(40)
def test_the_controller_dies_between_commit_and_push(town: Town) -> None:
    town.create("t", [1, 0, 2])
    town.lose_send = lambda source, target, message: source == 0
    town.kill(1)
    town.run(50)
    assert town.record(0, "t").leader == 0
    assert town.record(2, "t").leader == 1  # it was never told
    town.kill(0)
    town.run(200)
    assert town.controller == 2
    assert town.everybody_sees("t", (2, [2]))


def test_the_controller_dies_while_a_topic_is_made(town: Town) -> None:
    def die(broker: int, operations: tuple[Operation, ...]) -> bool:
        if broker == 0 and makes_topic(operations):
            town.kill(0)
        return False

    town.lose_write_reply = die
    # Broker 1 passes the request on; its first try breaks, the second one meets the new controller.
    answer = town.ask(1, create("t"), CreateTopicsResponse).topics[0]
    assert answer.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    town.run(200)
    record = town.record(town.controller, "t")
    assert record.leader in (1, 2)
    assert town.record(1, "t") == town.record(2, "t") == record


@pytest.mark.parametrize("carried_out", [True, False])
def test_the_outcome_of_a_write_is_not_known(town: Town, carried_out: bool) -> None:
    lost: list[tuple[Operation, ...]] = []

    def lose(broker: int, operations: tuple[Operation, ...]) -> bool:
        if makes_topic(operations) and not lost:
            lost.append(operations)
            return True
        return False

    if carried_out:
        town.lose_write_reply = lose
    else:
        town.lose_write = lose
    answer = town.ask(1, create("t"), CreateTopicsResponse).topics[0]
    assert lost
    assert answer.error_code == ErrorCode.NONE
    assert town.node(0).cluster.topics["t"].topic_id == answer.topic_id
    assert town.controller == 0
    town.run(100)
    assert town.record(0, "t") == town.record(1, "t") == town.record(2, "t")
    # The epoch was raised: a write that is still on its way can't be carried out any more.
    assert town.tree.nodes[CONTROLLER_EPOCH].data == b"2"
    result, _ = town.tree.write(town.lives[0].session, lost[0])
    assert result == WriteFailed(WriteError.BAD_VERSION, 0)


def test_somebody_raises_the_epoch_behind_the_controllers_back(town: Town) -> None:
    town.tree.write(None, [SetData(CONTROLLER_EPOCH, b"7")])
    connection = town.ask_later(1, create("t"))
    town.run_until(lambda: town.answered(connection))
    # Its node is still its own, so it wins again, in a later epoch.
    assert town.answer(connection, CreateTopicsResponse).topics[0].error_code == ErrorCode.NONE
    assert town.tree.nodes[CONTROLLER_EPOCH].data == b"8"
    assert town.record(1, "t").controller_epoch == 8


def test_a_commit_whose_reply_comes_after_the_image_of_a_successor(town: Town) -> None:
    town.create("t", [1, 0, 2])
    life = town.lives[0]
    assert life.session is not None
    # The old controller's write is carried out, but it hears of it only after it was replaced.
    connection = town.ask_later(0, create("late", timeout_ms=3_000))
    queued = list(town._queue)
    town._queue.clear()
    for owner, event in queued:
        town._carry_out(owner, owner.node.step(event, town.now_ms, town.wall_ms))
    held = [item for item in town._queue if item[0] is life]
    for item in held:
        town._queue.remove(item)
    town.pause(0)
    town._hint(town.tree.end_session(life.session))
    town.run(50)
    image = town.node(town.controller).cluster
    assert image.controller_epoch == 2
    assert "late" in image.topics
    push = full_image(image, life.node.broker_epoch)
    peer = PeerIdentity(image.controller_id, 1)
    life.node.membership.update_cluster(Received(0, 0, 0, push, peer=peer), push)
    assert not life.node.controlling.engaged
    for _, event in held:
        life.node.step(event, town.now_ms, town.wall_ms)
    assert life.node.cluster.controller_epoch == 2
    assert "late" in life.node.cluster.topics
    assert not town.answered(connection)  # it will ask the successor


@pytest.mark.scenario(47)
def test_the_coordinator_is_away_for_a_while(town: Town) -> None:
    town.create("u", [1, 0, 2])
    town.coordinator_down = True
    answer = town.ask(1, create("t", timeout_ms=1_000), CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert town.everybody_sees("u", (1, [1, 0, 2]))
    town.coordinator_down = False
    town.run(1_000)
    answer = town.ask(1, create("v"), CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.NONE
    assert town.controller == 0


def test_a_node_that_a_hand_removed_is_noticed_and_the_rest_goes_on(town: Town) -> None:
    town.create("t", [1, 0, 2])
    town.create("u", [1, 0, 2])
    for path in [path for path in town.tree.nodes if path.startswith("/brokers/topics/t")]:
        del town.tree.nodes[path]
    town.kill(1)
    town.run_until(lambda: "t" not in town.node(2).cluster.topics)
    town.run_until(lambda: town.everybody_sees("u", (0, [0, 2])))


def test_requests_are_refused_when_too_many_wait(town: Town) -> None:
    controlling = town.node(0).controlling
    refused: list[ErrorCode] = []
    planned: list[int] = []

    def submit(number: int) -> None:
        controlling.submit(lambda draft: lambda: planned.append(number), refused.append)

    connection = town.ask_later(0, create("t"))
    life, event = town._queue.popleft()
    town._carry_out(life, life.node.step(event, town.now_ms, town.wall_ms))
    for number in range(INTENTS_MAX):
        submit(number)
    assert refused == []
    submit(INTENTS_MAX)
    assert refused == [ErrorCode.REQUEST_TIMED_OUT]
    town.run_until(lambda: town.answered(connection))
    assert planned == list(range(INTENTS_MAX))


# ---- topics that are deleted and made again -----------------------------------------------


def test_a_topic_that_is_made_again_is_another_topic(town: Town) -> None:
    first = town.ask(1, create("t"), CreateTopicsResponse).topics[0].topic_id
    town.ask(1, delete("t"), DeleteTopicsResponse)
    second = town.ask(2, create("t"), CreateTopicsResponse).topics[0].topic_id
    assert first != second
    town.run(300)
    for broker_id in town.brokers:
        node = town.node(broker_id)
        partition = node.partitions.get(T0)
        assert partition is not None
        assert partition.topic_id == second
        assert first not in node.cluster.topic_names


@pytest.mark.scenario(60)
def test_a_broker_that_was_away_when_a_topic_was_made_again_forgets_the_old_one(
    town: Town,
) -> None:
    town.ask(1, create("t"), CreateTopicsResponse)
    town.run(300)
    town.kill(2)
    town.run(100)
    town.ask(1, delete("t"), DeleteTopicsResponse)
    town.ask(1, create("t", replicas=2), CreateTopicsResponse)
    town.start(2)
    town.run(300)
    assert town.node(2).cluster.topics["t"].topic_id == town.node(1).cluster.topics["t"].topic_id
    assert town.node(2).partitions.get(T0) is None


@pytest.mark.scenario(60)
def test_an_isr_proposal_for_the_deleted_topic_does_not_hit_the_new_one(town: Town) -> None:
    town.create("t", [1, 0, 2])
    answers: list[ErrorCode] = []
    node = town.node(1)
    members = [(b, town.node(b).broker_epoch) for b in (1, 0)]
    town.lose_send = lambda source, target, message: isinstance(message, AlterPartitionRequest)
    node.membership.alter_partition(T0, members, 0, 0, lambda error, _: answers.append(error))
    town.lose_send = lambda source, target, message: False
    held = node.timers  # the proposal leaves at the end of a step
    assert held.next_deadline_ms() <= town.now_ms
    town.ask(0, delete("t"), DeleteTopicsResponse)
    town.create("t", [1, 0, 2])
    town.run(200)
    assert town.everybody_sees("t", (1, [1, 0, 2]))
    assert answers in ([ErrorCode.NONE], [ErrorCode.UNKNOWN_TOPIC_ID])


def test_a_topic_in_pieces_can_be_deleted(town: Town) -> None:
    town.create("t", [1, 0, 2])
    town.tree.write(None, [SetData(stored.partition_path(T0), b"junk")])
    town.kill(0)
    town.run(200)
    answer = town.ask(1, create("t"), CreateTopicsResponse).topics[0]
    assert answer.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    deleted = town.ask(2, delete("t"), DeleteTopicsResponse).responses[0]
    assert deleted.error_code == ErrorCode.NONE
    again = create("t", replicas=2)
    assert town.ask(1, again, CreateTopicsResponse).topics[0].error_code == ErrorCode.NONE


def test_what_is_too_much_together_is_written_one_by_one_and_what_is_alone_is_refused(
    town: Town,
) -> None:
    """ZooKeeper takes no write beyond its `jute.maxbuffer`."""
    write = town.tree.write

    def take_little(session: str | None, operations: Sequence[Operation]) -> Any:
        if len(operations) > 5:
            return WriteFailed(WriteError.REFUSED), frozenset()
        return write(session, operations)

    town.tree.write = take_little  # type: ignore[method-assign]
    node = town.node(0)
    done: list[str] = []

    def submit(name: str, partitions: int) -> None:
        def plan(draft: Draft) -> Callable[[], None]:
            records = [new_partition((0,), {0}, controller_epoch=draft.epoch)] * partitions
            draft.create_topic(TopicRecord(name, name.encode() * 16, records, {}))
            return lambda: done.append(name)

        node.controlling.submit(plan, lambda error: done.append(f"{name} {error.name}"))

    for name, partitions in (("a", 1), ("b", 2), ("c", 9), ("d", 2)):
        submit(name, partitions)
    town.run(500)
    assert sorted(done) == ["a", "b", "c POLICY_VIOLATION", "d"]
    assert town.controller == 0
    assert set(node.cluster.topics) == {"a", "b", "d"}


def test_a_dead_controllers_partitions_are_taken_over_in_parts(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the last part it is in the table of brokers, and nobody knows where it listened."""
    monkeypatch.setitem(take_registrations.__kwdefaults__, "most", 2)
    town.create("t", *[[0, 1, 2], [1, 2, 0], [2, 0, 1]] * 3)
    town.run(500)
    assert town.controller == 0
    town.kill(0)
    town.run_until(lambda: town.controller in (1, 2))
    town.run(500)
    assert town.everybody_sees("t", *[(1, [1, 2]), (1, [1, 2]), (2, [2, 1])] * 3)
    assert all(set(town.node(broker).cluster.brokers) == {1, 2} for broker in (1, 2))
    town.start(0)
    town.run_until(
        lambda: all(len(r.isr) == 3 for r in town.node(1).cluster.topics["t"].partitions)
    )
