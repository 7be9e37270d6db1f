"""IncrementalAlterConfigs, API key 44, versions 0-1: single settings are altered (KIP-339).

Versions: 1 is flexible. Settings are set, or deleted: they go back to what they fall back to then.
To lists, items can be appended and subtracted.

For topics, brokers (dynamic ones, of one broker or of all), groups and client metrics
subscriptions; see `config_alterations`.
"""

from __future__ import annotations

from replog.core.config_changes import Alteration, ConfigChange
from replog.model.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from replog.node.config_alterations import Alterations


def _change_of(resource: AlterConfigsResource) -> ConfigChange:
    return ConfigChange(
        resource.resource_type,
        resource.resource_name,
        tuple(
            Alteration(config.name, config.value, config.config_operation)
            for config in resource.configs
        ),
    )


_api = Alterations(
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    AlterConfigsResourceResponse,
    _change_of,
)
handle, execute, refuse = _api.handle, _api.execute, _api.refuse
