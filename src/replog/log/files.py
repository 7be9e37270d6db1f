"""Names of folders and files, and the small text files of a partition's folder."""

from replog.log.disk import Disk
from replog.model.ids import topic_id_from_text, topic_id_text

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
SNAPSHOT_SUFFIX = ".snapshot"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
LOG_FILE_SUFFIXES = (
    LOG_SUFFIX,
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
DELETED_FOLDER_SUFFIX = "-delete"
STRAY_FOLDER_SUFFIX = "-stray"
PARTITION_METADATA = "partition.metadata"
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"

_FOLDER_NAME_MAX = 255  # bytes, of every file system in use
_METADATA_VERSION = 0


def stem(directory: str, base_offset: int) -> str:
    """Path of a segment's files without their suffix."""
    return f"{directory}/{base_offset:020d}"


def base_offset_of(name: str, suffix: str) -> int | None:
    """The offset in a segment file's name; None when `name` is none with this suffix."""
    digits = name.removesuffix(suffix)
    if digits == name or len(digits) != 20 or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits)


def folder_for_deletion(directory: str, token: bytes) -> str:
    """The name under which a partition's folder waits for its removal; `token` has 16 bytes."""
    return _with_ending(directory, f".{token.hex()}{DELETED_FOLDER_SUFFIX}")


def stray_folder(directory: str, token: bytes) -> str:
    """The name of a folder that is set aside because nobody knows which topic it belongs to."""
    return _with_ending(directory, f".{token.hex()}{STRAY_FOLDER_SUFFIX}")


def _with_ending(directory: str, ending: str) -> str:
    topic, dash, partition = directory.rpartition("-")
    room = _FOLDER_NAME_MAX - len(dash) - len(partition) - len(ending)
    return f"{topic[:room]}{dash}{partition}{ending}"


def write_unsynced(disk: Disk, path: str, data: bytes) -> None:
    """Replace a small file atomically, not durably: it outlives the process, not a power cut."""
    temporary = path + ".tmp"
    file = disk.open(temporary, create=True)
    try:
        file.truncate(0)
        file.append((data,))
    finally:
        file.close()
    disk.rename(temporary, path)


def metadata_text(topic_id: bytes) -> bytes:
    return f"version: {_METADATA_VERSION}\ntopic_id: {topic_id_text(topic_id)}".encode()


def parse_metadata(data: bytes) -> bytes | None:
    """The topic id in `partition.metadata`; None when it can't be read there."""
    try:
        lines = data.decode("ascii").splitlines()
        fields = dict(line.split(": ", 1) for line in lines if line)
        if fields.get("version") != str(_METADATA_VERSION):
            return None
        return topic_id_from_text(fields["topic_id"])
    except (ValueError, KeyError):
        return None
