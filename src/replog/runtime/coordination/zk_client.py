"""Connections to a ZooKeeper ensemble, as a broker's configuration asks for them.

kazoo does the protocol and the heartbeats, on threads of its own. A client here has one session:
who needs another makes another client.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from replog.runtime.coordination.port import CoordinationError, CoordinationUnreachable

STATE_POLL_S: Final = 0.05
RETRY_S_MAX: Final = 1.0  # between attempts to reach a server
READABLE_BY_ALL: Final = 1  # ZooKeeper's permission bit READ

# What only brokers may read: the secret that they prove themselves with.
SENSITIVE: Final = ("/replog/secret",)

_log = logging.getLogger("replog.coordinator.kazoo")


@dataclass(frozen=True, slots=True)
class ZkTls:
    """TLS to ZooKeeper. Files are PEM."""

    ca: str | None  # trusted; None: the system's
    certificate: str | None  # the broker's own, with its chain; None: it shows none
    key: str | None  # None: it is in the file of the certificate
    key_password: str | None
    check_hostname: bool


@dataclass(frozen=True, slots=True)
class ZkSettings:
    """Where the ensemble is, and how it is spoken to."""

    hosts: str  # HOST:PORT, comma separated
    chroot: str = ""  # where the cluster's tree begins: "" or "/path"
    session_timeout_ms: int = 18_000
    connection_timeout_ms: int = 18_000
    in_flight_max: int = 500  # requests that wait for their answers at a time
    digest: str | None = None  # USER:PASSWORD of ZooKeeper's scheme `digest`
    set_acl: bool = False  # new nodes can be changed by this user alone
    tls: ZkTls | None = None

    def __str__(self) -> str:
        return f"zk://{self.hosts}{self.chroot}"


class ZkClient:
    """One connected client with one session, in the tree below the chroot."""

    def __init__(
        self,
        settings: ZkSettings,
        on_state: Callable[["ZkClient", str], None],
        stopped: threading.Event,
    ) -> None:
        """Connect; waits. `on_state` is called on kazoo's thread with SUSPENDED, CONNECTED or LOST.

        Raises CoordinationError when no server takes us within the connection timeout, or when
        `stopped` is set meanwhile.
        """
        self.settings = settings
        self.kazoo: Any = _kazoo(settings)
        try:
            self._connect(stopped)
            self.session = f"{self.kazoo.client_id[0] & (1 << 64) - 1:016x}"
            if settings.chroot:
                self.kazoo.ensure_path(settings.chroot, acl=self.acl(settings.chroot))
                self.kazoo.chroot = settings.chroot
        except BaseException as error:
            self.close()
            if isinstance(error, _kazoo_errors()):
                raise CoordinationUnreachable(f"{settings}: {_reason(error)}") from error
            raise
        self.kazoo.add_listener(lambda state: on_state(self, state))

    @property
    def connected(self) -> bool:
        """Whether a server that is part of a quorum serves us now."""
        return bool(self.kazoo.connected)

    @property
    def patience_s(self) -> float:
        """How long an answer is waited for: kazoo finds out before that a server is silent."""
        return self.settings.session_timeout_ms / 1000

    def acl(self, path: str) -> Any:
        """Who may do what with the node `path`; None: everybody everything."""
        settings = self.settings
        if not settings.set_acl:
            return None
        from kazoo.security import ACL, CREATOR_ALL_ACL, Id

        if path in SENSITIVE:
            return CREATOR_ALL_ACL
        return [*CREATOR_ALL_ACL, ACL(READABLE_BY_ALL, Id("world", "anyone"))]

    def close(self) -> None:
        """End the session; its ephemeral nodes go at once. Not for kazoo's threads."""
        self.kazoo.stop()
        self.kazoo.close()

    def _connect(self, stopped: threading.Event) -> None:
        settings = self.settings
        connected = self.kazoo.start_async()
        left_s = settings.connection_timeout_ms / 1000
        while not connected.wait(STATE_POLL_S):
            left_s -= STATE_POLL_S
            if self.kazoo.client_state == "AUTH_FAILED":
                raise CoordinationError(f"{settings}: the digest is refused")
            if left_s <= 0 or stopped.is_set():
                raise CoordinationUnreachable(f"{settings} can't be reached: no server takes us")


def _kazoo(settings: ZkSettings) -> Any:
    try:
        from kazoo.client import KazooClient
    except ImportError as error:
        raise CoordinationError("ZooKeeper needs the package kazoo: pip install kazoo") from error
    tls = settings.tls
    options: dict[str, Any] = {}
    if tls is not None:
        options = {
            "use_ssl": True,
            "verify_certs": True,
            "check_hostname": tls.check_hostname,
            "ca": tls.ca,
            "certfile": tls.certificate,
            "keyfile": tls.key,
            "keyfile_password": tls.key_password,
        }
    if settings.digest is not None:
        options["auth_data"] = [("digest", settings.digest)]
    _log.setLevel(logging.CRITICAL)  # what there is to say is said once, by who uses the client
    return KazooClient(
        hosts=settings.hosts,
        timeout=settings.session_timeout_ms / 1000,
        connection_retry={
            "max_tries": -1,
            "delay": STATE_POLL_S,
            "backoff": 2,
            "max_delay": RETRY_S_MAX,
        },
        logger=_log,
        **options,
    )


def _kazoo_errors() -> tuple[type[Exception], ...]:
    from kazoo.exceptions import KazooException

    return (KazooException, OSError)


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
