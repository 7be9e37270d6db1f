"""The coordinator that a configuration names."""

from pathlib import Path
from typing import Final

from replog.model.broker_config import BrokerConfig
from replog.runtime.coordination.port import Coordination
from replog.runtime.coordination.zk_client import ZkSettings, ZkTls

OWN: Final = ".coordinator/replog.db"  # in the log folder of a broker that is a cluster of its own


def open_coordination(config: BrokerConfig) -> Coordination:
    """A door to it.

    A database is opened now, an ensemble when it is first needed. Raises CoordinationError.
    """
    address = config.coordinator
    if address is not None and address.kind == "zk":
        from replog.runtime.coordination.zookeeper import ZooKeeperCoordination

        return ZooKeeperCoordination(zookeeper_settings(config, address.path))
    from replog.runtime.coordination.sqlite import SqliteCoordination

    path = Path(config.log_dirs[0]) / OWN if address is None else Path(address.path)
    return SqliteCoordination(path.absolute())


def zookeeper_settings(config: BrokerConfig, ensemble: str) -> ZkSettings:
    """What `zookeeper.*` says; `ensemble` is HOST:PORT,HOST:PORT/CHROOT."""
    hosts, slash, chroot = ensemble.partition("/")
    session_ms = config.int("zookeeper.session.timeout.ms")
    first_ms = config.value("zookeeper.connection.timeout.ms")
    return ZkSettings(
        hosts,
        slash + chroot,
        session_timeout_ms=session_ms,
        connection_timeout_ms=first_ms if isinstance(first_ms, int) else session_ms,
        in_flight_max=config.int("zookeeper.max.in.flight.requests"),
        digest=config.str("replog.zookeeper.digest"),
        set_acl=config.bool("zookeeper.set.acl"),
        tls=_tls(config) if config.bool("zookeeper.ssl.client.enable") else None,
    )


def _tls(config: BrokerConfig) -> ZkTls:
    keystore = config.str("zookeeper.ssl.keystore.location") or None
    return ZkTls(
        ca=config.str("zookeeper.ssl.truststore.location") or None,
        certificate=keystore,
        key=keystore,
        key_password=config.str("zookeeper.ssl.keystore.password"),
        check_hostname=bool(config.str("zookeeper.ssl.endpoint.identification.algorithm")),
    )
