"""UpdateFeatures, API key 57, versions 0-2: levels of features of the cluster (KIP-584).

Versions: 1 trial runs and kinds of downgrades, 2 no results one by one.

Features govern nothing here: brokers of a cluster run the same release, which serves what it
serves. So a level can be confirmed and not changed, and that any broker can say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.model.errors import ErrorCode, Refused
from replog.model.inputs import Received
from replog.model.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from replog.node.features import FEATURES

if TYPE_CHECKING:
    from replog.node.node import Node

FIRST_VERSION_WITH_UPGRADE_TYPE = 1
UPGRADE_TYPES = (1, 2, 3)  # upgrade, safe downgrade, unsafe downgrade


def handle(node: Node, request: Received, message: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """All levels asked for are those that there are, or the first that is not is refused."""
    names = [update.feature for update in message.feature_updates]
    for update in message.feature_updates:
        fault = _fault(update, typed=request.version >= FIRST_VERSION_WITH_UPGRADE_TYPE)
        if fault is not None:
            text = f"feature {update.feature!r} is not updated: {fault}"
            refused = Refused(ErrorCode.INVALID_UPDATE_VERSION, text)
            return UpdateFeaturesResponse(error_code=refused.error, error_message=refused.message)
    return UpdateFeaturesResponse(
        error_message=None,
        results=[UpdatableFeatureResult(feature=name, error_message=None) for name in names],
    )


def _fault(update: FeatureUpdateKey, *, typed: bool) -> str | None:
    feature = next((f for f in FEATURES if f.name == update.feature), None)
    if feature is None:
        return "there is no such feature"
    if typed and update.upgrade_type not in UPGRADE_TYPES:
        return f"{update.upgrade_type} is no type of an upgrade"
    if update.max_version_level != feature.level:
        return (
            f"level {feature.level} is what this release serves, and "
            f"{update.max_version_level} is another one"
        )
    return None
