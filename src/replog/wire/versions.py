"""Which APIs are served, at which versions, and to whom."""

from enum import Enum
from typing import Final, NamedTuple

from replog.model.messages import APIS, Request, Response
from replog.model.messages.base import NOT_FLEXIBLE
from replog.wire.headers import API_VERSIONS_KEY


class Audience(Enum):
    """Who may use an API. What is not for the asker does not exist for it."""

    CLIENTS = "clients"  # anyone, and ApiVersions tells them
    TOOLS = "tools"  # anyone who knows: Replog's own tools, and a broker that introduces itself
    PEERS = "peers"  # a connection that proved to be a broker of this cluster


class ServedApi(NamedTuple):
    """An API with the versions that are advertised and those that are understood."""

    key: int
    name: str
    request: type[Request]
    response: type[Response]
    min_version: int
    max_version: int
    min_understood: int
    flexible_from: int
    tagged_from: int  # the version from which on the header of a response has tagged fields
    audience: Audience


# The whole ranges of Kafka 4.4. Produce is the exception that clients need: librdkafka before 2.11
# sends uncompressed unless the lowest version is 0, but nobody gets an answer below 3.
_FOR_CLIENTS: Final = {
    0: (0, 13),
    1: (4, 18),
    2: (1, 11),
    3: (0, 13),
    8: (2, 10),
    9: (1, 10),
    10: (0, 6),
    11: (0, 9),
    12: (0, 4),
    13: (0, 5),
    14: (0, 5),
    15: (0, 6),
    16: (0, 5),
    18: (0, 5),
    19: (2, 7),
    20: (1, 6),
    21: (0, 2),
    22: (0, 5),
    23: (2, 4),
    32: (1, 4),
    33: (0, 2),
    35: (1, 5),
    37: (0, 3),
    42: (0, 3),
    43: (0, 2),
    44: (0, 1),
    45: (0, 1),
    46: (0, 0),
    47: (0, 0),
    57: (0, 2),
    60: (0, 2),
    61: (0, 0),
    74: (0, 1),
    75: (0, 0),
}
_FOR_TOOLS: Final = (20000, 20002)  # BrokerHandshake, DescribeReplicas
_FOR_PEERS: Final = (56, 20001, 20003, 20004, 20005)  # AlterPartition and the rest of our own
# Versions of what brokers say to each other that lack an epoch: a broker that leaves out what
# fences it is not understood.
_WITHOUT_EPOCHS: Final = {56: 2}


def _served() -> dict[int, ServedApi]:
    served = {}
    for key, (low, high) in _FOR_CLIENTS.items():
        served[key] = _one(key, low, high, Audience.CLIENTS)
    for keys, audience in ((_FOR_TOOLS, Audience.TOOLS), (_FOR_PEERS, Audience.PEERS)):
        for key in keys:
            low = max(APIS[key].min_version, _WITHOUT_EPOCHS.get(key, -1) + 1)
            served[key] = _one(key, low, APIS[key].max_version, audience)
    return served


def _one(key: int, low: int, high: int, audience: Audience) -> ServedApi:
    api = APIS[key]
    return ServedApi(
        key=key,
        name=api.name,
        request=api.request,
        response=api.response,
        min_version=low,
        max_version=high,
        min_understood=max(low, api.min_version),
        flexible_from=api.flexible_from,
        tagged_from=NOT_FLEXIBLE if key == API_VERSIONS_KEY else api.flexible_from,
        audience=audience,
    )


SERVED: Final[dict[int, ServedApi]] = _served()


def api_ranges() -> tuple[tuple[int, int, int], ...]:
    """What ApiVersions answers: (key, lowest, highest version) by key."""
    return tuple(
        (api.key, api.min_version, api.max_version)
        for api in sorted(SERVED.values(), key=lambda api: api.key)
        if api.audience is Audience.CLIENTS
    )


def best_version(api_key: int, low: int, high: int) -> int | None:
    """The highest version that we and a broker with that range understand; None without one."""
    api = SERVED[api_key]
    best = min(high, api.max_version)
    return best if best >= max(low, api.min_understood) else None
