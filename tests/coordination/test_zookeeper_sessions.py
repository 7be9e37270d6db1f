"""Sessions in a real ensemble: lost replies, silence, predecessors, twins, suspicion."""

import json
import time
from collections.abc import Iterator

import pytest
from tests.coordination.doors import Door, ZooKeeperBackend
from tests.support.lossy import LossyLink
from tests.support.zookeeper import Ensemble

from replog.model.coordination import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    SECRET,
    Create,
    SetData,
    WriteDone,
    WriteError,
    WriteFailed,
)
from replog.model.inputs import CoordinatorRead, SessionEnded, SessionStarted
from replog.runtime.coordination import zk_sessions
from replog.runtime.coordination.port import CoordinationUnreachable, SessionSettings
from replog.runtime.coordination.zk_client import ZkSettings
from replog.runtime.coordination.zk_sessions import SESSIONS, SessionRow, may_expire
from replog.runtime.coordination.zk_tree import MULTI_BYTES_MAX
from replog.runtime.coordination.zookeeper import ZooKeeperCoordination

FROZEN_MS = 120_000  # twice the `stall_ms` of a door


@pytest.fixture
def link(ensemble: Ensemble) -> Iterator[LossyLink]:
    server = ensemble.servers[0]
    made = LossyLink((server.host, server.port))
    yield made
    made.close()


def through(link: LossyLink, backend: ZooKeeperBackend) -> ZooKeeperBackend:
    """The same tree, by a connection that a test can break."""
    return ZooKeeperBackend(link.address, backend.settings.chroot.removeprefix("/"))


@pytest.mark.scenario(42)
def test_the_reply_to_a_won_race_is_lost(
    zookeeper_backend: ZooKeeperBackend, link: LossyLink
) -> None:
    """Nobody else can win, and the next reading shows whose the controllership is."""
    backend = through(link, zookeeper_backend)
    try:
        door, other = backend.door(1), zookeeper_backend.door(2)
        race = (Create(CONTROLLER, b"mine", ephemeral=True), Create(CONTROLLER_EPOCH, b"1"))
        link.lose_reply_to(b"mine")
        assert door.write(*race) == WriteFailed(WriteError.UNKNOWN)
        assert link.lost_replies == 1
        assert other.write(*race) == WriteFailed(WriteError.NODE_EXISTS, 0)
        found = read_when_back(door, CONTROLLER, CONTROLLER_EPOCH)
        assert found[CONTROLLER].session == door.session
        assert found[CONTROLLER_EPOCH].data == b"1"
        again = door.write(SetData(CONTROLLER_EPOCH, b"2", found[CONTROLLER_EPOCH].version))
        assert isinstance(again, WriteDone)
    finally:
        backend.close()


def read_when_back(door: Door, *roots: str) -> dict:  # type: ignore[type-arg]
    """Until the connection is there again; the session must be the same."""
    session = door.session
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        door.coordination.read(999, roots)
        nodes = door.wait(CoordinatorRead).nodes
        if nodes is not None:
            assert door.session == session
            return nodes
        time.sleep(0.05)
    raise AssertionError("the ensemble is not reached again")


@pytest.mark.scenario(43)
def test_a_session_that_expires_unheard_is_followed_by_another(
    zookeeper_backend: ZooKeeperBackend, link: LossyLink
) -> None:
    backend = through(link, zookeeper_backend)
    try:
        door, other = backend.door(1), zookeeper_backend.door(2)
        door.write(Create("/brokers/ids/1", b"", ephemeral=True))
        other.write(Create("/brokers/ids/2", b"", ephemeral=True))
        old = door.session
        link.cut()  # longer than the session timeout of 4 s
        while "/brokers/ids/1" in other.read("/brokers/ids"):
            other.wait_changed("/brokers/ids/1")
        link.heal()
        door.wait(SessionEnded)
        door.wait(SessionStarted)
        assert door.session != old
        assert isinstance(door.write(Create("/brokers/ids/1", b"", ephemeral=True)), WriteDone)
        assert set(door.read("/brokers/ids")) == {
            "/brokers/ids",
            "/brokers/ids/1",
            "/brokers/ids/2",
        }
    finally:
        backend.close()


def test_a_process_that_starts_again_buries_its_predecessor(
    zookeeper_backend: ZooKeeperBackend,
) -> None:
    """It need not wait until ZooKeeper gives the dead session up."""
    first = zookeeper_backend.door(1, process="folder@boot")
    first.write(
        Create("/brokers/ids/1", b"", ephemeral=True), Create(CONTROLLER, b"", ephemeral=True)
    )
    stranger = zookeeper_backend.door(2, process="another@boot")
    stranger.write(Create("/brokers/ids/2", b"", ephemeral=True))
    _freeze(first)  # or it would begin anew, and bury its successor in turn
    second = zookeeper_backend.door(1, process="folder@boot")
    assert set(second.read("/brokers/ids", CONTROLLER)) == {"/brokers/ids", "/brokers/ids/2"}
    first.wait(SessionEnded)  # it lives after all: it can write no more under that session


def test_a_broker_that_was_buried_can_write_nothing(zookeeper_backend: ZooKeeperBackend) -> None:
    door, other = zookeeper_backend.door(1), zookeeper_backend.door(2)
    old = door.session
    assert old is not None
    tree = _tree(other)
    assert zk_sessions.bury(tree, old)
    assert not zk_sessions.bury(tree, old), "somebody was faster"
    door.session = old
    assert door.write(Create("/late", b"")) == WriteFailed(WriteError.SESSION_EXPIRED)
    assert other.read("/late") == {}


def test_suspicion_ends_half_of_all_sessions_at_the_most(
    zookeeper_backend: ZooKeeperBackend,
) -> None:
    doors = [zookeeper_backend.door(n) for n in (1, 2, 3)]
    names = [door.session or "" for door in doors]
    for n, door in enumerate(doors, 1):
        door.write(Create(f"/brokers/ids/{n}", b"", ephemeral=True))
    tree = _tree(doors[0])
    _freeze(doors[1])
    assert zk_sessions.expire(tree, names[1], "silent", names[0])
    assert set(doors[0].read("/brokers/ids")) == {
        "/brokers/ids",
        "/brokers/ids/1",
        "/brokers/ids/3",
    }
    assert not zk_sessions.expire(tree, names[2], "silent", names[0])
    doors[1].wait(SessionEnded)
    row = json.loads(doors[0].read(SESSIONS)[f"{SESSIONS}/{names[1]}"].data)
    assert row["expired"] == "silent"
    _thaw(doors[1])
    doors[1].wait(SessionStarted)
    assert doors[1].session not in names


def test_the_majority_rule_counts_who_was_suspected_before() -> None:
    rows = [SessionRow(name, 1, "", None, None) for name in "abcd"]
    gone = [SessionRow("e", 1, "", None, None, expired="silent")]
    assert may_expire(rows[:2], "a") and not may_expire(rows[:1], "a")
    assert may_expire(rows, "a") and may_expire([*rows, *gone], "a")
    assert not may_expire([*rows[:2], *gone], "a")
    assert not may_expire([*rows, *gone], "e"), "it is over already"


def test_a_silent_broker_is_suspected_and_one_that_was_never_heard_is_not(
    zookeeper_backend: ZooKeeperBackend,
) -> None:
    zookeeper_backend.door(9).write(Create(SECRET, b"s"))
    doors = [zookeeper_backend.door(n, silence_ms=500) for n in (1, 2, 3)]
    for n, door in enumerate(doors, 1):
        door.write(Create(f"/brokers/ids/{n}", b"", ephemeral=True))
    time.sleep(1.0)  # all hear all
    silent = doors[2].coordination
    assert isinstance(silent, ZooKeeperCoordination) and silent._pings is not None
    silent._pings.session = ""  # no ping leaves any more
    while "/brokers/ids/3" in doors[0].read("/brokers/ids"):
        doors[0].wait_changed("/brokers/ids/3")
    doors[2].wait(SessionEnded)
    doors[2].wait(SessionStarted)


@pytest.mark.scenario(46)
def test_who_was_suspected_and_hears_nobody_begins_no_session_until_it_does(
    zookeeper_backend: ZooKeeperBackend,
) -> None:
    """It reaches ZooKeeper, and is cut off from its peers: they would only suspect it again."""
    zookeeper_backend.door(9).write(Create(SECRET, b"s"))
    doors = [zookeeper_backend.door(n, silence_ms=500) for n in (1, 2, 3)]
    time.sleep(1.0)  # all hear all
    cut_off = _of_zookeeper(doors[2])
    pings = cut_off._pings
    assert pings is not None
    pings._send = lambda kind, age_ms: None  # type: ignore[method-assign]
    pings._is_ours = lambda body, digest: False  # type: ignore[method-assign]
    doors[2].wait(SessionEnded)
    time.sleep(2.0)  # it would have begun one within a quarter of that
    while not doors[2].events.empty():
        assert not isinstance(doors[2].events.get(), SessionStarted)
    del pings._send, pings._is_ours
    doors[2].wait(SessionStarted)


def test_a_multi_that_no_server_would_take_is_refused_and_costs_no_session(
    zookeeper_backend: ZooKeeperBackend,
) -> None:
    door = zookeeper_backend.door(1)
    session = door.session
    assert door.write(Create("/big", bytes(MULTI_BYTES_MAX))) == WriteFailed(WriteError.REFUSED)
    assert isinstance(door.write(Create("/small", bytes(MULTI_BYTES_MAX // 2))), WriteDone)
    assert door.session == session


def test_many_nodes_are_read_as_of_one_moment(zookeeper_backend: ZooKeeperBackend) -> None:
    """Each multi writes two nodes alike; whoever reads meanwhile sees them alike."""
    writer, reader = zookeeper_backend.door(1), zookeeper_backend.door(2)
    writer.write(Create("/t/x", b"0"), Create("/t/y", b"0"))
    seen = set()
    for number in range(1, 40):
        data = str(number).encode()
        ops = (SetData("/t/x", data), SetData("/t/y", data))
        writer.coordination.write(number, ops, writer.session)  # under way while it is read
        nodes = reader.read("/t")
        assert nodes["/t/x"].data == nodes["/t/y"].data
        seen.add(nodes["/t/x"].data)
    assert len(seen) > 2, "nothing was written meanwhile"


def test_an_ensemble_that_is_not_there_is_said_in_one_line() -> None:
    settings = ZkSettings("127.0.0.1:1", "/x", connection_timeout_ms=300)
    door = ZooKeeperCoordination(settings)
    with pytest.raises(CoordinationUnreachable, match=r"zk://127\.0\.0\.1:1/x can't be reached"):
        door.read_now(["/"])
    door.close()


def test_a_broker_whose_loop_stands_still_begins_no_session(
    zookeeper_backend: ZooKeeperBackend,
) -> None:
    door = Door(zookeeper_backend.open())
    zookeeper_backend.doors.append(door)
    settings = SessionSettings(1, address=("127.0.0.1", 0), stall_ms=0)
    door.coordination.start(settings, door.events.put)  # type: ignore[arg-type,call-arg]
    time.sleep(0.7)
    assert door.events.empty()


def _freeze(door: Door) -> None:
    """Its process seems to have stood still for long: it can't begin another session."""
    coordination = _of_zookeeper(door)
    coordination.loop_turned = lambda: None  # type: ignore[method-assign]
    coordination._loop_turned_ms -= FROZEN_MS


def _thaw(door: Door) -> None:
    _of_zookeeper(door)._loop_turned_ms += FROZEN_MS


def _of_zookeeper(door: Door) -> ZooKeeperCoordination:
    assert isinstance(door.coordination, ZooKeeperCoordination)
    return door.coordination


def _tree(door: Door):  # type: ignore[no-untyped-def]
    """For a test that plays another broker, by this door's client."""
    tree = _of_zookeeper(door)._tree
    assert tree is not None
    return tree
