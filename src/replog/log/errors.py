"""Why a log can't be used, or does not take what it is given.

`DiskError` (from `disk`) is the third one: the file system refused. All of them concern one
partition: the node takes it offline on this broker, and says so.
"""


class LogCorrupt(Exception):
    """What is on disk can't be used as this partition's log; the text names the file and why."""


class DamagedBatch(LogCorrupt):
    """A batch is not as it was written: its CRC does not match."""


class TopicIdMismatch(LogCorrupt):
    """The folder belongs to another topic of the same name: `found` is that one's id."""

    def __init__(self, directory: str, *, found: bytes, expected: bytes) -> None:
        super().__init__(f"{directory} holds topic id {found.hex()}, expected {expected.hex()}")
        self.found = found


class OffsetsNotContiguous(Exception):
    """Fetched batches do not begin where the log ends; nothing was appended."""

    def __init__(self, expected: int, found: int) -> None:
        super().__init__(f"the log ends at {expected}, the next batch begins at {found}")
        self.expected = expected
        self.found = found
