"""Frames however the stream is cut, the limits, and whom the buffer belongs to."""

import random
import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replog.wire import FrameBuffer, FrameError
from replog.wire.frame import FIRST_CAPACITY, MOVED_FREELY_MAX


def framed(*frames: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


def feed(buffer: FrameBuffer, data: bytes) -> list[memoryview]:
    """Receives all of `data` as fast as the buffer allows; the frames."""
    frames = []
    while data:
        room = buffer.writable()
        count = min(len(room), len(data))
        room[:count] = data[:count]
        buffer.wrote(count)
        data = data[count:]
        while (frame := buffer.next_frame()) is not None:
            frames.append(frame)
    return frames


def test_a_stream_split_at_every_boundary() -> None:
    stream = framed(b"one", b"", b"three" * 10, b"4")
    for cut in range(len(stream) + 1):
        buffer = FrameBuffer(100)
        frames = feed(buffer, stream[:cut]) + feed(buffer, stream[cut:])
        assert [bytes(f) for f in frames] == [b"one", b"", b"three" * 10, b"4"]
        assert buffer.buffered == 0


def test_a_stream_byte_by_byte() -> None:
    buffer = FrameBuffer(100)
    stream = framed(b"one", b"", b"three")
    frames = [bytes(f) for i in range(len(stream)) for f in feed(buffer, stream[i : i + 1])]
    assert frames == [b"one", b"", b"three"]


@given(
    sizes=st.lists(
        st.sampled_from([0, 1, 5, MOVED_FREELY_MAX, 5000, 30_000, 70_000, 200_000]), max_size=12
    ),
    seed=st.integers(0, 2**32),
    keeping=st.booleans(),
    shrinking=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_any_stream_in_any_pieces(
    sizes: list[int], seed: int, keeping: bool, shrinking: bool
) -> None:
    """Frames come out as they went in, whether their views are kept or dropped at once."""
    rng = random.Random(seed)
    sent = [rng.randbytes(size) for size in sizes]
    stream = framed(*sent)
    buffer = FrameBuffer(200_000)
    got: list[memoryview | bytes] = []
    at = 0
    while at < len(stream):
        piece = stream[at : at + rng.choice([1, 3, 4, 100, 65_536, 300_000])]
        at += len(piece)
        while piece:
            room = buffer.writable()
            count = min(len(room), len(piece))
            assert count > 0
            room[:count] = piece[:count]
            buffer.wrote(count)
            piece = piece[count:]
            while (frame := buffer.next_frame()) is not None:
                got.append(frame if keeping else bytes(frame))
                del frame
        if shrinking and rng.random() < 0.3:
            buffer.shrink()
    assert [bytes(frame) for frame in got] == sent
    assert buffer.buffered == 0


@pytest.mark.parametrize("size", [-1, -0x80000000, 101, 0x7FFFFFFF, 0x47455420])
def test_a_wrong_size_is_refused_before_anything_is_allocated(size: int) -> None:
    buffer = FrameBuffer(100)
    room = buffer.writable()
    room[:4] = struct.pack(">i", size)
    buffer.wrote(4)
    refusal = ""
    tracemalloc.start()
    try:  # pytest.raises would take memory of its own, for the pattern of what is expected
        buffer.next_frame()
    except FrameError as error:
        refusal = str(error)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(size) in refusal
    assert peak < 10_000
    assert buffer.capacity == FIRST_CAPACITY


def test_the_limit_itself_is_allowed() -> None:
    (frame,) = feed(FrameBuffer(100), framed(bytes(100)))
    assert len(frame) == 100
    with pytest.raises(FrameError):
        feed(FrameBuffer(100), framed(bytes(101)))


def test_the_buffer_follows_what_arrives_and_not_the_claim() -> None:
    claim = 50_000_000
    buffer = FrameBuffer(100_000_000)
    feed(buffer, struct.pack(">i", claim))
    assert buffer.capacity == FIRST_CAPACITY
    received = 4
    while received < 1_000_000:
        feed(buffer, bytes(10_000))
        received += 10_000
        buffer.writable()
        assert buffer.capacity <= max(FIRST_CAPACITY, 2 * received)
    frames = feed(buffer, bytes(claim + 4 - received))
    assert len(frames[0]) == claim
    assert buffer.capacity == claim + 4


def test_the_buffer_is_reused_as_long_as_nobody_looks_at_it() -> None:
    buffer = FrameBuffer(1_000_000)
    stream = framed(b"x" * 500_000)
    del (feed(buffer, stream))[:]
    memory = buffer.writable().obj
    for _ in range(5):
        assert [bytes(f) for f in feed(buffer, stream)] == [b"x" * 500_000]
        assert buffer.writable().obj is memory


def test_a_view_of_a_view_keeps_its_bytes() -> None:
    buffer = FrameBuffer(1000)
    (frame,) = feed(buffer, framed(b"a" * 900))
    part = frame[100:200]
    del frame
    for letter in b"bcdef":
        feed(buffer, framed(bytes((letter,)) * 900))
    assert part == b"a" * 100


def test_a_kept_view_costs_one_buffer_and_no_more() -> None:
    buffer = FrameBuffer(1000)
    (kept,) = feed(buffer, framed(b"a" * 900))
    feed(buffer, framed(b"b" * 900))
    second = buffer.writable().obj
    assert second is not kept.obj
    feed(buffer, framed(b"c" * 900))
    assert buffer.writable().obj is second


def test_a_remainder_moves_to_the_front() -> None:
    buffer = FrameBuffer(100_000)
    first, second = framed(b"a" * 40_000), framed(b"b" * 40_000)
    assert len(feed(buffer, first + second[:20_000])) == 1
    assert [bytes(f) for f in feed(buffer, second[20_000:])] == [b"b" * 40_000]
    assert buffer.capacity == FIRST_CAPACITY


def test_an_idle_connection_gives_its_memory_back() -> None:
    buffer = FrameBuffer(1_000_000)
    feed(buffer, framed(bytes(500_000)) + b"\0\0")
    buffer.shrink()
    assert buffer.capacity == buffer.buffered == 2
    assert [bytes(f) for f in feed(buffer, b"\0\3abc")] == [b"abc"]
    buffer.shrink()
    assert buffer.capacity == 0
    assert [bytes(f) for f in feed(buffer, framed(b"again"))] == [b"again"]


def test_more_than_there_was_room_for_was_not_received() -> None:
    buffer = FrameBuffer(100)
    room = len(buffer.writable())
    with pytest.raises(ValueError, match="room"):
        buffer.wrote(room + 1)


def test_the_room_is_not_written_after_it_was_given_back() -> None:
    buffer = FrameBuffer(100)
    room = buffer.writable()
    buffer.wrote(0)
    with pytest.raises(ValueError, match="released"):
        room[0] = 1
