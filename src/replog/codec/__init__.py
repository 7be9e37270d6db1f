"""Messages to bytes and back, for the network and for what is stored in logs."""

from replog.codec.compile import Part, decode, encode, encode_bytes, prepare
from replog.codec.errors import MalformedMessage, UnencodableMessage
from replog.codec.primitives import ANY_NUMBER, Buffer
from replog.codec.stored import (
    decode_key,
    decode_oldest,
    decode_value,
    encode_key,
    encode_value,
    prefix_of,
)

__all__ = [
    "ANY_NUMBER",
    "Buffer",
    "MalformedMessage",
    "Part",
    "UnencodableMessage",
    "decode",
    "decode_key",
    "decode_oldest",
    "decode_value",
    "encode",
    "encode_bytes",
    "encode_key",
    "encode_value",
    "prefix_of",
    "prepare",
]
