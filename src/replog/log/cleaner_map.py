"""Which offset holds the newest record of each key, for one pass of compaction. Bounded."""

from hashlib import blake2b
from typing import Final

# What one key takes: its digest, its offset, and its share of the table, while that grows too.
BYTES_PER_KEY: Final = 256

_DIGEST_BYTES: Final = 16  # two of a billion billion keys share one; no client can make them


def keys_within(buffer_bytes: int) -> int:
    """How many keys `log.cleaner.dedupe.buffer.size` has room for: one at least."""
    return max(1, buffer_bytes // BYTES_PER_KEY)


class KeyMap:
    """Digests of keys with the largest offset that was put for each."""

    __slots__ = ("_keys_max", "_offsets")

    def __init__(self, keys_max: int) -> None:
        self._keys_max = keys_max
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def has_room(self, keys: int) -> bool:
        """Whether so many more can be put. An empty map always has room: a pass must get on."""
        return not self._offsets or len(self._offsets) + keys <= self._keys_max

    def put(self, key: bytes, offset: int) -> None:
        """The record at `offset`, behind all that were put before, has this key."""
        self._offsets[_digest(key)] = offset

    def newest(self, key: bytes) -> int:
        """The offset of the newest record with this key, -1 when none was put."""
        return self._offsets.get(_digest(key), -1)


def _digest(key: bytes) -> bytes:
    """`key` itself when it is shorter than a digest, so that it can't be taken for one."""
    return key if len(key) < _DIGEST_BYTES else blake2b(key, digest_size=_DIGEST_BYTES).digest()
