"""Sessions of real processes: killed, stopped, and a database that somebody holds."""

import logging
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.coordination.doors import WAIT_S, Door, SqliteBackend

from replog.model.coordination import Create, SetData, WriteDone, WriteError, WriteFailed
from replog.model.inputs import CoordinatorRead, SessionEnded, SessionStarted
from replog.runtime.coordination import store
from replog.runtime.coordination.port import ANYTHING, CoordinationError
from replog.runtime.coordination.suspicion import Suspicion

_CHILD = """
import queue, sys, time
from pathlib import Path
from replog.model.coordination import Create, WriteDone
from replog.model.inputs import CoordinatorWritten, SessionStarted, SessionEnded
from replog.runtime.coordination.port import SessionSettings
from replog.runtime.coordination.sqlite import SqliteCoordination

path, broker, silence = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
events = queue.Queue()
door = SqliteCoordination(path)
door.start(SessionSettings(broker, silence_ms=silence, stall_ms=600000, ping_ms=50), events.put)
while True:
    event = events.get()
    if isinstance(event, SessionStarted):
        ops = tuple(Create(p, str(broker).encode(), ephemeral=True) for p in sys.argv[4:])
        door.write(1, ops, event.session)
    elif isinstance(event, CoordinatorWritten):
        print("won" if isinstance(event.result, WriteDone) else event.result.error.name, flush=True)
    elif isinstance(event, SessionEnded):
        print("ended", flush=True)
"""


class Child:
    """A process with a session that creates ephemeral nodes and says how that went."""

    def __init__(self, backend: SqliteBackend, broker_id: int, *paths: str, silence: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(backend.path), str(broker_id), str(silence), *paths],
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)


@contextmanager
def children(
    backend: SqliteBackend, count: int, *paths: str, silence: int = 600_000
) -> Iterator[list[Child]]:
    made = [Child(backend, n, *paths, silence=silence) for n in range(1, count + 1)]
    try:
        yield made
    finally:
        for child in made:
            child.process.kill()
            child.process.wait()
            assert child.process.stdout is not None
            child.process.stdout.close()


def wait_gone(door: Door, path: str) -> float:
    """Seconds until `path` is gone, by hints alone."""
    started = time.monotonic()
    while path in door.read(path):
        door.wait_changed(path)
    return time.monotonic() - started


def test_a_killed_process_is_noticed_at_once(sqlite_backend: SqliteBackend) -> None:
    door = sqlite_backend.door(9)
    with children(sqlite_backend, 1, "/ids/1") as (child,):
        assert child.line() == "won"
        child.signal(signal.SIGKILL)
        # No ping is involved: the door's own silence limit is a minute.
        assert wait_gone(door, "/ids/1") < 5
    assert [s.broker_id for s in store.sessions(door.coordination._connection)] == [9]
    locks = list((sqlite_backend.path.parent / "sessions").iterdir())
    assert len(locks) == 1, "the dead session's lock file is left behind"


def test_of_two_processes_that_race_for_the_controller_one_wins(
    sqlite_backend: SqliteBackend,
) -> None:
    door = sqlite_backend.door(9)
    with children(sqlite_backend, 2, "/controller") as racers:
        outcomes = sorted(child.line() for child in racers)
        assert outcomes == ["NODE_EXISTS", "won"]
        assert door.read("/controller")["/controller"].data in (b"1", b"2")


def test_a_stopped_process_loses_its_session_and_gets_another_when_it_goes_on(
    sqlite_backend: SqliteBackend,
) -> None:
    door = sqlite_backend.door(9, silence_ms=400)
    with children(sqlite_backend, 1, "/ids/1") as (child,):
        assert child.line() == "won"
        child.signal(signal.SIGSTOP)
        assert wait_gone(door, "/ids/1") < WAIT_S
        rows = store.sessions(door.coordination._connection)
        assert [row.expired is not None for row in rows if row.broker_id == 1] == [True]
        child.signal(signal.SIGCONT)
        assert child.line() == "ended"
        assert child.line() == "won"
        assert "/ids/1" in door.read("/ids")


def test_a_session_that_peers_have_ended_is_followed_by_none_before_they_are_heard(
    sqlite_backend: SqliteBackend,
) -> None:
    """Who is cut off from all others, and not from the database, stays out."""
    door = sqlite_backend.door(9, silence_ms=60_000)
    with children(sqlite_backend, 1, "/ids/1", silence=60_000) as (child,):
        assert child.line() == "won"
        with children(sqlite_backend, 1, silence=60_000) as (other,):
            assert other.line() == "won"
            pings = door.coordination._pings
            assert pings._suspicion is not None
            deadline = time.monotonic() + WAIT_S
            while len(pings._suspicion._known) < 2 and time.monotonic() < deadline:
                time.sleep(0.02)
            pings._take_ping = lambda *ping: None  # datagrams have no way to it any more
            assert door.session is not None
            with store.open_database(
                door.coordination._path, create=False, busy_ms=1000
            ) as connection:
                store.expire_session(connection, door.session, "cut off")
            door.wait(SessionEnded)
            for _ in range(20):
                door.turn()
                time.sleep(0.05)
            assert _expired(door) == [9], "it is counted as one that was ended on suspicion"
            assert door.events.empty() or door.session is None
            del pings._take_ping
            while door.session is None:
                door.turn()
                door.wait(SessionStarted)
            assert _expired(door) == []


def test_of_three_sessions_suspicion_ends_one_and_never_a_second(
    sqlite_backend: SqliteBackend,
) -> None:
    door = sqlite_backend.door(9, silence_ms=400)
    with children(sqlite_backend, 2, silence=600_000) as both:
        assert [child.line() for child in both] == ["won", "won"]
        for child in both:
            child.signal(signal.SIGSTOP)
        deadline = time.monotonic() + WAIT_S
        while not _expired(door) and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(1.0)
        assert len(_expired(door)) == 1
        expired = _expired(door)[0]
        victim = both[expired - 1]
        victim.signal(signal.SIGKILL)  # proof, not suspicion: the other may now be suspected
        deadline = time.monotonic() + WAIT_S
        while _expired(door) in ([], [expired]) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert _expired(door) == [3 - expired]


def _expired(door: Door) -> list[int]:
    with store.open_database(door.coordination._path, create=False, busy_ms=1000) as connection:
        rows = store.sessions(connection)
    connection.close()
    return [row.broker_id for row in rows if row.expired is not None]


@pytest.mark.scenario(39)
def test_an_event_loop_that_does_not_turn_counts_as_stopped(
    sqlite_backend: SqliteBackend,
) -> None:
    stuck = sqlite_backend.door(1)
    stuck.write(Create("/ids/1", b"", ephemeral=True))
    watcher = sqlite_backend.door(2, stall_ms=500)
    watcher.turn()
    stuck.wait(SessionEnded)  # its threads are well, but nobody calls `loop_turned`
    wait_gone(watcher, "/ids/1")


@pytest.mark.scenario(39)
def test_a_stuck_event_loop_gets_no_new_session_before_it_turns(
    sqlite_backend: SqliteBackend,
) -> None:
    stuck = sqlite_backend.door(1, stall_ms=500)
    watcher = sqlite_backend.door(2, stall_ms=500)
    said: list[type] = []
    for _ in range(25):
        watcher.turn()
        time.sleep(0.1)
        said = [type(event) for event in stuck.events.queue]
    assert said.count(SessionEnded) == 1, "ended again and again"
    assert SessionStarted not in said
    stuck.turn()
    stuck.wait(SessionStarted)


def test_a_restarted_broker_finds_its_predecessor_buried(sqlite_backend: SqliteBackend) -> None:
    sqlite_backend.open().close()
    with children(sqlite_backend, 1, "/ids/1") as (child,):
        assert child.line() == "won"
        child.signal(signal.SIGKILL)
        child.process.wait()
        door = sqlite_backend.door(1)
        assert isinstance(door.write(Create("/ids/1", b"", ephemeral=True)), WriteDone)


@pytest.mark.scenario(47)
def test_a_held_database_fails_writes_in_time_and_the_session_goes_on(
    sqlite_backend: SqliteBackend, caplog: pytest.LogCaptureFixture
) -> None:
    door = sqlite_backend.door(1)
    door.write(Create("/n", b"0"))
    holder = sqlite3.connect(sqlite_backend.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")  # as by a process that was stopped inside a transaction
    with caplog.at_level(logging.WARNING, logger="replog.coordinator"):
        started = time.monotonic()
        for _ in range(2):
            assert door.write(SetData("/n", b"1")) == WriteFailed(WriteError.UNKNOWN)
        assert time.monotonic() - started < WAIT_S
        assert door.read("/n")["/n"].data == b"0", "reads go on"
        holder.execute("ROLLBACK")
        holder.close()
        assert isinstance(door.write(SetData("/n", b"2")), WriteDone), "in the same session"
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert "without elections" in said[0] and "again" in said[1]


def test_a_database_that_is_gone_answers_reads_with_none(sqlite_backend: SqliteBackend) -> None:
    door = sqlite_backend.door(1)
    with door.coordination._direct:  # type: ignore[union-attr]
        door.coordination._connection.close()  # type: ignore[union-attr]
    door.coordination.read(5, ["/"])
    assert door.wait(CoordinatorRead).nodes is None


def test_who_missed_too_many_changes_is_told_to_look_at_everything(
    sqlite_backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "CHANGES_KEPT", 3)
    door = sqlite_backend.door(1)
    connection = store.open_database(sqlite_backend.path, create=False, busy_ms=1000)
    for n in range(3):
        store.write(connection, None, (Create(f"/a{n}", b""),))
    seen = store.last_zxid(connection)
    for n in range(3, 6):
        store.write(connection, None, (Create(f"/a{n}", b""),))
    assert ANYTHING not in store.changes_since(connection, seen)[1], "at the limit"
    assert ANYTHING in store.changes_since(connection, seen - 1)[1], "one past it"
    connection.close()
    door.wait_changed("/a5")


def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    backend = SqliteBackend(tmp_path)
    door = backend.open()
    door._connection.execute("UPDATE meta SET value = 2 WHERE name = 'format'")
    door.close()
    with pytest.raises(CoordinationError, match=r"has format 2; .* knows format 1"):
        backend.open()


def test_a_missing_database_is_not_made_by_who_only_looks(tmp_path: Path) -> None:
    from replog.runtime.coordination.sqlite import SqliteCoordination

    with pytest.raises(CoordinationError, match="can't be opened"):
        SqliteCoordination(tmp_path / "replog.db", create=False)
    assert list(tmp_path.iterdir()) == []


def test_who_was_paused_itself_counts_anew() -> None:
    suspicion = Suspicion(silence_ms=1000, stall_ms=5000, gap_ms=500)
    suspicion.turn(0)
    suspicion.members(["a", "b"], 0)
    for now in range(0, 999, 250):
        assert not suspicion.turn(now)
        suspicion.heard("a", 10, now)
    suspicion.turn(999)
    assert suspicion.suspects(999) == []
    assert [s for s, _ in suspicion.suspects(1000)] == ["b"]
    assert suspicion.turn(20_000), "a pause of our own"
    assert suspicion.suspects(20_000) == []
    suspicion.heard("a", 4_999, 20_900)
    assert [s for s, _ in suspicion.suspects(20_900)] == []
    suspicion.heard("a", 5_000, 20_900)
    assert suspicion.suspects(20_900) == [("a", "event loop stopped for 5000 ms")]
    suspicion.members(["b"], 20_900)
    assert suspicion.suspects(20_900) == []


@pytest.mark.scenario(46)
def test_who_hears_half_of_those_that_it_ever_heard() -> None:
    suspicion = Suspicion(silence_ms=1000, stall_ms=5000, gap_ms=500, presume=False)
    suspicion.members(["a", "b", "c", "never"], 0)
    assert suspicion.hears_half(), "there is nobody to hear"
    for session in "abc":
        suspicion.heard(session, 0, 10)
    assert [s for s, _ in suspicion.suspects(5_000)] == ["a", "b", "c"]
    assert suspicion.hears_half()
    suspicion.listen_anew()
    assert not suspicion.hears_half()
    assert suspicion.turn(0) is False and suspicion.turn(60_000), "paused: still nobody is heard"
    assert not suspicion.hears_half()
    suspicion.heard("a", 0, 60_001)
    assert not suspicion.hears_half()
    suspicion.heard("b", 0, 60_002)
    assert suspicion.hears_half()


@pytest.mark.scenario(85)
def test_who_hears_nobody_suspects_nobody() -> None:
    """One of them was heard a little later than the other: that one is silent first."""
    suspicion = Suspicion(silence_ms=1000, stall_ms=5000, gap_ms=500, presume=False)
    suspicion.members(["a", "b"], 0)
    suspicion.heard("a", 0, 0)
    suspicion.heard("b", 0, 200)
    assert not suspicion.deaf(499)
    assert [s for s, _ in suspicion.suspects(1_000)] == ["a"] and suspicion.deaf(1_000)
    suspicion.heard("b", 0, 1_000)
    assert [s for s, _ in suspicion.suspects(1_000)] == ["a"] and not suspicion.deaf(1_000)
    # The session of "a" was ended, and there is another: not heard either.
    suspicion.members(["b", "A"], 1_100)
    assert [s for s, _ in suspicion.suspects(2_000)] == ["b"] and suspicion.deaf(2_000)
    suspicion.heard("A", 0, 2_001)
    assert not suspicion.deaf(2_001)


@pytest.mark.scenario(85)
def test_who_is_heard_counts_and_not_under_which_session() -> None:
    """Whoever is cut off may have outlasted the sessions of those that it has heard."""
    suspicion = Suspicion(silence_ms=1000, stall_ms=5000, gap_ms=500, presume=False)
    suspicion.members(["a", "b"], 0)
    for session in "ab":
        suspicion.heard(session, 0, 10)
    suspicion.members(["A", "B"], 20)
    suspicion.listen_anew()
    assert not suspicion.hears_half()
    suspicion.heard("A", 0, 30)
    assert suspicion.hears_half()
    suspicion.listen_anew()
    suspicion.members([], 40)
    assert suspicion.hears_half(), "there is nobody any more"


def test_a_killed_process_in_the_middle_of_writes_leaves_a_whole_tree(
    sqlite_backend: SqliteBackend,
) -> None:
    """Each multi writes two nodes alike; whenever the writer dies, they are still alike."""
    door = sqlite_backend.door(9)
    door.write(Create("/x", b""), Create("/y", b""))
    script = (
        "import sys; from pathlib import Path; from replog.model.coordination import SetData\n"
        "from replog.runtime.coordination.sqlite import SqliteCoordination\n"
        "d = SqliteCoordination(Path(sys.argv[1])); n = 0\n"
        "while True:\n"
        "    n += 1; d.write_now([SetData('/x', b'%d' % n), SetData('/y', b'%d' % n)])\n"
        "    n == 1 and print('on', flush=True)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(sqlite_backend.path)], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.readline()
    time.sleep(0.05)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    nodes = door.read("/x", "/y")
    assert nodes["/x"].data == nodes["/y"].data != b""
    assert isinstance(door.write(SetData("/x", b"mine")), WriteDone), "nobody holds the database"


def test_lost_reply_is_unknown_although_it_was_carried_out() -> None:
    from tests.coordination.doors import MemBackend

    backend = MemBackend()
    door = backend.door(1)
    door.coordination.lose_next_reply()  # type: ignore[union-attr]
    assert door.write(Create("/controller", b"1")) == WriteFailed(WriteError.UNKNOWN)
    assert door.read("/controller")["/controller"].data == b"1"
    assert door.write(Create("/controller", b"1")) == WriteFailed(WriteError.NODE_EXISTS, 0)


def test_session_names_do_not_repeat(sqlite_backend: SqliteBackend) -> None:
    one, _two = sqlite_backend.door(1), sqlite_backend.door(2)
    names = {one.session}
    for _ in range(3):
        sqlite_backend.expire(one)
        one.wait(SessionStarted)
        names.add(one.session)
    assert len(names) == 4


def test_a_lock_file_without_a_session_is_swept_when_its_process_is_dead(
    sqlite_backend: SqliteBackend,
) -> None:
    from replog.runtime.coordination.session_lock import SessionLock

    folder = sqlite_backend.path.parent / "sessions"
    dead, alive = SessionLock(folder, "d" * 16), SessionLock(folder, "a" * 16)
    os.close(dead._descriptor)
    door = sqlite_backend.door(1)
    assert {path.stem for path in folder.iterdir()} == {"a" * 16, door.session}
    alive.release()


def test_a_write_now_does_not_make_anybody_less_suspicious(sqlite_backend: SqliteBackend) -> None:
    door = sqlite_backend.door(9, silence_ms=400)
    with children(sqlite_backend, 1, "/ids/1") as (child,):
        assert child.line() == "won"
        child.signal(signal.SIGSTOP)
        door.coordination.write_now([Create("/x", b"")])
        assert wait_gone(door, "/ids/1") < WAIT_S
