"""Frames, headers and versions: every API at every version, whole and broken."""

from collections.abc import Callable
from typing import Final

from tests.conformance.player import BY_NAME
from tests.conformance.steps import Ask, Case, Tamper

from replog.wire import Audience

APIS: Final = sorted(
    (api for api in BY_NAME.values() if api.audience is Audience.CLIENTS), key=lambda api: api.key
)
# With all fields at their defaults these act on everything that there is, other runs' topics too.
NOT_EMPTY: Final = ("DescribeLogDirs", "DescribeTopicPartitions", "ElectLeaders")
# Who is asked, and what chance decides, where that is not b1 and nothing.
ASKED: Final = {"OffsetFetch": "coordinator:"}
HIDDEN: Final = {"FindCoordinator": ("node_id",)}
# Of ApiVersions' answer, where it is not about these.
NOT_HERE: Final = (
    "api_keys",
    "finalized_features_epoch",
    "supported_features",
    "finalized_features",
)
_SOFTWARE: Final = {"client_software_name": "conformance", "client_software_version": "1.0"}


def cut(count: int) -> Callable[[bytes], bytes]:
    """The last bytes are missing."""
    return lambda frame: frame[:-count]


def longer(extra: bytes) -> Callable[[bytes], bytes]:
    """Bytes behind the body."""
    return lambda frame: frame + extra


def version(number: int) -> Callable[[bytes], bytes]:
    """The header names another version."""
    return lambda frame: frame[:2] + number.to_bytes(2, "big", signed=True) + frame[4:]


def key(number: int) -> Callable[[bytes], bytes]:
    """The header names another API."""
    return lambda frame: number.to_bytes(2, "big", signed=True) + frame[2:]


def no_client_id(frame: bytes) -> bytes:
    """A null client id in a header that is not flexible."""
    length = int.from_bytes(frame[8:10], "big")
    return frame[:8] + b"\xff\xff" + frame[10 + length :]


def client_id_length(number: int) -> Callable[[bytes], bytes]:
    """A length of the client id that is not its own."""
    return lambda frame: frame[:8] + number.to_bytes(2, "big", signed=True) + frame[10:]


def header_tag(data: bytes) -> Callable[[bytes], bytes]:
    """Other tagged fields in a flexible header than none."""

    def tamper(frame: bytes) -> bytes:
        at = 10 + int.from_bytes(frame[8:10], "big")
        return frame[:at] + data + frame[at + 1 :]

    return tamper


def whole(api: str, tamper: Tamper | None = None) -> Ask:
    """All fields at their defaults."""
    return Ask(api, to=ASKED.get(api, "b1"), hide=HIDDEN.get(api, ()), own=True, tamper=tamper)


_EMPTY = [
    Case(f"empty.{api.name}", api.name, [whole(api.name)], versions="all")
    for api in APIS
    if api.name not in NOT_EMPTY
]
_CUT = [
    Case(f"cut.{api.name}", api.name, [Ask(api.name, tamper=cut(1))], versions="all")
    for api in APIS
    if api.name not in ("Metadata", "DescribeCluster")
]
_LONGER = [
    Case(f"longer.{api.name}", api.name, [whole(api.name, longer(b"\1\2\3"))], "all")
    for api in APIS
    if api.name not in NOT_EMPTY
]
_UNSUPPORTED = [
    Case(
        f"unsupported.{api.name}.{name}",
        api.name,
        [Ask(api.name, tamper=version(number))],
    )
    for api in APIS
    for name, number in (("above", api.max_version + 1), ("negative", -1), ("highest", 32767))
]
_BELOW = [
    Case(
        f"unsupported.{api.name}.below.{number}", api.name, [Ask(api.name, tamper=version(number))]
    )
    for api in APIS
    for number in range(api.min_understood)
]
_UNKNOWN = [
    Case(f"unknown.key.{number}", "Metadata", [Ask("Metadata", tamper=key(number))])
    for number in (-1, 4, 5, 6, 7, 999, 32767)
]
_HEADERS = [
    Case("header.noclientid", "Metadata", [Ask("Metadata", tamper=no_client_id, own=True)], (1, 8)),
    Case(
        "header.clientid.toolong",
        "Metadata",
        [Ask("Metadata", tamper=client_id_length(5000))],
        (1, 12),
    ),
    Case(
        "header.clientid.negative",
        "ListGroups",
        [Ask("ListGroups", tamper=client_id_length(-2), own=True)],
        (0, 4),
    ),
    Case(
        "header.tag.unknown",
        "DescribeCluster",
        [Ask("DescribeCluster", tamper=header_tag(b"\1\x63\2ab"))],
        (0, 2),
    ),
    Case(
        "header.tag.toolong",
        "DescribeCluster",
        [Ask("DescribeCluster", tamper=header_tag(b"\1\x63\x20ab"))],
        (0,),
    ),
    Case("header.short", "Metadata", [Ask("Metadata", tamper=lambda frame: frame[:7])]),
    Case("header.nothing", "Metadata", [Ask("Metadata", tamper=lambda frame: b"")]),
    Case(
        "header.correlation.negative",
        "ListGroups",
        [Ask("ListGroups", tamper=lambda f: f[:4] + b"\xff\xff\xff\xfe" + f[8:], own=True)],
    ),
]
_VERSIONS = [
    Case(
        "apiversions.served",
        "ApiVersions",
        [
            Ask(
                "ApiVersions",
                _SOFTWARE,
                only={"api_keys": ("api_key", [api.key for api in APIS])},
                hide=("finalized_features_epoch", "supported_features", "finalized_features"),
            )
        ],
        "all",
    ),
    Case(
        "apiversions.features",
        "ApiVersions",
        [Ask("ApiVersions", _SOFTWARE, hide=("api_keys", "finalized_features_epoch"))],
        (3, 4, 5),
    ),
    *(
        Case(
            f"apiversions.software.{name}",
            "ApiVersions",
            [
                Ask(
                    "ApiVersions",
                    {"client_software_name": software, "client_software_version": release},
                    hide=NOT_HERE,
                )
            ],
            (3, 5),
        )
        for name, software, release in (
            ("dots", "a.b-c", "1.0-x"),
            ("dot.first", ".a", "1"),
            ("dot.last", "a.", "1"),
            ("dash.last", "a", "1-"),
            ("underscore", "a_b", "1"),
            ("space", "a b", "1"),
            ("plus", "a", "1+x"),
            ("umlaut", "ä", "1"),
            ("noversion", "a", ""),
            ("noname", "", "1"),
            ("newline", "a\n", "1"),
        )
    ),
    *(
        Case(
            f"apiversions.node.{name}",
            "ApiVersions",
            [
                Ask(
                    "ApiVersions",
                    {**_SOFTWARE, "cluster_id": cluster, "node_id": node},
                    hide=NOT_HERE,
                )
            ],
        )
        for name, cluster, node in (
            ("cluster", "x", -1),
            ("number", None, 1),
            ("wrong", "x", 1),
            ("empty", "", 1),
            ("negative", None, -2),
        )
    ),
]

CASES: Final = [
    *_EMPTY,
    *_CUT,
    *_LONGER,
    *_UNSUPPORTED,
    *_BELOW,
    *_UNKNOWN,
    *_HEADERS,
    *_VERSIONS,
]
