"""The named maxima of the runtime that have no Kafka configuration, each with unit and reason."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from replog.model.broker_config import REQUEST_THREADS

KIB: Final = 1024
MIB: Final = 1024 * KIB

# Frames of one connection that are handled before others get their turn: a pipelining client may
# fill a receive buffer with thousands of small requests, at 20 to 100 microseconds each.
FRAMES_PER_TURN: Final = 64

# And no further one is begun when a connection's turn has taken so long: some requests cost
# milliseconds, and with 64 of them for each of fifty clients everybody else waits for seconds.
TURN_MS: Final = 2.0

# Connections of brokers have descriptors from here on, above any that clients and log files get.
PEER_DESCRIPTOR_MIN: Final = 15_000

# Connections accepted in one turn, for the same reason.
ACCEPTS_PER_TURN: Final = 64

# Buffers gathered into one sendmsg: the smallest IOV_MAX of the systems that we run on.
BUFFERS_PER_SEND: Final = 1024

# Bytes that one connection may send in one turn; 1 MiB more or less is a fetch's usual answer.
BYTES_PER_FLUSH: Final = 8 * MIB

# A range up to this is read and leaves with what is around it: a system call less for each
# partition of a fetch. From about here on the copy costs more than sendfile (measured on Linux).
RANGE_JOINED_BYTES: Final = 16 * KIB

# Read at once from a file that has no descriptor for sendfile.
RANGE_READ_BYTES: Final = 256 * KIB


@dataclass(frozen=True, slots=True)
class Limits:
    """What strangers can make a broker hold. Milliseconds and bytes."""

    # Kafka's default is without limit. 10,000 sockets cost some 100 MB of kernel memory at rest.
    connections: int = 10_000
    connections_per_ip: int = 4_096
    connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)  # by host

    # How far the first two can be raised while the broker runs.
    connections_max: int = 10_000
    connections_per_ip_max: int = 4_096

    # Beyond `connections`, for connections that begin with a broker's handshake: replication must
    # not fail because clients have taken every place.
    connections_reserved: int = 64

    # Receive buffers of all clients' connections, without the first 64 KiB of each. Beyond it,
    # whoever is in the middle of a large request waits; small ones still pass.
    request_bytes: int = 512 * MIB
    request_bytes_small: int = 64 * KIB

    # Kafka handles one request of a connection at a time. We take more, so that a producer's small
    # batches don't wait for each other's commits, but not without end: replies are parked for each.
    requests_in_flight: int = 256

    # Parts of clients' requests that wait for a thread (queued.max.requests). Nothing more is
    # read from clients until half of them are begun.
    requests_waiting: int = 500

    # Output of one connection that its client has not taken: no further request of it is read.
    output_bytes: int = 2 * MIB

    # From the first byte of a frame to its last, and a second more for each so many bytes of it
    # that came: what Kafka lacks, and slow senders exploit.
    half_frame_ms: int = 30_000
    half_frame_bytes_per_s: int = 8 * KIB

    # For the first frame of a connection that took a reserved place.
    reserved_ms: int = 5_000

    job_threads: int = 10  # background.threads
    # num.io.threads, when set. Not Kafka's 8, since checking records holds Python's lock: with
    # work for all eight, others were answered in 65 ms instead of 0.6 (median).
    request_threads: int = REQUEST_THREADS
    idle_ms: int = 600_000  # connections.max.idle.ms
    frame_bytes: int = 100 * MIB  # socket.request.max.bytes
    sweep_ms: int = 1_000  # how often the deadlines above are looked at
