"""Which topic a folder belongs to: `partition.metadata`, and what is done when it does not say."""

from replog.log import files
from replog.log.disk import Disk
from replog.log.errors import TopicIdMismatch
from replog.log.results import RecoveryReport


def topic_id_of(disk: Disk, directory: str) -> bytes | None:
    """The id (16 bytes) in the folder's `partition.metadata`; None when it tells none."""
    data = disk.read_file(f"{directory}/{files.PARTITION_METADATA}")
    return None if data is None else files.parse_metadata(data)


def identify(disk: Disk, directory: str, topic_id: bytes, report: RecoveryReport) -> None:
    """Make the folder when there is none, and see that it is this topic's.

    The file with the id is made before any log, so records without an id come from a power cut or
    from elsewhere. Nobody knows then which topic of this name they belong to, and to serve another
    one's records is worse than to have none: the folder is set aside. Without records, nothing of
    the log is kept. Raises TopicIdMismatch,
    DiskError.
    """
    names = disk.list(directory)
    if not names:
        disk.make_directory(directory)
        _write(disk, directory, topic_id)
        return
    found = topic_id_of(disk, directory)
    if found is not None and found != topic_id:
        raise TopicIdMismatch(directory, found=found, expected=topic_id)
    if found is None:
        if any(_holds_records(disk, f"{directory}/{name}") for name in names):
            _set_aside(disk, directory, topic_id, report)
        else:
            _remove_leftovers(disk, directory, names)
        _write(disk, directory, topic_id)


def sync_identity(disk: Disk, directory: str) -> None:
    """The file with the id, and the names in and of the folder, are durable. Raises DiskError."""
    file = disk.open(f"{directory}/{files.PARTITION_METADATA}")
    try:
        file.sync()
    finally:
        file.close()
    disk.sync_directory(directory)
    disk.sync_directory("")


def _write(disk: Disk, directory: str, topic_id: bytes) -> None:
    path = f"{directory}/{files.PARTITION_METADATA}"
    files.write_unsynced(disk, path, files.metadata_text(topic_id))


def _holds_records(disk: Disk, path: str) -> bool:
    if not path.endswith(files.LOG_SUFFIX):
        return False
    file = disk.open(path)
    try:
        return file.size() > 0
    finally:
        file.close()


def _remove_leftovers(disk: Disk, directory: str, names: list[str]) -> None:
    """What a power cut left of a log without its records: offsets and epochs of any topic."""
    for name in names:
        if name.endswith(files.LOG_FILE_SUFFIXES) or name == files.LEADER_EPOCH_CHECKPOINT:
            disk.remove(f"{directory}/{name}")


def _set_aside(disk: Disk, directory: str, topic_id: bytes, report: RecoveryReport) -> None:
    number = int.from_bytes(topic_id, "big")
    stray = files.stray_folder(directory, topic_id)
    while disk.exists(stray):
        number = (number + 1) % 2**128
        stray = files.stray_folder(directory, number.to_bytes(16, "big"))
    disk.rename(directory, stray)
    disk.make_directory(directory)
    report.stray_folder = stray
    report.reasons.append(f"{directory} does not say which topic it holds, and is now {stray}")
