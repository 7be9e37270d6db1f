"""Record batches: every field of the header wrong, payloads that are none, codecs."""

import struct
from typing import Any, Final

from tests.conformance.cases.fetch import fetch
from tests.conformance.cases.produce import end, one, produce
from tests.conformance.steps import LONG_AGO, Ask, Batch, Batches, Case, Topic

CODECS: Final = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
RECORD: Final = b"\x0e\x00\x00\x00\x01\x02v\x00"  # length 7: no key, value "v", no headers


def _i32(value: int) -> bytes:
    return struct.pack(">i", value)


_HEADERS: Final[dict[str, Batch]] = {
    "offset.5": Batch(base_offset=5),
    "offset.negative": Batch(base_offset=-1),
    "epoch.9": Batch(after={12: _i32(9)}),
    "epoch.negative": Batch(after={12: _i32(-2)}),
    "magic.0": Batch(after={16: b"\0"}),
    "magic.1": Batch(after={16: b"\1"}),
    "magic.3": Batch(after={16: b"\3"}),
    "magic.127": Batch(after={16: b"\x7f"}),
    "magic.negative": Batch(after={16: b"\xff"}),
    "crc": Batch(after={17: b"\1\2\3\4"}),
    "length.short": Batch(after={8: _i32(40)}),
    "length.0": Batch(after={8: _i32(0)}),
    "length.negative": Batch(after={8: _i32(-1)}),
    "length.1less": Batch(after={8: _i32(49 + 7)}),
    "length.1more": Batch(after={8: _i32(49 + 9)}),
    "length.large": Batch(after={8: _i32(2_000_000_000)}),
    "count.0": Batch(header={"count": 0}),
    "count.2": Batch(header={"count": 2}),
    "count.negative": Batch(header={"count": -1}),
    "count.large": Batch(header={"count": 2_000_000_000}),
    "lastoffset.1": Batch(header={"last_offset_delta": 1}),
    "lastoffset.negative": Batch(header={"last_offset_delta": -1}),
    "lastoffset.fewer": Batch(values=[b"a", b"b"], header={"last_offset_delta": 0}),
    "attribute.bit6": Batch(attributes=64),
    "attribute.bit15": Batch(header={"attributes": -32768}),
    "attribute.appendtime": Batch(attributes=8),
    "attribute.control": Batch(attributes=32),
    "time.negative": Batch(times=[-5]),
    "time.none": Batch(times=[-1]),
    "time.zero": Batch(times=[0]),
    "maxtime.lower": Batch(header={"max_timestamp": LONG_AGO - 5}),
    "maxtime.higher": Batch(header={"max_timestamp": LONG_AGO + 5}),
    "maxtime.none": Batch(header={"max_timestamp": -1}),
    "basetime.none": Batch(header={"base_timestamp": -1}),
    "times.backwards": Batch(values=[b"a", b"b"], times=[LONG_AGO + 9, LONG_AGO]),
    "cut.1": Batch(cut=1),
    "cut.header": Batch(cut=30),
    "cut.most": Batch(cut=66),
}
_PAYLOADS: Final[dict[str, Batch]] = {
    "none": Batch(payload=b""),
    "none.count0": Batch(payload=b"", header={"count": 0, "last_offset_delta": 0}),
    "twice": Batch(payload=RECORD * 2),
    "twice.count2": Batch(payload=RECORD * 2, header={"count": 2, "last_offset_delta": 1}),
    "length.more": Batch(payload=b"\x10" + RECORD[1:]),
    "length.less": Batch(payload=b"\x0c" + RECORD[1:]),
    "length.negative": Batch(payload=b"\x01" + RECORD[1:]),
    "length.0": Batch(payload=b"\x00"),
    "delta.5": Batch(payload=b"\x0e\x00\x00\x0a\x01\x02v\x00"),
    "delta.negative": Batch(payload=b"\x0e\x00\x00\x01\x01\x02v\x00"),
    "key.toolong": Batch(payload=b"\x0e\x00\x00\x00\x40\x02v\x00"),
    "key.minus2": Batch(payload=b"\x0e\x00\x00\x00\x03\x02v\x00"),
    "value.toolong": Batch(payload=b"\x0e\x00\x00\x00\x01\x40v\x00"),
    "value.minus2": Batch(payload=b"\x0c\x00\x00\x00\x01\x03\x00"),
    "headers.1missing": Batch(payload=b"\x0e\x00\x00\x00\x01\x02v\x02"),
    "headers.negative": Batch(payload=b"\x0e\x00\x00\x00\x01\x02v\x01"),
    "headers.nullname": Batch(payload=b"\x12\x00\x00\x00\x01\x02v\x02\x01\x01"),
    "attributes": Batch(payload=b"\x0e\x07\x00\x00\x01\x02v\x00"),
    "text": Batch(payload=b"this is not a record"),
    "zeros": Batch(payload=bytes(20)),
    "junk.behind": Batch(payload=RECORD + b"junk"),
}
_RAW: Final[dict[str, Any]] = {
    "empty": b"",
    "byte": b"\0",
    "text": b"no batch at all, and long enough to have a header: 61 bytes and more of text",
    "zeros": bytes(100),
    "two": Batches([Batch(), Batch()]),
    "two.secondwrong": Batches([Batch(), Batch(after={17: b"\1\2\3\4"})]),
    "two.secondcut": Batches([Batch(), Batch(cut=3)]),
    "behind": Batches([Batch(), Batch(cut=60)]),
}

_ALL = {
    **{f"header.{name}": batch for name, batch in _HEADERS.items()},
    **{f"payload.{name}": batch for name, batch in _PAYLOADS.items()},
    **{f"raw.{name}": batch for name, batch in _RAW.items()},
}

CASES: Final = [
    *(one(f"batch.{name}", batch, (3, 13)) for name, batch in _ALL.items()),
    *(
        one(f"batch.acks0.{name}", _ALL[name], (9,), acks=0)
        for name in ("header.crc", "header.magic.1", "payload.text", "raw.empty", "raw.two")
    ),
    *(
        one(
            f"codec.{codec}.{name}",
            batch,
            versions,
        )
        for codec, number in CODECS.items()
        for name, batch, versions in (
            ("plain", Batch(values=[b"x" * 300] * 2, compression=number), (3, 6, 7, 9, 13)),
            ("garbage", Batch(payload=b"this is nothing", header={"attributes": number}), (9, 13)),
            ("nothing", Batch(payload=b"", header={"attributes": number}), (9,)),
        )
    ),
    *(
        one(f"codec.unknown.{number}", Batch(header={"attributes": number}), (3, 9, 13))
        for number in (5, 6, 7)
    ),
    *(
        Case(
            f"codec.{codec}.topic.{policy}",
            "Produce",
            [
                Topic("a", configs={"compression.type": policy}),
                Ask("Produce", produce(Batch(values=[b"x" * 300] * 3, compression=number))),
                Ask("Fetch", fetch()),
                end(),
            ],
            (9,),
        )
        for codec, number in {"none": 0, **CODECS}.items()
        for policy in ("producer", "uncompressed", "gzip", "zstd")
    ),
    *(
        Case(
            f"codec.{codec}.fetch",
            "Fetch",
            [
                Topic("a"),
                Ask("Produce", produce(Batch(values=[b"x" * 300] * 3, compression=number)), 9),
                Ask("Fetch", fetch()),
            ],
            (4, 9, 10, 12, 18),
        )
        for codec, number in CODECS.items()
    ),
    *(
        one(
            f"decompressed.{codec}.{policy}.{limit}",
            Batch(values=[b"x" * 5000], compression=number),
            (9,),
            Topic(
                "a",
                configs={
                    "max.decompressed.message.bytes": limit,
                    "compression.type": policy,
                    "cleanup.policy": "delete",
                },
            ),
        )
        for codec, number in {"none": 0, **CODECS}.items()
        for policy in ("producer", "uncompressed", "gzip")
        for limit in ("1000", "6000")
    ),
    *(
        Case(
            f"read.back.{name}",
            "Fetch",
            [Topic("a"), Ask("Produce", produce(batch), 9), Ask("Fetch", fetch())],
        )
        for name, batch in {
            "epoch": _HEADERS["epoch.9"],
            "bits": _HEADERS["attribute.bit6"],
            "bit15": _HEADERS["attribute.bit15"],
            "maxtime.none": _HEADERS["maxtime.none"],
            "maxtime.higher": _HEADERS["maxtime.higher"],
            "attributes": _PAYLOADS["attributes"],
        }.items()
    ),
]
