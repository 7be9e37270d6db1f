"""Admin requests on their way to the controller."""

import pytest
from tests.node.town import Town

from replog.codec import encode_bytes
from replog.model.errors import ErrorCode
from replog.model.inputs import PeerIdentity, Received
from replog.model.messages import Message
from replog.model.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from replog.model.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from replog.model.messages.forward import ForwardRequest, ForwardResponse
from replog.node.forwarding import SILENCE_MS, WAITING_MAX


@pytest.fixture
def town() -> Town:
    town = Town()
    town.start()
    return town


def create(name: str, timeout_ms: int = 5_000, *, led_by: int | None = None) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    if led_by is not None:
        assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[led_by])
        topic = CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=[assignment]
        )
    return CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms)


def error_of(answer: CreateTopicsResponse) -> ErrorCode:
    return ErrorCode(answer.topics[0].error_code)


@pytest.mark.parametrize("version", range(2, 8))
@pytest.mark.parametrize("asked", [0, 1])
def test_every_version_passes_through_every_broker(town: Town, version: int, asked: int) -> None:
    answer = town.ask(asked, create("t"), CreateTopicsResponse, version=version)
    assert error_of(answer) is ErrorCode.NONE
    assert any(isinstance(m, ForwardRequest) for _, _, m in town.sent) == (asked != 0)


def test_a_request_waits_for_the_next_controller(town: Town) -> None:
    town.kill(0)
    connection = town.ask_later(1, create("t"))
    town.run_until(lambda: town.answered(connection), limit_ms=1_000)
    assert error_of(town.answer(connection, CreateTopicsResponse)) is ErrorCode.NONE


@pytest.mark.parametrize("asked", [0, 1])
def test_a_request_is_answered_in_time_when_nothing_can_be_written(town: Town, asked: int) -> None:
    town.coordinator_down = True
    begun = town.now_ms
    answer = town.ask(asked, create("t", timeout_ms=700), CreateTopicsResponse)
    assert error_of(answer) is ErrorCode.REQUEST_TIMED_OUT
    assert 700 <= town.now_ms - begun <= 1_300
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="x")], timeout_ms=700)
    deleted = town.ask(asked, deletion, DeleteTopicsResponse)
    assert ErrorCode(deleted.responses[0].error_code) in (
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )


@pytest.mark.parametrize("asked", [0, 1])
def test_what_timed_out_before_it_was_begun_is_not_begun_later(town: Town, asked: int) -> None:
    town.held_writes = []
    first = town.ask_later(0, create("first"))
    town.run(10)
    second = town.ask(asked, create("second", timeout_ms=100), CreateTopicsResponse)
    assert error_of(second) is ErrorCode.REQUEST_TIMED_OUT
    town.release_writes()
    assert error_of(town.ask(0, create("third"), CreateTopicsResponse)) is ErrorCode.NONE
    assert error_of(town.answer(first, CreateTopicsResponse)) is ErrorCode.NONE
    assert set(town.node(0).cluster.topics) == {"first", "third"}


@pytest.mark.parametrize("asked", [0, 1])
def test_who_allows_little_time_is_told_what_was_done(town: Town, asked: int) -> None:
    answer = town.ask(asked, create("t", timeout_ms=1), CreateTopicsResponse)
    assert error_of(answer) is ErrorCode.NONE


def test_a_silent_controller_is_waited_for_only_as_long_as_the_client_allows(town: Town) -> None:
    town.pause(0)
    begun = town.now_ms
    answer = town.ask(1, create("t", timeout_ms=1_000), CreateTopicsResponse)
    assert error_of(answer) is ErrorCode.REQUEST_TIMED_OUT
    assert town.now_ms - begun <= 2_000


@pytest.mark.scenario(88)
@pytest.mark.parametrize("timeout_ms", [0, 1])
def test_a_slow_request_does_not_have_others_sent_again(town: Town, timeout_ms: int) -> None:
    """They are on one connection, on which answers arrive in order."""
    town.pause(2)
    made = town.ask_later(1, create("made", led_by=2))
    town.run(10)
    assert "made" in town.node(0).cluster.topics, "and broker 2 has to hear of it"
    slow = town.ask(1, create("slow", timeout_ms), CreateTopicsResponse)
    assert error_of(slow) is ErrorCode.REQUEST_TIMED_OUT
    town.resume(2)
    town.run_until(lambda: town.answered(made))
    assert error_of(town.answer(made, CreateTopicsResponse)) is ErrorCode.NONE


@pytest.mark.scenario(88)
def test_a_connection_that_the_controller_has_lost_is_given_up() -> None:
    """Whoever asks meanwhile is told in time."""
    town = Town(settings={"request.timeout.ms": "10000"})
    town.start()
    given_up_ms = town.now_ms + 10_000 + SILENCE_MS
    town.lose_send = lambda source, target, message: (
        isinstance(message, ForwardRequest) and town.now_ms < given_up_ms
    )
    while town.now_ms < given_up_ms - 2_000:
        answer = town.ask(1, create("t", timeout_ms=1_000), CreateTopicsResponse)
        assert error_of(answer) is ErrorCode.REQUEST_TIMED_OUT
    answer = town.ask(1, create("t"), CreateTopicsResponse)
    assert error_of(answer) is ErrorCode.NONE
    assert town.now_ms < given_up_ms + 1_000


def test_what_is_under_way_counts_though_nobody_waits_for_it(town: Town) -> None:
    town.pause(0)
    for number in range(WAITING_MAX):
        town.ask_later(1, create(f"t{number}", timeout_ms=0))
    town.run(1_000)
    refused = town.ask_later(1, create("t"))
    town.run()
    assert error_of(town.answer(refused, CreateTopicsResponse)) is ErrorCode.REQUEST_TIMED_OUT
    town.resume(0)
    town.run(1_000)
    assert error_of(town.ask(1, create("t"), CreateTopicsResponse)) is ErrorCode.NONE


def test_a_controller_that_is_none_sends_the_request_on(town: Town) -> None:
    refused: list[Message] = []

    def watch(source: int, target: int, message: Message) -> bool:
        if isinstance(message, ForwardRequest):
            refused.append(message)
            if len(refused) == 1:
                # It loses the controllership while the request is on its way to it.
                town.node(0).controlling.resign("for the test")
        return False

    town.lose_send = watch
    connection = town.ask_later(1, create("t"))
    town.run_until(lambda: town.answered(connection), limit_ms=10_000)
    assert error_of(town.answer(connection, CreateTopicsResponse)) is ErrorCode.NONE
    assert len(refused) > 1


@pytest.mark.parametrize("over", [0, 1])
def test_the_number_of_requests_that_wait_is_bounded(town: Town, over: int) -> None:
    town.kill(0)
    town.coordinator_down = True
    town.run(5_000)
    asked = [town.ask_later(1, create(f"t{n}", 1_000)) for n in range(WAITING_MAX + over)]
    town._drain()
    answered = [connection for connection in asked if town.answered(connection)]
    assert len(answered) == over
    town.run(2_000)
    assert all(town.answered(connection) for connection in asked)
    # What was answered waits no more.
    connection = town.ask_later(1, create("later", 1_000))
    town._drain()
    assert not town.answered(connection)


def forwarded(town: Town, target: int, message: ForwardRequest, *, stranger: bool = False) -> int:
    life = town.lives[target]
    town._connection += 1
    connection = town._connection
    peer = None if stranger else PeerIdentity(1, town.node(1).broker_epoch)
    town.post(life, Received(connection, 0, 0, message, peer=peer))
    town.run(100)
    return connection


@pytest.mark.parametrize(
    ("target", "api_key", "version", "body", "error"),
    [
        (0, 19, 7, None, ErrorCode.NONE),
        (1, 19, 7, None, ErrorCode.NOT_CONTROLLER),
        (0, 19, 99, None, ErrorCode.INVALID_REQUEST),
        (0, 19, 7, b"\xff\xff", ErrorCode.INVALID_REQUEST),
        (0, 0, 7, None, ErrorCode.INVALID_REQUEST),
        (0, 20001, 0, b"", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_the_controller_makes_of_what_is_passed_on(
    town: Town, target: int, api_key: int, version: int, body: bytes | None, error: ErrorCode
) -> None:
    sound = encode_bytes(create("t"), 7)
    message = ForwardRequest(
        api_key=api_key, api_version=version, body=sound if body is None else body
    )
    connection = forwarded(town, target, message)
    answer = town.answer(connection, ForwardResponse)
    assert ErrorCode(answer.error_code) is error
    assert (answer.body is not None) == (error is ErrorCode.NONE)


def test_the_controller_takes_no_longer_than_requests_may_take() -> None:
    """Whoever passed it on takes the connection for dead soon after."""
    town = Town(settings={"request.timeout.ms": "500"})
    town.start()
    town.pause(2)
    body = encode_bytes(create("t", timeout_ms=60_000, led_by=2), 7)
    connection = forwarded(town, 0, ForwardRequest(api_key=19, api_version=7, body=body))
    assert "t" in town.node(0).cluster.topics
    assert not town.answered(connection)
    town.run(500)
    assert town.answered(connection)


def test_a_stranger_passes_nothing_on(town: Town) -> None:
    message = ForwardRequest(api_key=19, api_version=7, body=encode_bytes(create("t"), 7))
    connection = forwarded(town, 0, message, stranger=True)
    assert not town.answered(connection)
    assert town.closed
    assert "t" not in town.node(0).cluster.topics
