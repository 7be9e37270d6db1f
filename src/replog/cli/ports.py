"""Finding ports that nobody uses."""

import random
import socket

from replog.cli.errors import Failure

LOWEST = 20_000  # below the ranges from which systems take ports of outgoing connections
HIGHEST = 32_000
ATTEMPTS_MAX = 200


def free_ports(count: int) -> int:
    """The first of `count` consecutive ports that are free on 127.0.0.1 now."""
    for _ in range(ATTEMPTS_MAX):
        first = random.SystemRandom().randrange(LOWEST, HIGHEST - count)
        if all(_is_free(port) for port in range(first, first + count)):
            return first
    raise Failure(f"found no {count} consecutive free ports between {LOWEST} and {HIGHEST}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
