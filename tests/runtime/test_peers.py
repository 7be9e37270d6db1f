"""Links between brokers: handshake, order, failures, and who is refused."""

import os
import socket
import sys
import time
from dataclasses import replace

import pytest
from tests.runtime.stub import SECRET, Client, Server, StubNode, ask, logged, reply, serving

from replog.model.inputs import PeerFailed, PeerIdentity, PeerReplied
from replog.model.messages import Request
from replog.model.messages.broker_handshake import BrokerHandshakeRequest, BrokerHandshakeResponse
from replog.model.messages.metadata import MetadataResponse
from replog.model.messages.update_cluster import UpdateClusterRequest
from replog.model.outputs import Channel, Send
from replog.runtime import handshake
from replog.runtime.broker import raise_descriptor_limit
from replog.runtime.handshake import Acceptor, Dialler, HandshakeRefused, Self
from replog.runtime.limits import PEER_DESCRIPTOR_MIN, Limits
from replog.runtime.peers import REFUSED


def send(
    server: Server,
    message: Request,
    token: int,
    *,
    broker_id: int = 2,
    epoch: int = 20,
    timeout_ms: int = 20_000,
    channel: Channel = Channel.CONTROL,
    host: str = "127.0.0.1",
) -> Send:
    return Send(broker_id, epoch, host, server.port, channel, token, message, timeout_ms)


def answers(node: StubNode, count: int) -> list[PeerReplied | PeerFailed]:
    node.wait(lambda n: len(n.peer_answers()) >= count)
    return node.peer_answers()


def failure(node: StubNode, count: int = 1) -> str:
    last = answers(node, count)[-1]
    assert isinstance(last, PeerFailed), last
    return last.reason


def test_a_send_arrives_with_a_proved_identity_and_is_answered() -> None:
    one, two = StubNode(1, 10), StubNode(2, 20)
    with serving(one) as a, serving(two) as b:
        a.carry(send(b, ask("x"), 5), send(b, UpdateClusterRequest(version=9), 6))
        first, second = answers(one, 2)
        assert isinstance(first, PeerReplied) and (first.token, first.broker_id) == (5, 2)
        assert isinstance(first.message, MetadataResponse) and first.message.cluster_id == "x"
        assert isinstance(second, PeerReplied) and second.token == 6
        assert [e.peer for e in two.received] == [PeerIdentity(1, 10)] * 2
        assert b.connections() == 1, "both went over one connection"


def test_a_name_is_resolved_beside_the_loop() -> None:
    one, two = StubNode(1, 10), StubNode(2, 20)
    with serving(one) as a, serving(two) as b:
        a.carry(send(b, ask("x"), 5, host="localhost"))
        assert isinstance(answers(one, 1)[0], PeerReplied)
        a.carry(replace(send(b, ask("x"), 6, broker_id=3), host="no-such-host.invalid"))
        assert "can't be resolved" in failure(one, 2)


def test_channels_have_connections_of_their_own() -> None:
    one, two = StubNode(1, 10), StubNode(2, 20)
    with serving(one) as a, serving(two) as b:
        a.carry(send(b, ask("park"), 1, channel=Channel.FETCH), send(b, ask("x"), 2))
        assert [e.token for e in answers(one, 1)] == [2], "a parked fetch holds up no other"
        assert b.connections() == 2


def test_lanes_of_a_channel_have_connections_of_their_own() -> None:
    one, two = StubNode(1, 10), StubNode(2, 20)
    with serving(one) as a, serving(two) as b:
        parked = send(b, ask("park"), 1, channel=Channel.FETCH)
        a.carry(parked, replace(parked, token=2, lane=1, message=ask("x")))
        assert [e.token for e in answers(one, 1)] == [2]
        assert b.connections() == 2


def test_a_broker_can_talk_to_itself() -> None:
    node = StubNode(2, 20)
    with serving(node) as server:
        server.carry(send(server, ask("me"), 1))
        assert isinstance(answers(node, 1)[0], PeerReplied)


def test_answers_are_matched_in_order() -> None:
    one, two = StubNode(1, 10), StubNode(2, 20)
    with serving(one) as a, serving(two) as b:
        a.carry(*(send(b, ask(n), t) for t, n in enumerate(["park", "b", "release", "d"])))
        found = answers(one, 4)
        assert [e.token for e in found] == [0, 1, 2, 3]
        names = [e.message.cluster_id for e in found]  # type: ignore[union-attr]
        assert names == ["parked", "b", "release", "d"]


def test_a_refused_connection_fails_at_once_and_the_next_dial_waits_a_little() -> None:
    one = StubNode(1, 10)
    with serving(one) as a:
        with serving(StubNode(2, 20)) as b:
            pass  # its port is free again
        began = time.monotonic()
        for token in range(8):
            a.carry(send(b, ask("x"), token))
            assert failure(one, token + 1) == REFUSED
        took = time.monotonic() - began
        assert took > 0.2, "5 + 10 + 20 + 40 + ... ms between dials"


def test_a_connection_that_breaks_fails_what_is_under_way() -> None:
    one = StubNode(1, 10)
    with serving(one) as a, serving(StubNode(2, 20)) as b:
        a.carry(send(b, ask("park"), 1), send(b, ask("park"), 2))
        b.node.wait(lambda n: len(n.parked) == 2)
        b.stop()
        assert [type(e) for e in answers(one, 2)] == [PeerFailed] * 2
        assert "closed by the broker" in failure(one, 2)


def test_a_late_answer_fails_its_send_and_the_link_is_made_anew() -> None:
    one, two = StubNode(1, 10), StubNode(2, 20)
    with serving(one) as a, serving(two) as b:
        a.carry(send(b, ask("park"), 1, timeout_ms=200), send(b, ask("behind"), 2))
        assert [e.token for e in answers(one, 2)] == [1, 2]
        assert failure(one, 2) == "timed out"
        a.carry(send(b, ask("again"), 3))
        assert isinstance(answers(one, 3)[-1], PeerReplied)


def test_a_peer_that_never_answers_the_handshake_times_out() -> None:
    one = StubNode(1, 10)
    deaf = socket.socket()
    deaf.bind(("127.0.0.1", 0))
    deaf.listen(5)
    with serving(one) as a:
        target = send(a, ask("x"), 1, timeout_ms=200)
        target.port = deaf.getsockname()[1]
        a.carry(target)
        assert failure(one) == "timed out"
    deaf.close()


def test_a_send_to_another_registration_fails() -> None:
    one, two = StubNode(1, 10), StubNode(2, 20)
    with serving(one) as a, serving(two) as b:
        a.carry(send(b, ask("x"), 1, epoch=19), send(b, ask("y"), 2, epoch=20))
        by_token = {e.token: e for e in answers(one, 2)}
        assert isinstance(by_token[2], PeerReplied)
        assert isinstance(by_token[1], PeerFailed)
        assert by_token[1].reason == "it is registration 20, not 19"
        assert [e.message.topics[0].name for e in two.received] == ["y"]  # type: ignore[attr-defined]


def test_a_peer_that_registers_anew_is_greeted_anew() -> None:
    one, two = StubNode(1, 10), StubNode(2, 20)
    with serving(one) as a, serving(two) as b:
        a.carry(send(b, ask("x"), 1))
        answers(one, 1)
        two.broker_epoch = 21
        a.carry(send(b, ask("y"), 2, epoch=20))
        assert isinstance(answers(one, 2)[-1], PeerFailed), "the old connection is no longer served"
        a.carry(send(b, ask("z"), 3, epoch=21))
        assert isinstance(answers(one, 3)[-1], PeerReplied)
        assert [e.peer for e in two.received] == [PeerIdentity(1, 10)] * 2


def test_who_registers_anew_introduces_itself_anew() -> None:
    one, two = StubNode(1, 10), StubNode(2, 20)
    with serving(one) as a, serving(two) as b:
        a.carry(send(b, ask("x"), 1))
        answers(one, 1)
        one.broker_epoch = 11
        a.carry(send(b, ask("y"), 2))
        answers(one, 2)
        assert [e.peer for e in two.received] == [PeerIdentity(1, 10), PeerIdentity(1, 11)]


def test_a_wrong_secret_is_refused_by_both(caplog: pytest.LogCaptureFixture) -> None:
    one, two = StubNode(1, 10), StubNode(2, 20)
    with serving(one) as a, serving(two, secret=b"x" * 32) as b:
        a.carry(send(b, ask("x"), 1))
        assert "does not know this cluster's secret" in failure(one)
        assert two.received == []


def test_a_wrong_cluster_is_refused() -> None:
    one, two = StubNode(1, 10), StubNode(2, 20)
    with serving(one) as a, serving(two, cluster_id="other") as b:
        a.carry(send(b, ask("x"), 1))
        assert "this is cluster other" in failure(one)
        assert two.received == []


def test_another_broker_at_the_address_is_refused() -> None:
    one, three = StubNode(1, 10), StubNode(3, 20)
    with serving(one) as a, serving(three) as b:
        a.carry(send(b, ask("x"), 1, broker_id=2))
        assert "it is broker 3" in failure(one)


def test_a_newer_version_is_refused_by_the_acceptor(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    two = StubNode(2, 20)
    with serving(two) as b, Client(b.port) as client:
        client.sock.sendall(client.encode(_hello(inter_broker_version=2), 0))
        answer = client.receive()
        assert isinstance(answer, BrokerHandshakeResponse) and answer.error_code
        assert "version 2 is newer than 1" in (answer.error_message or "")
        assert client.is_closed()
    assert logged(caplog, "handshake of broker 1") == 1


def test_a_newer_version_is_refused_by_the_dialler(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Self(1, 10, "cluster", SECRET)
    dialler = Dialler(own, os.urandom(32))
    hello = dialler.hello()
    monkeypatch.setattr(handshake, "INTER_BROKER_VERSION", 2)
    acceptor = Acceptor(Self(2, 20, "cluster", SECRET), os.urandom(32))
    response = acceptor.receive(hello)
    monkeypatch.setattr(handshake, "INTER_BROKER_VERSION", 1)
    with pytest.raises(HandshakeRefused, match="version 2 is newer than 1"):
        dialler.answer(response, 2)


def _hello(**fields: object) -> BrokerHandshakeRequest:
    values: dict[str, object] = {
        "broker_id": 1,
        "broker_epoch": 10,
        "cluster_id": "cluster",
        "inter_broker_version": 1,
        "nonce": b"n" * 32,
        **fields,
    }
    return BrokerHandshakeRequest(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"broker_id": 3},
        {"broker_epoch": 11},
        {"nonce": b"m" * 32},
        {"proof": b""},
        {"proof": b"p" * 32},
    ],
)
def test_a_proof_holds_for_what_was_claimed_and_nothing_else(change: dict[str, object]) -> None:
    acceptor = Acceptor(Self(2, 20, "cluster", SECRET), b"a" * 32)
    dialler = Dialler(Self(1, 10, "cluster", SECRET), b"n" * 32)
    second = dialler.answer(acceptor.receive(dialler.hello()), 2)
    fields = {
        n: getattr(second, n) for n in ("broker_id", "broker_epoch", "nonce", "proof", "cluster_id")
    }
    assert acceptor.receive(_hello(**(fields | change))).error_code != 0
    assert acceptor.peer is None
    assert acceptor.receive(_hello(**fields)).error_code == 0
    assert acceptor.peer == (1, 10)
    assert acceptor.receive(_hello(**fields)).error_code != 0, "once"


def test_a_proof_can_not_be_sent_back_to_its_maker_or_be_used_again() -> None:
    own = Self(2, 20, "cluster", SECRET)
    acceptor = Acceptor(own, b"a" * 32)
    first = acceptor.receive(_hello())
    reflected = _hello(nonce=b"n" * 32, proof=first.proof)
    assert acceptor.receive(reflected).error_code != 0
    dialler = Dialler(Self(1, 10, "cluster", SECRET), b"n" * 32)
    recorded = dialler.answer(first, 2)
    other = Acceptor(own, b"b" * 32)  # another connection has another nonce
    other.receive(_hello())
    assert other.receive(recorded).error_code != 0
    assert acceptor.receive(recorded).error_code == 0


def test_a_fetched_buffer_is_valid_in_the_step_that_brings_it() -> None:
    """The node copies (appends) in the step; what the peer sends next may overwrite the buffer."""
    from replog.model.messages.fetch import FetchRequest, FetchResponse

    class Follower(StubNode):
        def __init__(self) -> None:
            super().__init__(1, 10)
            self.copies: list[bytes] = []

        def step(self, event, now_ms, wall_ms):  # type: ignore[no-untyped-def]
            if isinstance(event, PeerReplied) and isinstance(event.message, FetchResponse):
                for topic in event.message.responses:
                    self.copies += [bytes(p.records) for p in topic.partitions]  # type: ignore[arg-type]
                event.message = MetadataResponse()
            return super().step(event, now_ms, wall_ms)

    one, two = Follower(), StubNode(2, 20)
    with serving(one) as a, serving(two) as b:
        for n in range(6):
            data = bytes([n]) * (100_000 * (n + 1))
            two.ranges = [memoryview(data)]
            a.carry(send(b, FetchRequest(), n, channel=Channel.FETCH))
            answers(one, n + 1)
            assert one.copies[-1] == data


def test_a_brokers_connection_takes_no_clients_place() -> None:
    limits = Limits(connections=1, connections_reserved=1, idle_ms=300, sweep_ms=50)
    one, two = StubNode(1, 10), StubNode(2, 20)
    with serving(one) as a, serving(two, limits) as b, Client(b.port) as client:
        assert client.ask("x") == "x"
        for token, channel in enumerate(Channel):
            a.carry(send(b, ask("peer"), token, channel=channel))
            assert isinstance(answers(one, token + 1)[-1], PeerReplied)
        assert b.connections() == 4
        assert client.is_closed(), "a client that is idle goes"
        time.sleep(0.3)
        assert b.connections() == 3, "brokers stay"


def test_a_brokers_connection_is_the_first_to_close_when_the_process_is_killed() -> None:
    """By its descriptor, which is above all others: peers know of a death before clients ask."""
    high = sys.platform == "linux" and raise_descriptor_limit() > PEER_DESCRIPTOR_MIN
    one, two = StubNode(1, 10), StubNode(2, 20)
    with serving(one) as a, serving(two) as b:
        a.carry(send(b, ask("early"), 1))
        answers(one, 1)
        with Client(b.port) as client:
            assert client.ask("x") == "x"
            numbers = {c.peer is not None: c.sock.fileno() for c in b.host._connections.values()}
            assert numbers[False] < PEER_DESCRIPTOR_MIN
            assert (numbers[True] >= PEER_DESCRIPTOR_MIN) is high
        a.carry(send(b, ask("later"), 2))
        assert isinstance(answers(one, 2)[-1], PeerReplied)
        assert b.connections() == 1, "it is still the same"


def test_stopping_fails_what_is_under_way() -> None:
    one, two = StubNode(1, 10), StubNode(2, 20)
    with serving(two) as b:
        with serving(one) as a:
            a.carry(send(b, ask("park"), 1))
            two.wait(lambda n: len(n.parked) == 1)
        # The node of a stopped broker is asked nothing any more.
        assert one.peer_answers() == []
        b.barrier()
        b.carry(reply(two.parked[0], MetadataResponse()))  # to a connection that is gone
        with Client(b.port) as client:
            assert client.ask("still") == "still"
