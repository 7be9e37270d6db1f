"""Frames out of a stream: four bytes of size, then so many bytes.

One buffer for each connection is received into and parsed in place. A frame is a view of it, and
stays valid as long as somebody holds a view of any part: bytes are only written over when nobody
does. Who keeps a view for long makes the connection take a new buffer for the next frame.
"""

import struct
from typing import Final

from replog.wire.errors import FrameError

FIRST_CAPACITY: Final = 64 * 1024  # bytes; holds the usual request, and grows by doubling
MOVED_FREELY_MAX: Final = 4096  # bytes; a remainder up to this is moved to the front at once

_SIZE: Final = struct.Struct(">i")


class FrameBuffer:
    """What has come in and is not consumed yet.

    `size_max` is the limit in bytes for the size that a frame claims. The buffer follows what was
    received, not the claim: it never has more than the larger of FIRST_CAPACITY and twice what has
    arrived of a frame.
    """

    __slots__ = ("_buffer", "_end", "_start", "_wanted", "_writable", "size_max")

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self._buffer = bytearray()
        self._start = 0  # of what is not consumed
        self._end = 0  # of what was received
        self._wanted = 0  # bytes that the frame at _start takes with its size; 0 if not known yet
        self._writable: memoryview | None = None

    @property
    def buffered(self) -> int:
        """Bytes received and not handed out."""
        return self._end - self._start

    @property
    def capacity(self) -> int:
        """Bytes of memory held."""
        return len(self._buffer)

    def writable(self) -> memoryview:
        """Where to receive into, never empty. It is valid until `wrote`.

        Take all frames with `next_frame` first: room is made only behind what is buffered.
        """
        self._release()
        self._make_room()
        self._writable = memoryview(self._buffer)[self._end :]
        return self._writable

    def wrote(self, count: int) -> None:
        """The first `count` bytes of the last `writable` were received."""
        self._release()
        if not 0 <= count <= len(self._buffer) - self._end:
            raise ValueError(f"{count} bytes in a room of {len(self._buffer) - self._end}")
        self._end += count

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its size, or None if more has to be received.

        Raises FrameError when the claimed size is negative or above the limit; the stream is of no
        use then.
        """
        buffered = self._end - self._start
        if buffered < _SIZE.size:
            self._wanted = 0
            return None
        (size,) = _SIZE.unpack_from(self._buffer, self._start)
        if not 0 <= size <= self.size_max:
            raise FrameError(f"a frame claims {size} bytes, the limit is {self.size_max}")
        self._wanted = size + _SIZE.size
        if buffered < self._wanted:
            return None
        first = self._start + _SIZE.size
        self._start = first + size
        self._wanted = 0
        return memoryview(self._buffer)[first : self._start]

    def shrink(self) -> None:
        """Gives back what memory it can; for a connection that has been idle.

        It costs fresh pages later, so a busy connection keeps its buffer.
        """
        self._release()
        remainder = self._buffer[self._start : self._end]
        if len(remainder) < len(self._buffer):
            self._replace(remainder)

    def _release(self) -> None:
        if self._writable is not None:
            self._writable.release()
            self._writable = None

    def _make_room(self) -> None:
        buffered = self._end - self._start
        if self._start and self._worth_moving(buffered):
            if self._is_viewed():
                fresh = bytearray(max(len(self._buffer), FIRST_CAPACITY))
                fresh[:buffered] = memoryview(self._buffer)[self._start : self._end]
                self._replace(fresh, buffered)
            else:
                self._buffer[:buffered] = self._buffer[self._start : self._end]
                self._start, self._end = 0, buffered
        if self._end == len(self._buffer):
            self._grow(buffered)

    def _worth_moving(self, buffered: int) -> bool:
        if buffered <= MOVED_FREELY_MAX:
            return True
        return self._start + max(self._wanted, buffered + 1) > len(self._buffer)

    def _grow(self, buffered: int) -> None:
        """The buffer is full from its beginning on with a part of one frame, or there is none."""
        double = 2 * len(self._buffer)
        capacity = max(FIRST_CAPACITY, min(double, self._wanted or double))
        fresh = bytearray(capacity)
        fresh[:buffered] = self._buffer
        self._replace(fresh, buffered)

    def _replace(self, buffer: bytearray, buffered: int | None = None) -> None:
        self._buffer = buffer
        self._start = 0
        self._end = len(buffer) if buffered is None else buffered

    def _is_viewed(self) -> bool:
        """Whether a view of the buffer is alive: a bytearray then refuses to change its size."""
        try:
            last = self._buffer.pop()
        except BufferError:
            return True
        self._buffer.append(last)
        return False
