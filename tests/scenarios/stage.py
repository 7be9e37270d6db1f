"""What scenarios need beyond `tests.node.moving`: consumers, and what is in folders of brokers."""

from collections.abc import Callable

from tests.node.moving import T0, held, state
from tests.node.town import Town

from replog.log import epoch_file
from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.inputs import PeerIdentity, SessionEnded
from replog.model.messages import Message
from replog.model.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from replog.node.partition import Partition
from replog.records.batch import read_records
from replog.records.header import BatchHeader, iterate

SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    "replica.socket.timeout.ms": "500",  # what is lost is asked for again soon
    "controller.socket.timeout.ms": "500",
}
Loss = Callable[[int, int, Message], bool]


def a_town(*brokers: int, **settings: str) -> Town:
    """A running town; settings with `__` for each dot."""
    named = {name.replace("__", "."): value for name, value in settings.items()}
    town = Town(brokers=brokers or (0, 1, 2), settings=SETTINGS | named)
    town.start()
    town.run(100)
    return town


def replica(town: Town, broker: int, tp: TopicPartition = T0) -> Partition:
    """The replica that a broker holds."""
    found = town.node(broker).partitions.get(tp)
    assert found is not None
    return found


# ---- folders ------------------------------------------------------------------------------------


def values(town: Town, broker: int, tp: TopicPartition = T0) -> list[bytes]:
    """The values of the records in a broker's folder, whoever is alive."""
    data = held(town, broker, tp)
    return [record.value or b"" for record in read_records(data or b"")]


def headers(town: Town, broker: int, tp: TopicPartition = T0) -> list[BatchHeader]:
    """The batches in a broker's folder."""
    return iterate(held(town, broker, tp) or b"")


def epochs(town: Town, broker: int, tp: TopicPartition = T0) -> list[tuple[int, int]]:
    """(epoch, start offset) as a broker's `leader-epoch-checkpoint` has them."""
    data = town.disks[broker].read_file(f"{tp}/leader-epoch-checkpoint")
    parsed = None if data is None else epoch_file.parse(data)
    assert parsed is not None
    return list(parsed)


def alike(town: Town, *brokers: int, tp: TopicPartition = T0) -> bool:
    """Whether the folders of `brokers` hold the same bytes."""
    logs = [held(town, broker, tp) for broker in brokers]
    return logs[0] is not None and all(log == logs[0] for log in logs)


def isr(town: Town, tp: TopicPartition = T0) -> list[int]:
    """The ISR in the coordinator's node, in order of ids."""
    return sorted(state(town, tp)["isr"])


# ---- consumers ----------------------------------------------------------------------------------


def fetch_later(
    town: Town, broker: int, offset: int = 0, tp: TopicPartition = T0, *, epoch: int = -1
) -> int:
    """A consumer asks a broker for what is at `offset`; returns the connection."""
    topic = FetchTopic(
        topic_id=town.node(broker).cluster.topics[tp.topic].topic_id,
        partitions=[
            FetchPartition(
                partition=tp.partition,
                fetch_offset=offset,
                current_leader_epoch=epoch,
                partition_max_bytes=1 << 20,
            )
        ],
    )
    message = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[topic])
    return town.ask_later(broker, message)


def fetched(town: Town, connection: int) -> PartitionData:
    """What came back for the one partition."""
    return town.answer(connection, FetchResponse).responses[0].partitions[0]


def fetch(
    town: Town, broker: int, offset: int = 0, tp: TopicPartition = T0, *, epoch: int = -1
) -> PartitionData:
    """As `fetch_later`, with the answer."""
    connection = fetch_later(town, broker, offset, tp, epoch=epoch)
    town.run_until(lambda: town.answered(connection))
    return fetched(town, connection)


def consumed(town: Town, broker: int, offset: int = 0, tp: TopicPartition = T0) -> list[bytes]:
    """The values that a consumer gets from a broker."""
    data = fetch(town, broker, offset, tp)
    assert data.error_code == ErrorCode.NONE, ErrorCode(data.error_code)
    return shown(data)


def shown(data: PartitionData) -> list[bytes]:
    """The values in an answer."""
    records = b"" if data.records is None else _bytes(data.records)
    return [record.value or b"" for record in read_records(records)]


def _bytes(records: object) -> bytes:
    read = getattr(records, "read", None)
    return read() if callable(read) else bytes(records)  # type: ignore[call-overload]


# ---- faults -------------------------------------------------------------------------------------


def fetches_of(*brokers: int) -> Loss:
    """What to lose, so that these brokers copy nothing."""
    return lambda source, target, message: source in brokers and isinstance(message, FetchRequest)


def copies_nothing(town: Town, *brokers: int) -> None:
    """From now on brokers copy nothing; the fetches that wait at a leader are over."""
    town.lose_send = fetches_of(*brokers)
    town.run(300)


def cut_from_peers(*brokers: int) -> Loss:
    """What to lose, so that these brokers hear nothing of others and others nothing of them."""
    return lambda source, target, message: (source in brokers) != (target in brokers)


def nothing(source: int, target: int, message: Message) -> bool:
    """Lose nothing any more."""
    return False


def expire_unheard(town: Town, broker: int) -> None:
    """The coordinator gives up the session of a broker, which hears nothing of it."""
    life = town.lives[broker]
    town.cut_from_coordinator.add(broker)
    assert life.session is not None
    town._hint(town.tree.end_session(life.session))


def reconnect(town: Town, broker: int) -> None:
    """The coordinator is reached again: the broker learns that its session is over."""
    town.cut_from_coordinator.discard(broker)
    life = town.lives[broker]
    town.post(life, SessionEnded("expired"))
    town.begin_session(broker)


def send(
    town: Town, source: int, target: int, message: Message, *, epoch: int | None = None
) -> int:
    """A message of broker `source`, in its present life if not said otherwise, arrives now.
    Returns the connection of the answer."""
    sender = town.node(source).broker_epoch if epoch is None else epoch
    peer = PeerIdentity(source, sender)
    return town.ask_later(target, message, peer=peer)
