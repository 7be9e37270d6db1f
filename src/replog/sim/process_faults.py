"""Faults of processes and of their clocks: killed, stopped, frozen, slow."""

from collections.abc import Callable
from typing import Final

from replog.sim.broker import Life
from replog.sim.fault_kinds import Fault
from replog.sim.occurrence import Occurrence

DISK_CALLS_MAX: Final = 30  # an armed crash hits at one of this many next calls
TORN_BYTES_MAX: Final = 200  # of an append that a crash hits, this much may be in the file
OUTPUTS_MAX: Final = 60
STEP_COSTS_MS: Final = (1.0, 5.0, 20.0)  # of one step of a slow broker
HOUR_MS: Final = 3_600_000
WALL_STEPS_MS: Final = (-HOUR_MS, -3000, 3000, HOUR_MS, 24 * HOUR_MS, 365 * 24 * HOUR_MS)
ROLL_GAP_MS: Final = 600.0  # mean, between two brokers of a rolling restart


def _crash(it: Occurrence, life: Life | None, why: str = "killed") -> bool:
    """SIGKILL."""
    if life is None:
        return False
    it.keep_down(life.host)
    life.die(why)
    return True


def _crash_all(it: Occurrence) -> bool:
    """SIGKILL of every process, at one instant."""
    lives = [host.life for host in it.scene.hosts if host.life is not None]
    for life in lives:
        _crash(it, life, "killed with all others")
    return bool(lives)


def _crash_at_disk(it: Occurrence) -> bool:
    """The process dies inside one of its next calls that change something on disk."""
    life = it.some_life()
    if life is None:
        return False
    calls, written = it.stream.randint(1, DISK_CALLS_MAX), it.stream.randint(0, TORN_BYTES_MAX)
    life.host.troubles.arm_crash(calls, written)
    it.note(life.host, f"will crash at its disk call number {calls} from now")
    return True


def _crash_between_outputs(it: Occurrence) -> bool:
    """The process dies when it has carried out a part of what a step wanted done."""
    life = it.some_life()
    if life is None:
        return False
    life.outputs_until_crash = it.stream.randint(0, OUTPUTS_MAX)
    it.note(life.host, f"will crash after {life.outputs_until_crash} outputs")
    return True


def _stop(it: Occurrence) -> bool:
    """SIGTERM: it leaves in good order."""
    life = it.some_life()
    if life is None:
        return False
    it.keep_down(life.host)
    it.note(life.host, "told to stop")
    life.stop()
    return True


def _roll(it: Occurrence) -> bool:
    """SIGTERM to one broker after the other, whether or not the one before is back."""
    at_ms = 0.0
    for host in it.scene.hosts:

        def stop(host: object = host) -> None:
            for each in it.scene.hosts:
                if each is host and each.life is not None:
                    it.note(each, "told to stop, in its turn")
                    each.life.stop()

        if at_ms:
            it.mend_after(at_ms, stop)
        else:
            stop()
        at_ms += 100.0 + it.stream.expovariate(1.0) * ROLL_GAP_MS
    return True


def _pause(it: Occurrence, least_ms: float, mean_ms: float) -> bool:
    """SIGSTOP, and SIGCONT later."""
    life = it.some_life()
    if life is None or life.paused:
        return False
    lasts_ms = it.lasts_ms(mean_ms, least_ms=least_ms)
    it.note(life.host, f"paused for {lasts_ms:.0f} ms")
    life.pause()
    it.mend_after(lasts_ms, life.resume)
    return True


def _slow(it: Occurrence) -> bool:
    """Each step takes a while, and inputs queue. The session's heart beats on, as a thread does."""
    life = it.some_life()
    if life is None:
        return False
    cost_ms, lasts_ms = it.one_of(STEP_COSTS_MS), it.lasts_ms(800.0)
    it.note(life.host, f"takes {cost_ms:.0f} ms for each step, for {lasts_ms:.0f} ms")
    life.slow_down(cost_ms)
    it.mend_after(lasts_ms, lambda: life.slow_down(0.0))
    return True


def _wall_step(it: Occurrence) -> bool:
    """The wall clock of a host jumps, and stays there."""
    host = it.host()
    step_ms = it.one_of(WALL_STEPS_MS)
    host.wall_skew_ms += step_ms
    it.note(host, f"its wall clock jumps by {step_ms / 1000:.0f} s")
    return True


DEEDS: Final[dict[Fault, Callable[[Occurrence], bool]]] = {
    Fault.CRASH: lambda it: _crash(it, it.some_life()),
    Fault.CRASH_LEADER: lambda it: _crash(it, it.leader()),
    Fault.CRASH_CONTROLLER: lambda it: _crash(it, it.controller()),
    Fault.CRASH_ALL: _crash_all,
    Fault.CRASH_AT_DISK: _crash_at_disk,
    Fault.CRASH_BETWEEN_OUTPUTS: _crash_between_outputs,
    Fault.STOP: _stop,
    Fault.ROLL: _roll,
    Fault.PAUSE: lambda it: _pause(it, 20.0, 150.0),
    Fault.LONG_PAUSE: lambda it: _pause(it, it.scene.plan.coordinator.silence_ms, 800.0),
    Fault.SLOW: _slow,
    Fault.WALL_STEP: _wall_step,
}
