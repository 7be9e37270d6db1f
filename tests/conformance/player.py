"""Plays a case at one version against three brokers, and says what they answered."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from tests.conformance.batches import build
from tests.conformance.line import Address, Closed, Line, Unanswered
from tests.conformance.shown import Names, Shower
from tests.conformance.steps import (
    Ask,
    Batch,
    Batches,
    Body,
    Case,
    Hangup,
    Pause,
    Saved,
    Step,
    Take,
    Topic,
    TopicId,
    Write,
)

from replog.model.errors import ErrorCode
from replog.model.messages import APIS, Request, Response, Struct
from replog.model.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from replog.model.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from replog.model.messages.find_coordinator import FindCoordinatorRequest
from replog.model.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from replog.model.messages.metadata import MetadataRequest, MetadataRequestTopic
from replog.model.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from replog.wire import SERVED

PATIENCE_S: Final = 15.0
BY_NAME: Final = {api.name: api for api in SERVED.values()}
BY_NUMBER: Final = {api.key: api for api in APIS.values()}
_UNIQUE = re.compile(r"<(\w+)>")
# A coordinator that is not ready is asked again, as every client does.
NOT_READY: Final = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)
ASKED_TWICE: Final = ("coordinator:", "txn:", "any")
# Of a topic that is new, while leaders begin.
NOT_LED: Final = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )
)
# Answered by what a broker was told of changes that the controller had made.
TOLD_LATE: Final = frozenset(("DescribeConfigs", "ListConfigResources", "Metadata"))
CLOSED: Final = "the broker closes the connection"
SILENCE: Final = "no answer"


class Player:
    """One run of one case. `brokers` are b1, b2, b3 by their numbers; `tag` is the run's own.

    `lag_s` is how long brokers may take to learn what the controller has answered already.
    """

    def __init__(
        self, brokers: Mapping[int, Address], tag: str, version: int, *, lag_s: float = 0.0
    ) -> None:
        self._brokers = brokers
        self._lag_s = lag_s
        self._tag = tag
        self._version = version
        self._names = Names()
        self._saved: dict[str, Any] = {}
        self._topics: dict[str, bytes] = {}
        self._lines: dict[tuple[int, str], Line] = {}
        self._pending: dict[str, tuple[Ask, Line, int]] = {}

    def play(self, case: Case) -> list[Any]:
        """The answers that are compared, in their order."""
        answers = []
        try:
            for step in case.steps:
                answer = self._step(step)
                if answer is not None:
                    answers.append(answer)
        finally:
            self._tidy_up()
        return answers

    def _tidy_up(self) -> None:
        """Topics go, so that clusters stay small; nobody waits for that."""
        if self._topics:
            gone = [DeleteTopicState(name=self._value(f"<{name}>")) for name in self._topics]
            with suppress(Closed, TimeoutError, OSError):
                self._call(self._line(1, "maker"), DeleteTopicsRequest(topics=gone), 6)
        for line in self._lines.values():
            line.close()

    def _step(self, step: Step) -> Any:
        if isinstance(step, Ask):
            return self._ask(step)
        if isinstance(step, Take):
            ask, line, version = self._pending.pop(step.line)
            return self._outcome(ask, lambda: line.answer(BY_NAME[ask.api].key, version))
        if isinstance(step, Topic):
            self._make_topic(step)
        elif isinstance(step, Write):
            self._write(step)
        elif isinstance(step, Pause):
            time.sleep(step.ms / 1000)
        elif isinstance(step, Hangup):
            for key in [key for key in self._lines if key[1] == step.line]:
                self._lines.pop(key).close()
        return None

    # ---- requests --------------------------------------------------------------------------

    def _ask(self, ask: Ask) -> Any:
        if self._lag_s and ask.api in TOLD_LATE:
            time.sleep(self._lag_s)
        version = self._version if ask.version is None else ask.version
        api = BY_NAME[ask.api]
        encoded_at = min(max(version, api.min_understood), api.max_version)
        message = self._message(ask.api, ask.body, encoded_at)
        line = self._line(self._target(ask.to), ask.line)
        frame = line.frame(message, encoded_at)
        if ask.tamper is not None:
            frame = ask.tamper(frame)
        if ask.later:
            line.send(frame)
            self._pending[ask.line] = (ask, line, version)
            return None

        def exchange() -> Response:
            line.send(frame)
            if isinstance(message, ProduceRequest) and message.acks == 0:
                line.must_stay_silent()
                raise Unanswered
            return line.answer(api.key, encoded_at)

        answer = self._outcome(ask, exchange)
        if answer == CLOSED:
            self._lines = {key: each for key, each in self._lines.items() if each is not line}
            line.close()
        return answer if ask.check else None

    def _outcome(self, ask: Ask, exchange: Callable[[], Response]) -> Any:
        limit = time.monotonic() + PATIENCE_S
        try:
            response = exchange()
            while self._too_early(ask, response) and time.monotonic() < limit:
                time.sleep(0.05)
                response = exchange()
        except Closed:
            return CLOSED
        except Unanswered:
            return SILENCE
        except TimeoutError:
            return SILENCE
        for name, path in ask.save.items():
            self._keep(name, response, path)
        if ask.own:
            self._drop_strangers(response)
        for array, (field, values) in ask.only.items():
            _keep_only(response, array, field, values)
        return Shower(self._names, ask.hide, ordered=ask.ordered).show(response)

    @staticmethod
    def _too_early(ask: Ask, response: Response) -> bool:
        if ask.until:
            try:
                return bool(_at(response, ask.until) < 0)
            except IndexError:
                return True
        if ask.until_empty:
            return bool(_at(response, ask.until_empty))
        return (
            ask.patient and ask.to.startswith(ASKED_TWICE) and bool(_errors(response) & NOT_READY)
        )

    def _message(self, api: str, body: Body, version: int) -> Request:
        message = self._filled(BY_NAME[api].request, body, version)
        assert isinstance(message, Request)
        return message

    def _filled(self, kind: type[Struct], body: Body, version: int) -> Struct:
        fields = {field.name: field for field in kind.SCHEMA}
        given = {}
        for name, value in body.items():
            field = fields[name]  # a field that does not exist is a mistake in the case
            if not field.first <= version <= field.last:
                continue
            if field.struct is None or value is None:
                given[name] = self._value(value)
            elif field.array:
                given[name] = [self._filled(field.struct, each, version) for each in value]
            else:
                given[name] = self._filled(field.struct, value, version)
        return kind(**given)

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return _UNIQUE.sub(lambda found: self._unique(found[1]), value)
        if isinstance(value, Saved):
            return self._saved[value.name]
        if isinstance(value, TopicId):
            return self._topics[value.topic]
        if isinstance(value, Batch | Batches):
            return self._batch(value)
        if isinstance(value, list | tuple):
            return [self._value(each) for each in value]
        return value

    def _batch(self, batch: Batch | Batches) -> memoryview:
        producer = None if isinstance(batch, Batches) else batch.producer
        number = None if producer is None else self._value(producer[0])
        return memoryview(build(batch, number))

    def _unique(self, name: str) -> str:
        unique = f"{name}-{self._tag}"
        self._names.texts[unique] = f"<{name}>"
        return unique

    def _keep(self, name: str, response: Response, path: str) -> None:
        value = self._saved[name] = _at(response, path)
        if isinstance(value, str) and value:
            self._names.texts[value] = f"<${name}>"
        elif isinstance(value, bytes):
            self._names.ids[value] = f"<${name}>"
        elif isinstance(value, int) and value > 1_000:
            self._names.numbers[value] = f"<${name}>"

    def _drop_strangers(self, response: Response) -> None:
        for field in response.SCHEMA:
            items = getattr(response, field.name)
            if field.array and items and field.name != "brokers":
                own = [each for each in items if self._tag in repr(each)]
                setattr(response, field.name, own)

    # ---- where to --------------------------------------------------------------------------

    def _line(self, broker: int, name: str) -> Line:
        line = self._lines.get((broker, name))
        if line is None:
            line = self._lines[broker, name] = Line(self._brokers[broker])
        return line

    def _target(self, to: str) -> int:
        if to == "any":
            return 1
        if to == "controller":
            asked = MetadataRequest(topics=[])
            return int(self._call(self._line(1, "any"), asked, 12).controller_id)
        if ":" not in to:
            return int(to.removeprefix("b"))
        role, key = to.split(":", 1)
        coordinator = self._coordinator(self._value(key), 1 if "txn" in role else 0)
        if not role.startswith("other"):
            return coordinator
        return next(number for number in self._brokers if number != coordinator)

    def _coordinator(self, key: str, kind: int) -> int:
        line = self._line(1, "any")

        def found() -> int | None:
            answer = self._call(line, FindCoordinatorRequest(key=key, key_type=kind), 3)
            return None if answer.error_code else int(answer.node_id)

        return _wait("a coordinator", found)

    # ---- topics ----------------------------------------------------------------------------

    def _make_topic(self, step: Topic) -> None:
        name = self._value(f"<{step.name}>")
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
                for index, brokers in enumerate(step.assignment)
            ],
            configs=[
                CreatableTopicConfig(name=config, value=value)
                for config, value in {"retention.ms": "-1", **step.configs}.items()
            ],
        )
        line = self._line(1, "maker")
        made = self._call(line, CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        assert made.topics[0].error_code == 0, made
        self._topics[step.name] = made.topics[0].topic_id
        self._names.ids[made.topics[0].topic_id] = f"<id:{step.name}>"
        for broker in self._brokers:
            self._wait_known(broker, name, step)
        for partition, replicas in enumerate(step.assignment):
            self._wait_led(replicas[0], name, partition)

    def _wait_led(self, broker: int, name: str, partition: int) -> None:
        asked = ListOffsetsTopic(
            name=name,
            partitions=[ListOffsetsPartition(partition_index=partition, timestamp=-1)],
        )
        request = ListOffsetsRequest(replica_id=-1, topics=[asked])
        line = self._line(broker, "maker")

        def led() -> bool | None:
            answer = self._call(line, request, 7).topics[0].partitions[0]
            return answer.error_code == ErrorCode.NONE or None

        _wait(f"broker {broker} as leader of {name}-{partition}", led)

    def _wait_known(self, broker: int, name: str, step: Topic) -> None:
        line = self._line(broker, "maker")
        asked = MetadataRequest(
            topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
        )

        def known() -> bool | None:
            partitions = self._call(line, asked, 12).topics[0].partitions
            led = [p for p in partitions if p.leader_id >= 0 and p.isr_nodes == p.replica_nodes]
            return len(led) == len(step.assignment) or None

        _wait(f"{name} on broker {broker}", known)

    def _write(self, step: Write) -> None:
        records = self._batch(step.records)
        data = PartitionProduceData(index=step.partition, records=records)
        topic = TopicProduceData(topic_id=self._topics[step.topic], partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])
        line = self._line(1, "maker")

        def written() -> bool | None:
            answer = self._call(line, request, 13).responses[0].partition_responses[0]
            if answer.error_code in NOT_LED:
                return None
            assert answer.error_code == 0, answer
            return True

        _wait(f"a leader of {step.topic}", written)

    @staticmethod
    def _call(line: Line, message: Request, version: int) -> Any:
        line.send(line.frame(message, version))
        return line.answer(message.API_KEY, version)


def _wait(what: str, found: Callable[[], Any]) -> Any:
    limit = time.monotonic() + PATIENCE_S
    while (value := found()) is None:
        assert time.monotonic() < limit, f"after {PATIENCE_S} s: {what}"
        time.sleep(0.02)
    return value


def _at(response: Response, path: str) -> Any:
    value: Any = response
    for part in path.split("."):
        value = value[int(part)] if part.isdigit() else getattr(value, part)
    return value


def _keep_only(struct: Struct, array: str, name: str, values: Sequence[Any]) -> None:
    """In all arrays of that name, however deep."""
    for field in struct.SCHEMA:
        value = getattr(struct, field.name)
        if field.struct is None or value is None:
            continue
        if field.name == array:
            setattr(struct, array, [each for each in value if getattr(each, name) in values])
        for each in value if field.array else [value]:
            _keep_only(each, array, name, values)


def _errors(struct: Struct) -> set[int]:
    """All error codes in an answer."""
    errors = set()
    for field in struct.SCHEMA:
        value = getattr(struct, field.name)
        if field.name == "error_code":
            errors.add(value)
        elif field.struct is not None and value is not None:
            for each in value if field.array else [value]:
                with suppress(AttributeError):
                    errors |= _errors(each)
    return errors
