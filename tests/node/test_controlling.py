import pytest
from tests.node.town import Town

from replog.model.ids import TopicPartition


@pytest.fixture
def town() -> Town:
    town = Town()
    town.start()
    town.run(100)
    return town


def test_a_cluster_comes_up_with_one_controller(town: Town) -> None:
    assert town.controller == 0
    for broker_id in town.brokers:
        node = town.node(broker_id)
        assert node.membership.active
        assert sorted(node.cluster.brokers) == [0, 1, 2]
        assert node.cluster.controller_id == 0
        assert node.cluster.brokers[broker_id].broker_epoch == node.broker_epoch


def test_the_walk_through(town: Town) -> None:
    town.create("t", [1, 0, 2], [2, 1, 0], [0, 2, 1])
    rows = [(1, [1, 0, 2]), (2, [2, 1, 0]), (0, [0, 2, 1])]
    assert town.everybody_sees("t", *rows)
    town.stop(0)
    town.run_until(lambda: town.lives[0].stopped)
    assert town.lives[0].stopped is not None
    assert not town.lives[0].stopped.failed
    town.run_until(lambda: town.everybody_sees("t", (1, [1, 2]), (2, [2, 1]), (2, [2, 1])))
    town.stop(2)
    town.run_until(lambda: town.everybody_sees("t", (1, [1]), (1, [1]), (1, [1])))
    town.start(0)
    town.run_until(lambda: town.everybody_sees("t", *[(1, [1, 0])] * 3))
    town.start(2)
    town.run_until(lambda: town.everybody_sees("t", *[(1, [1, 0, 2])] * 3))
    town.kill(1)
    town.run_until(lambda: town.everybody_sees("t", (0, [0, 2]), (2, [0, 2]), (0, [0, 2])))
    assert town.record(0, "t", 1).leader_epoch > 0
    assert TopicPartition("t", 0)
