"""Listeners: `NAME://HOST:PORT`, as brokers listen on them and as others are told to reach them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from replog.model.config_values import ConfigError

PORT_MAX = 65535


class Listener(NamedTuple):
    """One address. An empty host means every interface when listening."""

    name: str  # upper case
    host: str  # IPv6 addresses without brackets
    port: int  # 0: the operating system chooses
    security_protocol: str = "PLAINTEXT"


def listening(
    texts: Sequence[str], protocols: Mapping[str, str], not_ours: frozenset[str]
) -> tuple[Listener, ...]:
    """The value of `listeners`, without those named in `not_ours` (KRaft's controllers).

    `protocols` is `listener.security.protocol.map`. Raises ConfigError.
    """
    found: list[Listener] = []
    for text in texts:
        name, host, port = _parse("listeners", text)
        if name in not_ours:
            continue
        protocol = protocols.get(name)
        if protocol is None:
            raise ConfigError(
                f"listeners={text}: {name} has no protocol in listener.security.protocol.map"
            )
        if protocol != "PLAINTEXT":
            raise ConfigError(f"listeners={text}: {protocol} is not supported yet, only PLAINTEXT")
        found.append(Listener(name, host, port, protocol))
    if not found:
        raise ConfigError("listeners: at least one NAME://HOST:PORT expected")
    if len({listener.name for listener in found}) != len(found):
        raise ConfigError(f"listeners={','.join(texts)}: a name comes twice")
    ports = [listener.port for listener in found if listener.port]
    if len(set(ports)) != len(ports):
        raise ConfigError(f"listeners={','.join(texts)}: a port comes twice")
    return tuple(found)


def advertised(texts: Sequence[str], listeners: Sequence[Listener]) -> tuple[Listener, ...]:
    """The value of `advertised.listeners`, in the order of `listeners`, which it defaults to.

    Raises ConfigError.
    """
    if not texts:
        for listener in listeners:
            if listener.host in ("0.0.0.0", "::"):
                raise ConfigError(
                    f"listeners: nobody can connect to {listener.host}; set advertised.listeners"
                )
        return tuple(listeners)
    by_name: dict[str, tuple[str, int]] = {}
    for text in texts:
        name, host, port = _parse("advertised.listeners", text)
        if name not in {listener.name for listener in listeners}:
            raise ConfigError(f"advertised.listeners={text}: {name} is not among listeners")
        if name in by_name:
            raise ConfigError(f"advertised.listeners={','.join(texts)}: {name} comes twice")
        if host in ("0.0.0.0", "::"):
            raise ConfigError(f"advertised.listeners={text}: nobody can connect to {host}")
        by_name[name] = (host, port)
    return tuple(
        Listener(listener.name, *by_name[listener.name], listener.security_protocol)
        for listener in listeners
        if listener.name in by_name
    )


def _parse(configuration: str, text: str) -> tuple[str, str, int]:
    """Name in upper case, host, port."""
    name, scheme, address = text.strip().partition("://")
    host, colon, digits = address.rpartition(":")
    if not (name and scheme and colon and digits.isascii() and digits.isdigit()):
        raise ConfigError(f"{configuration}={text}: NAME://HOST:PORT expected")
    port = int(digits)
    if port > PORT_MAX:
        raise ConfigError(f"{configuration}={text}: port 0 to {PORT_MAX} expected")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return name.upper(), host, port
