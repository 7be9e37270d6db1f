"""What every backend of the coordinator does alike."""

import pytest
from tests.coordination.doors import Backend

from replog.model.coordination import (
    Check,
    Create,
    Delete,
    Operation,
    SetData,
    WriteDone,
    WriteError,
    WriteFailed,
)
from replog.model.inputs import SessionEnded, SessionStarted


def test_a_node_is_created_with_version_0_and_the_number_of_its_write(backend: Backend) -> None:
    door = backend.door(1)
    result = door.write(Create("/cluster/id", b"abc"))
    assert isinstance(result, WriteDone)
    node = door.read("/cluster/id")["/cluster/id"]
    assert (node.data, node.version, node.created_at) == (b"abc", 0, result.zxid)
    assert node.session is None


def test_parents_are_made_empty_and_persistent(backend: Backend) -> None:
    door = backend.door(1)
    door.write(Create("/a/b/c", b"x", ephemeral=True))
    nodes = door.read("/a")
    assert set(nodes) == {"/a", "/a/b", "/a/b/c"}
    assert nodes["/a"].data == b"" and nodes["/a/b"].session is None
    assert nodes["/a/b/c"].session == door.session


def test_numbers_rise_with_every_write(backend: Backend) -> None:
    one, two = backend.door(1), backend.door(2)
    results = [
        one.write(Create("/a", b"")),
        two.write(Create("/b", b"")),
        one.write(SetData("/b", b"1")),
    ]
    numbers = [r.zxid for r in results if isinstance(r, WriteDone)]
    assert len(numbers) == 3
    assert numbers == sorted(set(numbers))


def test_a_read_takes_each_root_and_all_below_and_nothing_beside(backend: Backend) -> None:
    door = backend.door(1)
    for path in ("/t", "/t/a", "/t/a/b", "/t-x", "/t0", "/u"):
        door.write(Create(path, b""))
    assert set(door.read("/t")) == {"/t", "/t/a", "/t/a/b"}
    assert set(door.read("/t/a", "/u", "/none")) == {"/t/a", "/t/a/b", "/u"}
    assert set(door.read("/")) >= {"/t", "/t0", "/t-x", "/u"}


def test_set_data_raises_the_version_and_checks_it(backend: Backend) -> None:
    door = backend.door(1)
    created = door.write(Create("/n", b"0"))
    assert isinstance(door.write(SetData("/n", b"1", version=0)), WriteDone)
    assert door.write(SetData("/n", b"2", version=0)) == WriteFailed(WriteError.BAD_VERSION, 0)
    assert isinstance(door.write(SetData("/n", b"3")), WriteDone)
    node = door.read("/n")["/n"]
    assert (node.data, node.version) == (b"3", 2)
    assert isinstance(created, WriteDone) and node.created_at == created.zxid


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (Create("/there", b""), WriteError.NODE_EXISTS),
        (SetData("/none", b""), WriteError.NO_NODE),
        (Delete("/none"), WriteError.NO_NODE),
        (Check("/none", 0), WriteError.NO_NODE),
        (Check("/there", 7), WriteError.BAD_VERSION),
        (Delete("/there", version=7), WriteError.BAD_VERSION),
        (Delete("/there"), WriteError.NOT_EMPTY),
        (Delete("/there", version=7, recursive=True), WriteError.BAD_VERSION),
    ],
)
def test_a_failing_operation_undoes_the_whole_multi_and_is_named(
    backend: Backend, operation: Operation, error: WriteError
) -> None:
    door = backend.door(1)
    door.write(Create("/there/child", b"c"))
    before = door.read("/")
    result = door.write(Create("/new", b""), SetData("/there", b"x"), operation)
    assert result == WriteFailed(error, 2)
    assert door.read("/") == before


def test_the_operations_of_a_multi_see_each_other(backend: Backend) -> None:
    door = backend.door(1)
    result = door.write(
        Create("/controller", b"1"),
        SetData("/controller", b"2", version=0),
        Check("/controller", 1),
        Delete("/controller", version=1),
        Create("/controller", b"3"),
    )
    assert isinstance(result, WriteDone)
    node = door.read("/controller")["/controller"]
    assert (node.data, node.version, node.created_at) == (b"3", 0, result.zxid)


def test_delete_is_of_a_leaf_unless_recursive(backend: Backend) -> None:
    door = backend.door(1)
    door.write(Create("/t/a/b", b""), Create("/t/c", b""), Create("/t0", b""))
    assert door.write(Delete("/t")) == WriteFailed(WriteError.NOT_EMPTY, 0)
    assert isinstance(door.write(Delete("/t/c")), WriteDone)
    assert isinstance(door.write(Delete("/t", recursive=True)), WriteDone)
    assert set(door.read("/t", "/t0")) == {"/t0"}


def test_who_is_first_gets_the_controller_and_the_other_is_told(backend: Backend) -> None:
    one, two = backend.door(1), backend.door(2)
    first = one.write(Create("/controller", b"1", ephemeral=True))
    second = two.write(Create("/controller", b"2", ephemeral=True))
    assert isinstance(first, WriteDone)
    assert second == WriteFailed(WriteError.NODE_EXISTS, 0)


def test_others_and_the_writer_get_a_hint_of_every_changed_path(backend: Backend) -> None:
    one, two = backend.door(1), backend.door(2)
    one.write(Create("/brokers/ids/1", b""))
    two.wait_changed("/brokers/ids/1")
    one.wait_changed("/brokers/ids/1")
    one.write(SetData("/brokers/ids/1", b"x"))
    two.wait_changed("/brokers/ids/1")
    one.write(Delete("/brokers", recursive=True))
    two.wait_changed("/brokers/ids/1")


def test_a_closed_session_takes_its_own_ephemeral_nodes_along(backend: Backend) -> None:
    one, two = backend.door(1), backend.door(2)
    one.write(Create("/brokers/ids/1", b"", ephemeral=True), Create("/kept", b""))
    two.write(Create("/brokers/ids/2", b"", ephemeral=True))
    one.coordination.close()
    while "/brokers/ids/1" in two.read("/brokers/ids"):
        two.wait_changed("/brokers/ids/1")
    assert set(two.read("/brokers/ids", "/kept")) == {"/brokers/ids", "/brokers/ids/2", "/kept"}


def test_an_expired_session_is_told_and_begins_anew(backend: Backend) -> None:
    one, two = backend.door(1), backend.door(2)
    one.write(Create("/brokers/ids/1", b"", ephemeral=True))
    old = one.session
    backend.expire(one)
    one.coordination.write(77, (Create("/late", b""),), old)
    one.wait(SessionEnded)
    one.wait(SessionStarted)
    assert one.session not in (None, old)
    two.wait_changed("/brokers/ids/1")
    assert set(two.read("/brokers/ids")) == {"/brokers/ids"}
    assert isinstance(one.write(Create("/brokers/ids/1", b"again", ephemeral=True)), WriteDone)


def test_a_write_decided_in_an_old_session_is_never_carried_out_in_the_next(
    backend: Backend,
) -> None:
    door, _other = backend.door(1), backend.door(2)
    old = door.session
    backend.expire(door)
    door.wait(SessionStarted)
    door.session = old
    expired = WriteFailed(WriteError.SESSION_EXPIRED)
    assert door.write(Create("/controller", b"", ephemeral=True)) == expired
    door.session = None
    assert door.write(Create("/controller", b"")) == expired
    assert door.read("/controller") == {}


def test_a_tool_reads_and_writes_without_a_session(backend: Backend) -> None:
    door = backend.door(1)
    tool = door.coordination
    assert isinstance(tool.write_now([Create("/controller_epoch", b"s")]), WriteDone)
    door.wait_changed("/controller_epoch")
    assert tool.read_now(["/controller_epoch"])["/controller_epoch"].data == b"s"
    again = tool.write_now([Create("/controller_epoch", b"t")])
    assert again == WriteFailed(WriteError.NODE_EXISTS, 0)
    ephemeral = tool.write_now([Create("/e", b"", ephemeral=True)])
    assert ephemeral == WriteFailed(WriteError.SESSION_EXPIRED, 0)
