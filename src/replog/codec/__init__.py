"""Messages to bytes and back, for the network and for what is stored in logs."""

from replog.codec.compile import Part, decode, encode, encode_bytes
from replog.codec.errors import MalformedMessage, UnencodableMessage
from replog.codec.primitives import Buffer

__all__ = [
    "Buffer",
    "MalformedMessage",
    "Part",
    "UnencodableMessage",
    "decode",
    "encode",
    "encode_bytes",
]
