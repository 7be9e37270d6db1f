"""UpdateFeatures: what is confirmed, and what is said of what is not."""

from tests.node.handlers.one_broker import OneBroker

from replog.model.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


def test_a_feature_of_a_very_long_name() -> None:
    update = FeatureUpdateKey(feature="f" * 32_767)
    message = UpdateFeaturesRequest(feature_updates=[update])
    response = OneBroker().ask(message, UpdateFeaturesResponse)
    assert response.error_message is not None and len(response.error_message) < 5_000
