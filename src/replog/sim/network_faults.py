"""Faults of links, of connections, and of the coordinator."""

from collections.abc import Callable
from typing import Final

from replog.sim.coordinator import PLACE
from replog.sim.fault_kinds import Fault
from replog.sim.host import Host
from replog.sim.network import Link
from replog.sim.occurrence import Occurrence

CUT_MEAN_MS: Final = (100.0, 400.0, 1200.0)  # one of these, for each cut
DRIP_MS: Final = (20.0, 100.0)  # between two messages on a link that drips
HALF_OPEN_MS: Final = 1500.0  # mean, until the other end notices after all
STALE_MS: Final = (50.0, 300.0, 1000.0)  # that the server which is read from lags behind


def _cut(it: Occurrence, host: Host, links: list[Link], what: str) -> bool:
    network, lasts_ms = it.scene.network, it.lasts_ms(it.one_of(CUT_MEAN_MS))
    it.note(host, f"cut {what} for {lasts_ms:.0f} ms")
    network.cut(links)
    it.mend_after(lasts_ms, lambda: network.mend(links))
    return True


def _cut_peers(it: Occurrence) -> bool:
    """A broker is cut from others: from one of them, so that the rest is a bridge, or from all;
    or one way only ("to", "from")."""
    host = it.host()
    others = it.others(host)
    way = it.way("one", "all", "to", "from")
    if way == "one":
        others = [it.one_of(others)]
    links = [(host.place, other) for other in others] if way != "from" else []
    if way != "to":
        links += [(other, host.place) for other in others]
    both = way in ("one", "all")
    return _cut(it, host, links, f"{'from' if both else way} {', '.join(others)}")


def _cut_coordinator(it: Occurrence) -> bool:
    """A broker is cut from the coordinator, and from nobody else."""
    _cut_off(it, it.host(), it.lasts_ms(500.0))
    return True


def _cut_off(it: Occurrence, host: Host, lasts_ms: float) -> None:
    """Cut `host` from the coordinator, which so no longer hears it."""
    life = host.life
    links = _both_ways(host.place, [PLACE])
    it.note(host, f"cut from the coordinator for {lasts_ms:.0f} ms")
    it.scene.network.cut(links)
    if life is not None:
        life.door.fall_silent()

    def mend() -> None:
        it.scene.network.mend(links)
        if life is not None and life.alive:
            life.door.be_heard()

    it.mend_after(lasts_ms, mend)


def _cut_clients(it: Occurrence) -> bool:
    """A broker is cut from all clients."""
    host = it.host()
    return _cut(it, host, _both_ways(host.place, it.scene.client_names), "from clients")


def _isolate(it: Occurrence) -> bool:
    """A broker is cut from everybody. The coordinator may be reached again at another time."""
    host = it.host()
    _cut_off(it, host, it.lasts_ms(500.0))
    links = _both_ways(host.place, [*it.others(host), *it.scene.client_names])
    return _cut(it, host, links, "from brokers and clients")


def _drip(it: Occurrence) -> bool:
    """All links to or from a broker carry one message after the other, with long pauses."""
    host = it.host()
    others = [*it.others(host), *it.scene.client_names]
    to_it = [(other, host.place) for other in others]
    links = to_it if it.way("to", "from") == "to" else [(link[1], link[0]) for link in to_it]
    network, pause_ms, lasts_ms = it.scene.network, it.one_of(DRIP_MS), it.lasts_ms(600.0)
    it.note(host, f"links {links[0][0]}>{links[0][1]}, … drip for {lasts_ms:.0f} ms")
    network.drip(links, pause_ms)
    it.mend_after(lasts_ms, lambda: network.drip(links, 0.0))
    return True


def _reset_all(it: Occurrence) -> bool:
    """All connections to a broker break; what was sent on them may still arrive, or not."""
    life = it.some_life()
    if life is None or not life.connections:
        return False
    it.note(life.host, "all its connections break")
    for connection in list(life.connections.values()):
        connection.reset("connection reset")
    return True


def _half_open(it: Occurrence) -> bool:
    """Some connections to a broker are gone for one end, and the other does not know it."""
    life = it.some_life()
    if life is None or not life.connections:
        return False
    end = it.way("dialer", "acceptor")
    it.note(life.host, f"connections to it are gone for the {end} alone")
    for connection in list(life.connections.values()):
        if it.stream.random() < 0.5:
            connection.lose_end(end, HALF_OPEN_MS)
    return True


def _expire(it: Occurrence) -> bool:
    """The coordinator gives up a session that is in order."""
    life = it.some_life()
    if life is None:
        return False
    it.note(life.host, "its session is ended")
    life.door.expire()
    return True


def _no_quorum(it: Occurrence) -> bool:
    """Nobody reaches the coordinator, and no session ends: nobody is there to end it."""
    service, network, lasts_ms = it.scene.coordinator, it.scene.network, it.lasts_ms(600.0)
    links = [link for host in it.scene.hosts for link in _both_ways(host.place, [PLACE])]
    for host in it.scene.hosts:
        it.note(host, f"the coordinator has no quorum for {lasts_ms:.0f} ms")
    network.cut(links)
    service.halt()

    def mend() -> None:
        network.mend(links)
        service.go_on()

    it.mend_after(lasts_ms, mend)
    return True


def _stale_reads(it: Occurrence) -> bool:
    """Brokers read from a server of the coordinator that lags behind."""
    service, lasts_ms = it.scene.coordinator, it.lasts_ms(800.0)
    service.lag_ms = it.one_of(STALE_MS)

    def mend() -> None:
        service.lag_ms = 0.0

    it.mend_after(lasts_ms, mend)
    return True


def _both_ways(place: str, others: list[str]) -> list[Link]:
    return [link for other in others for link in ((place, other), (other, place))]


DEEDS: Final[dict[Fault, Callable[[Occurrence], bool]]] = {
    Fault.CUT_PEERS: _cut_peers,
    Fault.CUT_COORDINATOR: _cut_coordinator,
    Fault.CUT_CLIENTS: _cut_clients,
    Fault.ISOLATE: _isolate,
    Fault.DRIP: _drip,
    Fault.RESET_ALL: _reset_all,
    Fault.HALF_OPEN: _half_open,
    Fault.EXPIRE: _expire,
    Fault.NO_QUORUM: _no_quorum,
    Fault.STALE_READS: _stale_reads,
}
