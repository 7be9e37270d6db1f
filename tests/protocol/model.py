"""The replica protocol as a model: three replicas, few records, few epochs, every order of events.

A breadth-first search over all states that the rules of `core.replica` and `core.controller` allow,
each rule as a flag that can be taken away. It is the twin of the simulator: that one runs the code
on some histories, this one runs the rules on all short ones. After Kip320.tla of the public
kafka-specification, with the truncation in steps of its own, as the code has it.

A state is (leader, isr, requests, replicas, records): what the coordinator stores (an ISR is a bit
mask), what the controller has told (one request per leader epoch), the replicas, and how many
records were written. A replica is (epoch, leader, isr, high watermark, log), and a log is a tuple
of (record, epoch).
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

REPLICAS = (0, 1, 2)
ALL = 0b111
NOBODY = -1

Log = tuple[tuple[int, int], ...]
Replica = tuple[int, int, int, int, Log]
State = tuple[int, int, tuple[tuple[int, int], ...], tuple[Replica, ...], int]


@dataclass(frozen=True, slots=True)
class Rules:
    """The protocol, and how much of it is explored. Each flag is a rule that may be missing."""

    records: int = 2
    epochs: int = 3
    clean_election: bool = True  # only a member of the ISR is elected
    compare_and_set: bool = True  # an ISR is changed only by the leader of the stored epoch
    fence_progress: bool = True  # a follower counts only while it follows the same epoch
    check_history: bool = True  # ... and only while its log agrees with the leader's, by epochs
    fence_truncation: bool = True  # a follower is compared only with a leader of its own epoch
    epoch_start: bool = True  # the ISR admits only who reached the start of the leader's epoch
    truncate_by_epoch: bool = True  # not by the own high watermark
    wait_for_isr: bool = True  # the high watermark waits for every member of the ISR
    keep_what_is_held: bool = True  # a member of the ISR never loses the end of its log


@dataclass(frozen=True, slots=True)
class Result:
    """`broken` names the invariant that fell; `steps` lead to it from the beginning."""

    states: int
    broken: str | None = None
    steps: tuple[str, ...] = ()


def explore(rules: Rules, states_max: int = 2_000_000) -> Result:
    """Visit every reachable state; stop at the first that breaks an invariant.

    Raises RuntimeError when there are more than `states_max`: then nothing is shown.
    """
    first: State = (0, ALL, ((0, ALL),), tuple((-1, NOBODY, 0, 0, ()) for _ in REPLICAS), 0)
    came_from: dict[State, tuple[State, str] | None] = {first: None}
    queue = deque([first])
    while queue:
        state = queue.popleft()
        for step, following in _steps(state, rules):
            if following in came_from:
                continue
            came_from[following] = (state, step)
            broken = _broken(following)
            if broken is not None:
                return Result(len(came_from), broken, _way_to(following, came_from))
            queue.append(following)
        if len(came_from) > states_max:
            raise RuntimeError(f"more than {states_max} states")
    return Result(len(came_from))


def _way_to(state: State, came_from: dict[State, tuple[State, str] | None]) -> tuple[str, ...]:
    steps = []
    before = came_from[state]
    while before is not None:
        steps.append(before[1])
        before = came_from[before[0]]
    return tuple(reversed(steps))


# ---- invariants ---------------------------------------------------------------------------


def _broken(state: State) -> str | None:
    """The invariant that does not hold: LeaderInIsr, StrongIsr, or None."""
    leader, isr, _, replicas, _ = state
    if leader != NOBODY and not isr & 1 << leader:
        return "LeaderInIsr"
    for me, (_, known_leader, _, high_watermark, log) in enumerate(replicas):
        if known_leader != me:
            continue
        committed = log[:high_watermark]
        for member in REPLICAS:
            if isr & 1 << member and replicas[member][4][:high_watermark] != committed:
                return "StrongIsr"
    return None


# ---- what may happen ------------------------------------------------------------------------


def _steps(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    yield from _controller(state, rules)
    replicas = state[3]
    for me in REPLICAS:
        yield from _learn(state, me, rules)
        if replicas[me][1] == me:
            yield from _lead(state, me, rules)
        elif replicas[me][1] != NOBODY:
            yield from _follow(state, me, rules)
        if not rules.keep_what_is_held and replicas[me][4]:
            epoch, leader, isr, high_watermark, log = replicas[me]
            cut = log[:-1]
            lost = (epoch, leader, isr, min(high_watermark, len(cut)), cut)
            yield f"{me} loses its end", _with(state, me, lost)


def _with(state: State, who: int, replica: Replica) -> State:
    leader, isr, requests, replicas, records = state
    changed = (*replicas[:who], replica, *replicas[who + 1 :])
    return leader, isr, requests, changed, records


def _controller(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    leader, isr, requests, replicas, records = state
    if len(requests) >= rules.epochs:
        return
    for chosen in REPLICAS:
        member = bool(isr & 1 << chosen)
        if chosen != leader and (member or not rules.clean_election):
            next_isr = isr if member else 1 << chosen
            told = (*requests, (chosen, next_isr))
            yield f"elect {chosen}", (chosen, next_isr, told, replicas, records)
        if member and isr != 1 << chosen:  # it died: the last member stays recorded
            next_isr = isr & ~(1 << chosen)
            next_leader = NOBODY if chosen == leader else leader
            told = (*requests, (next_leader, next_isr))
            yield f"fence {chosen}", (next_leader, next_isr, told, replicas, records)


def _learn(state: State, me: int, rules: Rules) -> Iterator[tuple[str, State]]:
    """A replica hears of a newer leadership, perhaps not of the newest."""
    requests = state[2]
    epoch, _, _, high_watermark, log = state[3][me]
    for number in range(epoch + 1, len(requests)):
        leader, isr = requests[number]
        if leader == NOBODY:
            continue
        kept = log
        if leader != me and not rules.truncate_by_epoch:
            kept = log[:high_watermark]
        yield (
            f"{me} hears that {leader} leads in {number}",
            _with(state, me, (number, leader, isr, high_watermark, kept)),
        )


def _lead(state: State, me: int, rules: Rules) -> Iterator[tuple[str, State]]:
    stored_leader, _, requests, replicas, records = state
    epoch, _, isr, high_watermark, log = replicas[me]
    if records < rules.records:
        appended = (epoch, me, isr, high_watermark, (*log, (records, epoch)))
        changed = _with(state, me, appended)
        yield f"{me} writes", (*changed[:4], records + 1)
    if high_watermark < len(log) and all(
        _holds(state, me, follower, high_watermark + 1, rules)
        for follower in REPLICAS
        if follower != me and isr & 1 << follower and rules.wait_for_isr
    ):
        moved = (epoch, me, isr, high_watermark + 1, log)
        yield f"{me} moves its high watermark", _with(state, me, moved)
    current = stored_leader == me and len(requests) - 1 == epoch
    if not (current or not rules.compare_and_set):
        return
    epoch_start = sum(1 for _, written_in in log if written_in < epoch)
    for follower in REPLICAS:
        bit = 1 << follower
        if follower == me:
            continue
        if isr & bit:
            changed = _with(state, me, (epoch, me, isr & ~bit, high_watermark, log))
            yield f"{me} drops {follower}", (changed[0], isr & ~bit, *changed[2:])
            continue
        needed = max(high_watermark, epoch_start) if rules.epoch_start else high_watermark
        if _holds(state, me, follower, needed, rules):
            changed = _with(state, me, (epoch, me, isr | bit, high_watermark, log))
            yield f"{me} admits {follower}", (changed[0], isr | bit, *changed[2:])


def _holds(state: State, me: int, follower: int, offset: int, rules: Rules) -> bool:
    """Whether the leader `me` may take it that `follower` holds all below `offset`."""
    epoch, _, _, _, log = state[3][me]
    theirs = state[3][follower]
    if theirs[1] != me or len(theirs[4]) < offset:
        return False
    if not rules.fence_progress:
        return True  # an answer to a question that it asked under another leadership
    if rules.check_history and _agreement(theirs[4], log) < len(theirs[4]):
        return False
    return theirs[0] == epoch


def _agreement(mine: Log, theirs: Log) -> int:
    """Up to where two logs have the same epochs, and so the same records."""
    for offset, ((_, a), (_, b)) in enumerate(zip(mine, theirs, strict=False)):
        if a != b:
            return offset
    return min(len(mine), len(theirs))


def _follow(state: State, me: int, rules: Rules) -> Iterator[tuple[str, State]]:
    """One fetch: cut back to where the histories agree, or copy the next record."""
    epoch, leader, isr, high_watermark, log = state[3][me]
    leader_epoch, believes, _, leader_high_watermark, leader_log = state[3][leader]
    same = leader_epoch == epoch
    agreed = _agreement(log, leader_log)
    if rules.truncate_by_epoch and agreed < len(log):
        if (same and believes == leader) or not rules.fence_truncation:
            cut = log[:agreed]
            kept = (epoch, leader, isr, min(high_watermark, agreed), cut)
            yield f"{me} cuts back to {agreed}", _with(state, me, kept)
        return
    if same and believes == leader and len(log) < len(leader_log):
        copied = (*log, leader_log[len(log)])
        mark = max(high_watermark, min(leader_high_watermark, len(copied)))
        yield f"{me} copies", _with(state, me, (epoch, leader, isr, mark, copied))
    elif same and believes == leader and min(leader_high_watermark, len(log)) > high_watermark:
        mark = min(leader_high_watermark, len(log))
        yield f"{me} learns the high watermark", _with(state, me, (epoch, leader, isr, mark, log))
