"""DeleteTopics, API key 20, versions 1-6.

Versions: 5 error messages, 6 by topic id (KIP-516).

Any broker takes it; the controller carries it out. A topic is gone once its nodes are: brokers
delete their replicas when they learn of it. A broker that was stopped meanwhile leaves the folders
alone, and sets them aside only when the name is used again, by a topic of another id. The answer
comes once the broker that the client talks to knows, and for a short while waits for all others. An
allowed time of nothing is over at once: nothing is deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from replog.core.controller.state import Draft
from replog.model.cluster import TopicRecord
from replog.model.errors import ErrorCode, Refused
from replog.model.ids import ZERO_TOPIC_ID
from replog.model.inputs import Received
from replog.model.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from replog.node.handlers.admin import AdminCall, named_once
from replog.node.handlers.create_topics import when_told

if TYPE_CHECKING:
    from replog.node.node import Node

UNKNOWN_NAME = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic of this name")
UNKNOWN_ID = Refused(ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic of this id")
DISABLED_SINCE_VERSION = 3  # before, TOPIC_DELETION_DISABLED was not known to clients


def handle(node: Node, request: Received, message: DeleteTopicsRequest) -> None:
    node.forwarding.pass_on(node, request, message)


def execute(node: Node, message: DeleteTopicsRequest, call: AdminCall) -> None:
    """Carry it out on the controller; `call` is answered exactly once."""
    if not node.config.delete_topic_enable:
        known = call.version >= DISABLED_SINCE_VERSION
        error = ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST
        call.answer(refuse(message, error))
        return
    timed_out = refuse(message, ErrorCode.REQUEST_TIMED_OUT)
    if not call.has_time(node, message.timeout_ms, timed_out, needed=_to_look_up(_asked(message))):
        return

    def plan(draft: Draft) -> Callable[[], None]:
        if call.answered:
            return lambda: None
        judged = _judge(draft, _asked(message))
        deleted = [topic for topic, result in judged if result.error_code == ErrorCode.NONE]
        for topic in deleted:
            if topic is not None:
                draft.delete_topic(topic.name)
        response = DeleteTopicsResponse(responses=[result for _, result in judged])
        if not deleted:
            return lambda: call.answer(response)
        return lambda: when_told(node, call, set(), lambda: call.answer(response))

    node.controlling.submit(plan, lambda error: call.fail(error, refuse(message, error)))


def refuse(message: DeleteTopicsRequest, error: ErrorCode) -> DeleteTopicsResponse:
    """The answer that refuses every topic."""
    return DeleteTopicsResponse(
        responses=[_result(topic.name, topic.topic_id, Refused(error)) for topic in _asked(message)]
    )


def _asked(message: DeleteTopicsRequest) -> list[DeleteTopicState]:
    """What is asked for, in the form of the newest version."""
    return [*message.topics, *(DeleteTopicState(name=name) for name in message.topic_names)]


def _to_look_up(asked: list[DeleteTopicState]) -> bool:
    """Whether something is asked for in a way that makes sense."""
    names = named_once(t.name for t in asked if t.name is not None and t.topic_id == ZERO_TOPIC_ID)
    ids = named_once(t.topic_id for t in asked if t.name is None)
    return bool(names or ids - {ZERO_TOPIC_ID})


def _judge(
    draft: Draft, asked: list[DeleteTopicState]
) -> list[tuple[TopicRecord | None, DeletableTopicResult]]:
    """One result for each topic; a topic that is meant twice is refused once, and stays."""
    names = Counter(topic.name for topic in asked if topic.name is not None)
    ids = Counter(topic.topic_id for topic in asked if topic.name is None)
    judged: list[tuple[TopicRecord | None, DeletableTopicResult]] = []
    by_id = {i: draft.topic_by_id(i) for i in ids}
    id_beside = {t.name: t.topic_id for t in reversed(asked) if t.topic_id != ZERO_TOPIC_ID}
    named_by_id = {topic.name for topic in by_id.values() if topic is not None}
    for name, count in names.items():
        topic = draft.topic(name)
        topic_id = topic.topic_id if topic is not None else ZERO_TOPIC_ID
        refused: Refused | None = None
        if name in id_beside:
            topic_id = id_beside[name]
            refused = Refused(ErrorCode.INVALID_REQUEST, "a topic is named or given by its id")
        elif count > 1:
            topic_id = ZERO_TOPIC_ID
            refused = Refused(ErrorCode.INVALID_REQUEST, f"topic {name} comes more than once")
        elif topic is None:
            refused = UNKNOWN_NAME
        elif name in named_by_id:
            refused = Refused(ErrorCode.INVALID_REQUEST, f"topic {name} is also given by its id")
        judged.append((topic, _result(name, topic_id, refused)))
    for topic_id, count in ids.items():
        topic = by_id[topic_id]
        if topic_id == ZERO_TOPIC_ID:
            refused = Refused(ErrorCode.INVALID_REQUEST, "neither a name nor an id is given")
        elif count > 1:
            refused = Refused(ErrorCode.INVALID_REQUEST, "a topic id comes more than once")
        elif topic is None:
            refused = UNKNOWN_ID
        elif topic.name in names:
            continue  # refused under its name
        else:
            refused = None
        name_shown = topic.name if topic is not None and count == 1 else None
        judged.append((topic, _result(name_shown, topic_id, refused)))
    return judged


def _result(name: str | None, topic_id: bytes, refused: Refused | None) -> DeletableTopicResult:
    result = DeletableTopicResult(name=name, topic_id=topic_id)
    if refused is not None:
        result.error_code = refused.error
        result.error_message = refused.message
    return result
