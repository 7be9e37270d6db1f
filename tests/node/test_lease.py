"""Whether a broker may still take itself for the leader that it was told to be."""

from tests.node.lone import Lone

from replog.model.coordination import WriteDone
from replog.model.inputs import CoordinatorWritten
from replog.model.outputs import CoordinatorWrite


def test_what_was_asked_before_a_broker_slept_again_says_nothing() -> None:
    lone = Lone()
    lone.node.broker_epoch = 101
    asked = []
    for _ in range(2):
        lone.node.lease.overslept(5_000)
        outputs = lone.node._take_outputs()
        asked += [output.token for output in outputs if isinstance(output, CoordinatorWrite)]
    valid = []
    for token in asked:
        lone.step(CoordinatorWritten(token, WriteDone(1)))
        valid.append(lone.node.lease.valid)
    assert valid == [False, True]
