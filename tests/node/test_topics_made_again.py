"""What a log folder's files say of a topic does not hold for a later one of the same name."""

import pytest
from tests.node.lone import Lone, batch, record, topic_id

from replog.log import checkpoints
from replog.model.cluster import TopicRecord
from replog.model.ids import TopicPartition

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize("name", [checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS])
def test_files_forget_the_earlier_topic_before_the_later_one_has_a_record(name: str) -> None:
    """Or a restart would take records for committed that are not, or for flushed, and so not look
    at what a power cut has left of them."""
    lone = Lone()
    lone.topic("t", record(1))
    for _ in range(10):
        assert lone.produce("t", batch(b"old")).error_code == 0
    lone.partition("t").log.flush()
    folder = lone.node.partitions.logs.folders[0]
    folder.write_recovery_points()
    folder.write_high_watermarks()
    lone.tick(1)
    lone.run_jobs()
    assert checkpoints.read(lone.disk, name)[0] == {T0: 10}

    lone.node.cluster.remove_topic("t")
    lone.node.partitions.apply([], [("t", topic_id("t"))])
    lone.node.cluster.put_topic(TopicRecord("t", b"another topic id", [record(1)], {}))
    lone.node.partitions.apply([T0], [])

    assert checkpoints.read(lone.disk, name)[0].get(T0, 0) == 0
    assert lone.produce("t", batch(b"new")).base_offset == 0
