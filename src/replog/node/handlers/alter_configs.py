"""AlterConfigs, API key 33, versions 0-2: all settings of resources are replaced.

Versions: 2 is flexible. Settings of a resource that are not named go back to what they fall back
to. Clients that can do so use IncrementalAlterConfigs, by which two of them don't undo each other.

For topics, brokers (dynamic ones, of one broker or of all), groups and client metrics
subscriptions; see `config_alterations`.
"""

from __future__ import annotations

from replog.core.config_changes import Alteration, ConfigChange
from replog.model.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from replog.node.config_alterations import Alterations


def _change_of(resource: AlterConfigsResource) -> ConfigChange:
    return ConfigChange(
        resource.resource_type,
        resource.resource_name,
        tuple(Alteration(config.name, config.value) for config in resource.configs),
        anew=True,
    )


_api = Alterations(
    AlterConfigsRequest, AlterConfigsResponse, AlterConfigsResourceResponse, _change_of
)
handle, execute, refuse = _api.handle, _api.execute, _api.refuse
