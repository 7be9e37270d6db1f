"""Clients of all languages against three brokers: writing, reading, and a leader's death."""

from collections import defaultdict
from collections.abc import Callable, Sequence

import pytest
from tests.interop.clients import CALLS, CLIENTS, PATIENCE_S, SHORT, Client, Running, Told
from tests.support.cluster import Cluster, wait_until

from replog.cli.group_view import committed_offsets, coordinator
from replog.cli.traffic import read_everything
from replog.runtime.client import AdminClient

PARTITIONS = 3
RECORDS = 300  # of one codec, and in the topic that admin calls look at
PER_SECOND = 300
UNDER_FIRE = 1_000 if SHORT else 2_400

Note = Callable[[str], None]

every_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)


def produced(client: Client, cluster: Cluster, topic: str, *, first: int, codec: str) -> list[Told]:
    mode = "idempotent" if client.idempotent else "plain"
    words = (str(first), str(RECORDS), codec, mode, "0")
    with Running(client, "produce", cluster.bootstrap, topic, *words) as run:
        return run.finish()


def consumed(client: Client, cluster: Cluster, topic: str, count: int) -> list[Told]:
    words = ("consume", cluster.bootstrap, topic, f"group-{topic}", str(count))
    with Running(client, *words) as run:
        return run.finish()


def committed(cluster: Cluster, topic: str) -> dict[int, int | None]:
    with AdminClient(cluster.bootstrap) as admin:
        found = committed_offsets(admin, f"group-{topic}")
    return {place.partition: position.committed for place, position in found.items()}


def ends(records: Sequence[Told]) -> dict[int, int]:
    found: dict[int, int] = {}
    for record in records:
        found[record.partition] = max(found.get(record.partition, 0), record.offset + 1)
    return found


@every_client
@pytest.mark.shows("codecs")
def test_reads_what_it_wrote(client: Client, own_cluster: Cluster, topic: str, note: Note) -> None:
    own_cluster.create_topic(topic, partitions=PARTITIONS)
    written: list[Told] = []
    for index, codec in enumerate(client.codecs):
        written += produced(client, own_cluster, topic, first=index * RECORDS, codec=codec)
    assert sorted(told.number for told in written) == list(range(len(client.codecs) * RECORDS))
    read = consumed(client, own_cluster, topic, len(written))
    assert sorted(read) == sorted(written)
    note(", ".join(client.codecs))


@every_client
@pytest.mark.shows("group")
def test_a_group_goes_on_where_it_stopped(
    client: Client, own_cluster: Cluster, topic: str, note: Note
) -> None:
    own_cluster.create_topic(topic, partitions=PARTITIONS)
    for first in (0, RECORDS):
        written = produced(client, own_cluster, topic, first=first, codec="none")
        read = consumed(client, own_cluster, topic, RECORDS)
        assert sorted(read) == sorted(written)
        assert committed(own_cluster, topic) == ends(read)
    note("yes")


@every_client
@pytest.mark.shows("leader killed")
def test_survives_the_death_of_a_leader(
    client: Client, own_cluster: Cluster, topic: str, note: Note
) -> None:
    own_cluster.create_topic(topic, partitions=PARTITIONS)
    leader, _ = own_cluster.seats(topic)[0]
    group = group_coordinated_by(own_cluster, leader, topic)
    mode = "idempotent" if client.idempotent else "plain"
    words = (own_cluster.bootstrap, topic)
    produce = ("produce", *words, "0", str(UNDER_FIRE), "none", mode, str(PER_SECOND))
    with (
        Running(client, "consume", *words, group, str(UNDER_FIRE)) as reader,
        Running(client, *produce) as writer,
    ):
        wait_until("a fifth is read", lambda: len(reader.records) > UNDER_FIRE // 5, PATIENCE_S)
        own_cluster.local.kill(leader)
        try:
            acknowledged = writer.finish()
            read = reader.finish()
        finally:
            own_cluster.local.start(leader)
            own_cluster.wait_in_sync(topic)
            own_cluster.wait_in_sync("__consumer_offsets")
            own_cluster.run("elect", "--all")  # so that it leads and coordinates again
    logs = read_everything(own_cluster.bootstrap, topic, range(PARTITIONS))
    check(acknowledged, read, logs, idempotent=client.idempotent)
    note(f"nothing lost{', nothing twice' if client.idempotent else ''}")


def group_coordinated_by(cluster: Cluster, broker: int, topic: str) -> str:
    """A name of a group whose coordinator is `broker`."""
    names = [f"group-{topic}-{number}" for number in range(200)]
    found: list[str] = []

    def search() -> bool:
        """A broker that was away a moment ago may not lead its groups' partitions again yet."""
        cluster.try_to("elect", "--all")
        with AdminClient(cluster.bootstrap) as admin:
            found.extend(name for name in names if coordinator(admin, name)[0] == broker)
        return bool(found)

    wait_until(f"broker {broker} coordinates one of {len(names)} groups", search, PATIENCE_S)
    return found[0]


def check(
    acknowledged: Sequence[Told],
    read: Sequence[Told],
    logs: dict[int, list[tuple[int, bytes]]],
    *,
    idempotent: bool,
) -> None:
    """Hold what a producer and a consumer told against what the brokers have."""
    stored = {
        (partition, offset): int(value[:8])
        for partition, records in logs.items()
        for offset, value in records
    }
    assert sorted(told.number for told in acknowledged) == list(range(UNDER_FIRE))
    for name, told in (("acknowledged", acknowledged), ("read", read)):
        wrong = [one for one in told if stored.get((one.partition, one.offset)) != one.number]
        assert not wrong, f"{name}, and not what the log has: {wrong[:5]}"
    assert {told.number for told in read} == set(range(UNDER_FIRE))
    if idempotent:
        by_partition = defaultdict(list)
        for (partition, _), number in sorted(stored.items()):
            by_partition[partition].append(number)
        assert sum(map(len, by_partition.values())) == UNDER_FIRE, "a record is there twice"
        assert all(numbers == sorted(numbers) for numbers in by_partition.values())


@every_client
@pytest.mark.shows("admin calls")
def test_administers(client: Client, own_cluster: Cluster, topic: str, note: Note) -> None:
    calls = {name: answer for name, answer in CALLS.items() if name not in client.lacks}
    if not calls:
        note("has none")
        return
    own_cluster.create_topic(topic, partitions=PARTITIONS)
    produced(client, own_cluster, topic, first=0, codec="none")
    consumed(client, own_cluster, topic, RECORDS)
    words = ("admin", own_cluster.bootstrap, f"{topic}-new", topic, f"group-{topic}")
    said = dict(line.rsplit(" ", 1) for line in client.run(*words).splitlines())
    assert {name: answer.lower() for name, answer in said.items()} == calls
    listed = [found["name"] for found in own_cluster.run("topic", "list")]
    assert topic in listed and f"{topic}-new" not in listed
    note(f"all {len(calls)}" if not client.lacks else f"{len(calls)}; no {', '.join(client.lacks)}")
