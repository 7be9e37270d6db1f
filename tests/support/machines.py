"""Network namespaces as machines: each has addresses of its own, and can be cut off from others.

Needs Linux, root and the command `ip` (package iproute2). The test itself is a further machine,
that reaches all others. A cut loses packets without a word, as a broken cable does.
"""

import itertools
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from typing import Any

_numbers = itertools.count()
NOBODY = "02:00:00:00:00:ff"  # a link address that no interface has
HOW_TO_GET_IT = (
    "network namespaces can't be made: run as root on Linux, with the command 'ip' "
    "('apt-get install iproute2')"
)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr.strip()}"


class Machines:
    """Machines by name, on one network."""

    def __init__(self, names: Iterable[str], *, addresses_each: int = 1) -> None:
        assert os.geteuid() == 0 and shutil.which("ip"), HOW_TO_GET_IT
        self.names = tuple(names)
        number = next(_numbers)  # what was removed may take a while to go
        self._tag = f"rl{os.getpid() % 100_000}x{number % 100}"
        self._net = f"10.213.{(os.getpid() + number) % 256}"
        self._made: list[str] = []
        self.addresses = {
            name: [f"{self._net}.{10 * n + k}" for k in range(1, addresses_each + 1)]
            for n, name in enumerate(self.names, 1)
        }
        self._cuts: set[tuple[str, str]] = set()  # (machine, address it can't reach)
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def _make(self) -> None:
        _ip("link", "add", self._tag, "type", "bridge")
        _ip("addr", "add", f"{self._net}.254/24", "dev", self._tag)
        _ip("link", "set", self._tag, "up")
        for n, name in enumerate(self.names):
            space, outer = self._space(name), f"{self._tag}v{n}"
            _ip("netns", "add", space)
            self._made.append(name)
            _ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", outer, "master", self._tag, "up")
            _ip("-n", space, "link", "set", "lo", "up")
            for address in self.addresses[name]:
                _ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")

    def _space(self, name: str) -> str:
        return f"{self._tag}-{name}"

    def prefix(self, name: str) -> list[str]:
        """What to put before a command that is to run on this machine."""
        return ["ip", "netns", "exec", self._space(name)]

    def run(self, name: str, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a command on this machine."""
        return subprocess.Popen([*self.prefix(name), *command], **options)

    def cut(self, one: str, others: Iterable[str]) -> None:
        """Lose all packets between `one` and each of `others`, both ways."""
        for other in others:
            for here, there in ((one, other), (other, one)):
                for address in self.addresses[there]:
                    self._cuts.add((here, address))
                    _ip(
                        *("-n", self._space(here), "neigh", "replace", address),
                        *("lladdr", NOBODY, "dev", "eth0", "nud", "permanent"),
                    )

    def heal(self) -> None:
        """Mend all cuts."""
        for here, address in sorted(self._cuts):
            _ip("-n", self._space(here), "neigh", "del", address, "dev", "eth0")
        self._cuts.clear()

    def close(self) -> None:
        """Remove the machines. What runs on them must have ended."""
        for name in self._made:
            subprocess.run(["ip", "netns", "del", self._space(name)], capture_output=True)
        subprocess.run(["ip", "link", "del", self._tag], capture_output=True)
