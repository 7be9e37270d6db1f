"""Names that topics can have.

A name is also the name of a folder and, in metrics, of a label in which `.` and `_` are the same
character: hence the alphabet, the length and the rule on collisions.
"""

from collections.abc import Iterable

# A folder is NAME-PARTITION, and file systems end names at 255 bytes; Kafka's limit.
NAME_CHARACTERS_MAX = 249

_ALPHABET = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def topic_name_fault(name: str) -> str | None:
    """Why no topic can have this name, or None when one can. For INVALID_TOPIC_EXCEPTION (17)."""
    if not name:
        return "a topic's name can't be empty"
    if name in (".", ".."):
        return f"a topic can't be named {name!r}"
    if len(name) > NAME_CHARACTERS_MAX:
        return (
            f"a topic's name has at most {NAME_CHARACTERS_MAX} characters; this one has {len(name)}"
        )
    if not _ALPHABET.issuperset(name):
        return f"topic name {name!r}: only ASCII letters, digits, '.', '_' and '-' are allowed"
    return None


class MetricNames:
    """The names of topics as they are in metrics. No new topic may have one that is there."""

    def __init__(self, topics: Iterable[str]) -> None:
        self._topics = {_in_metrics(name): name for name in topics}

    def twin(self, name: str) -> str | None:
        """The topic that differs from `name` only by `.` against `_`."""
        found = self._topics.get(_in_metrics(name))
        return None if found == name else found


def _in_metrics(name: str) -> str:
    return name.replace(".", "_")
