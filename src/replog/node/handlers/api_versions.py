"""ApiVersions, API key 18, versions 0-5: which APIs and versions this broker serves.

Versions: 3 the client's software and features (KIP-511, KIP-584), 4 features whose lowest version
is 0, 5 the cluster and the node that the client takes this broker for (KIP-1242).

A version that is too high never comes here: `wire` answers it, as its body can't be read. Only what
is served is advertised, and only the features that are there are claimed.

Not here: groups by KIP-848, share and streams groups and transactions, and so no `group.version`,
`share.version`, `streams.version` and `transaction.version`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from replog.model.errors import ErrorCode
from replog.model.ids import NO_BROKER
from replog.model.inputs import Received
from replog.model.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from replog.node.features import FEATURES

if TYPE_CHECKING:
    from replog.node.node import Node

FIRST_VERSION_WITH_SOFTWARE = 3
FIRST_VERSION_WITH_LEVEL_0 = 4  # clients before it take the lowest level for a mistake

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(node: Node, request: Received, message: ApiVersionsRequest) -> ApiVersionsResponse:
    """The table of what is served."""
    fault = _fault(node, request.version, message)
    if fault is not ErrorCode.NONE:
        return ApiVersionsResponse(error_code=fault)
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=lowest, max_version=highest)
            for key, lowest, highest in node.setup.api_ranges
        ],
        supported_features=[
            SupportedFeatureKey(
                name=feature.name, min_version=feature.min_level, max_version=feature.max_level
            )
            for feature in FEATURES
            if feature.min_level > 0 or request.version >= FIRST_VERSION_WITH_LEVEL_0
        ],
        finalized_features=[
            FinalizedFeatureKey(
                name=feature.name, max_version_level=feature.level, min_version_level=feature.level
            )
            for feature in FEATURES
        ],
        finalized_features_epoch=0,  # they never change while a broker runs
    )


def _fault(node: Node, version: int, message: ApiVersionsRequest) -> ErrorCode:
    if version >= FIRST_VERSION_WITH_SOFTWARE and not (
        _SOFTWARE.fullmatch(message.client_software_name)
        and _SOFTWARE.fullmatch(message.client_software_version)
    ):
        return ErrorCode.INVALID_REQUEST
    if message.cluster_id is None and message.node_id == NO_BROKER:
        return ErrorCode.NONE
    if message.cluster_id is None or message.node_id == NO_BROKER:
        return ErrorCode.INVALID_REQUEST
    if message.cluster_id != node.setup.cluster_id or message.node_id != node.broker_id:
        return ErrorCode.REBOOTSTRAP_REQUIRED
    return ErrorCode.NONE
