"""The end of a run: when everything was mended, what must have become good again, and what clients
hold in hand.

`still_wrong` is asked again and again until nothing is; `audit` then compares everything with
everything.
"""

import re
from collections.abc import Collection, Iterator

from replog.log.disk import Disk
from replog.log.identity import topic_id_of
from replog.log.results import LogRead
from replog.model.ids import TopicPartition
from replog.node.partition import Partition
from replog.records.batch import read_records
from replog.records.header import crc_ok, iterate
from replog.sim.history import Sent
from replog.sim.host import Host
from replog.sim.lives import TOPIC
from replog.sim.violation import Violation
from replog.sim.world import World

READ_BYTES = 1 << 20
LIFE_FOLDER = re.compile(rf"{TOPIC}-\d+")  # one that is not set aside


def still_wrong(world: World) -> list[str]:
    """What keeps the healed world from rest."""
    if not world.admin.finished:
        return ["the topics are not made"]
    if world.lives is not None and not world.lives.settled:
        return [f"{world.lives.name} does not get its topic"]
    problems = [*_records_wrong(world)]
    for host in world.hosts:
        problems.extend(_host_wrong(world, host))
    for producer in world.producers:
        if not producer.finished:
            problems.append(f"{producer.name} has {producer.open_batches} batches open")
    for committer in world.committers:
        if not committer.finished:
            problems.append(f"{committer.name} can't read back what it committed")
    for consumer in world.consumers:
        for tp in world.partitions:
            position, end = consumer.position(tp), _end(world, tp)
            if position != end:
                problems.append(f"{consumer.name} is at {position} of {end} in {tp}")
    return problems


def _records_wrong(world: World) -> Iterator[str]:
    records = {record.name: record for record in world.oracle.records.records.values()}
    for tp in world.all_partitions():
        record = records[str(tp)]
        if record.leader == -1:
            yield f"{tp} has no leader: {record}"
        elif set(record.isr) != set(record.replicas):
            yield f"{tp}: ISR {record.isr} of {record.replicas}"


def _host_wrong(world: World, host: Host) -> Iterator[str]:
    if host.life is None or host.life.paused:
        yield f"{host.place} does not run"
        return
    wanted = world.all_partitions()
    for tp in wanted:
        partition = host.life.node.partitions.get(tp)
        if partition is None or partition.offline_reason is not None:
            yield f"{host.place} has no {tp}"
            continue
        end, high_watermark = partition.log_end_offset, partition.high_watermark
        committed = world.oracle.committed_log(partition.topic_id, tp.partition).end
        if not end == high_watermark == committed:
            yield f"{host.place} {tp}: LEO {end}, HW {high_watermark}, committed {committed}"
    for disk in host.disks:
        for name in left_over(disk, wanted):
            yield f"{host.place} still has {name}"


def left_over(disk: Disk, wanted: Collection[TopicPartition]) -> list[str]:
    """Folders of partitions that are gone. One that names no topic, as a power cut may leave it, is
    none: brokers leave it alone, for it may be anyone's."""
    names = set(filter(LIFE_FOLDER.fullmatch, disk.list(""))).difference(map(str, wanted))
    return sorted(name for name in names if topic_id_of(disk, name) is not None)


def _end(world: World, tp: TopicPartition) -> int:
    ends = [0]
    for host in world.hosts:
        partition = None if host.life is None else host.life.node.partitions.get(tp)
        if partition is not None:
            ends.append(partition.log_end_offset)
    return max(ends)


def audit(world: World) -> dict[TopicPartition, int]:
    """Compare all logs byte by byte and check what clients were promised. Returns the ends."""
    ends = {}
    for tp in world.all_partitions():
        partitions = [_partition(host, tp) for host in world.hosts]
        start = max(partition.log_start_offset for partition in partitions)
        logs = [_bytes_of(partition, start) for partition in partitions]
        for host, data in zip(world.hosts, logs, strict=True):
            if data != logs[0]:
                raise Violation("replicas are equal byte by byte", f"{tp} on {host.place}")
        ends[tp] = _check_bytes(tp, logs[0])
        if tp.topic == TOPIC:
            _check_life(world, partitions[0], logs[0])
        else:
            _check_history(world, partitions[0], start, logs[0])
    return ends


def _partition(host: Host, tp: TopicPartition) -> Partition:
    assert host.life is not None
    partition = host.life.node.partitions.get(tp)
    assert partition is not None
    return partition


def _check_history(world: World, partition: Partition, start: int, data: bytes) -> None:
    """Compare what clients were promised with the log, from offset `start` on."""
    tp, topic_id = partition.tp, partition.topic_id
    lossy = world.oracle.may_have_lost(topic_id, tp.partition)
    records = list(read_records(data))
    offsets = {record.value: record.offset for record in records}
    in_order = [record.value for record in records]
    for (_, sent_to), sent in world.history.sent.items():
        if sent_to != tp:
            continue
        for value, offset in sent.acknowledged.items():
            if offset >= start and not world.oracle.was_lost(topic_id, tp.partition, offset):
                _check_acknowledged(tp, sent, value, offset, offsets.get(value))
        if sent.idempotent and not lossy:
            _check_order(tp, sent, in_order, trimmed=start > 0)


def _check_life(world: World, partition: Partition, data: bytes) -> None:
    tp, topic_id = partition.tp, partition.topic_id
    lost = world.oracle.replicas.committed((topic_id, tp.partition)).lost
    excused = (offset for batch in lost for offset in range(batch.base, batch.next))
    assert world.lives is not None
    world.lives.audit(topic_id, tp, data, excused)


def _bytes_of(partition: Partition, start: int) -> bytes:
    """The log from `start` up to its high watermark."""
    data = bytearray()
    offset = start
    while offset < partition.high_watermark:
        read = partition.log.read(offset, READ_BYTES, upto=partition.high_watermark, min_one=True)
        assert isinstance(read, LogRead)
        assert read.range is not None
        part = read.range.read()
        data += part
        offset = iterate(part)[-1].next_offset
    return bytes(data)


def _check_bytes(tp: TopicPartition, data: bytes) -> int:
    end = 0
    for batch in iterate(data):
        if not crc_ok(data, batch):
            raise Violation("batches stay unharmed", f"{tp}: {batch!r}")
        end = batch.next_offset
    return end


def _check_acknowledged(
    tp: TopicPartition, sent: Sent, value: bytes, offset: int, found: int | None
) -> None:
    if found is None:
        raise Violation("no acknowledged record is lost", f"{tp}: {value!r} at {offset}")
    if sent.idempotent and found != offset:
        raise Violation(
            "an acknowledged record is at the offset that was told",
            f"{tp}: {value!r} at {found} instead of {offset}",
        )


def _check_order(
    tp: TopicPartition, sent: Sent, in_order: list[bytes | None], *, trimmed: bool
) -> None:
    mine = set(sent.values)
    found = [value for value in in_order if value in mine]
    wanted = sent.values[len(sent.values) - len(found) :] if trimmed else sent.values
    if found != wanted:
        raise Violation(
            "an idempotent producer's records are there once and in order",
            f"{tp}: {sent.producer} sent {len(sent.values)}, {len(found)} are there",
        )
