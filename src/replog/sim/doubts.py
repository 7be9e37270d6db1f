"""Which hosts may lack what they once had: the account of a run's promise."""

import json
from collections.abc import Sequence

from replog.core.controller.stored import broker_life_path
from replog.model.coordination import StoredNode
from replog.sim.fault_kinds import Promise
from replog.sim.host import Host
from replog.sim.mem_coordination import MemTree
from replog.sim.records_watch import RecordsWatch


class Doubts:
    """A host that lost power or its disk is hurt until it has everything again: the controller
    has taken note of it, and it is in every ISR that it belongs to."""

    def __init__(
        self,
        hosts: Sequence[Host],
        tree: MemTree,
        records: RecordsWatch,
        *,
        promise: Promise,
        at_once_max: int,
    ) -> None:
        self._hosts = hosts
        self._tree = tree
        self._records = records
        self._promise = promise
        self._at_once_max = at_once_max
        self._hurt: dict[int, int] = {}  # broker -> processes it had had when it was hurt
        self.logs_copied_anew = 0  # since something in them had rotted
        self._lives: dict[int, tuple[StoredNode, tuple[str, str]]] = {}  # boot and folders

    def hurt(self, host: Host) -> None:
        """`host` lost something, or is about to."""
        self._hurt[host.broker_id] = host.incarnations

    def spare(self, host: Host) -> None:
        """`host` has lost nothing after all."""
        self._hurt.pop(host.broker_id, None)

    def is_hurt(self, host: Host) -> bool:
        """`host` has lost something, and is not known to have it again."""
        return host.broker_id in self._hurt

    def has_it_again(self, host: Host) -> None:
        """What `host` had lost is readable again; what it copies for that is there when it is in
        sync. Another hurt that it took meanwhile is its own affair."""
        if host.broker_id in self._hurt:
            self._hurt[host.broker_id] = min(self._hurt[host.broker_id], host.incarnations - 1)

    def may_hurt(self, host: Host) -> bool:
        """Whether the promise of the run allows that `host` loses something now."""
        if self._promise is not Promise.TAILS:
            return True
        for broker in [b for b in self._hurt if self._has_recovered(b)]:
            del self._hurt[broker]
        return len({*self._hurt, host.broker_id}) <= self._at_once_max

    def unknown(self, broker: int) -> bool:
        """The host lost something that the controller has not taken note of."""
        host = self._hosts[broker]
        node = self._tree.nodes.get(broker_life_path(broker))
        if node is None:
            return broker in self._hurt
        known = self._lives.get(broker)
        if known is None or known[0] is not node:
            life = json.loads(node.data)
            known = self._lives[broker] = node, (life["boot_id"], life["folder_id"])
        return known[1] != (host.boot_id, host.folder_id)

    def _has_recovered(self, broker: int) -> bool:
        if self.unknown(broker) or self._hosts[broker].incarnations <= self._hurt[broker]:
            return False
        return all(
            broker in record.isr and broker not in record.suspects
            for record in self._records.records.values()
            if broker in record.replicas
        )
