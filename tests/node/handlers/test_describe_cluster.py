"""DescribeCluster: brokers as a client reaches them."""

import pytest
from tests.node.handlers.one_broker import CLUSTER_ID, OneBroker

from replog.model.cluster import BrokerState
from replog.model.errors import ErrorCode
from replog.model.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)


def test_brokers_and_controller() -> None:
    broker = OneBroker()
    broker.broker(2, rack="r2")
    answer = broker.ask(DescribeClusterRequest(), DescribeClusterResponse)
    assert (answer.cluster_id, answer.controller_id) == (CLUSTER_ID, 3)
    assert [(b.broker_id, b.host, b.port, b.rack, b.is_fenced) for b in answer.brokers] == [
        (1, "plaintext.host1", 9092, None, False),
        (2, "plaintext.host2", 9093, "r2", False),
        (3, "plaintext.host3", 9094, None, False),
    ]
    assert answer.cluster_authorized_operations == -(1 << 31)


def test_operations_are_told_when_asked_for() -> None:
    message = DescribeClusterRequest(include_cluster_authorized_operations=True)
    answer = OneBroker().ask(message, DescribeClusterResponse)
    assert answer.cluster_authorized_operations == 8096


def test_fenced_brokers_are_shown_only_when_asked_for() -> None:
    broker = OneBroker()
    broker.broker(2, state=BrokerState.FENCED)
    broker.broker(3, state=BrokerState.CONTROLLED_SHUTDOWN)
    shown = broker.ask(DescribeClusterRequest(), DescribeClusterResponse).brokers
    assert [b.broker_id for b in shown] == [1, 3]
    message = DescribeClusterRequest(include_fenced_brokers=True)
    shown = broker.ask(message, DescribeClusterResponse).brokers
    assert [(b.broker_id, b.is_fenced) for b in shown] == [(1, False), (2, True), (3, False)]


@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_only_brokers_are_endpoints(endpoint_type: int, error: ErrorCode) -> None:
    message = DescribeClusterRequest(endpoint_type=endpoint_type)
    answer = OneBroker().ask(message, DescribeClusterResponse)
    assert answer.error_code == error
    assert answer.error_message
    assert (answer.cluster_id, answer.controller_id, answer.brokers) == ("", -1, [])
