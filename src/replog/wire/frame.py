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

SIZE_BYTES: Final = 4  # in front of every frame

_read_size = struct.Struct(">i").unpack_from


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
        if self._writable is not None:
            self._release()
        if self._start:
            self._make_room()
        if self._end == len(self._buffer):
            self._grow()
        self._writable = room = memoryview(self._buffer)[self._end :]
        return room

    def wrote(self, count: int) -> None:
        """The first `count` bytes of the last `writable` were received."""
        room = self._writable
        if room is None or not 0 <= count <= len(room):
            raise ValueError(f"{count} bytes in a room of {0 if room is None else len(room)}")
        room.release()
        self._writable = None
        self._end += count

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its size, or None if more has to be received.

        Raises FrameError when the claimed size is negative or above the limit; the stream is of no
        use then.
        """
        start, received = self._start, self._end
        if received - start < SIZE_BYTES:
            self._wanted = 0
            return None
        (size,) = _read_size(self._buffer, start)
        if not 0 <= size <= self.size_max:
            raise FrameError(f"a frame claims {size} bytes, the limit is {self.size_max}")
        first = start + SIZE_BYTES
        end: int = first + size
        if end > received:
            self._wanted = end - start
            return None
        self._start = end
        self._wanted = 0
        return memoryview(self._buffer)[first:end]

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
        """What is buffered moves to the front, when that is worth it and nobody looks at it."""
        buffered = self._end - self._start
        if buffered > MOVED_FREELY_MAX and not self._worth_moving(buffered):
            return
        try:  # a bytearray of which a view is alive refuses to change its size
            last = self._buffer.pop()
        except BufferError:
            fresh = bytearray(max(len(self._buffer), FIRST_CAPACITY))
            fresh[:buffered] = memoryview(self._buffer)[self._start : self._end]
            self._replace(fresh, buffered)
            return
        self._buffer.append(last)
        if buffered:
            self._buffer[:buffered] = self._buffer[self._start : self._end]
        self._start, self._end = 0, buffered

    def _worth_moving(self, buffered: int) -> bool:
        return self._start + max(self._wanted, buffered + 1) > len(self._buffer)

    def _grow(self) -> None:
        """The buffer is full from its beginning on with a part of one frame, or there is none."""
        buffered = self._end - self._start
        double = 2 * len(self._buffer)
        capacity = max(FIRST_CAPACITY, min(double, self._wanted or double))
        fresh = bytearray(capacity)
        fresh[:buffered] = self._buffer
        self._replace(fresh, buffered)

    def _replace(self, buffer: bytearray, buffered: int | None = None) -> None:
        self._buffer = buffer
        self._start = 0
        self._end = len(buffer) if buffered is None else buffered
