"""Configurations that are about to change: the part of a draft that is not about partitions.

A resource without any setting has no node, but for topics, which always have one.
"""

from collections.abc import Iterator, Mapping

from replog.core.controller import stored
from replog.model.cluster import ClusterState
from replog.model.config_resources import ResourceType
from replog.model.coordination import Create, Delete, Operation, SetData

Resource = tuple[ResourceType, str]


class ConfigDraft:
    """New settings by resource; `nodes` are the paths below `/config` that there are."""

    def __init__(self, cluster: ClusterState, nodes: set[str]) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self.changed: dict[Resource, dict[str, str]] = {}

    def get(self, kind: ResourceType, name: str) -> Mapping[str, str]:
        """The settings of a resource as of this draft."""
        changed = self.changed.get((kind, name))
        return self._cluster.configs_of(kind, name) if changed is None else changed

    def put(self, kind: ResourceType, name: str, configs: Mapping[str, str]) -> None:
        """Replace all settings of a resource."""
        self.changed[kind, name] = dict(configs)

    def forget(self, kind: ResourceType, name: str) -> None:
        """The resource is gone, and what was to be changed with it."""
        self.changed.pop((kind, name), None)

    def operations(self) -> Iterator[Operation]:
        """What is to be written."""
        for (kind, name), configs in self.changed.items():
            path = stored.config_path(kind, name)
            there = path in self._nodes
            if configs or kind is ResourceType.TOPIC:
                data = stored.encode_configs(configs)
                yield SetData(path, data) if there else Create(path, data)
            elif there:
                yield Delete(path)

    def apply(self) -> set[Resource]:
        """Take over what was written; which resources changed."""
        for (kind, name), configs in self.changed.items():
            path = stored.config_path(kind, name)
            self._cluster.put_configs(kind, name, configs)
            if configs or kind is ResourceType.TOPIC:
                self._nodes.add(path)
            else:
                self._nodes.discard(path)
        return set(self.changed)
