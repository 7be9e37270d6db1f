"""The way to ZooKeeper under TLS, brokers that are known by a digest, nodes that are theirs."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.cluster import Cluster
from tests.support.load import all_go_on, check_promise, load
from tests.support.zookeeper import HOST, Ensemble

from replog.runtime.coordination.port import CoordinationUnreachable
from replog.runtime.coordination.zk_client import ZkSettings, ZkTls
from replog.runtime.coordination.zookeeper import ZooKeeperCoordination
from replog.runtime.ports import free_ports

TOPIC = "secured"
PARTITIONS = (0, 1, 2)
DIGEST = "replog:a-pass:word"


class Authority:
    """A certificate authority, by the command openssl."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificate = folder / "ca.pem"
        self._key = folder / "ca.key"
        self._openssl(
            *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"),
            *("-keyout", str(self._key), "-out", str(self.certificate)),
        )

    def issue(self, name: str) -> Path:
        """A PEM file with a key and its certificate, for 127.0.0.1."""
        key, request, signed = (self.folder / f"{name}.{end}" for end in ("key", "csr", "crt"))
        extension = self.folder / "extension"
        extension.write_text("subjectAltName=IP:127.0.0.1\n")
        self._openssl(
            *("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}"),
            *("-keyout", str(key), "-out", str(request)),
        )
        self._openssl(
            *("x509", "-req", "-days", "2", "-in", str(request), "-CA", str(self.certificate)),
            *("-CAkey", str(self._key), "-CAcreateserial", "-extfile", str(extension)),
            *("-out", str(signed)),
        )
        both = self.folder / f"{name}.pem"
        both.write_text(key.read_text() + signed.read_text())
        return both

    @staticmethod
    def _openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secured(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Ensemble, str]]:
    """A server that takes only clients with a certificate, and its address for TLS."""
    (port,) = free_ports(HOST, 1)
    keystore = authority.issue("server")
    running = Ensemble(
        tmp_path_factory.mktemp("ensemble"),
        1,
        settings={
            "secureClientPort": str(port),
            "secureClientPortAddress": HOST,
            "ssl.keyStore.location": str(keystore),
            "ssl.keyStore.type": "PEM",
            "ssl.trustStore.location": str(authority.certificate),
            "ssl.trustStore.type": "PEM",
            "ssl.clientAuth": "need",
        },
    )
    try:
        running.start()
        yield running, f"{HOST}:{port}"
    finally:
        running.close()


def test_a_cluster_by_tls_with_nodes_of_its_own(
    secured: tuple[Ensemble, str], authority: Authority, tmp_path: Path
) -> None:
    ensemble, address = secured
    settings = {
        "zookeeper.connect": f"{address}/secured",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.keystore.location": str(authority.issue("broker")),
        "zookeeper.ssl.truststore.location": str(authority.certificate),
        "zookeeper.set.acl": "true",
        "replog.zookeeper.digest": DIGEST,
    }
    cluster = Cluster(tmp_path, settings=settings)
    try:
        cluster.create_topic(TOPIC, partitions=len(PARTITIONS))
        with load(cluster, TOPIC, PARTITIONS) as producers:
            assert all_go_on(producers, 100)
            cluster.local.kill(1)
            assert all_go_on(producers, 100), cluster.logs()
            cluster.local.start(1)
        check_promise(cluster, TOPIC, PARTITIONS, producers)
        _look_as_a_stranger(ensemble.hosts)
    finally:
        cluster.down()


def _look_as_a_stranger(hosts: str) -> None:
    """Anybody may look, but for the secret, and nobody else may change anything."""
    from kazoo.client import KazooClient
    from kazoo.exceptions import NoAuthError

    stranger = KazooClient(hosts)
    stranger.start()
    try:
        assert stranger.get("/secured/cluster/id")[0]
        for change in (
            lambda: stranger.get("/secured/replog/secret"),
            lambda: stranger.set("/secured/controller_epoch", b"99"),
            lambda: stranger.delete("/secured/controller"),
            lambda: stranger.create("/secured/brokers/ids/9", b""),
            lambda: stranger.create("/secured/intruder", b""),
        ):
            with pytest.raises(NoAuthError):
                change()
    finally:
        stranger.stop()
        stranger.close()


# kazoo leaves the sockets of failed handshakes to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("lacks", ["trust", "certificate", "name"])
def test_who_lacks_something_is_not_served(
    secured: tuple[Ensemble, str], authority: Authority, tmp_path: Path, lacks: str
) -> None:
    _, address = secured
    own, stranger = str(authority.issue("own")), Authority(tmp_path)
    tls = ZkTls(
        ca=str(stranger.certificate if lacks == "trust" else authority.certificate),
        certificate=None if lacks == "certificate" else own,
        key=None if lacks == "certificate" else own,
        key_password=None,
        check_hostname=True,
    )
    if lacks == "name":
        address = address.replace(HOST, "localhost")  # the certificate is for the number alone
        assert _reached(address, replace(tls, check_hostname=False))
    assert not _reached(address, tls)


def _reached(address: str, tls: ZkTls) -> bool:
    door = ZooKeeperCoordination(ZkSettings(address, "/x", connection_timeout_ms=3000, tls=tls))
    try:
        door.read_now(["/"])
    except CoordinationUnreachable:
        return False
    finally:
        door.close()
    return True
