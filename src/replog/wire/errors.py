"""Reasons to close a connection. Each is told in one line and hurts no other connection."""

from replog.codec import MalformedMessage


class WireError(ValueError):
    """The other side breaks the protocol below the level of messages."""


class FrameError(WireError):
    """A frame has a size that is negative or above the limit."""


class UnknownApi(WireError):
    """There is no such API here, or not for this connection."""


class UnsupportedVersion(WireError):
    """The API is served, but not at this version."""


class OutOfOrder(WireError):
    """A response is not the one whose turn it is."""


# What `ServerConnection.received` and `ClientConnection.response` raise when the bytes are wrong.
CLOSING_ERRORS = (WireError, MalformedMessage)
