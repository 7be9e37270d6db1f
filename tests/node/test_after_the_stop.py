"""What still comes in when a broker has stopped in good order, before its process ends."""

from tests.node.lone import Lone, batch, record

from replog.log.checkpoints import CLEAN_SHUTDOWN
from replog.model.inputs import StopRequested
from replog.model.outputs import Report, Stopped


def test_a_request_in_the_turn_of_the_stop_finds_no_broken_disk() -> None:
    lone = Lone()
    lone.topic("t", record(1))
    assert lone.produce("t", batch(b"before")).error_code == 0
    lone.step(StopRequested())
    said = len(lone.outputs)
    assert isinstance(lone.outputs[-1], Stopped)
    token = lone.send("t", batch(b"after"))
    lone.tick(60_000)
    assert lone.replies(token) == []
    assert not [o for o in lone.outputs[said:] if isinstance(o, Report | Stopped)]
    assert lone.disk.exists(CLEAN_SHUTDOWN)
