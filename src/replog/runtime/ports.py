"""TCP ports: which are free, and which are not."""

import errno
import socket
from collections.abc import Iterable


class PortError(Exception):
    """A port can't be had; the text is one line."""


def check_ports(host: str, ports: Iterable[int]) -> None:
    """Raises PortError when one of them can't be listened at."""
    for port in ports:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind((host, port))
                sock.listen(1)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    raise PortError(f"port {port} is in use") from error
                raise PortError(f"port {port} can't be used: {error.strerror}") from error


def free_ports(host: str, count: int) -> list[int]:
    """Different ports that are free now."""
    sockets = []
    try:
        for _ in range(count):
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            sockets.append(sock)
            sock.bind((host, 0))
        return [sock.getsockname()[1] for sock in sockets]
    finally:
        for sock in sockets:
            sock.close()
