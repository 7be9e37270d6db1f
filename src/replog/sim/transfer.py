"""How messages travel on one connection: what is fixed when one is sent, and what is read when it
arrives.

File ranges are read on delivery, as `sendfile` would. The bytes must still be those that the sender
meant: a parcel remembers them and refuses to arrive with others. Receivers get record payload in
buffers of their own, that they may write to, as from a network buffer.

Two ways: `Plain` hands objects over; `Framed` sends bytes through `wire` and `codec`.
"""

from collections.abc import Sequence
from random import Random
from typing import Final, Protocol

from replog.codec import Part
from replog.model.messages import Message, Request, Response
from replog.model.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from replog.model.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from replog.model.records import FileRange, Records
from replog.records.header import iterate
from replog.sim.mem_disk import MemFile
from replog.sim.network import Freezable
from replog.sim.violation import Violation
from replog.wire.connection import ClientConnection, ServerConnection
from replog.wire.frame import FrameBuffer

FRAME_SIZE_MAX = 1 << 24
CRC_COVERS_FROM: Final = 21  # bytes of a batch before its attributes, which are the first covered
PIECE_BYTES = 37  # frames arrive in pieces of this size, so that every boundary is met


def _has_rotted(part: FileRange) -> bool:
    return isinstance(part.file, MemFile) and part.file.rotten


class Parcel(Freezable):
    """A message under way. `parts` are its bytes when it travels as such."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self.version = 0
        self.parts: Sequence[Part] = ()
        self.meant = [(part, part.read()) for part in _ranges(message)]
        self.delivered = [data for _, data in self.meant]  # what arrives
        self._frozen = not self.meant

    def flip(self, rng: Random) -> bool:
        """A bit of the records is wrong when they arrive: one that a CRC covers. False when there
        are none."""
        for index, (_, data) in enumerate(self.meant):
            for batch in iterate(data)[:1]:
                wrong = bytearray(data)
                position = rng.randrange(CRC_COVERS_FROM, batch.length)
                wrong[position] ^= 1 << rng.randrange(8)
                self.delivered[index] = bytes(wrong)
                return True
        return False

    def freeze(self) -> None:
        if not self._frozen:
            self.check()
            self._frozen = True

    def check(self) -> None:
        """The ranges still hold what they held when the message was sent."""
        if self._frozen:
            return
        for part, bytes_then in self.meant:
            if part.read() != bytes_then and not _has_rotted(part):
                raise Violation("bytes of a reply never change under way", f"{part!r}")

    @property
    def changed(self) -> bool:
        """Bytes that are still to be read are not those that were meant."""
        return not self._frozen and any(part.read() != data for part, data in self.meant)

    def by_range(self) -> dict[int, bytes]:
        """What arrives, by the identity of the range."""
        return {id(part): data for (part, _), data in zip(self.meant, self.delivered, strict=True)}

    def touches(self, file: object, position: int) -> bool:
        """Whether bytes of `file` from `position` on are still to be read."""
        return not self._frozen and any(
            part.file is file and part.position + part.length > position for part, _ in self.meant
        )


class Courier(Protocol):
    """Carries the messages of one connection. Tokens count the requests from 1 on."""

    def ask(self, message: Request, version: int, *, answered: bool) -> Parcel:
        """A request leaves the dialer."""
        ...

    def asked(self, parcel: Parcel) -> tuple[int, Request]:
        """It arrives at the acceptor: its version and itself."""
        ...

    def answer(self, token: int, parcel: Parcel) -> None:
        """An answer leaves the acceptor, in its turn."""
        ...

    def no_answer(self, token: int) -> None:
        """It is the turn of a request that gets no answer."""
        ...

    def answered(self, parcel: Parcel) -> Message:
        """An answer arrives at the dialer."""
        ...


# ---- objects ------------------------------------------------------------------------------------


class Plain:
    """Messages are handed over as they are; only records get buffers of their own."""

    def ask(self, message: Request, version: int, *, answered: bool) -> Parcel:
        parcel = Parcel(message)
        parcel.version = version
        return parcel

    def asked(self, parcel: Parcel) -> tuple[int, Request]:
        message = parcel.message
        assert isinstance(message, Request)
        if isinstance(message, ProduceRequest):
            message = _open_produce(message)
        return parcel.version, message

    def answer(self, token: int, parcel: Parcel) -> None:
        """Nothing to do."""

    def no_answer(self, token: int) -> None:
        """Nothing to do."""

    def answered(self, parcel: Parcel) -> Message:
        parcel.check()
        message = parcel.message
        if isinstance(message, FetchResponse):
            return _open_fetch(message, parcel.by_range())
        return message


def _ranges(message: Message) -> list[FileRange]:
    if not isinstance(message, FetchResponse):
        return []
    return [
        partition.records
        for topic in message.responses
        for partition in topic.partitions
        if isinstance(partition.records, FileRange)
    ]


def _writable(records: Records) -> Records:
    """A buffer of the receiver's own."""
    if records is None:
        return None
    assert not isinstance(records, FileRange)
    return memoryview(bytearray(records))


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


_PARTITION_FIELDS = tuple(field.name for field in PartitionData.SCHEMA)


def _open_fetch(message: FetchResponse, read: dict[int, bytes]) -> FetchResponse:
    topics = []
    for topic in message.responses:
        partitions = []
        for given in topic.partitions:
            got = PartitionData(**{name: getattr(given, name) for name in _PARTITION_FIELDS})
            if isinstance(given.records, FileRange):
                got.records = memoryview(bytearray(read[id(given.records)]))
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


# ---- bytes --------------------------------------------------------------------------------------


class Framed:
    """Messages become frames and messages again, as `wire` and `codec` have it."""

    def __init__(self, client_id: str, *, peer: bool) -> None:
        self._client_id = client_id
        self._client = ClientConnection()
        self._server = ServerConnection(peer=peer)
        self._to_server = FrameBuffer(FRAME_SIZE_MAX)
        self._to_client = FrameBuffer(FRAME_SIZE_MAX)

    def ask(self, message: Request, version: int, *, answered: bool) -> Parcel:
        parcel = Parcel(message)
        parcel.parts = [
            bytes(part) if not isinstance(part, FileRange) else part
            for part in self._client.request(message, version, self._client_id, answered=answered)
        ]
        return parcel

    def asked(self, parcel: Parcel) -> tuple[int, Request]:
        parsed = self._server.received(_pass(self._to_server, parcel))
        return parsed.version, parsed.message

    def answer(self, token: int, parcel: Parcel) -> None:
        message = parcel.message
        assert isinstance(message, Response)
        parcel.parts = [
            part if isinstance(part, FileRange) else bytes(part)
            for part in self._server.reply(token, message)
        ]

    def no_answer(self, token: int) -> None:
        self._server.no_reply(token)

    def answered(self, parcel: Parcel) -> Message:
        parcel.check()
        _, message = self._client.response(_pass(self._to_client, parcel))
        return message


def _pass(buffer: FrameBuffer, parcel: Parcel) -> memoryview:
    """Let the bytes of one frame arrive in pieces."""
    read = iter(parcel.delivered)
    data = b"".join(
        next(read) if isinstance(part, FileRange) else bytes(part) for part in parcel.parts
    )
    at = 0
    while True:
        frame = buffer.next_frame()
        if frame is not None:
            assert at == len(data)
            return frame
        room = buffer.writable()
        piece = data[at : at + min(PIECE_BYTES if at < 4 * PIECE_BYTES else len(data), len(room))]
        assert piece
        room[: len(piece)] = piece
        buffer.wrote(len(piece))
        at += len(piece)


def newest_version(message: Message) -> int:
    """The version in which two of our own speak."""
    return type(message).VERSIONS[1]
