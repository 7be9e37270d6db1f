"""Writes that wait for their commit: each is answered with the high watermark that reaches it."""

from tests.node.lone import Lone, batch, record

from replog.model.errors import ErrorCode
from replog.model.inputs import PeerIdentity


def test_a_repeated_batch_behind_a_later_write_is_answered_when_it_is_committed() -> None:
    lone = Lone()
    lone.topic("t", record(1, 2))
    first, second, again = (
        lone.send("t", batch(b"v", producer=(7, 0, sequence)), acks=-1) for sequence in (0, 1, 0)
    )
    lone.node.partitions.follower_fetched(lone.partition("t"), PeerIdentity(2, 102), 1)
    lone.tick(1)
    assert lone.leader("t").high_watermark == 1
    for token in (first, again):
        answer = lone.answer(token)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
    assert not lone.replies(second)
