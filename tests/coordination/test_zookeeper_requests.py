"""zookeeper.max.in.flight.requests: how many requests wait for their answers at a time."""

from typing import Any, cast

import pytest

from replog.model.config import BrokerConfig
from replog.runtime.coordination.opening import zookeeper_settings
from replog.runtime.coordination.zk_client import ZkClient, ZkSettings
from replog.runtime.coordination.zk_tree import Tree


class Line:
    """Stands for a client whose server answers nothing before it is waited for."""

    kazoo = None
    patience_s = 1.0

    def __init__(self, in_flight_max: int) -> None:
        self.settings = ZkSettings("127.0.0.1:1", in_flight_max=in_flight_max)
        self.open = self.most = 0

    def ask(self, path: str) -> "Answer":
        self.open += 1
        self.most = max(self.most, self.open)
        return Answer(self, path)


class Answer:
    def __init__(self, line: Line, path: str) -> None:
        self._line = line
        self._path = path

    def get(self, timeout: float) -> str:
        self._line.open -= 1
        return self._path.upper()


@pytest.mark.parametrize(("in_flight_max", "count"), [(1, 7), (3, 7), (7, 7), (500, 7), (3, 0)])
def test_no_more_requests_wait_than_may(in_flight_max: int, count: int) -> None:
    pytest.importorskip("kazoo")
    line = Line(in_flight_max)
    paths = [f"/{number}" for number in range(count)]
    found: list[tuple[str, Any]] = Tree(cast(ZkClient, line))._each(line.ask, paths)
    assert found == [(path, path.upper()) for path in paths]
    assert (line.most, line.open) == (min(in_flight_max, count), 0)


def test_the_configuration_says_how_many() -> None:
    given = {"node.id": "1", "zookeeper.connect": "127.0.0.1:1"}
    assert zookeeper_settings(BrokerConfig(given), "127.0.0.1:1").in_flight_max == 500
    given["zookeeper.max.in.flight.requests"] = "10"
    assert zookeeper_settings(BrokerConfig(given), "127.0.0.1:1").in_flight_max == 10
