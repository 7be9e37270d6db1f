"""Frames, headers and versions of the protocol. It decides nothing about the cluster."""

from replog.wire.connection import (
    ClientConnection,
    ParsedRequest,
    ServerConnection,
    encode_response,
    parse_request,
)
from replog.wire.errors import (
    CLOSING_ERRORS,
    FrameError,
    OutOfOrder,
    UnknownApi,
    UnsupportedVersion,
    WireError,
)
from replog.wire.frame import FrameBuffer
from replog.wire.versions import SERVED, Audience, ServedApi, api_ranges, best_version

__all__ = [
    "CLOSING_ERRORS",
    "SERVED",
    "Audience",
    "ClientConnection",
    "FrameBuffer",
    "FrameError",
    "OutOfOrder",
    "ParsedRequest",
    "ServedApi",
    "ServerConnection",
    "UnknownApi",
    "UnsupportedVersion",
    "WireError",
    "api_ranges",
    "best_version",
    "encode_response",
    "parse_request",
]
