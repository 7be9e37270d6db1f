"""Plans in which leaders change while messages of earlier leaderships are still on their way."""

from dataclasses import replace

from replog.sim.fault_kinds import Fault
from replog.sim.network import Weather
from replog.sim.plan import Plan, make_plan

RATES = {Fault.EXPIRE: 300.0, Fault.STOP: 800.0, Fault.CUT_PEERS: 800.0}


def stormy(seed: int) -> Plan:
    """A plan with slow links, and brokers that lose their sessions all the time."""
    return replace(
        make_plan(seed, duration_ms=3000.0, rates=RATES),
        weather=Weather(mean_ms=8.0, spike_probability=0.05, spike_ms=200.0),
    )
