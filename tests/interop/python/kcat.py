"""kcat against a cluster, as a shell script would use it. It has no admin calls."""

import re
import shutil
import signal
import subprocess
import sys
import threading
from typing import IO

from program import Consume, Produce, Program, number_of, told, value

PARTITIONS = 3
KCAT = shutil.which("kcat") or shutil.which("kafkacat") or "kcat"
DELIVERED = re.compile(rb"Message delivered to partition (\d+) \(offset (\d+)\)")


def version() -> str:
    """Its own, and that of the library that it was built with."""
    said = subprocess.run([KCAT, "-V"], capture_output=True, text=True).stdout
    found = re.search(r"Version ([\d.]+).*?(librdkafka [\d.]+)", said)
    return f"{found[1]} ({found[2]})" if found else "?"


class Partition:
    """A kcat for each partition: it says which offset a record got, but not which record that was,
    and in one partition that follows from the order."""

    def __init__(self, run: Produce, partition: int) -> None:
        self._sent: list[int] = []
        settings = {
            "acks": "all",
            "enable.idempotence": str(run.idempotent).lower(),
            "max.in.flight": "5" if run.idempotent else "1",
            "linger.ms": "5",
            "topic.produce.offset.report": "true",
        }
        words = [word for pair in settings.items() for word in ("-X", "=".join(pair))]
        place = ("-t", run.topic, "-p", str(partition))
        self._process = subprocess.Popen(
            [KCAT, "-b", run.bootstrap, "-P", "-E", "-vvv", "-z", run.codec, *place, *words],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._reader = threading.Thread(target=self._tell)
        self._reader.start()

    def _tell(self) -> None:
        delivered = 0
        for line in _lines(self._process.stderr):
            if found := DELIVERED.search(line):
                told(int(found[1]), int(found[2]), self._sent[delivered])
                delivered += 1
            else:
                sys.stderr.buffer.write(line)

    def send(self, numbers: list[int]) -> None:
        assert self._process.stdin is not None
        self._sent += numbers
        self._process.stdin.write(b"".join(value(number) + b"\n" for number in numbers))
        self._process.stdin.flush()

    def close(self) -> int:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._reader.join()
        return self._process.wait()


def _lines(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def produce(run: Produce) -> None:
    partitions = [Partition(run, partition) for partition in range(PARTITIONS)]
    for numbers in run.chunks():
        for index, partition in enumerate(partitions):
            partition.send([number for number in numbers if number % PARTITIONS == index])
    sys.exit(max([partition.close() for partition in partitions]))


def consume(run: Consume) -> None:
    settings = (
        "auto.offset.reset=earliest",
        "session.timeout.ms=6000",
        "heartbeat.interval.ms=500",
    )
    words = [word for setting in settings for word in ("-X", setting)]
    output = ("-q", "-u", "-f", "%p %o %s\n")
    process = subprocess.Popen(
        [KCAT, "-b", run.bootstrap, "-E", *output, *words, "-G", run.group, run.topic],
        stdout=subprocess.PIPE,
    )
    seen: set[int] = set()
    for line in _lines(process.stdout):
        partition, offset, found = line.split(b" ", 2)
        told(int(partition), int(offset), number_of(found))
        seen.add(number_of(found))
        if len(seen) >= run.count:
            break
    process.send_signal(signal.SIGTERM)  # it commits, and leaves the group
    _lines(process.stdout).read()
    sys.exit(process.wait())


Program(version(), produce, consume).run()
