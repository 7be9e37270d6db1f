"""Clients' admin requests on their way to the controller (any broker takes them).

A request waits here while no controller is known or reachable, and goes to the next one when there
is another. It is answered by the controller's answer, or with REQUEST_TIMED_OUT when its time is
up. A request whose connection broke is sent again: it may be carried out twice, as with Kafka, and
the second time finds the topic there, or gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from replog.codec import MalformedMessage, decode, encode_bytes
from replog.model.errors import ErrorCode
from replog.model.ids import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from replog.model.inputs import PeerFailed, PeerReplied, Received
from replog.model.messages import Message, Request, Response
from replog.model.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from replog.model.messages.delete_topics import DeleteTopicsRequest
from replog.model.messages.forward import ForwardRequest, ForwardResponse
from replog.model.outputs import Channel, Level
from replog.node.handlers import create_topics, delete_topics
from replog.node.handlers.admin import AdminCall

if TYPE_CHECKING:
    from replog.node.node import Node

RETRY_MS = 50
# Requests of this broker's clients that may wait for a controller; further ones are refused.
WAITING_MAX = 1_000
AUTO_CREATE_TIMEOUT_MS = 5_000


class Forwarding:
    """The way of this broker's clients to the controller, wherever it is."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._waiting = 0
        self._being_created: set[str] = set()

    # ---- requests of clients ---------------------------------------------------------------

    def pass_on(self, node: Node, request: Received, message: Request) -> Message | None:
        """Have the controller carry `message` out, and answer the client with what it says."""
        call = AdminCall(
            respond=lambda response: node.reply(request, response),
            not_controller=_unset,
            origin=node.broker_id,
            version=request.version,
            client_id=request.client_id,
            client_host=request.client_host,
        )
        self._start(message, call)
        return None

    def _start(self, message: Request, call: AdminCall) -> None:
        if self._waiting >= WAITING_MAX:
            call.respond(refuse(message, ErrorCode.REQUEST_TIMED_OUT))
            return
        self._waiting += 1
        answer_client = call.respond

        def respond(response: Response) -> None:
            self._waiting -= 1
            answer_client(response)

        call.respond = respond
        limit_ms = min(timeout_ms(message), self._node.config.request_timeout_ms)
        deadline_ms = self._node.now_ms + max(limit_ms, 0)
        call.not_controller = lambda: self._try_later(message, call, deadline_ms)
        self._try(message, call, deadline_ms)

    def _try(self, message: Request, call: AdminCall, deadline_ms: float) -> None:
        node = self._node
        left_ms = deadline_ms - node.now_ms
        controller = node.membership.controller()
        if node.controlling.active:
            execute(node, message, call)
        elif left_ms <= 0 and timeout_ms(message) > 0:
            call.respond(refuse(message, ErrorCode.REQUEST_TIMED_OUT))
        elif controller is None or controller.broker_id == node.broker_id:
            self._try_later(message, call, deadline_ms)
        else:
            forward = ForwardRequest(
                api_key=message.API_KEY,
                api_version=call.version,
                client_host=call.client_host,
                client_id=call.client_id,
                body=encode_bytes(message, call.version),
            )

            def answered(answer: PeerReplied | PeerFailed) -> None:
                response = _unpacked(message, call.version, answer)
                if response is None:
                    self._try_later(message, call, deadline_ms)
                else:
                    call.respond(response)

            node.send(
                controller,
                forward,
                answered,
                channel=Channel.FORWARD,
                timeout_ms=max(1, int(left_ms) + ANSWER_SLACK_MS),
            )

    def _try_later(self, message: Request, call: AdminCall, deadline_ms: float) -> None:
        node = self._node
        if node.now_ms >= deadline_ms:
            call.respond(refuse(message, ErrorCode.REQUEST_TIMED_OUT))
            return
        retry_ms = min(node.now_ms + RETRY_MS, deadline_ms)
        node.timers.call_at(retry_ms, lambda: self._try(message, call, deadline_ms))

    # ---- requests that other brokers pass on ------------------------------------------------

    def receive(self, request: Received, message: ForwardRequest) -> ForwardResponse | None:
        """Carry out what a broker passed on, if this broker is the controller."""
        node = self._node
        kind = ADMIN.get(message.api_key)
        if request.peer is None or kind is None:
            return ForwardResponse(error_code=ErrorCode.INVALID_REQUEST)
        if not node.controlling.active:
            return ForwardResponse(error_code=ErrorCode.NOT_CONTROLLER)
        try:
            inner, _ = decode(kind, message.api_version, message.body)
        except (MalformedMessage, ValueError):
            return ForwardResponse(error_code=ErrorCode.INVALID_REQUEST)
        version = message.api_version

        def respond(response: Response) -> None:
            node.reply(request, ForwardResponse(body=encode_bytes(response, version)))

        def not_controller() -> None:
            node.reply(request, ForwardResponse(error_code=ErrorCode.NOT_CONTROLLER))

        call = AdminCall(
            respond=respond,
            not_controller=not_controller,
            origin=request.peer.broker_id,
            version=version,
            client_id=message.client_id,
            client_host=message.client_host,
        )
        execute(node, inner, call)
        return None

    # ---- topics that are made because somebody needs them ------------------------------------

    def auto_create(self, names: Sequence[str]) -> None:
        """Have those of `names` created that are not being created already.

        Nothing is waited for: whoever asked looks again. Failures are reported.
        """
        fresh = [name for name in names if name not in self._being_created]
        if not fresh:
            return
        self._being_created.update(fresh)
        message = CreateTopicsRequest(
            topics=[self._wanted_topic(name) for name in fresh],
            timeout_ms=AUTO_CREATE_TIMEOUT_MS,
        )

        def respond(response: Response) -> None:
            self._being_created.difference_update(fresh)
            if isinstance(response, CreateTopicsResponse):
                for result in response.topics:
                    error = ErrorCode(result.error_code)
                    if error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                        text = f"topic {result.name} was not created: {result.error_message}"
                        self._node.report(Level.WARNING, text)

        call = AdminCall(respond, _unset, self._node.broker_id, CreateTopicsRequest.VERSIONS[1])
        self._start(message, call)

    def _wanted_topic(self, name: str) -> CreatableTopic:
        config = self._node.config
        partitions = copies = -1
        configs: dict[str, str] = {}
        if name == GROUP_OFFSETS_TOPIC:
            partitions = config.offsets_topic_num_partitions
            copies = config.offsets_topic_replication_factor
            configs = {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            }
        elif name == TRANSACTION_STATE_TOPIC:
            partitions = config.int("transaction.state.log.num.partitions")
            copies = config.int("transaction.state.log.replication.factor")
            configs = {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.int("transaction.state.log.min.isr")),
                "segment.bytes": str(config.int("transaction.state.log.segment.bytes")),
            }
        return CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=copies,
            configs=[CreatableTopicConfig(name=k, value=v) for k, v in configs.items()],
        )


# The controller answers by the request's own deadline; its answer takes a moment to come back.
ANSWER_SLACK_MS = 500

ADMIN: dict[int, type[Request]] = {
    CreateTopicsRequest.API_KEY: CreateTopicsRequest,
    DeleteTopicsRequest.API_KEY: DeleteTopicsRequest,
}


def _unset() -> None:
    """Stands in `AdminCall.not_controller` until the request is started."""


def execute(node: Node, message: Request, call: AdminCall) -> None:
    """Carry an admin request out on the controller; `call.respond` runs exactly once."""
    match message:
        case CreateTopicsRequest():
            create_topics.execute(node, message, call)
        case DeleteTopicsRequest():
            delete_topics.execute(node, message, call)


def refuse(message: Request, error: ErrorCode) -> Response:
    """The answer to `message` that refuses all of it."""
    if isinstance(message, CreateTopicsRequest):
        return create_topics.refuse(message, error)
    if isinstance(message, DeleteTopicsRequest):
        return delete_topics.refuse(message, error)
    return message.RESPONSE()


def timeout_ms(message: Request) -> int:
    """What the client allows; it may be nothing."""
    if isinstance(message, CreateTopicsRequest | DeleteTopicsRequest):
        return message.timeout_ms
    return 0


def _unpacked(message: Request, version: int, answer: PeerReplied | PeerFailed) -> Response | None:
    """The controller's answer; None when there is none and another try may bring one."""
    if not isinstance(answer, PeerReplied) or not isinstance(answer.message, ForwardResponse):
        return None
    forwarded = answer.message
    if forwarded.error_code != ErrorCode.NONE or forwarded.body is None:
        return None
    try:
        response, _ = decode(message.RESPONSE, version, forwarded.body)
    except (MalformedMessage, ValueError):
        return None
    return response
