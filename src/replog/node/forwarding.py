"""Clients' admin requests on their way to the controller (any broker takes them), and requests for
producer ids that this broker can't give.

A request waits here while no controller is known or reachable, and goes to the next one when there
is another. It is answered by the controller's answer, or with REQUEST_TIMED_OUT when its time is
up. A request whose connection broke is sent again: it may be carried out twice, as with Kafka, and
the second time finds the topic there, or gone.

All requests to one controller share a connection, on which answers come in order, so one that is
late breaks it for no other: it is answered here, and stays on its way. Only a controller that has
been silent for longer than any request may take is taken for unreachable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from replog.codec import MalformedMessage, decode, encode_bytes
from replog.model.cluster import BrokerRecord
from replog.model.errors import ErrorCode
from replog.model.ids import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from replog.model.inputs import PeerFailed, PeerReplied, Received
from replog.model.messages import Message, Request, Response
from replog.model.messages.alter_configs import AlterConfigsRequest
from replog.model.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from replog.model.messages.create_partitions import CreatePartitionsRequest
from replog.model.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from replog.model.messages.delete_topics import DeleteTopicsRequest
from replog.model.messages.elect_leaders import ElectLeadersRequest
from replog.model.messages.forward import ForwardRequest, ForwardResponse
from replog.model.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from replog.model.messages.init_producer_id import InitProducerIdRequest
from replog.model.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from replog.model.outputs import Channel, Level
from replog.node.handlers import (
    alter_configs,
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
    elect_leaders,
    incremental_alter_configs,
    init_producer_id,
    list_partition_reassignments,
)
from replog.node.handlers.admin import AdminCall

if TYPE_CHECKING:
    from replog.node.node import Node

RETRY_MS = 50
# Requests of this broker's clients that may wait for a controller, or be on their way to it with
# nobody waiting any more; further ones are refused.
WAITING_MAX = 1_000
# The controller answers by the request's own deadline; its answer takes a moment to come back.
ANSWER_SLACK_MS = 500
# A controller may be busy for so long; when it is silent for longer, the connection is dead.
SILENCE_MS = 5_000
AUTO_CREATE_TIMEOUT_MS = 5_000

DEFAULT_TIMEOUT_MS = 30_000  # of a request that has no field for it
TIMEOUT_MIN_MS = 1_000  # of a request that allows any time: a write to the coordinator is over then


class _AdminApi(NamedTuple):
    """A request that only the controller carries out."""

    request: type[Request]
    execute: Callable[[Node, Any, AdminCall], None]  # answers the call exactly once
    refuse: Callable[[Any, ErrorCode], Response]  # the answer that refuses all of it


ADMIN: dict[int, _AdminApi] = {
    api.request.API_KEY: api
    for api in (
        _AdminApi(CreateTopicsRequest, create_topics.execute, create_topics.refuse),
        _AdminApi(DeleteTopicsRequest, delete_topics.execute, delete_topics.refuse),
        _AdminApi(
            AlterConfigsRequest,
            alter_configs.execute,
            alter_configs.refuse,
        ),
        _AdminApi(
            IncrementalAlterConfigsRequest,
            incremental_alter_configs.execute,
            incremental_alter_configs.refuse,
        ),
        _AdminApi(
            CreatePartitionsRequest,
            create_partitions.execute,
            create_partitions.refuse,
        ),
        _AdminApi(ElectLeadersRequest, elect_leaders.execute, elect_leaders.refuse),
        _AdminApi(
            AlterPartitionReassignmentsRequest,
            alter_partition_reassignments.execute,
            alter_partition_reassignments.refuse,
        ),
        _AdminApi(
            ListPartitionReassignmentsRequest,
            list_partition_reassignments.execute,
            list_partition_reassignments.refuse,
        ),
        _AdminApi(InitProducerIdRequest, init_producer_id.execute, init_producer_id.refuse),
    )
}


@dataclass(slots=True)
class _Pending:
    """A request of a client of this broker, or of this broker itself, until it is answered."""

    message: Request
    version: int  # of the API
    respond: Callable[[Response], None]
    client_id: str | None = None
    client_host: str = ""
    deadline_ms: float = 0.0


class Forwarding:
    """The way of this broker's clients to the controller, wherever it is."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._waiting = 0
        self._being_created: set[str] = set()

    # ---- requests of clients ---------------------------------------------------------------

    def pass_on(
        self,
        node: Node,
        request: Received,
        message: Request,
        *,
        respond: Callable[[Response], None] | None = None,
        allowed_ms: int | None = None,
    ) -> Message | None:
        """Have the controller carry `message` out, and answer the client with what it says.

        `respond` is given what it says instead, and answers `request` itself. In `allowed_ms`, if
        not in the time that `message` allows.
        """
        self._start(
            _Pending(
                message,
                request.version,
                respond or (lambda response: node.reply(request, response)),
                client_id=request.client_id,
                client_host=request.client_host,
            ),
            allowed_ms,
        )
        return None

    def _start(self, pending: _Pending, allowed_ms: int | None = None) -> None:
        if self._waiting >= WAITING_MAX:
            pending.respond(refuse(pending.message, ErrorCode.REQUEST_TIMED_OUT))
            return
        self._waiting += 1
        if allowed_ms is None:
            allowed_ms = timeout_ms(pending.message)
        pending.deadline_ms = self._deadline_ms(max(allowed_ms, 0))
        self._try(pending)

    def _deadline_ms(self, allowed_ms: int) -> float:
        """When a request's time is up that begins now, on this broker and on the controller."""
        return self._node.now_ms + min(allowed_ms, self._node.config.request_timeout_ms)

    def _answer(self, pending: _Pending, response: Response) -> None:
        self._waiting -= 1
        pending.respond(response)

    def _try(self, pending: _Pending) -> None:
        node = self._node
        controller = node.membership.controller()
        if node.controlling.active:
            call = AdminCall(
                respond=lambda response: self._answer(pending, response),
                not_controller=lambda: self._try_later(pending),
                deadline_ms=pending.deadline_ms,
                origin=node.broker_id,
                version=pending.version,
            )
            execute(node, pending.message, call)
        elif controller is None or controller.broker_id == node.broker_id:
            self._try_later(pending)
        else:
            self._send(pending, controller)

    def _send(self, pending: _Pending, controller: BrokerRecord) -> None:
        message = pending.message
        forward = ForwardRequest(
            api_key=message.API_KEY,
            api_version=pending.version,
            client_host=pending.client_host,
            client_id=pending.client_id,
            body=encode_bytes(message, pending.version),
        )

        def give_up() -> None:
            """Whoever waits is told; what comes of the request later is told to nobody."""
            respond, pending.respond = pending.respond, _tell_nobody
            respond(refuse(message, ErrorCode.REQUEST_TIMED_OUT))

        def answered(answer: PeerReplied | PeerFailed) -> None:
            limit.cancel()
            response = _unpacked(message, pending.version, answer)
            if response is None:
                self._try_later(pending)
            else:
                self._answer(pending, response)

        node = self._node
        limit = node.timers.call_at(pending.deadline_ms + ANSWER_SLACK_MS, give_up)
        node.send(
            controller,
            forward,
            answered,
            channel=Channel.FORWARD,
            timeout_ms=node.config.request_timeout_ms + SILENCE_MS,
        )

    def _try_later(self, pending: _Pending) -> None:
        node = self._node
        if node.now_ms >= pending.deadline_ms:
            self._answer(pending, refuse(pending.message, ErrorCode.REQUEST_TIMED_OUT))
            return
        retry_ms = min(node.now_ms + RETRY_MS, pending.deadline_ms)
        node.timers.call_at(retry_ms, lambda: self._try(pending))

    # ---- requests that other brokers pass on ------------------------------------------------

    def receive(self, request: Received, message: ForwardRequest) -> ForwardResponse | None:
        """Carry out what a broker passed on, if this broker is the controller."""
        node = self._node
        api = ADMIN.get(message.api_key)
        if request.peer is None or api is None:
            return ForwardResponse(error_code=ErrorCode.INVALID_REQUEST)
        if not node.controlling.active:
            return ForwardResponse(error_code=ErrorCode.NOT_CONTROLLER)
        version = message.api_version
        try:
            inner, _ = decode(api.request, version, message.body)
        except (MalformedMessage, ValueError):
            return ForwardResponse(error_code=ErrorCode.INVALID_REQUEST)

        def respond(response: Response) -> None:
            node.reply(request, ForwardResponse(body=encode_bytes(response, version)))

        def not_controller() -> None:
            node.reply(request, ForwardResponse(error_code=ErrorCode.NOT_CONTROLLER))

        call = AdminCall(
            respond=respond,
            not_controller=not_controller,
            deadline_ms=self._deadline_ms(timeout_ms(inner)),
            origin=request.peer.broker_id,
            version=version,
        )
        execute(node, inner, call)
        return None

    # ---- topics that are made because somebody needs them ------------------------------------

    def auto_create(self, names: Sequence[str]) -> None:
        """Have those of `names` created that are not being created already.

        Nothing is waited for: whoever asked looks again. Failures are reported.
        """
        fresh = [name for name in dict.fromkeys(names) if name not in self._being_created]
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
                        reason = result.error_message or error.name
                        text = f"topic {result.name} was not created: {reason}"
                        self._node.report(Level.WARNING, text)

        self._start(_Pending(message, CreateTopicsRequest.VERSIONS[1], respond))

    def _wanted_topic(self, name: str) -> CreatableTopic:
        """What `name` is made with: internal topics by configurations of their own."""
        config = self._node.config
        configs = {"cleanup.policy": "compact", "compression.type": "producer"}
        if name == GROUP_OFFSETS_TOPIC:
            count = config.offsets_topic_num_partitions
            replicas = config.offsets_topic_replication_factor
            configs["segment.bytes"] = str(config.offsets_topic_segment_bytes)
        elif name == TRANSACTION_STATE_TOPIC:
            count = config.int("transaction.state.log.num.partitions")
            replicas = config.int("transaction.state.log.replication.factor")
            configs["segment.bytes"] = str(config.int("transaction.state.log.segment.bytes"))
            configs["min.insync.replicas"] = str(config.int("transaction.state.log.min.isr"))
        else:
            count, replicas, configs = -1, -1, {}
        return CreatableTopic(
            name=name,
            num_partitions=count,
            replication_factor=replicas,
            configs=[CreatableTopicConfig(name=k, value=v) for k, v in configs.items()],
        )


def execute(node: Node, message: Request, call: AdminCall) -> None:
    """Carry an admin request out on the controller; `call` is answered exactly once."""
    api = ADMIN.get(message.API_KEY)
    if api is None:
        call.answer(refuse(message, ErrorCode.UNSUPPORTED_VERSION))
    else:
        api.execute(node, message, call)


def refuse(message: Request, error: ErrorCode) -> Response:
    """The answer to `message` that refuses all of it."""
    api = ADMIN.get(message.API_KEY)
    return message.RESPONSE() if api is None else api.refuse(message, error)


def timeout_ms(message: Request) -> int:
    """What the client allows; it may be nothing. Requests that can't say get the default.

    What is begun is carried out, so who allows any time gets enough of it to be told.
    """
    allowed = int(getattr(message, "timeout_ms", DEFAULT_TIMEOUT_MS))
    return max(allowed, TIMEOUT_MIN_MS) if allowed > 0 else allowed


def _tell_nobody(response: Response) -> None:
    """The client has its answer."""


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
