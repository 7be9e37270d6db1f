"""The steps of docs/guide/several-machines.md, executed on three network namespaces as machines.

Files and commands are the guide's own, and the services those of `packaging/`. What stands in for a
machine: a folder for its `/etc`, `/var/lib` and `/opt`, addresses of the namespace for the guide's,
and this test for the package manager and for systemd.
"""

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cluster import wait_until
from tests.support.machines import Machines
from tests.support.zookeeper import classpath

from replog.model.messages.metadata import MetadataResponse
from replog.runtime.client import AdminClient

GUIDE = Path("docs/guide/several-machines.md")
UNITS = Path("packaging")
NUMBERS = (1, 2, 3)

# Commands of a machine that do nothing here, and those that this test does itself.
STAND_INS = {
    "apt-get": ":",
    "chown": ":",
    "useradd": ":",
    "python3": ":",
    "opt/replog/bin/pip": ":",
    "opt/replog/bin/replog": f'exec {sys.executable} -m replog "$@"',
    "replog": f'exec {sys.executable} -m replog "$@"',
    "systemctl": 'echo "$3" >> "$ROOT/enabled"',
}


class Machine:
    """One machine: its folder, what was enabled on it, and what runs."""

    def __init__(self, number: int, machines: Machines, root: Path) -> None:
        self.number = number
        self.root = root
        self._name = f"m{number}"
        self._machines = machines
        self.services: dict[str, subprocess.Popen[bytes]] = {}
        for folder in ("bin", "etc", "var/lib", "opt/replog/bin"):
            (root / folder).mkdir(parents=True)
        for name, line in STAND_INS.items():
            command = root / (name if "/" in name else f"bin/{name}")
            command.write_text(f"#!/bin/sh\n{line}\n")
            command.chmod(0o755)

    def here(self, text: str) -> str:
        """The guide's text for this machine."""
        for n in NUMBERS:
            broker, server = self._machines.addresses[f"m{n}"]
            text = text.replace(f"192.0.2.1{n}", broker).replace(f"192.0.2.2{n}", server)
        broker, server = self._machines.addresses[self._name]
        text = text.replace("192.0.2.1$N", broker).replace("192.0.2.2$N", server)
        return re.sub(r"(?<![\w.])/(etc|var/lib|opt)/", rf"{self.root}/\1/", text)

    def execute(self, script: str) -> str:
        """A block of the guide; then start what it has enabled."""
        environment = {
            **os.environ,
            "N": str(self.number),
            "ROOT": str(self.root),
            "PATH": f"{self.root}/bin:{os.environ['PATH']}",
        }
        done = subprocess.run(
            [*self._machines.prefix(self._name), "sh", "-euc", self.here(script)],
            capture_output=True,
            text=True,
            env=environment,
            timeout=120,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        enabled = self.root / "enabled"
        if enabled.exists():
            for service in enabled.read_text().split():
                self.start(service)
            enabled.unlink()
        return done.stdout

    def start(self, service: str) -> None:
        """As systemd does it by the unit."""
        template, _, instance = service.partition("@")
        file = UNITS / (f"{template}@.service" if instance else f"{template}.service")
        (line,) = re.findall(r"^ExecStart=(.*)$", file.read_text(), re.M)
        command = shlex.split(self.here(line.replace("%i", instance)))
        if "-cp" in command:
            command[command.index("-cp") + 1] = classpath()
        with open(self.root / f"{service}.log", "ab") as log:
            self.services[service] = self._machines.run(
                self._name, command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def switch_off(self) -> None:
        for process in self.services.values():
            process.kill()
        for process in self.services.values():
            process.wait()

    def switch_on(self) -> None:
        for service in list(self.services):
            self.start(service)

    def logs(self) -> str:
        parts = [f"--- {p}\n{p.read_text()[-3000:]}" for p in sorted(self.root.glob("*.log"))]
        return "\n".join(parts)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[list[Machine]]:
    network = Machines([f"m{n}" for n in NUMBERS], addresses_each=2)
    made = [Machine(n, network, tmp_path / f"machine-{n}") for n in NUMBERS]
    try:
        yield made
    finally:
        for machine in made:
            machine.switch_off()
        network.close()


def blocks() -> list[tuple[str, str]]:
    """(where, script) of each shell block in the guide."""
    found = re.findall(
        r"^```sh\n# (each machine|anywhere)\n(.*?)^```", GUIDE.read_text(), re.M | re.S
    )
    assert len(found) == 3
    return found


def test_the_guide_leads_from_nothing_to_a_cluster(machines: list[Machine]) -> None:
    first, second, third = machines
    (_, zookeeper), (_, brokers), (_, look) = blocks()
    for machine in machines:
        machine.execute(zookeeper)
    for machine in machines:
        machine.execute(brokers)
    hosts = [machine.here("192.0.2.1$N") for machine in machines]

    def known(*others: Machine) -> MetadataResponse:
        with AdminClient([(hosts[m.number - 1], 9092) for m in others], 3) as client:
            return client.metadata(None)

    wait_until("three brokers", lambda: len(known(first).brokers) == 3, timeout_s=90)
    said = second.execute(look)
    assert "healthy" in said or "in-sync" in said, said
    assert sorted(said.split()[-3:]) == ["one", "three", "two"], said  # of three partitions

    # "Switch one machine off", the controller's: all of it dies, its ZooKeeper, too.
    gone = next(m for m in machines if m.number == known(first).controller_id)
    left = [machine for machine in machines if machine is not gone]
    gone.switch_off()
    began = time.monotonic()

    def moved() -> bool:
        seen = known(*left)
        topic = next(t for t in seen.topics if t.name == "events")
        leaders = {p.leader_id for p in topic.partitions}
        return seen.controller_id not in (gone.number, -1) and not leaders & {gone.number, -1}

    wait_until("others lead", moved, timeout_s=60)
    print(f"others lead {time.monotonic() - began:.1f} s after a machine was switched off")
    server = left[0].here("192.0.2.1$N")
    left[0].execute(f"echo four | replog produce events --bootstrap-server {server}:9092")
    gone.switch_on()

    def whole() -> bool:
        seen = known(*machines)
        topic = next(t for t in seen.topics if t.name == "events")
        return all(len(p.isr_nodes) == 3 for p in topic.partitions)

    wait_until("all are in sync again", whole, timeout_s=90)
    said = third.execute(look[look.index("replog consume") :])
    assert sorted(said.split()) == ["four", "one", "three", "two"], said
