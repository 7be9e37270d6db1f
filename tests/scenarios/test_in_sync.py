"""Who is in the ISR, and what is committed meanwhile."""

import pytest
from tests.node.moving import begin_produce, create, members, produce, produced, state
from tests.node.town import Town
from tests.scenarios.stage import (
    a_town,
    alike,
    consumed,
    copies_nothing,
    expire_unheard,
    fetches_of,
    isr,
    nothing,
    reconnect,
    replica,
    send,
    values,
)

from replog.model.errors import ErrorCode
from replog.model.messages import Message
from replog.model.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from replog.model.messages.fetch import FetchRequest
from replog.model.messages.update_cluster import UpdateClusterRequest

LAG_MS = 1_000  # `replica.lag.time.max.ms` of towns


@pytest.fixture
def town() -> Town:
    """Broker 0 is the controller."""
    return a_town()


@pytest.mark.scenario(9)
def test_a_leader_cut_from_its_followers_shrinks_after_the_lag_time(town: Town) -> None:
    """Below min ISR new writes are refused, and written nowhere."""
    create(town, "t", [0, 1, 2], min__insync__replicas="2")
    assert produce(town, b"one") is ErrorCode.NONE
    copies_nothing(town, 1, 2)
    pending = begin_produce(town, b"two")
    town.run(LAG_MS / 2)
    assert isr(town) == [0, 1, 2] and produced(town, pending) is None, "within the lag time"
    town.run_until(lambda: members(town)[:2] == (0, [0]))
    assert produce(town, b"refused") is ErrorCode.NOT_ENOUGH_REPLICAS
    town.run_until(lambda: town.answered(pending))
    assert produced(town, pending) is ErrorCode.REQUEST_TIMED_OUT
    assert values(town, 0) == [b"one", b"two"]
    assert consumed(town, 0) == [b"one"], "nothing is committed alone"
    town.lose_send = nothing
    town.run_until(lambda: isr(town) == [0, 1, 2])
    assert values(town, 1) == values(town, 2) == [b"one", b"two"]
    assert consumed(town, 0) == [b"one", b"two"]


@pytest.mark.scenario(9)
def test_the_coordinator_must_agree_before_a_write_no_longer_waits(town: Town) -> None:
    create(town, "t", [0, 1], min__insync__replicas="1")
    copies_nothing(town, 1)
    town.coordinator_down = True
    pending = begin_produce(town, b"one")
    town.run(2 * LAG_MS)
    assert isr(town) == [0, 1] and produced(town, pending) is None
    assert consumed(town, 0) == [], "the shrink is only proposed"
    town.coordinator_down = False
    town.run_until(lambda: town.answered(pending))
    assert (isr(town), produced(town, pending)) == ([0], ErrorCode.NONE)


def held_proposals(town: Town, *, also: tuple[int, ...] = ()) -> list[Message]:
    """From now on proposals to change an ISR do not arrive, nor fetches of the brokers `also`."""
    held: list[Message] = []

    def lose(source: int, target: int, message: Message) -> bool:
        if isinstance(message, AlterPartitionRequest):
            held.append(message)
            return True
        return source in also and isinstance(message, FetchRequest)

    town.lose_send = lose
    return held


@pytest.mark.scenario(10)
def test_a_shrink_that_arrives_after_an_election_changes_nothing(town: Town) -> None:
    """The controller elects another leader while a shrink of the old one is on its way."""
    create(town, "t", [1, 2], min__insync__replicas="1")
    held = held_proposals(town, also=(2,))
    town.run(300)
    pending = begin_produce(town, b"one")
    town.run_until(lambda: held)
    town.run(LAG_MS)
    assert members(town)[:2] == (1, [1, 2]), "the controller has not heard"
    assert produced(town, pending) is None and replica(town, 1).high_watermark == 0
    epoch = town.node(1).broker_epoch
    town.expire(1)
    town.run_until(lambda: members(town)[0] == 2)
    after = state(town)
    town.begin_session(1)
    late = send(town, 1, 0, held[0], epoch=epoch)
    town.run(100)
    if town.answered(late):
        (topic,) = town.answer(late, AlterPartitionResponse).topics or [None]
        assert topic is None or topic.partitions[0].error_code != ErrorCode.NONE
    assert state(town)["leader_epoch"] == after["leader_epoch"] and 2 in isr(town)
    town.lose_send = nothing
    town.run_until(lambda: isr(town) == [1, 2])
    assert produced(town, pending) not in (None, ErrorCode.NONE)
    assert values(town, 1) == values(town, 2) == []


@pytest.mark.scenario(11)
def test_an_addition_that_is_not_confirmed_holds_what_is_committed(town: Town) -> None:
    """The controller may count the new member already. When it says that it does not, the write
    goes on without it."""
    create(town, "t", [1, 2], min__insync__replicas="1")
    copies_nothing(town, 2)
    assert produce(town, b"one") is ErrorCode.NONE
    assert isr(town) == [1]
    held = held_proposals(town)
    town.run_until(lambda: held)
    town.pause(2)
    pending = begin_produce(town, b"two")
    town.run(1_500)
    assert produced(town, pending) is None, "who may be a member is waited for"
    assert replica(town, 1).high_watermark == 1
    town.kill(2)
    town.lose_send = nothing
    town.run_until(lambda: replica(town, 1).high_watermark == 2)  # its next try is refused
    assert produce(town, b"three") is ErrorCode.NONE
    assert isr(town) == [1] and consumed(town, 1) == [b"one", b"two", b"three"]


@pytest.mark.scenario(13)
def test_a_follower_that_lacks_the_start_of_the_epoch_is_not_let_in() -> None:
    """B leads and does not know yet that m2 is committed; C ends at B's high watermark, without
    m2. Were C let in, and elected next, m2 were lost."""
    town = a_town(0, 1, 2, 3, 4, replica__lag__time__max__ms="10000")
    create(town, "t", [1, 2, 3, 4], min__insync__replicas="1")
    assert produce(town, b"m1") is ErrorCode.NONE
    town.run(500)
    copies_nothing(town, 3)
    assert produce(town, b"m2", acks=1) is ErrorCode.NONE
    town.run(9_000)
    copies_nothing(town, 2, 3, 4)  # B and D have m2, and will not hear that it is committed
    town.run_until(lambda: isr(town) == [1, 2, 4])
    assert replica(town, 1).high_watermark == 2 > replica(town, 2).high_watermark
    town.kill(1)
    town.run_until(lambda: members(town)[0] == 2)
    once: list[Message] = []

    def one_fetch(source: int, target: int, message: Message) -> bool:
        if source == 3 and target == 2 and isinstance(message, FetchRequest):
            once.append(message)
            return len(once) > 1
        return source in (3, 4) and isinstance(message, FetchRequest)

    town.lose_send = one_fetch
    town.run_until(lambda: len(once) > 1)
    leader = replica(town, 2)
    assert leader.high_watermark == 1 and values(town, 2) == [b"m1", b"m2"]
    assert 3 not in isr(town)
    town.lose_send = nothing
    town.run_until(lambda: isr(town) == [2, 3, 4])
    assert values(town, 3) == [b"m1", b"m2"]


def test_who_is_not_in_the_isr_when_an_epoch_begins_holds_nobody_up() -> None:
    """After a crash the leader knows of nothing that is committed, and what the follower has on
    stable storage reaches that far: it would hold the high watermark as one about to join."""
    town = a_town(replica__lag__time__max__ms="10000")
    create(town, "t", [1, 2], min__insync__replicas="1", replog__durability="fsync")
    town.kill(2)
    town.run_until(lambda: isr(town) == [1])
    assert produce(town, b"one") is ErrorCode.NONE
    town.kill(1)
    town.disk_delays_ms = {1: 100, 2: 5_000}
    began_ms = town.now_ms
    town.start(1, 2)
    town.run_until(lambda: members(town)[0] == 1)
    assert replica(town, 1).high_watermark == 0
    town.run_until(lambda: replica(town, 2).log_end_offset == 1)
    town.run_until(lambda: replica(town, 1).high_watermark == 1)
    assert town.now_ms - began_ms < 1_000 and isr(town) == [1]


@pytest.mark.scenario(14)
def test_a_replica_that_lost_its_disk_is_not_let_in_for_what_it_had(town: Town) -> None:
    """KIP-903: it comes back empty between its last fetch and the leader's proposal."""
    create(town, "t", [1, 2], min__insync__replicas="1")
    copies_nothing(town, 2)
    assert produce(town, b"one") is ErrorCode.NONE
    assert isr(town) == [1]
    held = held_proposals(town)
    town.run_until(lambda: held)
    proposal = held[0]
    town.kill(2)
    town.replace_disk(2)
    town.lose_send = fetches_of(2)
    town.start(2)
    town.run(200)
    late = send(town, 1, 0, proposal)
    town.run_until(lambda: town.answered(late))
    answer = town.answer(late, AlterPartitionResponse).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.INELIGIBLE_REPLICA
    town.run(1_000)
    assert isr(town) == [1] and values(town, 2) == []
    town.lose_send = nothing
    town.run_until(lambda: isr(town) == [1, 2])
    assert alike(town, 1, 2)


@pytest.mark.scenario(14)
def test_a_proposal_that_is_sent_again_speaks_of_the_life_that_had_caught_up() -> None:
    """It got lost, and who was to join comes back empty before it is sent again."""
    town = a_town(replica__fetch__max__bytes="1")  # a batch at a time
    create(town, "t", [1, 2], min__insync__replicas="1")
    copies_nothing(town, 2)
    for value in b"one", b"two", b"three":
        assert produce(town, value) is ErrorCode.NONE
    assert isr(town) == [1]
    held = held_proposals(town)
    town.run_until(lambda: held)
    town.kill(2)
    town.replace_disk(2)
    fetches: list[Message] = []

    def lose(source: int, target: int, message: Message) -> bool:
        if source == 2 and isinstance(message, FetchRequest):
            fetches.append(message)
            return len(fetches) > 2
        return False

    town.lose_send = lose
    town.start(2)
    town.run_until(lambda: values(town, 2) == [b"one", b"two"])
    for _ in range(140):  # its answer is waited for for 5 s
        town.run(50)
        assert isr(town) == [1]
    town.lose_send = nothing
    town.run_until(lambda: isr(town) == [1, 2])
    assert alike(town, 1, 2)


@pytest.mark.scenario(11)
def test_a_proposal_that_was_carried_out_is_not_taken_back_when_it_is_refused_the_second_time(
    town: Town,
) -> None:
    """Its answer got lost, and so does what the controller tells of it. The controller counts on
    the new member, so nothing is committed without it."""
    create(town, "t", [1, 2], min__insync__replicas="1")
    copies_nothing(town, 2)
    assert produce(town, b"one") is ErrorCode.NONE
    assert isr(town) == [1]
    answers: list[AlterPartitionResponse] = []

    def lose_the_first(source: int, target: int, message: Message) -> bool:
        if isinstance(message, AlterPartitionResponse):
            answers.append(message)
        return len(answers) == 1

    def lose(source: int, target: int, message: Message) -> bool:
        told = target == 1 and isinstance(message, UpdateClusterRequest)
        return told or (bool(answers) and fetches_of(2)(source, target, message))

    town.lose_send, town.lose_reply = lose, lose_the_first
    town.run_until(lambda: answers)
    begin_produce(town, b"two", acks=1)  # which the new member lacks for longer than the lag time
    town.run_until(lambda: len(answers) == 2)
    error = answers[1].topics[0].partitions[0].error_code
    assert error == ErrorCode.INVALID_UPDATE_VERSION and isr(town) == [1, 2]
    town.run(LAG_MS)
    assert isr(town) == [1, 2] and replica(town, 1).high_watermark == 1
    town.lose_send = nothing
    town.run_until(lambda: replica(town, 1).high_watermark == 2)


@pytest.mark.scenario(35)
def test_a_follower_that_is_always_a_little_behind_stays(town: Town) -> None:
    """Lag is the time since it last had all that the leader had when it asked. A slow follower
    that never ends where the leader does makes no storm of changes."""
    create(town, "t", [1, 2], min__insync__replicas="1")
    before = state(town)
    asked = []
    for number in range(100):
        asked.append(begin_produce(town, b"%d" % number, acks=1))
        if number % 8 == 0:
            town.pause(2)
        elif number % 8 == 7:
            town.resume(2)
        town.run(100)
    assert all(produced(town, connection) is ErrorCode.NONE for connection in asked)
    assert state(town) == before, "no change of the ISR at all"
    town.resume(2)
    town.run_until(lambda: alike(town, 1, 2))


@pytest.mark.surface(37)
@pytest.mark.scenario(38)
def test_a_follower_that_is_stopped_holds_writes_for_the_lag_time_and_no_longer(
    town: Town,
) -> None:
    create(town, "t", [1, 2, 0], min__insync__replicas="2")
    assert produce(town, b"one") is ErrorCode.NONE
    town.pause(2)
    begun = town.now_ms
    assert produce(town, b"two") is ErrorCode.NONE
    assert town.now_ms - begun <= 2 * LAG_MS
    assert isr(town) == [0, 1]
    begun = town.now_ms
    assert produce(town, b"three") is ErrorCode.NONE
    assert town.now_ms - begun < 100, "nobody waits for it any more"
    town.resume(2)
    town.run_until(lambda: isr(town) == [0, 1, 2])
    assert alike(town, 0, 1, 2)


def alone(town: Town, *, min_isr: int = 2) -> None:
    """Broker 1 leads, and is alone in the ISR of three; 0 and 2 copy nothing."""
    create(town, "t", [1, 2, 0], min__insync__replicas=str(min_isr))
    assert produce(town, b"one") is ErrorCode.NONE
    copies_nothing(town, 0, 2)
    begin_produce(town, b"lag", acks=1)
    town.run_until(lambda: isr(town) == [1])


@pytest.mark.surface(35)
@pytest.mark.scenario(61)
def test_below_min_isr_nothing_is_written_with_acks_all(town: Town) -> None:
    alone(town)
    before = values(town, 1)
    assert produce(town, b"all") is ErrorCode.NOT_ENOUGH_REPLICAS
    assert values(town, 1) == before, "refused before it was written"
    assert produce(town, b"mine", acks=1) is ErrorCode.NONE
    assert values(town, 1) == [*before, b"mine"]
    town.run(1_000)
    assert consumed(town, 1) == [b"one"], "taken, and not visible"
    town.lose_send = fetches_of(0)
    town.run_until(lambda: isr(town) == [1, 2])
    assert consumed(town, 1) == [b"one", b"lag", b"mine"]


@pytest.mark.surface(35)
@pytest.mark.scenario(62)
def test_below_min_isr_after_the_append_no_success_is_told(town: Town) -> None:
    create(town, "t", [1, 2, 0], min__insync__replicas="2")
    assert produce(town, b"one") is ErrorCode.NONE
    copies_nothing(town, 0, 2)
    pending = begin_produce(town, b"two")
    town.run_until(lambda: isr(town) == [1])
    town.run_until(lambda: town.answered(pending))
    assert produced(town, pending) in (
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    )
    assert consumed(town, 1) == [b"one"]
    town.lose_send = nothing
    town.run_until(lambda: isr(town) == [0, 1, 2])
    assert consumed(town, 1) == [b"one", b"two"], "it may survive, as here"


@pytest.mark.scenario(64)
def test_a_write_that_waits_is_refused_as_soon_as_leadership_is_lost(town: Town) -> None:
    create(town, "t", [1, 2, 0])
    copies_nothing(town, 0, 2)
    pending = begin_produce(town, b"one")
    town.run(50)
    begun = town.now_ms
    expire_unheard(town, 1)
    reconnect(town, 1)
    town.run_until(lambda: town.answered(pending))
    assert produced(town, pending) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert town.now_ms - begun < 500, "and not when its time is over"
    assert members(town)[0] == 2
