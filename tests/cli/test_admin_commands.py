"""Groups, settings and growing topics by the command line, on a real cluster."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.support.cluster import Cluster, wait_until


@pytest.fixture
def group(cluster: Cluster, topic: str) -> str:
    """A group without members that has read 4 of 10 records of a topic of two partitions."""
    cluster.create_topic(topic, partitions=2)
    for partition in ("0", "1"):
        lines = b"".join(b"%d\n" % n for n in range(5))
        done = cluster.try_to("produce", topic, "--partition", partition, stdin=lines)
        assert done.returncode == 0, done.stderr
    name = f"group-{topic}"
    done = cluster.try_to("consume", topic, "--group", name, "-c", "4")
    assert done.returncode == 0, done.stderr
    return name


@contextmanager
def member(cluster: Cluster, topic: str, group: str) -> Iterator[None]:
    """Somebody reads as a member of `group`, until it is over."""
    words = ["consume", topic, "--group", group, "--bootstrap-server", cluster.bootstrap]
    process = subprocess.Popen([sys.executable, "-m", "replog", *words], stdout=subprocess.DEVNULL)
    try:
        wait_until("it is stable", lambda: described(cluster, group)["state"] == "Stable")
        yield
    finally:
        process.kill()
        process.wait()


def described(cluster: Cluster, group: str) -> dict[str, object]:
    (found,) = cluster.run("group", "describe", group)
    assert isinstance(found, dict)
    return found


def positions(cluster: Cluster, group: str) -> dict[int, tuple[int | None, int, int | None]]:
    """(committed, end, lag) by partition."""
    found = described(cluster, group)["positions"]
    assert isinstance(found, list)
    return {p["partition"]: (p["committed"], p["end"], p["lag"]) for p in found}


def test_groups_are_listed_with_their_state(cluster: Cluster, group: str) -> None:
    lines = {line["group"]: line for line in cluster.run("group", "list")}
    assert lines[group]["state"] == "Empty" and lines[group]["protocol_type"] == "consumer"
    assert group in [line["group"] for line in cluster.run("group", "list", "--state", "EMPTY")]
    assert group not in [g["group"] for g in cluster.run("group", "list", "--state", "stable")]
    assert group in cluster.try_to("group", "list").stdout


def test_a_group_shows_where_it_stands(cluster: Cluster, group: str) -> None:
    found = positions(cluster, group)
    assert sum(committed or 0 for committed, _, _ in found.values()) == 4
    assert all(end == 5 and lag == end - (c or 0) for c, end, lag in found.values())
    shown = cluster.try_to("group", "describe", group).stdout
    assert "COMMITTED" in shown and "LAG" in shown and "state Empty" in shown


def test_positions_are_moved_and_told_before_and_after(cluster: Cluster, group: str) -> None:
    topic = group.removeprefix("group-")
    words = ("group", "reset", group, "--topic", topic)
    before = positions(cluster, group)
    tried = cluster.run(*words, "--to-latest", "--dry-run")
    assert not tried["changed"] and positions(cluster, group) == before
    moved = cluster.run(*words, "--to-latest")
    assert moved["changed"] and [p["after"] for p in moved["positions"]] == [5, 5]
    assert {c for c, _, _ in positions(cluster, group).values()} == {5}
    cluster.run("group", "reset", group, "--topic", f"{topic}:1", "--shift-by", "-2")
    assert [positions(cluster, group)[p][0] for p in (0, 1)] == [5, 3]
    cluster.run("group", "reset", group, "--all-topics", "--to-offset", "99")  # the end is nearer
    assert [positions(cluster, group)[p][0] for p in (0, 1)] == [5, 5]
    cluster.run(*words, "--to-earliest")
    assert [positions(cluster, group)[p][0] for p in (0, 1)] == [0, 0]
    cluster.run(*words, "--to-datetime", "2100-01-01")  # later than every record
    assert [positions(cluster, group)[p][0] for p in (0, 1)] == [5, 5]
    cluster.run(*words, "--to-datetime", "2000-01-01T00:00:00")
    assert [positions(cluster, group)[p][0] for p in (0, 1)] == [0, 0]


def test_a_group_with_members_keeps_its_positions(cluster: Cluster, group: str) -> None:
    topic = group.removeprefix("group-")
    with member(cluster, topic, group):
        view = described(cluster, group)
        members = view["members"]
        assert isinstance(members, list)
        (only,) = members
        assert [p["partition"] for p in only["partitions"]] == [0, 1]
        for words, hint in (
            (("group", "reset", group, "--topic", topic, "--to-earliest"), "stop them first"),
            (("group", "delete", group), "stop them first"),
            (("group", "delete", group, "--offsets", topic), "GROUP_SUBSCRIBED_TO_TOPIC"),
        ):
            done = cluster.try_to(*words)
            assert done.returncode == 1 and hint in done.stderr, words
        shown = cluster.try_to("group", "describe", group, "--members").stdout
        assert f"{topic}:0-1" in shown


def test_deleting_groups_and_single_positions(cluster: Cluster, group: str) -> None:
    topic = group.removeprefix("group-")
    cluster.run("group", "reset", group, "--topic", topic, "--to-latest")
    assert cluster.run("group", "delete", group, "--offsets", f"{topic}:0")["deleted"] == [group]
    assert list(positions(cluster, group)) == [1]
    done = cluster.try_to("group", "delete", group, "never-was")
    assert done.returncode == 1 and done.stdout == f"deleted {group}\n"
    assert "never-was" in done.stderr and "no such group" in done.stderr
    done = cluster.try_to("group", "describe", group)
    assert done.returncode == 1 and f"there is no group '{group}'" in done.stderr


def test_a_topic_is_altered_while_it_is_in_use(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    cluster.run("topic", "alter", topic, "--partitions", "3", "--config", "min.insync.replicas=2")
    view = cluster.wait_in_sync(topic)
    assert len(view["partitions"]) == 3 and view["promise"] == 2
    lines = b"".join(b"%d\n" % n for n in range(30))
    done = cluster.try_to("produce", topic, "--partition", "2", stdin=lines)
    assert done.returncode == 0, done.stderr
    cluster.run("topic", "alter", topic, "--unset", "min.insync.replicas")
    assert cluster.describe(topic)["promise"] == 1
    done = cluster.try_to("topic", "alter", topic, "--partitions", "2", "--config", "segment.ms=9")
    assert done.returncode == 1 and "INVALID_PARTITIONS" in done.stderr
    assert "segment.ms" not in cluster.try_to("config", "get", "--topic", topic).stdout


def test_settings_are_shown_with_their_sources(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)

    def get(*words: str) -> dict[str, tuple[str, str]]:
        return {c["name"]: (c["value"], c["source"]) for c in cluster.run("config", "get", *words)}

    target = ("--topic", topic)
    assert "retention.ms" not in get(*target)
    assert get(*target, "--all")["retention.ms"] == ("604800000", "default")
    done = cluster.run(
        "config", "set", *target, "retention.ms=5", "--append", "cleanup.policy=compact"
    )
    assert done["changed"]
    assert get(*target)["retention.ms"] == ("5", "topic")
    assert get(*target, "cleanup.policy") == {"cleanup.policy": ("delete,compact", "topic")}
    cluster.run("config", "set", *target, "--unset", "retention.ms", "--dry-run")
    assert get(*target)["retention.ms"] == ("5", "topic")
    cluster.run("config", "set", *target, "--unset", "retention.ms")
    cluster.run("config", "set", "--all-brokers", "log.retention.ms=123456789")
    try:
        assert get(*target)["retention.ms"] == ("123456789", "all brokers, dynamic")
        shown = cluster.try_to("config", "get", *target, "retention.ms").stdout
        assert "168 (log.retention.hours)" in shown
    finally:
        cluster.run("config", "set", "--all-brokers", "--unset", "log.retention.ms")
    cluster.run("config", "set", "--broker", "2", "max.connections=500")
    assert get("--broker", "2")["max.connections"] == ("500", "broker, dynamic")
    assert get("--broker", "1", "max.connections")["max.connections"][1] == "default"
    cluster.run("config", "set", "--broker", "2", "--unset", "max.connections")


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (("config", "set", "--topic", "no-such", "retention.ms=5"), 1, "no-such"),
        (("config", "set", "--broker", "1", "log.dirs=/x"), 1, "restart the broker"),
        (("config", "set", "--all-brokers", "log.retention.mss=1"), 1, "did you mean"),
        (("config", "set", "--broker", "77", "max.connections=1"), 1, "77"),
        (("config", "get", "--topic", "no-such"), 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (("config", "get"), 2, "required"),
        (("config", "set", "--all-brokers"), 2, "NAME=VALUE"),
        (("config", "set", "--all-brokers", "a=1", "--unset", "a"), 2, "more than once"),
        (("topic", "alter", "t"), 2, "--partitions"),
        (("topic", "alter", "no-such", "--partitions", "3"), 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (("group", "describe", "no-such"), 1, "no-such"),
        (("group", "reset", "no-such", "--all-topics", "--to-latest"), 1, "--topic"),
        (("group", "reset", "g", "--topic", "t:x", "--to-latest"), 2, "TOPIC:PARTITION"),
        (("group", "reset", "g", "--to-latest"), 2, "--topic"),
    ],
)
def test_what_goes_wrong_is_said_in_one_line(
    cluster: Cluster, words: tuple[str, ...], code: int, hint: str
) -> None:
    done = cluster.try_to(*words)
    assert (done.returncode, done.stdout) == (code, ""), done
    assert hint in done.stderr and done.stderr.count("\n") == 1
