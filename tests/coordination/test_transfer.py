"""A cluster's tree from one coordinator into another."""

import json

import pytest
from tests.coordination.doors import SqliteBackend, ZooKeeperBackend

from replog.model.coordination import (
    BROKER_IDS,
    CLUSTER_ID,
    CONTROLLER_EPOCH,
    SECRET,
    Create,
    Delete,
)
from replog.runtime.coordination.transfer import (
    UNFINISHED,
    Document,
    TransferError,
    export_tree,
    from_json,
    import_tree,
    registered,
    to_json,
)

TREE = (
    Create(CLUSTER_ID, b"an-id"),
    Create(SECRET, bytes(range(200, 232))),
    Create(CONTROLLER_EPOCH, b"7"),
    Create("/brokers/topics/t", b'{"version":3}'),
    Create("/brokers/topics/t/partitions/0/state", b'{"leader":1}'),
    Create("/config/topics/t", b"{}"),
)


@pytest.fixture
def exported(sqlite_backend: SqliteBackend) -> Document:
    door = sqlite_backend.door(1)
    door.write(*TREE, Create(f"{BROKER_IDS}/1", b"me", ephemeral=True))
    assert registered(door.coordination) == ["1"]
    return export_tree(door.coordination)


def test_all_but_what_sessions_own_is_carried_over(
    exported: Document, zookeeper_backend: ZooKeeperBackend
) -> None:
    door = zookeeper_backend.open()
    count = import_tree(door, from_json(to_json(exported)))
    again = export_tree(door)
    door.close()
    assert again.nodes == exported.nodes
    assert count == len(exported.nodes)
    assert {create.path: create.data for create in TREE}.items() <= exported.nodes.items()
    assert BROKER_IDS in exported.nodes and f"{BROKER_IDS}/1" not in exported.nodes


def test_a_coordinator_that_holds_something_is_left_alone(
    exported: Document, zookeeper_backend: ZooKeeperBackend
) -> None:
    door = zookeeper_backend.open()
    door.write_now([Create("/brokers/topics/mine", b"")])
    with pytest.raises(TransferError, match="holds 3 nodes, /brokers among them"):
        import_tree(door, exported)
    assert "/brokers/topics/mine" in door.read_now(["/brokers"])
    door.close()


def test_an_import_that_was_interrupted_is_no_cluster_and_is_begun_anew(
    exported: Document, zookeeper_backend: ZooKeeperBackend
) -> None:
    door = zookeeper_backend.open()
    import_tree(door, exported)
    door.write_now([Create(UNFINISHED, b""), Delete(CLUSTER_ID), Delete("/config/topics/t")])
    door.write_now([Create("/brokers/topics/half", b"")])
    with pytest.raises(TransferError, match="no cluster"):
        export_tree(door)
    import_tree(door, exported)
    assert export_tree(door).nodes == exported.nodes
    door.close()


def test_numbers_never_fall(exported: Document, sqlite_backend: SqliteBackend) -> None:
    """Broker epochs are numbers of writes: a second broker must never get one that was used."""
    ahead = Document(exported.nodes, last_number=1 << 40)
    other = SqliteBackend(sqlite_backend.path.parent / "other")
    door = other.open()
    with pytest.raises(TransferError, match="epochs would be used twice"):
        import_tree(door, ahead)
    door.close()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        json.dumps({"format": 2, "last_number": 1, "nodes": {CLUSTER_ID: {"text": "x"}}}),
        json.dumps({"format": 1, "last_number": 1, "nodes": {}}),
        json.dumps({"format": 1, "last_number": 1, "nodes": {CLUSTER_ID: {"base64": "?"}}}),
        json.dumps({"format": 1, "last_number": 1, "nodes": {CLUSTER_ID: {}}}),
        json.dumps(
            {"format": 1, "last_number": 1, "nodes": {CLUSTER_ID: {"text": ""}, "/x": {"text": ""}}}
        ),
    ],
)
def test_what_is_no_export_is_refused(text: str) -> None:
    with pytest.raises(TransferError):
        from_json(text)
