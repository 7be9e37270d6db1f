"""The messages of the protocol, version-free, one module for each API."""

from replog.model.messages.base import (
    NEW_LIST,
    NOT_FLEXIBLE,
    VERSION_MAX,
    ZERO_UUID,
    Api,
    Data,
    Field,
    Message,
    Request,
    Response,
    Struct,
)
from replog.model.messages.registry import APIS

__all__ = [
    "APIS",
    "NEW_LIST",
    "NOT_FLEXIBLE",
    "VERSION_MAX",
    "ZERO_UUID",
    "Api",
    "Data",
    "Field",
    "Message",
    "Request",
    "Response",
    "Struct",
]
