"""A cluster on this machine: made, stopped, broken, and never half made."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from replog.runtime import last_up
from replog.runtime.client import AdminClient
from replog.runtime.local_cluster import STARTING_FILE, ClusterError, LocalCluster
from replog.runtime.processes import ProcessState

WAIT_S = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two brokers for all tests of this file, forked by a process of their own that has ended."""
    folder = tmp_path_factory.mktemp("cluster") / "data"
    script = (
        "import sys; from pathlib import Path\n"
        "from replog.runtime.local_cluster import LocalCluster\n"
        "c = LocalCluster.plan(Path(sys.argv[1]), brokers=2, first_id=4, port=0)\n"
        "c.up(fork=True, remember=False)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(folder)], check=True, timeout=WAIT_S)
    made = LocalCluster.load(folder)
    made.wait_ready(WAIT_S)
    yield made
    made.down(WAIT_S)


@pytest.fixture
def whole(cluster: LocalCluster) -> LocalCluster:
    """The cluster with all its brokers running."""
    for broker in cluster.status():
        if broker.state is ProcessState.PAUSED:
            cluster.resume(broker.broker_id)
        elif broker.state is ProcessState.DEAD:
            cluster.start(broker.broker_id, WAIT_S)
    cluster.wait_ready(WAIT_S)
    return cluster


def registered(cluster: LocalCluster) -> set[int]:
    with AdminClient(cluster.bootstrap_servers) as client:
        return set(client.brokers())


def wait_registered(cluster: LocalCluster, wanted: set[int]) -> float:
    began = time.monotonic()
    while registered(cluster) != wanted:
        assert time.monotonic() - began < WAIT_S
        time.sleep(0.02)
    return time.monotonic() - began


def states(cluster: LocalCluster) -> dict[int, str]:
    return {broker.broker_id: broker.state.value for broker in cluster.status()}


def test_the_brokers_outlive_who_started_them(whole: LocalCluster) -> None:
    assert registered(whole) == {4, 5}
    assert states(whole) == {4: "running", 5: "running"}
    for broker in whole.status():
        assert broker.pid is not None
        assert os.getsid(broker.pid) == broker.pid, "a session of its own"
        assert broker.log_file.read_text().startswith("20")
        assert whole.log_dir(broker.broker_id).is_dir()


def test_a_forked_broker_shares_no_descriptor_with_its_siblings(whole: LocalCluster) -> None:
    locks = []
    for broker in whole.status():
        folder = Path(f"/proc/{broker.pid}/fd")
        names = [os.readlink(fd) for fd in folder.iterdir() if fd.exists() or fd.is_symlink()]
        locks.append({name for name in names if "/sessions/" in name or name.endswith("/.lock")})
        assert not any(f"broker-{9 - broker.broker_id}/" in name for name in names)
    assert all(len(found) >= 2 for found in locks)


def test_stop_and_start(whole: LocalCluster) -> None:
    assert whole.stop(5, WAIT_S) is True
    assert states(whole)[5] == "stopped"
    assert registered(whole) == {4}
    with pytest.raises(ClusterError, match="broker 5 is not running"):
        whole.stop(5)
    whole.start(5, WAIT_S)
    wait_registered(whole, {4, 5})
    with pytest.raises(ClusterError, match="broker 5 is running already"):
        whole.start(5)


def test_who_starts_a_broker_waits_for_others_who_do_and_then_finds_it_running(
    whole: LocalCluster,
) -> None:
    whole.kill(5)
    said: list[str] = []

    def attempt() -> None:
        try:
            whole.start(5, 0)
        except ClusterError as error:
            said.append(str(error))

    starters = [threading.Thread(target=attempt) for _ in range(2)]
    with (whole.data_dir / STARTING_FILE).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for starter in starters:
            starter.start()
        time.sleep(0.5)
        assert states(whole)[5] == "stopped"
        fcntl.flock(lock, fcntl.LOCK_UN)
    for starter in starters:
        starter.join(WAIT_S)
    assert said == ["broker 5 is running already"]
    whole.wait_ready(WAIT_S)
    whole.kill(5)  # the one that runs is the one that is known
    wait_registered(whole, {4})


def test_a_killed_broker_is_missed_soon_and_comes_back(whole: LocalCluster) -> None:
    whole.kill(4)
    assert states(whole) == {4: "stopped", 5: "running"}
    assert wait_registered(whole, {5}) < 10
    whole.start(4, WAIT_S)
    wait_registered(whole, {4, 5})


def test_a_paused_broker_is_suspected_and_returns(whole: LocalCluster) -> None:
    whole.pause(4)
    deadline = time.monotonic() + WAIT_S
    while states(whole)[4] != "paused" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert states(whole)[4] == "paused"
    with AdminClient([("127.0.0.1", whole.members[1].port)]) as client:
        while set(client.brokers()) != {5}:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    whole.resume(4)
    wait_registered(whole, {4, 5})


def test_a_pid_that_belongs_to_somebody_else_is_left_alone(whole: LocalCluster) -> None:
    whole.kill(5)
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        path = whole.data_dir / "broker-5" / "broker.pid"
        path.write_text(path.read_text().replace('"pid": ', '"pid": 0, "was": '))
        path.write_text(f'{{"pid": {other.pid}, "started": "1"}}')
        assert states(whole)[5] == "stopped"
        with pytest.raises(ClusterError, match="not running"):
            whole.kill(5)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_up_of_a_cluster_that_runs_is_refused(whole: LocalCluster) -> None:
    with pytest.raises(ClusterError, match=r"port .* is in use|running already"):
        LocalCluster.load(whole.data_dir).up()
    assert registered(whole) == {4, 5}


def test_down_and_up_again_keeps_the_cluster(whole: LocalCluster) -> None:
    with AdminClient(whole.bootstrap_servers) as client:
        before = client.metadata().cluster_id
    assert whole.down(WAIT_S) == []
    assert set(states(whole).values()) == {"stopped"}
    assert whole.down(WAIT_S) == [], "nothing left to stop"
    again = LocalCluster.load(whole.data_dir)
    again.up(fork=False, remember=False)
    again.wait_ready(WAIT_S)
    with AdminClient(again.bootstrap_servers) as client:
        assert client.metadata().cluster_id == before


def test_another_plan_for_a_folder_that_has_one_is_refused(whole: LocalCluster) -> None:
    other = LocalCluster.plan(whole.data_dir, brokers=3, port=0)
    with pytest.raises(ClusterError, match=r"holds a cluster of brokers 4 at port \d+, 5 at port"):
        other.up()


def test_a_broker_that_is_not_in_the_cluster_is_named(whole: LocalCluster) -> None:
    with pytest.raises(ClusterError, match=r"there is no broker 9 in .*: it has 4, 5"):
        whole.kill(9)


# ---- what can't be ---------------------------------------------------------------------------


def test_a_port_in_use_is_found_before_anything_is_made(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        planned = LocalCluster.plan(tmp_path / "data", brokers=2, port=port - 1)
        with pytest.raises(ClusterError, match=f"port ({port - 1}|{port}) is in use"):
            planned.up()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"brokers": 0}, "at least one broker"),
        ({"port": 65_535}, "ports 65535 to 65537"),
        ({"settings": {"log.segment.byte": "1"}}, "did you mean log.segment.bytes"),
        ({"settings": {"num.partitions": "x"}}, "num.partitions"),
    ],
)
def test_a_plan_that_can_not_work_is_refused(
    tmp_path: Path, arguments: dict[str, object], text: str
) -> None:
    with pytest.raises(ClusterError, match=text):
        LocalCluster.plan(tmp_path / "data", **arguments)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_the_limit_of_ports_is_the_last_one(tmp_path: Path) -> None:
    planned = LocalCluster.plan(tmp_path / "data", brokers=3, port=65_533)
    assert [m.port for m in planned.members] == [65_533, 65_534, 65_535]


def test_a_folder_that_can_not_be_made_is_named() -> None:
    planned = LocalCluster.plan(Path("/proc/replog"), brokers=1, port=0)
    with pytest.raises(ClusterError, match=r"^/proc/replog can't be written"):
        planned.up()


def test_a_folder_without_a_cluster_and_a_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="there is no cluster in"):
        LocalCluster.load(tmp_path)
    for text in ("", "{", "[]", '{"members": [1]}', '{"members": [], "settings": 3}'):
        (tmp_path / "cluster.json").write_text(text)
        with pytest.raises(ClusterError, match=r"cluster\.json is damaged: remove it, and start"):
            LocalCluster.load(tmp_path)


def test_a_broker_that_ends_while_it_is_waited_for_is_quoted(tmp_path: Path) -> None:
    planned = LocalCluster.plan(tmp_path / "data", brokers=1, port=0)
    folder = planned.log_dir(0)
    folder.mkdir(parents=True)
    (folder / "meta.properties").write_text(
        "version=1\ncluster.id=other\nnode.id=0\nreplog.disk.format=1\n"
    )
    planned.up(fork=False, remember=False)
    with pytest.raises(ClusterError, match=r"broker 0 has ended: replog: .*to cluster other"):
        planned.wait_ready(WAIT_S)


def test_settings_survive_a_properties_file(tmp_path: Path) -> None:
    from replog.model.config import parse_properties

    value = " C:\\data\tand more "
    planned = LocalCluster.plan(
        tmp_path / "data", brokers=1, port=0, settings={"broker.rack": value}
    )
    planned.data_dir.mkdir()
    planned._prepare(planned.members[0])
    text = (planned.data_dir / "broker-0" / "server.properties").read_text()
    assert parse_properties(text)["broker.rack"] == value


def test_the_last_up_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert last_up.last_up() is None
    last_up.remember_up(Path("/some/where"))
    assert last_up.last_up() == Path("/some/where")
    assert last_up.default_data_dir().parent == tmp_path / "replog"
    (tmp_path / "replog" / "last-up.json").write_text("[]")
    assert last_up.last_up() is None


def test_a_late_broker_is_killed_in_the_end(tmp_path: Path) -> None:
    planned = LocalCluster.plan(tmp_path / "data", brokers=1, port=0)
    planned.up(fork=False, remember=False)
    try:
        planned.wait_ready(WAIT_S)
        pid = planned.status()[0].pid
        assert pid is not None
        assert planned.down(0.0) == [0]
        assert set(states(planned).values()) == {"stopped"}
    finally:
        for broker in planned.status():
            if broker.pid is not None:
                os.kill(broker.pid, signal.SIGKILL)
