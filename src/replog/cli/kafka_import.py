"""Bringing Kafka's partitions into a cluster of this machine while its brokers are stopped.

In this order, so that nothing is half made: everything is checked; copies are made beside the
brokers' log folders and proven; they get their places by renames; and one write to the coordinator
makes the topics. Until that write no broker knows of them, and when anything fails before it, all
is taken away again. What a killed import left behind is noticed, and replaced, by the next one.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from replog.cli.errors import Failure
from replog.cli.kafka_folders import Copy, Found, FoundTopic
from replog.cli.kafka_offsets import Offsets, read_offsets
from replog.cli.kafka_staging import Progress, Staged, replicate, stage
from replog.core.controller import stored
from replog.core.controller.placement import assign_replicas
from replog.core.topics import MetricNames, topic_name_fault
from replog.log import checkpoints
from replog.log.disk import DiskError
from replog.log.errors import LogCorrupt
from replog.model.cluster import TopicRecord
from replog.model.config import ConfigError, validate_topic_configs
from replog.model.coordination import (
    CONFIG_TOPICS,
    PRODUCER_ID_BLOCK,
    TOPICS,
    Create,
    Operation,
    SetData,
    StoredNode,
    WriteDone,
)
from replog.model.errors import Refused
from replog.model.ids import GROUP_OFFSETS_TOPIC, INTERNAL_TOPICS, NO_LEADER, TopicPartition
from replog.model.partition import PartitionRecord
from replog.node.producer_ids import BLOCK_SIZE, JSON_VERSION
from replog.records.errors import CorruptBatch
from replog.runtime.coordination.opening import open_coordination
from replog.runtime.coordination.port import CoordinationError
from replog.runtime.errors import StartError
from replog.runtime.local_cluster import LocalCluster
from replog.runtime.log_dirs import lock_folder
from replog.runtime.os_disk import OsDisk

STAGING: Final = "importing"  # beside a broker's log folder
KEEP_ALL: Final = {"retention.ms": "-1"}

Say = Callable[[str], None]


@dataclass(slots=True)
class TopicPlan:
    """One topic as it is to be: replicas of each partition, the first of which leads if it can."""

    found: FoundTopic
    configs: dict[str, str]
    replicas: list[tuple[int, ...]]

    @property
    def bytes(self) -> int:
        return sum(copy.bytes for copy in self.found.copies.values())


@dataclass(slots=True)
class Plan:
    """What is to be done."""

    topics: list[TopicPlan] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    next_producer_id: int = 0
    # Of groups, when the cluster has such a topic itself: committed anew once its brokers run.
    offsets: FoundTopic | None = None

    @property
    def bytes(self) -> int:
        """Of the logs, once."""
        return sum(topic.bytes for topic in self.topics)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user asked for."""

    topics: frozenset[str] = frozenset()  # only these; empty: all
    skip: frozenset[str] = frozenset()
    configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by topic
    replication_factor: int = 3


def plan(found: Found, wanted: Wanted, cluster: "StoppedCluster") -> Plan:
    """Decide everything that can be decided before a byte is copied. Raises Failure."""
    result = Plan(notes=list(found.notes), next_producer_id=found.next_producer_id)
    names = _chosen(found, wanted, cluster, result)
    missing = [lack for name in names if (lack := _lack(found.topics[name])) is not None]
    for number, name in enumerate(names):
        topic = found.topics[name]
        if name in cluster.topics:
            if name == GROUP_OFFSETS_TOPIC:
                result.offsets = topic
                result.notes.append(f"{name}: the cluster has its own, offsets are committed to it")
            else:
                result.notes.append(f"{name}: the cluster has its own, this one is left out")
            continue
        assigned = assign_replicas(
            dict.fromkeys(cluster.broker_ids),
            partitions=topic.partitions,
            replication_factor=wanted.replication_factor,
            start_index=number % len(cluster.broker_ids),
            shift=number % len(cluster.broker_ids),
        )
        if isinstance(assigned, Refused):
            raise Failure(assigned.message or assigned.error.name)
        configs = _configs(topic, wanted, result)
        result.topics.append(TopicPlan(topic, configs, assigned))
    if missing:
        raise Failure(
            f"partitions are missing: {'; '.join(missing)}. Give the folders of the other brokers "
            "too, or leave these topics out with --skip"
        )
    if not result.topics and result.offsets is None:
        raise Failure("there is nothing to import")
    return result


def _lack(topic: FoundTopic) -> str | None:
    absent = [str(p) for p in range(topic.partitions) if p not in topic.copies]
    return f"{topic.name} lacks {', '.join(absent)} of {topic.partitions}" if absent else None


def _chosen(found: Found, wanted: Wanted, cluster: "StoppedCluster", result: Plan) -> list[str]:
    unknown = sorted((wanted.topics | wanted.skip | set(wanted.configs)) - set(found.topics))
    if unknown:
        raise Failure(f"no such topic in these folders: {', '.join(unknown)}")
    names = [n for n in sorted(found.topics) if not wanted.topics or n in wanted.topics]
    names = [n for n in names if n not in wanted.skip]
    there = [n for n in names if n in cluster.topics and n not in INTERNAL_TOPICS]
    if there:
        raise Failure(f"the cluster has topics of these names: {', '.join(there)}")
    taken = MetricNames(cluster.topics)
    for name in names:
        if name in cluster.topics:
            continue
        fault = topic_name_fault(name)
        other = taken.twin(name)
        if fault is None and other is not None:
            fault = f"topic {name!r} can't be told from {other!r} in metrics"
        if fault is not None:
            raise Failure(fault)
        if found.topics[name].topic_id in cluster.topics.values():
            raise Failure(f"the cluster has another topic with the id of {name!r}")
    return names


def _worth_knowing(staged: Staged) -> list[str]:
    """What readers of this partition will meet, or miss."""
    notes = []
    if staged.cut is not None:
        notes.append(f"{staged.copy.tp}: what Kafka was writing when it died is cut: {staged.cut}")
    if staged.open_transactions:
        notes.append(
            f"{staged.copy.tp}: open transactions stay so ({staged.open_transactions}): who reads "
            "committed records only stops in front of them"
        )
    return notes


def _configs(topic: FoundTopic, wanted: Wanted, result: Plan) -> dict[str, str]:
    """What the controllers' log says, else what the files show; and what the user says on top."""
    configs: dict[str, str] = {}
    if topic.configs is None:
        if topic.name in INTERNAL_TOPICS or any(c.cleaned_to for c in topic.copies.values()):
            configs["cleanup.policy"] = "compact"
        configs |= KEEP_ALL
        result.notes.append(
            f"{topic.name}: no configuration was found; it is kept forever (retention.ms=-1)"
            + (" and compacted" if "cleanup.policy" in configs else "")
            + ", unless --config says otherwise"
        )
    else:
        for name, value in topic.configs.items():
            fault = validate_topic_configs({name: value})
            if fault is None:
                configs[name] = value
            else:
                result.notes.append(f"{topic.name}: {name}={value} is left out: {fault}")
    configs |= wanted.configs.get(topic.name, {})
    refused: ConfigError | None = validate_topic_configs(configs)
    if refused is not None:
        raise Failure(f"{topic.name}: {refused}")
    return configs


class StoppedCluster:
    """A local cluster, kept from starting while this is open."""

    def __init__(self, cluster: LocalCluster, *, look_only: bool = False) -> None:
        """Raises Failure when a broker runs, which does not matter with `look_only`, or when the
        coordinator can't be used."""
        self._cluster = cluster
        self._open = ExitStack()
        self.broker_ids = [member.broker_id for member in cluster.members]
        nodes: dict[str, StoredNode] = {}
        try:
            if not look_only:
                self._lock()
            address = cluster.config.coordinator
            elsewhere = address is not None and address.kind != "sqlite"
            if elsewhere or cluster.coordinator.exists() or not look_only:
                self._coordination = open_coordination(cluster.config)
                self._open.callback(self._coordination.close)
                nodes = self._coordination.read_now([TOPICS, CONFIG_TOPICS, PRODUCER_ID_BLOCK])
        except StartError as error:
            self.close()
            raise Failure(f"{error}: stop it with 'replog down'") from error
        except CoordinationError as error:
            self.close()
            raise Failure(str(error)) from error
        except OSError as error:
            self.close()
            raise Failure(f"{error.filename}: {error.strerror}") from error
        self.config_nodes = {path for path in nodes if path.startswith(CONFIG_TOPICS)}
        self._producer_block: StoredNode | None = nodes.get(PRODUCER_ID_BLOCK)
        self.topics = dict(_topic_ids(nodes))

    def _lock(self) -> None:
        for broker_id in self.broker_ids:
            folder = self._cluster.log_dir(broker_id)
            folder.mkdir(parents=True, exist_ok=True)
            self._open.callback(os.close, lock_folder(folder))

    def __enter__(self) -> "StoppedCluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._open.close()

    def log_dir(self, broker_id: int) -> Path:
        return self._cluster.log_dir(broker_id)

    def staging(self, broker_id: int) -> Path:
        """On the file system of the log folder."""
        return self.log_dir(broker_id).parent / STAGING

    def write(self, operations: Sequence[Operation]) -> None:
        """All of it or nothing. Raises Failure."""
        try:
            result = self._coordination.write_now(operations)
        except CoordinationError as error:
            raise Failure(str(error)) from error
        if not isinstance(result, WriteDone):
            where = operations[result.index].path if result.index >= 0 else "it"
            raise Failure(f"the coordinator refuses {where}: {result.error.value}")

    def take_producer_ids(self, next_id: int) -> Operation | None:
        """Ids below `next_id` are never given to a new producer: it would be taken for the old one,
        and its records for repetitions."""
        block = self._producer_block
        if block is not None:
            try:
                if int(json.loads(block.data)["block_end"]) >= next_id - 1:
                    return None
            except (ValueError, KeyError, TypeError) as error:
                raise Failure(f"{PRODUCER_ID_BLOCK} can't be understood") from error
        elif next_id <= 0:
            return None
        first = (next_id - 1) // BLOCK_SIZE * BLOCK_SIZE
        data = json.dumps(
            {
                "version": JSON_VERSION,
                "broker": self.broker_ids[0],
                "block_start": str(first),
                "block_end": str(first + BLOCK_SIZE - 1),
            },
            separators=(",", ":"),
        ).encode()
        if block is None:
            return Create(PRODUCER_ID_BLOCK, data)
        return SetData(PRODUCER_ID_BLOCK, data, block.version)


def _topic_ids(nodes: Mapping[str, StoredNode]) -> Iterable[tuple[str, bytes]]:
    prefix = TOPICS + "/"
    for path, node in nodes.items():
        name = path.removeprefix(prefix)
        if name != path and "/" not in name:
            try:
                yield name, stored.decode_topic(node.data).topic_id
            except stored.BadNode:
                yield name, b""


class Import:
    """One plan being carried out. Everything it made is gone again unless `commit` succeeded."""

    def __init__(self, plan: Plan, cluster: StoppedCluster, progress: Progress) -> None:
        self._plan = plan
        self._cluster = cluster
        self._progress = progress
        self._placed: list[Path] = []
        self._saved: list[tuple[OsDisk, str, bytes | None]] = []  # files of offsets as they were
        self.staged: dict[TopicPartition, Staged] = {}
        self.offsets: Offsets = {}  # that are to be committed anew
        self.known_offsets: Offsets = {}  # all that the folders have

    def run(self) -> None:
        """Raises Failure, with everything as it was."""
        try:
            self._check_room()
            self._stage()
            self._place()
            self._commit()
        except BaseException:
            self._undo()
            raise
        finally:
            for broker_id in self._cluster.broker_ids:
                shutil.rmtree(self._cluster.staging(broker_id), ignore_errors=True)

    def _replicas(self) -> Iterable[tuple[TopicPartition, tuple[int, ...]]]:
        for topic in self._plan.topics:
            for index, replicas in enumerate(topic.replicas):
                yield TopicPartition(topic.found.name, index), replicas

    def _check_room(self) -> None:
        needed: dict[int, int] = {}  # by file system
        free: dict[int, int] = {}
        for topic in self._plan.topics:
            for index, replicas in enumerate(topic.replicas):
                for broker_id in replicas:
                    folder = self._cluster.log_dir(broker_id)
                    device = folder.stat().st_dev
                    needed[device] = needed.get(device, 0) + topic.found.copies[index].bytes
                    free[device] = shutil.disk_usage(folder).free
        for device, size in needed.items():
            if size > free[device]:
                raise Failure(f"{size} bytes are needed, and {free[device]} are free")

    def _stage(self) -> None:
        for broker_id in self._cluster.broker_ids:
            staging = self._cluster.staging(broker_id)
            shutil.rmtree(staging, ignore_errors=True)  # of an import that was killed
            staging.mkdir()
        home = self._cluster.staging(self._cluster.broker_ids[0])
        if self._plan.offsets is not None:
            self._read_offsets(self._plan.offsets, home)
        for topic in self._plan.topics:
            for index, replicas in enumerate(topic.replicas):
                copy = topic.found.copies[index]
                first = self._cluster.staging(replicas[0])
                self.staged[copy.tp] = staged = stage(copy, first, self._progress)
                self._plan.notes += _worth_knowing(staged)
                if staged.content.gaps and "compact" not in topic.configs.get(
                    "cleanup.policy", "delete"
                ):
                    self._plan.notes.append(
                        f"{copy.tp}: offsets are missing as after compaction, and the topic is not "
                        "compacted: give it --config "
                        f"{topic.found.name}:cleanup.policy=compact to have it copied to others"
                    )
                if topic.found.name == GROUP_OFFSETS_TOPIC:
                    self.known_offsets |= self._offsets_in(first, [copy])
                for broker_id in replicas[1:]:
                    replicate(
                        first / str(copy.tp),
                        self._cluster.staging(broker_id) / str(copy.tp),
                        self._progress,
                    )

    def _read_offsets(self, topic: FoundTopic, home: Path) -> None:
        copies = [topic.copies[index] for index in sorted(topic.copies)]
        ids = {stage(copy, home, self._progress).content.last_producer_id for copy in copies}
        self._plan.next_producer_id = max(self._plan.next_producer_id, *(n + 1 for n in ids))
        self.known_offsets = self._offsets_in(home, copies)
        # A broker refuses positions in topics that it does not have.
        topics = {*self._cluster.topics, *(t.found.name for t in self._plan.topics)}
        self.offsets = {
            group: {tp: committed for tp, committed in found.items() if tp.topic in topics}
            for group, found in self.known_offsets.items()
        }

    def _offsets_in(self, home: Path, copies: Sequence[Copy]) -> Offsets:
        try:
            return read_offsets(home, [copy.tp for copy in copies])
        except (DiskError, LogCorrupt, CorruptBatch) as error:
            raise Failure(f"committed offsets can't be read: {error}") from error

    # ---- places --------------------------------------------------------------------------------

    def _place(self) -> None:
        for tp, replicas in self._replicas():
            for broker_id in replicas:
                source = self._cluster.staging(broker_id) / str(tp)
                target = self._cluster.log_dir(broker_id) / str(tp)
                self._make_room(target)
                os.rename(source, target)
                self._placed.append(target)
        for broker_id in self._cluster.broker_ids:
            self._write_offsets(broker_id)

    def _make_room(self, target: Path) -> None:
        """The coordinator knows no such topic: a folder is left from an import that was killed, or
        from a topic of which nobody knows anything."""
        if not target.exists():
            return
        tp = checkpoints.partition_of_directory(target.name)
        ours = None if tp is None else self.staged[tp].copy.topic_id
        if checkpoints.topic_id_of(OsDisk(target.parent), target.name) != ours:
            raise Failure(
                f"{target} belongs to a topic that the cluster does not know: move it away first"
            )
        shutil.rmtree(target)

    def _write_offsets(self, broker_id: int) -> None:
        disk = OsDisk(self._cluster.log_dir(broker_id))
        mine = {tp: self.staged[tp] for tp, replicas in self._replicas() if broker_id in replicas}
        ends = {tp: staged.end_offset for tp, staged in mine.items()}
        starts = {tp: staged.log_start for tp, staged in mine.items()}
        cleaned = {tp: min(s.copy.cleaned_to, s.end_offset) for tp, s in mine.items()}
        for name, offsets in (
            (checkpoints.RECOVERY_POINTS, ends),
            (checkpoints.HIGH_WATERMARKS, ends),
            (checkpoints.LOG_STARTS, starts),
            (checkpoints.CLEANED, cleaned),
        ):
            known, fault = checkpoints.read(disk, name)
            if fault is not None:
                raise Failure(f"{disk!r}/{name} can't be used: {fault}")
            known = {tp: offset for tp, offset in known.items() if tp not in mine}
            self._saved.append((disk, name, disk.read_file(name)))
            checkpoints.write(disk, name, known | {tp: n for tp, n in offsets.items() if n})
        disk.sync_directory("")

    def _commit(self) -> None:
        operations: list[Operation] = []
        next_id = self._plan.next_producer_id
        for topic in self._plan.topics:
            name = topic.found.name
            records = []
            for index, replicas in enumerate(topic.replicas):
                staged = self.staged[TopicPartition(name, index)]
                next_id = max(next_id, staged.content.last_producer_id + 1)
                # Whoever leads begins a new epoch, above all that Kafka has used: recovery forgets
                # those in which nothing was written, clients may not have.
                told = topic.found.leader_epochs.get(index, 0)
                epoch = max(staged.latest_epoch, staged.copy.latest_epoch, told)
                records.append(PartitionRecord(replicas, replicas, NO_LEADER, epoch, 0))
            record = TopicRecord(name, topic.found.topic_id, records, topic.configs)
            operations.append(Create(stored.topic_path(name), stored.encode_topic(record)))
            for index, partition in enumerate(records):
                path = stored.partition_path(TopicPartition(name, index))
                data = stored.encode_partition(partition, topic.found.topic_id)
                operations.append(Create(path, data))
            path = stored.topic_config_path(name)
            configs = stored.encode_configs(topic.configs)
            if path in self._cluster.config_nodes:  # of a topic that is gone
                operations.append(SetData(path, configs))
            else:
                operations.append(Create(path, configs))
        producer_ids = self._cluster.take_producer_ids(next_id)
        if producer_ids is not None:
            operations.append(producer_ids)
        self._cluster.write(operations)

    def _undo(self) -> None:
        for target in self._placed:
            shutil.rmtree(target, ignore_errors=True)
        for disk, name, data in reversed(self._saved):
            with suppress(DiskError):
                disk.remove(name) if data is None else disk.write_file(name, data)
