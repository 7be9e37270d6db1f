"""Which handler answers which request.

Two kinds: what anybody may ask of any broker (what only the controller carries out is passed on to
it by the handler), and what only a broker of this cluster may say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from replog.model.inputs import Received
from replog.model.messages import Message
from replog.model.messages.alter_configs import AlterConfigsRequest
from replog.model.messages.alter_partition import AlterPartitionRequest
from replog.model.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from replog.model.messages.api_versions import ApiVersionsRequest
from replog.model.messages.controlled_shutdown import ControlledShutdownRequest
from replog.model.messages.create_partitions import CreatePartitionsRequest
from replog.model.messages.create_topics import CreateTopicsRequest
from replog.model.messages.delete_groups import DeleteGroupsRequest
from replog.model.messages.delete_records import DeleteRecordsRequest
from replog.model.messages.delete_topics import DeleteTopicsRequest
from replog.model.messages.describe_cluster import DescribeClusterRequest
from replog.model.messages.describe_configs import DescribeConfigsRequest
from replog.model.messages.describe_groups import DescribeGroupsRequest
from replog.model.messages.describe_log_dirs import DescribeLogDirsRequest
from replog.model.messages.describe_producers import DescribeProducersRequest
from replog.model.messages.describe_replicas import DescribeReplicasRequest
from replog.model.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from replog.model.messages.elect_leaders import ElectLeadersRequest
from replog.model.messages.fetch import FetchRequest
from replog.model.messages.find_coordinator import FindCoordinatorRequest
from replog.model.messages.forward import ForwardRequest
from replog.model.messages.heartbeat import HeartbeatRequest
from replog.model.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from replog.model.messages.init_producer_id import InitProducerIdRequest
from replog.model.messages.join_group import JoinGroupRequest
from replog.model.messages.leave_group import LeaveGroupRequest
from replog.model.messages.list_config_resources import ListConfigResourcesRequest
from replog.model.messages.list_groups import ListGroupsRequest
from replog.model.messages.list_offsets import ListOffsetsRequest
from replog.model.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from replog.model.messages.metadata import MetadataRequest
from replog.model.messages.offset_commit import OffsetCommitRequest
from replog.model.messages.offset_delete import OffsetDeleteRequest
from replog.model.messages.offset_fetch import OffsetFetchRequest
from replog.model.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from replog.model.messages.produce import ProduceRequest
from replog.model.messages.report_offline_replicas import ReportOfflineReplicasRequest
from replog.model.messages.sync_group import SyncGroupRequest
from replog.model.messages.update_cluster import UpdateClusterRequest
from replog.model.messages.update_features import UpdateFeaturesRequest
from replog.node.handlers import (
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    api_versions,
    controlled_shutdown,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_replicas,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    find_coordinator,
    forward,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    report_offline_replicas,
    sync_group,
    update_cluster,
    update_features,
)

if TYPE_CHECKING:
    from replog.node.node import Node

Handler = Callable[["Node", Received, Any], Message | None]

FROM_ANYBODY: dict[type[Message], Handler] = {
    ProduceRequest: produce.handle,
    FetchRequest: fetch.handle,
    ListOffsetsRequest: list_offsets.handle,
    MetadataRequest: metadata.handle,
    OffsetCommitRequest: offset_commit.handle,
    OffsetFetchRequest: offset_fetch.handle,
    FindCoordinatorRequest: find_coordinator.handle,
    JoinGroupRequest: join_group.handle,
    HeartbeatRequest: heartbeat.handle,
    LeaveGroupRequest: leave_group.handle,
    SyncGroupRequest: sync_group.handle,
    ApiVersionsRequest: api_versions.handle,
    InitProducerIdRequest: init_producer_id.handle,
    OffsetForLeaderEpochRequest: offset_for_leader_epoch.handle,
    DescribeConfigsRequest: describe_configs.handle,
    DescribeClusterRequest: describe_cluster.handle,
    CreateTopicsRequest: create_topics.handle,
    DeleteTopicsRequest: delete_topics.handle,
    DeleteRecordsRequest: delete_records.handle,
    ElectLeadersRequest: elect_leaders.handle,
    AlterPartitionReassignmentsRequest: alter_partition_reassignments.handle,
    ListPartitionReassignmentsRequest: list_partition_reassignments.handle,
    DescribeGroupsRequest: describe_groups.handle,
    ListGroupsRequest: list_groups.handle,
    DeleteGroupsRequest: delete_groups.handle,
    OffsetDeleteRequest: offset_delete.handle,
    AlterConfigsRequest: alter_configs.handle,
    IncrementalAlterConfigsRequest: incremental_alter_configs.handle,
    CreatePartitionsRequest: create_partitions.handle,
    DescribeLogDirsRequest: describe_log_dirs.handle,
    DescribeTopicPartitionsRequest: describe_topic_partitions.handle,
    DescribeProducersRequest: describe_producers.handle,
    ListConfigResourcesRequest: list_config_resources.handle,
    UpdateFeaturesRequest: update_features.handle,
    DescribeReplicasRequest: describe_replicas.handle,
}

FROM_BROKERS: dict[type[Message], Handler] = {
    AlterPartitionRequest: alter_partition.handle,
    UpdateClusterRequest: update_cluster.handle,
    ControlledShutdownRequest: controlled_shutdown.handle,
    ForwardRequest: forward.handle,
    ReportOfflineReplicasRequest: report_offline_replicas.handle,
}


def route(node: Node, request: Received) -> None:
    """Hand `request` to its handler, and send what the handler answers at once."""
    if not node.cluster.brokers and node.early_requests.holds(request):
        return
    message = request.message
    kind = type(message)
    handler = FROM_ANYBODY.get(kind)
    if handler is None and request.peer is not None:
        handler = FROM_BROKERS.get(kind)
    if handler is None:
        node.close(request, f"{kind.__name__} is not taken from {request.client_host}")
        return
    response = handler(node, request, message)
    if response is not None:
        node.reply(request, response)
