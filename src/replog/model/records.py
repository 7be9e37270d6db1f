"""Record payload on its way through: bytes in memory, or a range of a file that is never copied."""

from typing import Protocol


class RangeFile(Protocol):
    """A file whose bytes can be sent. Real files also have a descriptor that `sendfile` takes."""

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position` on; fewer only at the end of the file."""
        ...


class FileRange:
    """`length` bytes of `file` from `position` on. Holding it keeps the file open."""

    __slots__ = ("file", "length", "position")

    def __init__(self, file: RangeFile, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        """The bytes, copied: for worlds that can't send from a file."""
        return self.file.read(self.position, self.length)

    def __repr__(self) -> str:
        return f"FileRange({self.file!r}, {self.position}, {self.length})"


Records = memoryview | bytes | FileRange | None
