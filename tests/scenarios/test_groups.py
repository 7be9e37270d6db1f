"""Groups when their coordinator dies, is cut off, or is asked by somebody who is out of date."""

import pytest
from tests.node.town import Town
from tests.scenarios.stage import (
    a_town,
    copies_nothing,
    expire_unheard,
    isr,
    nothing,
    reconnect,
    replica,
)

from replog.core.group.hashing import partition_for
from replog.model.errors import ErrorCode
from replog.model.ids import GROUP_OFFSETS_TOPIC, TopicPartition
from replog.model.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from replog.model.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from replog.model.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)

HOME = TopicPartition(GROUP_OFFSETS_TOPIC, partition_for("g", 2))
NOT_YET = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


@pytest.fixture
def town() -> Town:
    """Topic `t`, and a group `g` that has committed offset 5."""
    town = a_town()
    town.create("t", [0, 1, 2])
    town.run_until(lambda: coordinator(town, 0) >= 0)
    town.run_until(lambda: isr(town, HOME) == [0, 1, 2])
    first = coordinator(town, 0)
    town.run_until(lambda: fetched(town, first)[0] == ErrorCode.NONE)
    assert committed(town, commit(town, first, 5)) == ErrorCode.NONE
    return town


def coordinator(town: Town, asked: int) -> int:
    """Who coordinates the group, in the words of a broker; -1 for nobody yet."""
    request = FindCoordinatorRequest(key="g")
    return town.ask(asked, request, FindCoordinatorResponse, version=2).node_id


def commit(town: Town, broker: int, offset: int) -> int:
    """A simple consumer stores its position; the connection."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    return town.ask_later(broker, OffsetCommitRequest(group_id="g", topics=[topic]), version=8)


def committed(town: Town, connection: int) -> int:
    town.run_until(lambda: town.answered(connection))
    return town.answer(connection, OffsetCommitResponse).topics[0].partitions[0].error_code


def fetched(town: Town, broker: int) -> tuple[int, int]:
    """Error and position."""
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    request = OffsetFetchRequest(group_id="g", topics=topics)
    answer = town.ask(broker, request, OffsetFetchResponse, version=7)
    if answer.error_code:
        return answer.error_code, -1
    return ErrorCode.NONE, answer.topics[0].partitions[0].committed_offset


@pytest.mark.scenario(68)
@pytest.mark.parametrize("copied", [False, True])
def test_a_coordinator_dies_between_append_and_answer(town: Town, copied: bool) -> None:
    """Whatever became of the commit, no position goes back, and the same commit can be repeated."""
    first = coordinator(town, 0)
    others = [broker for broker in town.brokers if broker != first]
    if copied:
        copies_nothing(town, others[1])
    else:
        copies_nothing(town, *others)
    pending = commit(town, first, 6)
    town.run(50)
    assert not town.answered(pending)
    assert replica(town, others[0], HOME).log_end_offset == (
        replica(town, first, HOME).log_end_offset - (not copied)
    )
    town.kill(first)
    town.lose_send = nothing
    seen = set()

    def served() -> bool:
        error, offset = fetched(town, others[0])
        if error:
            error, offset = fetched(town, others[1])
        seen.add(offset if error == ErrorCode.NONE else error)
        return error == ErrorCode.NONE

    town.run_until(served)
    assert seen <= {5, 6, *NOT_YET}, "never an empty position, never an older one"
    successor = coordinator(town, others[0])
    assert successor in others
    assert committed(town, commit(town, successor, 6)) == ErrorCode.NONE
    assert fetched(town, successor) == (ErrorCode.NONE, 6)


@pytest.mark.scenario(69)
def test_a_coordinator_that_lost_its_partition_stores_nothing_more(town: Town) -> None:
    """It does not know yet that another one leads: its followers left it for the new epoch."""
    first = coordinator(town, 0)
    expire_unheard(town, first)
    others = [broker for broker in town.brokers if broker != first]
    town.run_until(lambda: coordinator(town, others[0]) in others)
    successor = coordinator(town, others[0])
    town.run_until(lambda: fetched(town, successor)[0] == ErrorCode.NONE)
    assert committed(town, commit(town, successor, 7)) == ErrorCode.NONE
    stale = commit(town, first, 6)
    reconnect(town, first)
    assert committed(town, stale) in (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    )
    town.run_until(lambda: isr(town, HOME) == [0, 1, 2])
    assert fetched(town, first)[0] == ErrorCode.NOT_COORDINATOR
    assert fetched(town, successor) == (ErrorCode.NONE, 7)
