"""What a connection has yet to send: buffers in memory and ranges of files, in order.

It knows sockets but no event loop: `flush` sends what the socket takes at once and says whether all
of it is gone.
"""

import errno
import os
import socket
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Final

from replog.log.disk import DiskError
from replog.model.records import FileRange, RangeFile
from replog.runtime.limits import (
    BUFFERS_PER_SEND,
    BYTES_PER_FLUSH,
    RANGE_JOINED_BYTES,
    RANGE_READ_BYTES,
)

_Buffer = bytes | bytearray | memoryview
Part = _Buffer | FileRange

# More follows: the header of a fetch response leaves in one packet with the first of its records.
_MORE: Final = getattr(socket, "MSG_MORE", 0)
_SENDFILE_REFUSED: Final = frozenset({errno.ENOSYS, errno.ENOTSUP, errno.EINVAL, errno.ENOTSOCK})


class RangeLost(Exception):
    """A file ended before the range that was to be sent: the stream can't go on."""


class Outbox:
    """A queue of parts. `pending` is their length in bytes, files included."""

    __slots__ = ("_parts", "_range_sent", "_use_sendfile", "pending")

    def __init__(self) -> None:
        self._parts: deque[Part] = deque()
        self._range_sent = 0  # of the first part, when that is a range
        self._use_sendfile = hasattr(os, "sendfile")
        self.pending = 0

    def put(self, parts: Iterable[Part]) -> None:
        """Send these after what is there."""
        pending = self.pending
        for part in parts:
            size = part.length if type(part) is FileRange else len(part)
            if size:
                self._parts.append(part)
                pending += size
        self.pending = pending

    def flush(self, sock: socket.socket) -> bool:
        """Send what the socket takes; False when something is left.

        Raises OSError when the connection is broken, RangeLost when a file has shrunk.
        """
        budget = BYTES_PER_FLUSH
        parts = self._parts
        try:
            while parts:
                if budget <= 0:
                    return False
                first = parts[0]
                if isinstance(first, FileRange) and first.length > RANGE_JOINED_BYTES:
                    budget -= self._send_range(sock, first)
                else:
                    budget -= self._send_buffers(sock)
        except (BlockingIOError, InterruptedError):
            return False
        return True

    def holds(self, file: RangeFile, position: int) -> bool:
        """Whether bytes of `file` from `position` on are still to be sent."""
        return any(
            type(part) is FileRange and part.file is file and part.position + part.length > position
            for part in self._parts
        )

    def clear(self) -> None:
        """Forget everything; the files are no longer held."""
        self._parts.clear()
        self.pending = 0

    def _send_buffers(self, sock: socket.socket) -> int:
        parts = self._parts
        if len(parts) == 1:
            (part,) = parts
            data = _read(part, part.position, part.length) if isinstance(part, FileRange) else part
            batch = [data]
            sent = sock.send(data)
        else:
            batch = []
            flags = 0
            for part in islice(parts, BUFFERS_PER_SEND):
                if not isinstance(part, FileRange):
                    batch.append(part)
                elif part.length <= RANGE_JOINED_BYTES:
                    batch.append(_read(part, part.position, part.length))
                else:
                    flags = _MORE
                    break
            sent = sock.sendmsg(batch, (), flags)
        left = self.pending = self.pending - sent
        if left:
            self._drop(batch, sent)
        else:
            parts.clear()
        return sent

    def _drop(self, batch: list[_Buffer], sent: int) -> None:
        """Of the first parts, which `batch` has in memory, so many bytes are gone."""
        parts = self._parts
        for buffer in batch:
            size = len(buffer)
            if size > sent:
                if sent:
                    parts[0] = memoryview(buffer)[sent:]
                return
            sent -= size
            parts.popleft()

    def _send_range(self, sock: socket.socket, part: FileRange) -> int:
        position = part.position + self._range_sent
        left = part.length - self._range_sent
        sent = self._sendfile(sock, part.file, position, min(left, BYTES_PER_FLUSH))
        if sent is None:
            sent = sock.send(_read(part, position, min(left, RANGE_READ_BYTES)))
        self.pending -= sent
        self._range_sent += sent
        if self._range_sent == part.length:
            self._range_sent = 0
            self._parts.popleft()
        return sent

    def _sendfile(
        self, sock: socket.socket, file: RangeFile, position: int, length: int
    ) -> int | None:
        """Bytes sent from the page cache by the kernel; None where that is not possible."""
        fileno = getattr(file, "fileno", None)
        if fileno is None or not self._use_sendfile:
            return None
        try:
            sent = os.sendfile(sock.fileno(), fileno(), position, length)
        except (BlockingIOError, InterruptedError):
            raise
        except OSError as error:
            if error.errno in _SENDFILE_REFUSED:
                self._use_sendfile = False
                return None
            raise
        if sent == 0:
            raise RangeLost(f"{file!r} ends at {position}")
        return sent


def _read(part: FileRange, position: int, length: int) -> bytes:
    try:
        data = part.file.read(position, length)
    except DiskError as error:
        raise RangeLost(str(error)) from error
    if len(data) < length:
        raise RangeLost(f"{part!r} ends at {position + len(data)}")
    return data
