"""How a message travels: what is fixed when it is sent, and what is read when it arrives.

File ranges are read on delivery, as `sendfile` would. The bytes must still be those that the
sender meant: a parcel remembers them and refuses to arrive with others. Receivers get record
payload in buffers of their own, that they may write to, as from a network buffer.

Two ways: `Plain` hands the object over; `Encoded` goes through the codec at one version.
"""

from collections.abc import Iterator
from typing import Protocol

from replog.codec import decode, encode
from replog.model.messages import Message
from replog.model.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from replog.model.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from replog.model.records import FileRange, Records
from replog.sim.network import Freezable
from replog.sim.violation import Violation


class Parcel(Freezable):
    """A message under way."""

    def __init__(self, ranges: list[FileRange]) -> None:
        self.meant = [(part, part.read()) for part in ranges]
        self._frozen = not ranges

    def freeze(self) -> None:
        if not self._frozen:
            self.check()
            self._frozen = True

    def check(self) -> None:
        """The ranges still hold what they held when the message was sent."""
        if self._frozen:
            return
        for part, bytes_then in self.meant:
            if part.read() != bytes_then:
                raise Violation("bytes of a reply changed under way", f"{part!r}")

    def touches(self, file: object, position: int) -> bool:
        """Whether bytes of `file` from `position` on are still to be read."""
        return not self._frozen and any(
            part.file is file and part.position + part.length > position for part, _ in self.meant
        )

    def open(self) -> Message:
        """The message as the receiver gets it. Called once."""
        raise NotImplementedError


class Transfer(Protocol):
    """A way for messages to travel."""

    def pack(self, message: Message, version: int) -> Parcel: ...


def _writable(records: Records) -> Records:
    """A buffer of the receiver's own."""
    if records is None:
        return None
    data = records.read() if isinstance(records, FileRange) else records
    return memoryview(bytearray(data))


def _ranges(message: Message) -> Iterator[FileRange]:
    if isinstance(message, FetchResponse):
        for topic in message.responses:
            for partition in topic.partitions:
                if isinstance(partition.records, FileRange):
                    yield partition.records


class _PlainParcel(Parcel):
    def __init__(self, message: Message) -> None:
        super().__init__(list(_ranges(message)))
        self._message = message
        self._bytes: dict[int, bytes] = {id(part): data for part, data in self.meant}

    def open(self) -> Message:
        self.check()
        message = self._message
        if isinstance(message, FetchResponse):
            return self._open_fetch(message)
        if isinstance(message, ProduceRequest):
            return _open_produce(message)
        return message

    def _open_fetch(self, message: FetchResponse) -> FetchResponse:
        topics = []
        for topic in message.responses:
            partitions = []
            for given in topic.partitions:
                got = PartitionData(**{name: getattr(given, name) for name in _PARTITION_FIELDS})
                if isinstance(given.records, FileRange):
                    got.records = memoryview(bytearray(self._bytes[id(given.records)]))
                else:
                    got.records = _writable(given.records)
                partitions.append(got)
            topics.append(
                FetchableTopicResponse(
                    topic=topic.topic, topic_id=topic.topic_id, partitions=partitions
                )
            )
        return FetchResponse(
            throttle_time_ms=message.throttle_time_ms,
            error_code=message.error_code,
            session_id=message.session_id,
            responses=topics,
            node_endpoints=message.node_endpoints,
        )


_PARTITION_FIELDS = tuple(field.name for field in PartitionData.SCHEMA)


def _open_produce(message: ProduceRequest) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=message.transactional_id,
        acks=message.acks,
        timeout_ms=message.timeout_ms,
        topic_data=[
            TopicProduceData(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_data=[
                    PartitionProduceData(index=part.index, records=_writable(part.records))
                    for part in topic.partition_data
                ],
            )
            for topic in message.topic_data
        ],
    )


class Plain:
    """Messages are handed over as they are; only records get buffers of their own."""

    def pack(self, message: Message, version: int) -> Parcel:
        return _PlainParcel(message)


class _EncodedParcel(Parcel):
    def __init__(self, message: Message, version: int) -> None:
        self._parts = encode(message, version)
        super().__init__([part for part in self._parts if isinstance(part, FileRange)])
        self._kind = type(message)
        self._version = version
        self._fixed = [
            bytes(part) if not isinstance(part, FileRange) else None for part in self._parts
        ]

    def open(self) -> Message:
        self.check()
        data = bytearray()
        ranges = iter(self.meant)
        for fixed in self._fixed:
            data += next(ranges)[1] if fixed is None else fixed
        message, _ = decode(self._kind, self._version, memoryview(data))
        return message


class Encoded:
    """Messages become bytes and messages again, as the codec has it."""

    def pack(self, message: Message, version: int) -> Parcel:
        return _EncodedParcel(message, version)


def newest_version(message: Message) -> int:
    """The version in which two of our own speak."""
    return type(message).VERSIONS[1]
