"""Idempotent producers, the ids of transactional ones, and what is told of both."""

from typing import Any, Final

from tests.conformance.cases.produce import end, produce
from tests.conformance.steps import Ask, Batch, Case, Saved, Step, Topic

IDEMPOTENT: Final = Ask(
    "InitProducerId",
    {"transactional_id": None, "transaction_timeout_ms": 60000},
    version=4,
    save={"p": "producer_id"},
    check=False,
)


def write(sequence: int, count: int = 1, *, epoch: int = 0, version: int | None = None) -> Ask:
    batch = Batch(values=[b"v"] * count, producer=(Saved("p"), epoch, sequence))
    return Ask("Produce", produce(batch), version)


def one(name: str, *steps: Step, versions: Any = (3, 9, 13)) -> Case:
    return Case(f"idempotent.{name}", "Produce", [Topic("a"), IDEMPOTENT, *steps, end()], versions)


DESCRIBE: Final = Ask(
    "DescribeProducers", {"topics": [{"name": "<a>", "partition_indexes": [0]}]}, 0
)


def init(name: str, *steps: Step, versions: Any = "all") -> Case:
    return Case(f"initproducerid.{name}", "InitProducerId", steps, versions)


def ask(timeout_ms: int = 60000, key: str | None = "<x>", **given: Any) -> Ask:
    body = {"transactional_id": key, "transaction_timeout_ms": timeout_ms, **given}
    return Ask(
        "InitProducerId", body, to="b1" if key is None else "txn:<x>", save={"p": "producer_id"}
    )


CASES: Final = [
    one("plain", write(0), write(1), write(2, 3), write(5)),
    one("again", write(0), write(1), write(1), write(0)),
    one("window", *(write(number) for number in range(7)), write(1), write(3), write(2)),
    one("gap", write(0), write(2)),
    one("first.not0", write(5), write(6)),
    one("lower", write(0), write(1), write(2), write(3), write(4), write(5), write(0)),
    one("overlap", write(0, 3), write(1, 2), write(2, 2)),
    one("epoch.newer", write(0), write(0, epoch=1), write(1, epoch=1)),
    one("epoch.newer.not0", write(0), write(3, epoch=1)),
    one("epoch.older", write(0, epoch=2), write(0, epoch=1), write(1, epoch=2)),
    one("wrap", write(2147483646, 2), write(0)),
    one("wrap.inside", write(2147483645, 4), write(1)),
    one("negative.sequence", write(-1)),
    one("negative.epoch", write(0, epoch=-1)),
    one(
        "unknown.id",
        Ask("Produce", produce(Batch(producer=(123456789, 0, 0)))),
        Ask("Produce", produce(Batch(producer=(123456789, 0, 1)))),
    ),
    one("two.batches", write(0), DESCRIBE, write(1, 2), DESCRIBE, versions=(9,)),
    one(
        "acks1.then.all",
        Ask("Produce", produce(Batch(producer=(Saved("p"), 0, 0)), acks=1)),
        write(0),
    ),
    Case(
        "describeproducers.errors",
        "DescribeProducers",
        [
            Topic("a", [[1, 2], [2, 1], [2, 3]]),
            Ask(
                "DescribeProducers",
                {"topics": [{"name": "<a>", "partition_indexes": [0, 1, 2, 9]}]},
            ),
            Ask(
                "DescribeProducers",
                {
                    "topics": [
                        {"name": "<nobody>", "partition_indexes": [0]},
                        {"name": "a b", "partition_indexes": [0]},
                    ]
                },
            ),
        ],
    ),
    init("idempotent", ask(key=None)),
    init("plain", ask(), ask()),
    init("empty", ask(key="")),
    *(
        init(f"timeout.{ms}", ask(ms), ask(ms, key=None), versions=(0, 3, 5))
        for ms in (-1, 0, 1, 900_000, 900_001)
    ),
    init("wrongbroker", Ask("InitProducerId", ask().body, to="other-txn:<x>", patient=False)),
    init("again", ask(), ask(producer_id=Saved("p"), producer_epoch=0), versions=(3, 4, 5)),
    init(
        "again.twice",
        ask(),
        ask(producer_id=Saved("p"), producer_epoch=0),
        ask(producer_id=Saved("p"), producer_epoch=0),
        ask(producer_id=Saved("p"), producer_epoch=1),
        versions=(3, 4, 5),
    ),
    init(
        "fenced",
        ask(),
        ask(),
        ask(),
        ask(producer_id=Saved("p"), producer_epoch=0),
        versions=(3, 4, 5),
    ),
    init("future", ask(), ask(producer_id=Saved("p"), producer_epoch=7), versions=(3, 4, 5)),
    init("other.id", ask(), ask(producer_id=987654321, producer_epoch=0), versions=(3, 4, 5)),
    init("unknown.id", ask(producer_id=987654321, producer_epoch=0), versions=(3, 4, 5)),
    init("id.only", ask(producer_id=1), versions=(3, 5)),
    init("epoch.only", ask(producer_epoch=1), versions=(3, 5)),
    init("idempotent.again", ask(key=None, producer_id=1, producer_epoch=0), versions=(3, 5)),
]
