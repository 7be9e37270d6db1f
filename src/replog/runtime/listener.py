"""Accepting connections, within limits."""

import errno
import ipaddress
import logging
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from replog.model.config import BrokerConfig
from replog.model.listeners import Listener as Address
from replog.runtime.connection import Host
from replog.runtime.limits import ACCEPTS_PER_TURN, Limits

_log = logging.getLogger("replog.network")

_REPORT_EVERY_S: Final = 5.0
_PAUSE_S: Final = 0.5  # without descriptors, accepting would spin
_MAPPED: Final = "::ffff:"  # an IPv4 address on a listener for both
_OUT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class ListenError(Exception):
    """A listener can't be opened; the text is one line that names it."""


def listen(
    address: Address, backlog: int, buffers: tuple[int | None, int | None] = (None, None)
) -> socket.socket:
    """A listening, non-blocking socket. Raises ListenError.

    `buffers` are the sizes in bytes of what its connections send and receive; None leaves that to
    the kernel, which lets them grow with the traffic.
    """
    host, where = address.host, f"{address.name}://{address.host}:{address.port}"
    try:
        found = socket.getaddrinfo(
            host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, bound = min(found, key=lambda item: item[0] != socket.AF_INET)
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise ListenError(f"listener {where}: {error.strerror or error}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for option, size in zip((socket.SO_SNDBUF, socket.SO_RCVBUF), buffers, strict=True):
            if size is not None:
                sock.setsockopt(socket.SOL_SOCKET, option, size)  # accepted sockets inherit it
        sock.bind(bound)
        sock.listen(max(backlog, 128))
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise ListenError(f"listener {where}: port {address.port} is in use") from error
        raise ListenError(f"listener {where}: {error.strerror or error}") from error
    return sock


class HostLimits:
    """Hosts of which there may be more or fewer connections than of others.

    Names are looked up on a thread, as that may take seconds: until then they are as all others.
    """

    def __init__(self) -> None:
        self._named: Mapping[str, int] = {}
        self._by_ip: dict[str, int] = {}

    def set(self, named: Mapping[str, int]) -> None:
        """These are the hosts from now on, by name or address."""
        if named == self._named:
            return
        self._named = named
        names = [host for host in named if not _is_address(host)]
        self._by_ip = {
            str(ipaddress.ip_address(host)): number
            for host, number in named.items()
            if host not in names
        }
        if names:
            args = (named, names)
            threading.Thread(target=self._look_up, args=args, name="hosts", daemon=True).start()

    def of(self, ip: str, usual: int) -> int:
        """The limit for an address, as `accept` gives it."""
        return self._by_ip.get(ip.removeprefix(_MAPPED), usual)

    def _look_up(self, named: Mapping[str, int], names: list[str]) -> None:
        found: dict[str, int] = {}
        for host in names:
            try:
                known = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except OSError as error:
                _log.warning("max.connections.per.ip.overrides: %s: %s", host, error.strerror)
                continue
            found |= {str(info[4][0]): named[host] for info in known}
        if named is self._named:
            self._by_ip = found | self._by_ip


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class Places:
    """How many clients' connections there are, in all and by address."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._hosts = HostLimits()
        self._hosts.set(limits.connections_per_ip_overrides)
        self._by_ip: Counter[str] = Counter()
        self._clients = 0
        self._reserved = 0
        self._refused = 0
        self._reported_s = 0.0

    def reconfigure(self, config: BrokerConfig) -> None:
        """The limits on connections were changed. Who is connected stays."""
        limits = self._limits
        self._limits = replace(
            limits,
            connections=min(config.max_connections, limits.connections_max),
            connections_per_ip=min(config.max_connections_per_ip, limits.connections_per_ip_max),
        )
        self._hosts.set(config.max_connections_per_ip_overrides)

    def take(self, ip: str) -> bool | None:
        """A place for a connection: False a usual one, True a reserved one, None for none left."""
        if self._clients < self._limits.connections and (self._by_ip[ip] < self._limit_of(ip)):
            self._clients += 1
            self._by_ip[ip] += 1
            return False
        if self._reserved < self._limits.connections_reserved:
            self._reserved += 1
            return True
        self._refuse(ip)
        return None

    def give_back(self, ip: str, *, reserved: bool) -> None:
        """The place of a connection that was closed, or is a broker's."""
        if reserved:
            self._reserved -= 1
            return
        self._clients -= 1
        self._by_ip[ip] -= 1
        if not self._by_ip[ip]:
            del self._by_ip[ip]

    def _limit_of(self, ip: str) -> int:
        return self._hosts.of(ip, self._limits.connections_per_ip)

    def _refuse(self, ip: str) -> None:
        """One line every few seconds, however many come."""
        self._refused += 1
        now = time.monotonic()
        if now - self._reported_s >= _REPORT_EVERY_S:
            _log.warning(
                "%d connections refused, the last from %s: %d of %d places taken, %d of %d by it",
                self._refused,
                ip,
                self._clients,
                self._limits.connections,
                self._by_ip[ip],
                self._limit_of(ip),
            )
            self._reported_s, self._refused = now, 0


class Listener:
    """One listening socket on the loop."""

    def __init__(self, host: Host, sock: socket.socket, name: str, places: Places) -> None:
        self._host = host
        self._sock = sock
        self._name = name
        self._places = places

    def start(self) -> None:
        """Accept from now on."""
        self._host.loop.add_reader(self._sock, self._on_acceptable)

    def close(self) -> None:
        """Accept no more and give the port back."""
        self._host.loop.remove_reader(self._sock)
        self._sock.close()

    def _on_acceptable(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                sock, address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._accept_failed(error)
                return
            reserved = self._places.take(address[0])
            if reserved is None:
                sock.close()
                continue
            self._admit(sock, address[0], reserved=reserved)

    def _admit(self, sock: socket.socket, ip: str, *, reserved: bool) -> None:
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._host.adopt(sock, self._name, reserved=reserved)
        except OSError:  # gone again before we looked
            sock.close()
            self._places.give_back(ip, reserved=reserved)

    def _accept_failed(self, error: OSError) -> None:
        _log.error("listener %s can't accept: %s", self._name, error.strerror or error)
        if error.errno in _OUT_OF_DESCRIPTORS:
            self._host.loop.remove_reader(self._sock)
            self._host.loop.call_later(_PAUSE_S, self._resume)

    def _resume(self) -> None:
        if self._sock.fileno() >= 0:
            self.start()
