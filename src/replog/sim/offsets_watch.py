"""The oracle's view of what coordinators of groups tell: it is in the log, and committed.

An offset that is told too early is mostly committed a moment later, and clients notice nothing. So
this looks at the log behind the answer.
"""

from collections.abc import Iterator
from contextlib import suppress

from replog.log.errors import LogCorrupt
from replog.log.results import LogRead
from replog.model.ids import TopicPartition
from replog.model.messages.offset_fetch import OffsetFetchResponse
from replog.node.group_storage import OffsetStored, from_record
from replog.node.partition import Partition
from replog.records.batch import read_records
from replog.records.errors import CorruptBatch
from replog.records.header import crc_ok, iterate
from replog.sim.broker import Life
from replog.sim.violation import Violation

READ_BYTES = 1 << 20


def judge_offsets(life: Life, message: OffsetFetchResponse) -> None:
    """`life` answers with offsets. Raises Violation."""
    node = life.node
    for group in message.groups:
        home = node.partitions.get(node.groups.partition_of(group.group_id))
        if home is None or not home.is_leader:
            continue
        told = {
            (TopicPartition(name, part.partition_index), part.committed_offset)
            for topic in group.topics
            for name in (topic.name or node.cluster.topic_names.get(topic.topic_id, ""),)
            for part in topic.partitions
            if not part.error_code and part.committed_offset >= 0
        }
        with suppress(LogCorrupt, CorruptBatch), life.host.troubles.put_off():
            missing = told.difference(_committed(home, group.group_id))
            if missing:
                raise Violation(
                    "a coordinator tells what is committed",
                    f"{life.name} {home.tp}, group {group.group_id}: {missing} is not in the log "
                    f"below HW {home.high_watermark}",
                )


def _committed(home: Partition, group_id: str) -> Iterator[tuple[TopicPartition, int]]:
    """Every offset of a group that is in the log below the high watermark. Raises CorruptBatch
    where something in the log has rotted, and nobody can tell."""
    for data in _reads(home):
        if not all(crc_ok(data, batch) for batch in iterate(data)):
            raise CorruptBatch("it has rotted")
        for record in read_records(data):
            match from_record(record):
                case OffsetStored(group, tp, committed) if committed and group == group_id:
                    yield tp, committed.offset


def _reads(home: Partition) -> Iterator[bytes]:
    offset, end = home.log_start_offset, home.high_watermark
    while offset < end:
        read = home.log.read(offset, READ_BYTES, upto=end, min_one=True)
        if not isinstance(read, LogRead) or read.range is None:
            return  # compaction left nothing behind this offset
        data = read.range.read()
        yield data
        offset = iterate(data)[-1].next_offset
