"""Which cluster a command means: `--bootstrap-server`, `--data`, or the last `replog up`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from replog.cli.errors import Failure, UsageError
from replog.cli.options import Arguments
from replog.runtime.client import AdminClient, ClientError, parse_bootstrap
from replog.runtime.last_up import last_up
from replog.runtime.local_cluster import ClusterError, LocalCluster

CALL_TIMEOUT_S = 15.0
NO_CLUSTER = (
    "which cluster? Name a broker with --bootstrap-server HOST:PORT or a data folder with "
    "--data DIR, or start a cluster with 'replog up'"
)


def local_cluster(arguments: Arguments) -> LocalCluster:
    """The cluster of this machine that is meant. Raises Failure when there is none."""
    folder = data_folder(arguments)
    if folder is None:
        raise Failure(
            "which cluster? Name its data folder with --data DIR, or start one with 'replog up'"
        )
    try:
        return LocalCluster.load(folder)
    except ClusterError as error:
        raise Failure(str(error)) from error


def data_folder(arguments: Arguments) -> Path | None:
    """`--data`, else the folder of the last `up`; None when there is neither."""
    if arguments.data:
        return Path(arguments.data)
    return last_up()


def bootstrap_servers(arguments: Arguments) -> str:
    """`host:port,...` of brokers to begin with. Raises Failure when nothing names a cluster."""
    given = getattr(arguments, "bootstrap_server", None)
    if given:
        try:
            parse_bootstrap(given)
        except ClientError as error:
            raise UsageError(f"--bootstrap-server: {error}") from error
        return str(given)
    if data_folder(arguments) is None:
        raise Failure(NO_CLUSTER)
    return local_cluster(arguments).bootstrap_servers


@contextmanager
def connect(arguments: Arguments) -> Iterator[AdminClient]:
    """A client for the cluster that is meant. What it can't reach or do becomes a Failure."""
    servers = bootstrap_servers(arguments)
    if not getattr(arguments, "bootstrap_server", None):
        cluster = local_cluster(arguments)
        if not cluster.running():
            raise Failure(
                f"no broker of {cluster.data_dir} is running: start them with "
                f"'replog up --data {cluster.data_dir}'"
            )
    try:
        with AdminClient(servers, timeout_s=CALL_TIMEOUT_S) as client:
            yield client
    except ClientError as error:
        raise Failure(str(error)) from error
