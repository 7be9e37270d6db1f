"""Batches that need work before they are stored: done outside the step, kept in their order."""

import pytest
from tests.node.lone import Lone, batch, record

from replog.log.results import LogRead
from replog.model.errors import ErrorCode
from replog.node import recompression
from replog.records.batch import (
    BatchHeader,
    Compression,
    Record,
    build_batch,
    crc_ok,
    iterate,
    read_records,
    stamp_timestamp,
)

TYPES = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


def lone(compression: str = "gzip", **configs: str) -> Lone:
    made = Lone()
    made.topic("t", record(1), compression__type=compression, **configs)
    return made


def stored(made: Lone) -> tuple[bytes, list[BatchHeader]]:
    log = made.partition("t").log
    read = log.read(0, 1 << 24, upto=log.log_end_offset, min_one=True)
    assert isinstance(read, LogRead)
    data = b"" if read.range is None else read.range.read()
    return data, iterate(data)


def values(made: Lone) -> list[bytes | None]:
    return [found.value for found in read_records(stored(made)[0])]


# ---- what is stored ------------------------------------------------------------------------


@pytest.mark.parametrize("source", list(Compression))
@pytest.mark.parametrize("wanted", TYPES)
def test_batches_are_stored_in_the_codec_of_the_topic(source: Compression, wanted: str) -> None:
    made = lone(wanted)
    token = made.send("t", batch(b"a" * 100, b"b", compression=source))
    if source == TYPES[wanted]:
        assert not made.jobs, "what is in the right codec is not worked on"
    else:
        assert made.replies(token) == []
        made.run_jobs()
    answer = made.answer(token)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    data, (header,) = stored(made)
    assert header.compression == TYPES[wanted]
    assert crc_ok(data, header)
    assert values(made) == [b"a" * 100, b"b"]


@pytest.mark.parametrize("source", list(Compression))
def test_the_producers_choice_is_stored_as_it_came(source: Compression) -> None:
    made = lone("producer")
    data = batch(b"a", compression=source)
    assert made.produce("t", data).error_code == 0
    assert not made.jobs
    assert stored(made)[0] == data  # which was stamped where it lay


@pytest.mark.parametrize(
    ("codec", "low", "high"), [("gzip", "1", "9"), ("lz4", "9", "12"), ("zstd", "-1000", "19")]
)
def test_levels(codec: str, low: str, high: str) -> None:
    words = [b"%d" % (i * i * 7919) for i in range(50)]
    text = b" ".join(words[i * i % 47] for i in range(20_000))
    sizes = []
    for level in (low, high):
        made = lone(codec, **{f"compression.{codec}.level": level})
        made.send("t", batch(text))
        made.run_jobs()
        sizes.append(len(stored(made)[0]))
    assert sizes[1] < sizes[0]


# ---- order -----------------------------------------------------------------------------------


@pytest.mark.parametrize("last_first", [False, True])
def test_a_producers_batches_stay_in_their_order(last_first: bool) -> None:
    """Some need work and some do not; the work ends in any order."""
    made = lone("lz4")
    codecs = [0, Compression.LZ4, 0, 0, Compression.ZSTD, Compression.LZ4, 0]
    tokens = [
        made.send("t", batch(b"%d" % i, compression=codec, producer=(9, 0, i)))
        for i, codec in enumerate(codecs)
    ]
    assert all(made.replies(token) == [] for token in tokens)
    made.run_jobs(last_first=last_first)
    assert [made.answer(token).base_offset for token in tokens] == list(range(len(codecs)))
    assert values(made) == [b"%d" % i for i in range(len(codecs))]
    assert made.produce("t", batch(b"x", compression=Compression.LZ4)).base_offset == len(codecs)


def test_the_work_is_that_of_requests_for_as_many_threads_as_there_are() -> None:
    made = lone()
    for i in range(10):
        made.send("t", batch(b"%d" % i))
    assert len(made.jobs) == 10 and all(job.for_request for job in made.jobs)
    made.run_jobs()
    assert values(made) == [b"%d" % i for i in range(10)]


def test_partitions_do_not_wait_for_each_other() -> None:
    made = lone()
    made.topic("other", record(1))
    made.send("t", batch(b"a"))
    assert made.produce("other", batch(b"b")).base_offset == 0


def test_a_batch_that_is_sent_again_meanwhile_is_stored_once() -> None:
    made = lone()
    tokens = [made.send("t", batch(b"a", producer=(9, 0, 0))) for _ in range(3)]
    made.run_jobs()
    assert [made.answer(token).base_offset for token in tokens] == [0, 0, 0]
    assert values(made) == [b"a"]


# ---- what happens meanwhile --------------------------------------------------------------------


def test_leadership_ends_meanwhile() -> None:
    made = lone()
    token = made.send("t", batch(b"a"))
    made.topic("t", record(1, 2, leader=2, epoch=1), compression__type="gzip")
    made.run_jobs()
    answer = made.answer(token)
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader.leader_id == 2
    assert values(made) == []


def test_the_topic_goes_meanwhile() -> None:
    made = lone()
    tokens = [made.send("t", batch(b"a")), made.send("t", batch(b"b"))]
    topic = made.node.cluster.topics["t"]
    made.node.cluster.remove_topic("t")
    made.node.partitions.apply([], [("t", topic.topic_id)])
    made.run_jobs()
    errors = {made.answer(token).error_code for token in tokens}
    assert errors == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_too_few_in_sync_meanwhile() -> None:
    made = lone(min__insync__replicas="2")
    made.topic("t", record(1, 2, epoch=1), compression__type="gzip", min__insync__replicas="2")
    token = made.send("t", batch(b"a"), acks=-1)
    made.leader("t").settings = made.leader("t").settings.__class__(
        min_isr=3, lag_ms_max=1_000, durable=False
    )
    made.run_jobs()
    assert made.answer(token).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert values(made) == []


def test_acks_all_waits_for_the_followers_after_the_work() -> None:
    made = lone()
    made.topic("t", record(1, 2, epoch=1), compression__type="gzip")
    token = made.send("t", batch(b"a"), acks=-1)
    made.run_jobs()
    assert made.replies(token) == []
    made.tick(1_000)
    assert made.answer(token).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert values(made) == [b"a"], "it may still be committed"


@pytest.mark.parametrize("timeout_ms", [1_000, 0, -1])
@pytest.mark.parametrize("acks", [1, -1])
def test_the_clients_time_counts_from_the_append(acks: int, timeout_ms: int) -> None:
    made = lone()
    token = made.send("t", batch(b"a"), acks=acks, timeout_ms=timeout_ms)
    made.tick(1_000)
    assert made.replies(token) == []
    made.run_jobs()
    answer = made.answer(token)
    assert (answer.error_code, answer.base_offset) == (0, 0), "with one replica it is committed"
    assert values(made) == [b"a"]


def test_acks_0_is_settled_when_the_batch_is_stored() -> None:
    made = lone()
    token = made.send("t", batch(b"a"), acks=0)
    assert made.replies(token) == []
    made.tick(60_000)
    made.run_jobs()
    assert made.replies(token) == [None]
    assert values(made) == [b"a"]


# ---- refusals ----------------------------------------------------------------------------------


def undecodable() -> bytearray:
    data = batch(b"v" * 1_000, compression=Compression.GZIP)
    data[90:] = bytes(len(data) - 90)
    header = BatchHeader(data, 0)
    stamp_timestamp(data, header, max_timestamp=header.max_timestamp, log_append_time=False)
    return data


def test_what_can_not_be_expanded_is_refused_and_the_next_goes_on() -> None:
    made = lone("zstd")
    tokens = [made.send("t", undecodable()), made.send("t", batch(b"b"))]
    made.run_jobs()
    assert made.answer(tokens[0]).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert made.answer(tokens[1]).base_offset == 0


def test_a_refusal_with_acks_0_closes_the_connection() -> None:
    made = lone("zstd")
    made.send("t", undecodable(), acks=0)
    assert not made.closed
    made.run_jobs()
    assert len(made.closed) == 1


def test_a_batch_that_grows_too_large() -> None:
    made = lone("uncompressed", max__message__bytes="1000")
    token = made.send("t", batch(b"v" * 5_000, compression=Compression.GZIP))
    made.run_jobs()
    assert made.answer(token).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert values(made) == []


def test_a_bomb_is_refused() -> None:
    made = lone("gzip")
    data = batch(bytes(20_000_000), compression=Compression.ZSTD)
    assert len(data) < 20_000
    token = made.send("t", data)
    made.run_jobs()
    assert made.answer(token).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_keys_in_compressed_batches_are_looked_for_outside_the_step() -> None:
    made = Lone()
    made.topic("t", record(1), cleanup__policy="compact")
    keyless = bytearray(
        build_batch([Record(0, 1, b"k", b"a"), Record(0, 1, None, b"b")], compression=2)
    )
    tokens = [made.send("t", keyless), made.send("t", batch(b"c", compression=2))]
    assert made.replies(tokens[0]) == []
    made.run_jobs()
    answer = made.answer(tokens[0])
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [1]
    assert made.answer(tokens[1]).base_offset == 0
    assert not made.jobs


def test_too_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompression, "BATCHES_MAX", 3)
    made = lone()
    tokens = [made.send("t", batch(b"%d" % i)) for i in range(4)]
    assert made.answer(tokens[3]).error_code == ErrorCode.REQUEST_TIMED_OUT
    made.run_jobs()
    assert [made.answer(token).base_offset for token in tokens[:3]] == [0, 1, 2]
    assert made.send("t", batch(b"x")) and made.jobs
