"""Plans of moves: made from brokers that are allowed, read from files and words, shown.

The file has the form that Kafka's own tool takes: `{"version": 1, "partitions": [{"topic": "t",
"partition": 0, "replicas": [1, 2]}]}`.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replog.cli.errors import Failure, UsageError
from replog.cli.partition_names import parse
from replog.model.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Move:
    """One partition, and where it is to be; the first broker is the preferred leader."""

    tp: TopicPartition
    replicas: tuple[int, ...]


def spread(
    current: Mapping[TopicPartition, Sequence[int]],
    brokers: Mapping[int, str | None],
    replication_factor: int | None = None,
) -> list[Move]:
    """Moves that bring partitions to `brokers` (with their racks), copying as little as possible.

    Replicas on allowed brokers stay. What is missing goes to the broker with the fewest replicas,
    first of all on a rack that the partition is not on. Among its replicas, the broker with the
    fewest preferred leaderships comes first. Partitions that stay as they are are left out.
    Raises Failure when there are fewer brokers than replicas.
    """
    load = dict.fromkeys(brokers, 0)
    led = dict.fromkeys(brokers, 0)
    kept: dict[TopicPartition, list[int]] = {}
    for tp, replicas in current.items():
        count = replication_factor or len(replicas)
        if count > len(brokers):
            raise Failure(f"{tp} has {count} replicas, but only {len(brokers)} brokers are allowed")
        kept[tp] = [broker for broker in replicas if broker in brokers][:count]
        for broker in kept[tp]:
            load[broker] += 1
    moves = []
    for tp, replicas in current.items():
        chosen = kept[tp]
        while len(chosen) < (replication_factor or len(replicas)):
            racks = {brokers[broker] for broker in chosen}
            best = min(
                (broker for broker in brokers if broker not in chosen),
                key=lambda broker: (brokers[broker] in racks, load[broker], broker),
            )
            load[best] += 1
            chosen.append(best)
        if chosen[0] != replicas[0] or led[chosen[0]] > min(led[b] for b in chosen) + 1:
            first = min(chosen, key=lambda broker: (led[broker], chosen.index(broker)))
            chosen.remove(first)
            chosen.insert(0, first)
        led[chosen[0]] += 1
        if tuple(chosen) != tuple(replicas):
            moves.append(Move(tp, tuple(chosen)))
    return moves


def as_json(moves: Sequence[Move]) -> dict[str, Any]:
    """The plan as a document."""
    return {
        "version": 1,
        "partitions": [
            {"topic": m.tp.topic, "partition": m.tp.partition, "replicas": list(m.replicas)}
            for m in moves
        ],
    }


def read(words: Sequence[str]) -> list[Move]:
    """Moves from `TOPIC:PARTITION=BROKER,BROKER` words and files (`-` is stdin).

    Raises UsageError, or Failure for a file that can't be read.
    """
    moves: dict[TopicPartition, Move] = {}
    for word in words:
        for move in [_from_word(word)] if "=" in word else _from_file(word):
            if move.tp in moves:
                raise UsageError(f"{move.tp.topic}:{move.tp.partition} is moved twice")
            moves[move.tp] = move
    return list(moves.values())


def _from_word(word: str) -> Move:
    name, _, brokers = word.partition("=")
    topic, index = parse(name)
    replicas = brokers.split(",")
    if index is None or not all(broker.strip().isdecimal() for broker in replicas):
        raise UsageError(f"{word!r} is not TOPIC:PARTITION=BROKER,BROKER")
    return Move(TopicPartition(topic, index), tuple(int(broker) for broker in replicas))


def _from_file(name: str) -> list[Move]:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text()
    except FileNotFoundError as error:
        raise Failure(
            f"{name}: no such file, and no move: that is TOPIC:PARTITION=BROKER,BROKER"
        ) from error
    except OSError as error:
        raise Failure(f"{name}: {error.strerror or error}") from error
    try:
        return [
            Move(
                TopicPartition(str(entry["topic"]), int(entry["partition"])),
                tuple(int(broker) for broker in entry["replicas"]),
            )
            for entry in json.loads(text)["partitions"]
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise Failure(
            f"{'stdin' if name == '-' else name} is no plan: {_wrong(error)}; "
            "'replog reassign plan --format json' makes one"
        ) from error


def _wrong(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)
