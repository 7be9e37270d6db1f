"""`make conformance-record`: ask Apache Kafka again what it answers, and write the record anew.

Three nodes are started from the jars of tests/interop/java. Everything is asked twice: what differs
between the two is left open.
"""

import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.conformance.line import Address
from tests.conformance.recording import common, load, save
from tests.conformance.runs import Run, all_runs, play
from tests.interop.kafka import Java, KafkaServer, kafka_ports

LAG_S: Final = 0.25
SETTINGS: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "1",
    "group.min.session.timeout.ms": "1000",
}


def main(pattern: str = "") -> int:
    """Record the runs whose names `pattern` finds, all by default.

    0 when all are recorded; 1 when runs failed: they are named and left as they were.
    """
    runs = [run for run in all_runs() if re.search(pattern, run.name)]
    with tempfile.TemporaryDirectory() as folder, kafka(Path(folder)) as brokers:
        play(runs[:20], brokers)  # what is asked first finds a cluster that is not ready
        return max(record(area, brokers) for area in _areas(runs))


def record(runs: list[Run], brokers: Mapping[int, Address]) -> int:
    """Ask all of them twice, and add what is common to both to the record."""
    first, second = (play(runs, brokers, lag_s=LAG_S) for _ in range(2))
    answers = load()
    failed = 0
    for run in runs:
        one, other = first[run.name], second[run.name]
        if isinstance(one, str) or isinstance(other, str):
            print(f"{run.name}: {one if isinstance(one, str) else other}", file=sys.stderr)
            failed = 1
        else:
            answers[run.name] = common(one, other)
    save([run for run in all_runs() if run.name in answers], answers)
    print(f"{runs[0].case.area}: {len(runs)} runs", flush=True)
    return failed


def _areas(runs: list[Run]) -> list[list[Run]]:
    """So that what is recorded already is not lost when something goes wrong."""
    areas: dict[str, list[Run]] = {}
    for run in runs:
        areas.setdefault(run.case.area, []).append(run)
    return list(areas.values())


@contextmanager
def kafka(folder: Path) -> Iterator[dict[int, Address]]:
    """Three nodes of Apache Kafka with nothing on them."""
    ports = kafka_ports(3)
    servers = [
        KafkaServer(Java(), folder / str(node), ports, node=node, settings=SETTINGS)
        for node in (1, 2, 3)
    ]
    try:
        for server in servers:
            server.start()
        for server in servers:
            server.wait()
        yield {node: ("127.0.0.1", port) for node, (port, _) in enumerate(ports, 1)}
    finally:
        for server in servers:
            server.stop(kill=True)  # whoever stops last in good order waits for a controller


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
