"""Logs that part from their leader's: where they are cut, and what is never lost by it."""

import pytest
from tests.node.moving import create, elect, held, members, produce
from tests.node.town import Town
from tests.scenarios.stage import (
    a_town,
    alike,
    consumed,
    copies_nothing,
    epochs,
    fetches_of,
    headers,
    isr,
    nothing,
    replica,
    values,
)

from replog.core.controller import stored
from replog.model.errors import ErrorCode
from replog.model.messages import Message
from replog.model.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from replog.model.messages.fetch import FetchRequest

UNCLEAN = 1


@pytest.fixture
def town() -> Town:
    return a_town()


@pytest.mark.scenario(1)
def test_a_follower_that_does_not_know_what_is_committed_keeps_it(town: Town) -> None:
    """KIP-101, 1: B has m2, is killed before it hears that m2 is committed, comes back, and A dies
    before B has fetched again. Whoever cuts at its own high watermark loses m2."""
    create(town, "t", [0, 1], min__insync__replicas="2")
    assert produce(town, b"m1") is ErrorCode.NONE

    def stop_listening(source: int, target: int, message: Message) -> bool:
        fetch = source == 1 and isinstance(message, FetchRequest)
        if fetch and replica(town, 1).log_end_offset == 2:
            town.pause(1)  # its fetch from offset 2 is what commits m2
        return False

    town.lose_send = stop_listening
    assert produce(town, b"m2") is ErrorCode.NONE
    assert replica(town, 1).high_watermark == 1, "it has not heard"
    town.kill(1)
    town.lose_send = fetches_of(1)
    town.start(1)
    town.run(200)
    town.kill(0)
    town.run_until(lambda: members(town)[0] == 1)
    assert values(town, 1) == [b"m1", b"m2"]
    town.lose_send = nothing
    town.start(0)
    town.run_until(lambda: isr(town) == [0, 1])
    assert alike(town, 0, 1) and values(town, 0) == [b"m1", b"m2"]
    assert consumed(town, 1) == [b"m1", b"m2"]


def losses(town: Town) -> tuple[int, int]:
    node = town.tree.nodes.get(stored.LOSSES)
    return (0, 0) if node is None else stored.decode_losses(node.data)


def both_lose_power() -> Town:
    """A and B acknowledged m2. After a power cut at once, the disk of A still has it, B's has not.

    What of an unsynced tail survives is drawn: towns are tried until it comes so.
    """
    for seed in range(100):
        town = a_town()
        create(town, "t", [0, 1])
        assert produce(town, b"m1") is ErrorCode.NONE
        assert produce(town, b"m2") is ErrorCode.NONE
        replica(town, 0).log.flush()
        town._seed = seed
        town.cut_power(0, 1)
        if b"m2" in (held(town, 0) or b"") and b"m2" not in (held(town, 1) or b""):
            return town
    raise AssertionError("B never loses m2")


@pytest.mark.scenario(2)
def test_the_shorter_log_does_not_lead_because_it_is_back_first() -> None:
    """KIP-101, 2: both lose power; whoever has m2 still leads in the end, and nothing is lost."""
    town = both_lose_power()
    town.start(1)
    town.run(2_000)
    assert members(town)[0] == -1, "A may have more"
    town.start(0)
    town.run_until(lambda: isr(town) == [0, 1])
    assert members(town)[0] == 0
    assert values(town, 0) == values(town, 1) == [b"m1", b"m2"]
    assert alike(town, 0, 1)


@pytest.mark.scenario(2)
def test_told_to_lead_the_shorter_log_makes_the_other_cut_by_epoch_and_the_loss_is_told() -> None:
    """KIP-101, 2: B leads by order and writes another m2: never two records at one offset."""
    town = both_lose_power()
    town.start(1)
    town.run(500)
    survived = values(town, 1)
    assert elect(town, 0, kind=UNCLEAN) == [ErrorCode.NONE]
    assert sum(losses(town)) == 1
    assert produce(town, b"other m2", acks=1) is ErrorCode.NONE
    town.start(0)
    town.run_until(lambda: isr(town) == [0, 1])
    assert values(town, 0) == [*survived, b"other m2"]
    assert alike(town, 0, 1) and epochs(town, 0) == epochs(town, 1)


def dead_with_more(town: Town) -> None:
    """Both have a record, and A, broker 0, one more that it has not been asked for: it is dead."""
    create(town, "t", [0, 1])
    assert produce(town, b"both") is ErrorCode.NONE
    copies_nothing(town, 1)
    assert produce(town, b"A0", acks=1) is ErrorCode.NONE
    town.run_until(lambda: isr(town) == [0])
    town.kill(0)
    town.run(50)


@pytest.mark.surface(38)
@pytest.mark.scenario(3)
def test_fast_elections_leave_epochs_that_the_leader_has_never_seen(town: Town) -> None:
    """KIP-279: A, B, A lead one after the other, each without the other's records. B's last epoch
    is not known to A: it goes back epoch by epoch until both agree."""
    dead_with_more(town)
    assert elect(town, 0, kind=UNCLEAN) == [ErrorCode.NONE]
    assert members(town)[0] == 1
    for value in (b"B1", b"B2", b"B3"):
        assert produce(town, value, acks=1) is ErrorCode.NONE
    town.kill(1)
    town.start(0)
    town.run(300)
    assert elect(town, 0, kind=UNCLEAN) == [ErrorCode.NONE]
    assert produce(town, b"A1", acks=1) is ErrorCode.NONE
    assert epochs(town, 1)[-1][0] not in dict(epochs(town, 0)), "A has never seen B's epoch"
    town.lose_send = nothing
    town.start(1)
    town.run_until(lambda: isr(town) == [0, 1])
    assert values(town, 1) == [b"both", b"A0", b"A1"]
    assert alike(town, 0, 1)
    assert epochs(town, 0) == epochs(town, 1)
    assert len([header.base_offset for header in headers(town, 1)]) == 3


@pytest.mark.surface(38)
@pytest.mark.scenario(3)
def test_a_shorter_log_with_an_epoch_that_the_leader_has_never_seen(town: Town) -> None:
    """KIP-279: A leads twice, then B, then A. Where B's log ends, A has records of an epoch that B
    has never seen: that there is more of them than B has tells nothing."""
    dead_with_more(town)
    town.start(0)
    town.run_until(lambda: members(town)[0] == 0)
    for value in (b"A1", b"A2", b"A3"):
        assert produce(town, value, acks=1) is ErrorCode.NONE
    town.kill(0)
    town.run(50)
    assert elect(town, 0, kind=UNCLEAN) == [ErrorCode.NONE]
    assert members(town)[0] == 1
    assert produce(town, b"B1", acks=1) is ErrorCode.NONE
    town.kill(1)
    town.start(0)
    town.run(300)
    assert elect(town, 0, kind=UNCLEAN) == [ErrorCode.NONE]
    assert produce(town, b"A4", acks=1) is ErrorCode.NONE
    ours, theirs = dict(epochs(town, 0)), dict(epochs(town, 1))
    assert ours.keys() - theirs.keys() and theirs.keys() - ours.keys()
    town.lose_send = nothing
    town.start(1)
    town.run_until(lambda: isr(town) == [0, 1])
    assert values(town, 1) == [b"both", b"A0", b"A1", b"A2", b"A3", b"A4"]
    assert alike(town, 0, 1)
    assert epochs(town, 0) == epochs(town, 1)


@pytest.mark.scenario(3)
def test_an_epoch_without_a_record_is_known_to_whoever_led_in_it(town: Town) -> None:
    """A leader notes where its epoch begins when it is elected, not when it first writes."""
    create(town, "t", [0, 1])
    assert produce(town, b"both") is ErrorCode.NONE
    town.kill(0)
    town.run_until(lambda: members(town)[0] == 1)
    assert epochs(town, 1)[-1][1] == 1, "the epoch of B begins at its log's end"
    led_in = epochs(town, 1)[-1][0]
    town.start(0)
    town.run_until(lambda: isr(town) == [0, 1])
    town.kill(1)
    town.run_until(lambda: members(town)[0] == 0)
    assert produce(town, b"later") is ErrorCode.NONE
    town.start(1)
    town.run_until(lambda: isr(town) == [0, 1])
    assert alike(town, 0, 1)
    assert led_in not in dict(epochs(town, 1)), "nothing was ever written in it"


@pytest.mark.scenario(52)
def test_a_follower_that_is_longer_than_a_leader_elected_uncleanly(town: Town) -> None:
    """It cuts by epoch what the leader lacks, and its fetcher lives on."""
    create(town, "t", [0, 1])
    assert produce(town, b"both") is ErrorCode.NONE
    copies_nothing(town, 1)
    for value in (b"lost 1", b"lost 2", b"lost 3"):
        assert produce(town, value, acks=1) is ErrorCode.NONE
    town.run_until(lambda: isr(town) == [0])
    town.kill(0)
    town.run(50)
    assert elect(town, 0, kind=UNCLEAN) == [ErrorCode.NONE]
    town.lose_send = nothing
    town.start(0)
    town.run_until(lambda: isr(town) == [0, 1])
    assert values(town, 0) == [b"both"], "longer than the leader, and cut"
    assert produce(town, b"goes on") is ErrorCode.NONE
    town.run_until(lambda: alike(town, 0, 1))
    assert values(town, 0) == [b"both", b"goes on"]
    assert any("UNCLEAN" in line for line in town.reports)


def delete_records(town: Town, before: int) -> None:
    topic = DeleteRecordsTopic(
        name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=before)]
    )
    request = DeleteRecordsRequest(topics=[topic], timeout_ms=5_000)
    answer = town.ask(members(town)[0], request, DeleteRecordsResponse)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


@pytest.mark.scenario(53)
def test_a_follower_that_ends_below_the_leaders_start_begins_anew_there(town: Town) -> None:
    create(town, "t", [0, 1, 2])
    assert produce(town, b"old") is ErrorCode.NONE
    town.kill(1)
    town.run_until(lambda: isr(town) == [0, 2])
    for number in range(5):
        assert produce(town, b"record %d" % number) is ErrorCode.NONE
    delete_records(town, 4)
    town.start(1)
    town.run_until(lambda: isr(town) == [0, 1, 2])
    follower = replica(town, 1)
    assert (follower.log_start_offset, follower.log_end_offset) == (4, 6)
    assert follower.high_watermark == replica(town, 0).high_watermark == 6
    assert values(town, 1) == [b"record 3", b"record 4"]
    assert epochs(town, 1)[0][1] == 4, "epochs begin where the log does"
    assert produce(town, b"more") is ErrorCode.NONE
    town.run_until(lambda: values(town, 1)[-1] == b"more")


@pytest.mark.scenario(53)
@pytest.mark.parametrize("before", [3, 5])
@pytest.mark.parametrize("written", [0, 2, 9])
def test_a_follower_that_begins_behind_where_histories_part_begins_anew(
    town: Town, before: int, written: int
) -> None:
    """An unclean election, and the records at which they part are deleted: going on at its own
    start, the follower would be in sync without what the leader has below."""
    create(town, "t", [0, 1])
    assert produce(town, b"both") is ErrorCode.NONE
    town.kill(1)
    town.run_until(lambda: isr(town) == [0])
    for number in range(4):
        assert produce(town, b"lost %d" % number) is ErrorCode.NONE
    delete_records(town, before)
    copies_nothing(town, 1)
    town.start(1)
    town.run(500)
    town.kill(0)
    town.run(50)
    assert elect(town, 0, kind=UNCLEAN) == [ErrorCode.NONE]
    town.lose_send = nothing
    for number in range(written):
        assert produce(town, b"new %d" % number) is ErrorCode.NONE
    town.start(0)
    town.run_until(lambda: isr(town) == [0, 1])
    assert produce(town, b"last") is ErrorCode.NONE
    town.run_until(lambda: alike(town, 0, 1))
    assert replica(town, 0).log_start_offset == 0
    assert values(town, 0) == [b"both", *(b"new %d" % n for n in range(written)), b"last"]
