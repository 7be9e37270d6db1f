"""CPU time of the brokers of a local cluster, from /proc: other load on the machine does not count.

Linux alone has it; elsewhere there is nothing to measure.
"""

import os
from pathlib import Path

from replog.runtime.local_cluster import LocalCluster
from replog.runtime.processes import ProcessState


def cpu_seconds(cluster: LocalCluster) -> dict[int, float]:
    """User and system time that each running broker has used; empty without /proc."""
    used = {}
    for broker in cluster.status():
        if broker.state is ProcessState.RUNNING and broker.pid is not None:
            try:
                stat = Path(f"/proc/{broker.pid}/stat").read_text()
            except OSError:
                continue
            fields = stat.rpartition(")")[2].split()
            ticks = int(fields[11]) + int(fields[12])
            used[broker.broker_id] = ticks / os.sysconf("SC_CLK_TCK")
    return used
