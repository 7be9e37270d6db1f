"""Brokers that come and go with more partitions than one write can carry."""

import pytest
from tests.core.controller.test_state import Store, broker

from replog.core.controller.registrations import take_registrations
from replog.model.partition import PartitionRecord

ASSIGNMENT = [(0, 1, 2), (0,), (0, 2), (1, 0, 2), (0,), (2, 0), (0, 1), (0,)]


def made(most: int, *, new_controllers: bool, **epochs: int) -> tuple[list[PartitionRecord], int]:
    """What became of all partitions, and how many writes it took."""
    store = Store()
    store.register(b0=10, b1=11, b2=12)
    store.create("t", *ASSIGNMENT)
    registered = {int(name[1:]): broker(int(name[1:]), epoch) for name, epoch in epochs.items()}
    for writes in range(1, 20):
        draft = store.draft()
        done = take_registrations(draft, registered, most=most)
        assert len(draft.changed) <= most
        store.commit(draft)
        if done:
            return store.loaded.image.cluster.topics["t"].partitions, writes
        if new_controllers:
            epoch = store.epoch
            store.load()
            store.epoch = store.loaded.image.cluster.controller_epoch = epoch  # to compare
    raise AssertionError("it never ends")


@pytest.mark.parametrize("new_controllers", [False, True])
@pytest.mark.parametrize(
    "epochs",
    [
        {"b1": 11, "b2": 12},  # broker 0 goes
        {"b0": 20, "b1": 11, "b2": 12},  # it restarts
        {"b0": 20, "b1": 21, "b2": 22},  # all restart
        {"b3": 30},  # all go, a stranger comes
    ],
)
def test_in_parts_it_ends_as_at_once(epochs: dict[str, int], new_controllers: bool) -> None:
    at_once, writes = made(1000, new_controllers=False, **epochs)
    assert writes == 1
    for most in (1, 2, 3):
        in_parts, writes = made(most, new_controllers=new_controllers, **epochs)
        assert writes > 1
        assert [(r.leader, r.isr, r.elr) for r in in_parts] == [
            (r.leader, r.isr, r.elr) for r in at_once
        ]


def test_a_part_leaves_the_broker_table_as_it_was() -> None:
    store = Store()
    store.register(b0=10, b1=11, b2=12)
    store.create("t", *ASSIGNMENT)
    draft = store.draft()
    assert not take_registrations(draft, {1: broker(1, 11), 2: broker(2, 12)}, most=2)
    store.commit(draft)
    assert set(store.loaded.image.cluster.brokers) == {0, 1, 2}
    assert not any(path == "/replog/broker_states" for path in _paths(draft.operations()))


def _paths(operations: list) -> list[str]:  # type: ignore[type-arg]
    return [operation.path for operation in operations]
