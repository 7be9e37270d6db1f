"""The rules of a leader, each beside what would happen without it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replog.core.replica.isr import Committed, PendingExpand, PendingShrink
from replog.core.replica.leader import LeaderSettings, LeaderState
from replog.core.replica.progress import Progress
from replog.model.partition import PartitionRecord

LAG_MS = 1_000
EPOCHS = {1: 11, 2: 12, 3: 13}


def record(
    isr: tuple[int, ...] = (1, 2, 3), *, leader_epoch: int = 5, partition_epoch: int = 7
) -> PartitionRecord:
    return PartitionRecord(
        replicas=(1, 2, 3),
        isr=isr,
        leader=1,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
    )


def leader(
    isr: tuple[int, ...] = (1, 2, 3),
    *,
    log_end: int = 0,
    synced_end: int | None = None,
    high_watermark: int = 0,
    min_isr: int = 1,
    durable: bool = False,
    now_ms: float = 0,
) -> LeaderState:
    return LeaderState(
        record(isr),
        log_end=log_end,
        synced_end=log_end if synced_end is None else synced_end,
        high_watermark=high_watermark,
        settings=LeaderSettings(min_isr=min_isr, lag_ms_max=LAG_MS, durable=durable),
        eligible=dict(EPOCHS),
        now_ms=now_ms,
    )


def fetch(state: LeaderState, broker: int, offset: int, now_ms: float = 1) -> bool:
    return state.on_follower_fetch(
        broker, offset=offset, broker_epoch=EPOCHS[broker], now_ms=now_ms
    )


def test_worked_case_of_the_high_watermark() -> None:
    state = leader()
    state.on_append(5, 0)
    fetch(state, 2, 5)
    assert fetch(state, 3, 4)
    assert state.high_watermark == 4
    assert fetch(state, 3, 5)
    assert state.high_watermark == 5


def test_a_follower_that_has_not_fetched_holds_the_high_watermark() -> None:
    state = leader()
    state.on_append(5, 0)
    assert not fetch(state, 2, 5)
    assert state.high_watermark == 0


def test_out_of_sync_replicas_do_not_hold_it() -> None:
    state = leader((1, 2))
    state.on_append(5, 0)
    assert fetch(state, 2, 5)
    assert state.high_watermark == 5


def test_whose_log_failed_neither_holds_it_nor_joins() -> None:
    """It was caught up a moment ago, and would be about to join."""
    state = leader()
    fetch(state, 2, 0)
    fetch(state, 3, 0)
    state.on_append(5, 10)
    fetch(state, 2, 5, 11)
    assert state.high_watermark == 0
    failed = replace(record((1, 2), partition_epoch=8), failed=(3,))
    assert state.on_record(failed, 12)
    assert state.high_watermark == 5
    fetch(state, 3, 5, 13)
    assert state.propose_expand(3) is None
    state.on_record(record((1, 2), partition_epoch=9), 14)
    assert state.propose_expand(3) is not None


def test_it_stands_still_below_min_isr() -> None:
    state = leader((1,), min_isr=2)
    state.on_append(5, 0)
    assert state.high_watermark == 0
    assert not state.enough_in_sync


def test_alone_in_the_isr_the_leader_commits_what_it_appends() -> None:
    state = leader((1,))
    assert state.on_append(5, 0)
    assert state.high_watermark == 5


@pytest.mark.scenario(10)
def test_a_pending_removal_still_holds_it_and_a_committed_one_does_not() -> None:
    state = leader()
    fetch(state, 2, 0)
    fetch(state, 3, 0)
    state.on_append(5, 10)
    fetch(state, 2, 5, 20)
    proposal = state.propose_shrink(10 + LAG_MS + 1)
    assert isinstance(proposal, PendingShrink)
    assert proposal.removed == (3,)
    assert proposal.proposed == (1, 2)
    assert state.high_watermark == 0
    assert state.on_record(record((1, 2), partition_epoch=8), 12 + LAG_MS)
    assert state.high_watermark == 5


@pytest.mark.scenario(11)
def test_a_pending_addition_holds_it_at_once() -> None:
    state = leader((1, 2))
    fetch(state, 2, 0)
    fetch(state, 3, 0)
    proposal = state.propose_expand(3)
    assert isinstance(proposal, PendingExpand)
    state.on_append(5, 2)
    fetch(state, 2, 5, 5 + 10 * LAG_MS)  # 3 is long behind, and may yet be a member
    assert state.high_watermark == 0


@pytest.mark.scenario(11)
def test_a_refused_addition_lets_it_go() -> None:
    state = leader((1, 2))
    fetch(state, 3, 0)
    proposal = state.propose_expand(3)
    assert proposal is not None
    state.on_append(5, 2)
    fetch(state, 2, 5, 3)
    assert state.high_watermark == 0
    assert state.on_proposal_refused(proposal, 3 + 10 * LAG_MS), "what waited for it is committed"
    assert isinstance(state.isr_state, Committed)
    assert state.high_watermark == 5
    assert not state.on_proposal_refused(proposal, 4 + 10 * LAG_MS), "told twice"


@pytest.mark.scenario(13)
@pytest.mark.parametrize(
    ("offset", "broker_epoch", "why"),
    [
        (9, 13, "below the start of the epoch"),
        (10, 12, "another registration than the one that lives"),
        (10, -1, "no registration"),
    ],
)
def test_admission_refuses(offset: int, broker_epoch: int, why: str) -> None:
    state = leader((1, 2), log_end=10, high_watermark=9)
    state.on_follower_fetch(3, offset=offset, broker_epoch=broker_epoch, now_ms=1)
    assert state.propose_expand(3) is None, why


def test_admission_takes_one_that_reached_the_epoch_start() -> None:
    state = leader((1, 2), log_end=10, high_watermark=9)
    fetch(state, 3, 10)
    assert state.propose_expand(3) is not None


def test_admission_refuses_a_broker_that_is_not_eligible() -> None:
    state = leader((1, 2))
    state.eligible = {1: 11, 2: 12}
    fetch(state, 3, 0)
    assert state.propose_expand(3) is None


@pytest.mark.scenario(35)
def test_one_change_is_in_flight_at_a_time() -> None:
    state = leader((1, 2))
    fetch(state, 3, 0)
    assert state.propose_expand(3) is not None
    state.on_append(5, 2)
    assert state.propose_shrink(10 * LAG_MS) is None, "2 lags, and 3 may be a member by now"
    assert state.propose_expand(3) is None
    assert state.isr_state.maximal == (1, 2, 3)


@pytest.mark.scenario(35)
def test_two_do_not_join_at_once() -> None:
    state = leader((1,))
    fetch(state, 2, 0)
    fetch(state, 3, 0)
    assert state.propose_expand(2) is not None
    assert state.propose_expand(3) is None


def test_a_follower_about_to_join_holds_the_watermark_only_while_it_lives() -> None:
    state = leader((1,), log_end=0)
    fetch(state, 2, 0, now_ms=1)
    state.on_append(5, 2)
    assert state.high_watermark == 0
    state.eligible = {1: 11, 3: 13}
    assert state.advance(3)
    assert state.high_watermark == 5


def test_who_is_not_in_the_isr_at_the_beginning_is_not_about_to_join() -> None:
    """Until it has caught up for the first time: that may take as long as copying all there is."""
    state = leader((1,), log_end=5, synced_end=0, durable=True)
    fetch(state, 2, 0)
    assert state.on_synced(5, 2)
    assert state.high_watermark == 5
    fetch(state, 2, 5, 3)
    state.on_append(6, 4)
    assert not state.on_synced(6, 5), "now it is"


def test_with_fsync_only_what_is_synced_counts_here_and_on_followers() -> None:
    state = leader((1, 2), durable=True)
    fetch(state, 2, 0)
    assert not state.on_append(5, 1)
    assert not fetch(state, 2, 3, 2)  # followers report what they have synced
    assert state.on_synced(2, 3)
    assert state.high_watermark == 2
    assert state.on_synced(5, 4)
    assert state.high_watermark == 3


def test_with_fsync_a_leader_alone_waits_for_its_own_disk() -> None:
    state = leader((1,), durable=True)
    assert not state.on_append(5, 1)
    assert state.on_synced(5, 2)
    assert state.high_watermark == 5


def test_an_older_request_that_was_overtaken_counts_for_nothing() -> None:
    state = leader((1,))
    state.on_append(5, 0)
    fetch(state, 2, 5, 1)
    assert not fetch(state, 2, 3, 2)
    assert state.progress[2].log_end_offset == 5
    assert state.may_join(2)


@pytest.mark.scenario(14)
def test_another_life_of_a_follower_begins_anew() -> None:
    state = leader((1,))
    state.on_append(5, 0)
    fetch(state, 2, 5, 1)
    state.on_follower_fetch(2, offset=3, broker_epoch=99, now_ms=2)
    assert state.progress[2].log_end_offset == 3


def test_a_refusal_that_comes_late_does_not_concern_the_next_proposal() -> None:
    state = leader((1, 2))
    fetch(state, 3, 0)
    first = state.propose_expand(3)
    assert first is not None
    state.on_record(record((1, 2), partition_epoch=8), 2)
    second = state.propose_expand(3)
    assert second is not None
    state.on_proposal_refused(first, 3)
    assert state.isr_state is second


@pytest.mark.parametrize("partition_epoch", [6, 7])
def test_an_old_record_changes_nothing(partition_epoch: int) -> None:
    state = leader((1, 2))
    state.on_record(record((1,), partition_epoch=partition_epoch), 0)
    assert state.isr_state.isr == (1, 2)


@pytest.mark.scenario(35)
def test_lag_is_time_since_the_follower_last_had_everything() -> None:
    progress = Progress(caught_up_ms=0, last_fetch_ms=0)
    progress.fetched(offset=10, leader_end=10, broker_epoch=1, now_ms=100)
    assert progress.caught_up_ms == 100
    # behind, but it reached at 300 what the leader had at 100
    progress.fetched(offset=10, leader_end=20, broker_epoch=1, now_ms=300)
    assert progress.caught_up_ms == 100
    progress.fetched(offset=20, leader_end=30, broker_epoch=1, now_ms=500)
    assert progress.caught_up_ms == 300
    assert not progress.lags(leader_end=30, now_ms=300 + LAG_MS, lag_ms_max=LAG_MS)
    assert progress.lags(leader_end=30, now_ms=301 + LAG_MS, lag_ms_max=LAG_MS)


def test_an_idle_follower_at_the_end_never_lags_and_an_append_starts_its_time() -> None:
    state = leader()
    fetch(state, 2, 0, 1)
    fetch(state, 3, 0, 1)
    assert state.propose_shrink(100 * LAG_MS) is None
    state.on_append(1, 100 * LAG_MS)
    assert state.propose_shrink(100 * LAG_MS + 1) is None
    assert state.propose_shrink(101 * LAG_MS + 1) is not None


@given(st.lists(st.tuples(st.sampled_from([0, 2, 3]), st.integers(0, 20)), min_size=1, max_size=60))
def test_the_watermark_never_falls_and_never_passes_a_member(
    events: list[tuple[int, int]],
) -> None:
    state = leader()
    held = {2: 0, 3: 0}
    previous = 0
    for now, (who, amount) in enumerate(events):
        if who == 0:
            state.on_append(state.log_end + amount, now)
        else:
            held[who] = min(max(held[who], amount), state.log_end)
            fetch(state, who, held[who], now)
        assert state.high_watermark >= previous
        assert state.high_watermark <= min(state.log_end, *held.values())
        previous = state.high_watermark


def test_nothing_is_committed_while_the_controller_counts_others_as_eligible() -> None:
    """Also where this broker's own idea of min ISR would allow it."""
    state = leader((1, 2), min_isr=1)
    alone = replace(record((1,), partition_epoch=8), elr=(2,))
    state.on_record(alone, 0)
    state.on_append(5, 0)
    assert state.high_watermark == 0
    fetch(state, 2, 5)
    assert state.high_watermark == 0
    state.on_record(record((1, 2), partition_epoch=9), 0)
    assert state.high_watermark == 5
