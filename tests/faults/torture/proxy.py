"""A network between brokers that can be cut: every connection from one to another passes here.

Runs as a process of its own (`python -m tests.faults.torture.proxy FRONT:BACK:ID...`). Who dials is
told by the client id in the first request (`broker-ID-...`). What is cut is a direction from one
broker to another: its bytes, and the end of its connections, wait until the cut is healed, as they
do in a network that loses packets; so old connections deliver old requests late.

Commands, one JSON object a line on stdin, each answered by a line on stdout once it holds:
`{"cut": [[FROM, TO], ...]}`, `{"heal": [[FROM, TO], ...]}`, and `{"reset": [ID, ...]}`, which
closes all connections from or to these brokers.
"""

import asyncio
import json
import struct
import sys
from collections import defaultdict

CHUNK_BYTES = 1 << 16
HEADER = struct.Struct(">ihhih")  # size, API key, version, correlation id, length of the client id
BACKLOG = 128


class Network:
    """All connections, and what is cut."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, int], asyncio.Event] = {}
        self._writers: dict[int, set[asyncio.StreamWriter]] = defaultdict(set)

    def gate(self, source: int, target: int) -> asyncio.Event:
        """Set while bytes pass from `source` to `target`."""
        gate = self._open.get((source, target))
        if gate is None:
            gate = self._open[source, target] = asyncio.Event()
            gate.set()
        return gate

    def obey(self, command: dict[str, list]) -> None:  # type: ignore[type-arg]
        """Carry out one command."""
        for source, target in command.get("cut", []):
            self.gate(source, target).clear()
        for source, target in command.get("heal", []):
            self.gate(source, target).set()
        for broker in command.get("reset", []):
            for writer in list(self._writers[broker]):
                writer.transport.abort()

    async def serve(self, front: int, back: int, owner: int) -> None:
        """Stand before the broker `owner`, which listens on port `back`."""

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await self._connection(reader, writer, back, owner)
            except (OSError, asyncio.IncompleteReadError):
                pass
            finally:
                writer.close()

        await asyncio.start_server(accepted, "127.0.0.1", front, backlog=BACKLOG)

    async def _connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, back: int, owner: int
    ) -> None:
        first = await reader.readexactly(HEADER.size)
        name = await reader.readexactly(max(0, HEADER.unpack(first)[-1]))
        dialler = int(name.split(b"-")[1])
        await self.gate(dialler, owner).wait()
        try:
            there, back_writer = await asyncio.open_connection("127.0.0.1", back)
        except OSError:
            await self.gate(owner, dialler).wait()  # that nobody listens is news, too
            raise
        ends = [(broker, end) for broker in (dialler, owner) for end in (writer, back_writer)]
        for broker, end in ends:
            self._writers[broker].add(end)
        try:
            back_writer.write(first + name)
            await asyncio.gather(
                self._pump(reader, back_writer, self.gate(dialler, owner)),
                self._pump(there, writer, self.gate(owner, dialler)),
            )
        finally:
            for broker, end in ends:
                self._writers[broker].discard(end)
            back_writer.close()

    @staticmethod
    async def _pump(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event
    ) -> None:
        """Bytes of one direction, and their end."""
        try:
            while data := await reader.read(CHUNK_BYTES):
                await gate.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        await gate.wait()
        writer.close()


async def main() -> None:
    network = Network()
    for text in sys.argv[1:]:
        await network.serve(*map(int, text.split(":")))
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    print("ready", flush=True)
    while line := await commands.readline():
        network.obey(json.loads(line))
        print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
