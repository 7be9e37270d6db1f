"""InitProducerId, API key 22, versions 0-5: an id for an idempotent or transactional producer.

Versions: 2 flexible, 3 the producer may name the id and epoch it had (KIP-360), 4 PRODUCER_FENCED
where INVALID_PRODUCER_EPOCH was, 5 transactions of the second kind (KIP-890).

Without a transactional id every request gets a new id with epoch 0, whatever it names, as in Kafka;
a broker that has none left and can't reach the coordinator has the controller give one. With a
transactional id, the coordinator of that id gives the same producer id with the next epoch, which
fences the producer before. Transactions themselves are not served yet: AddPartitionsToTxn and
EndTxn are not advertised, and transactional batches are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.core.transaction.identity import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NamedProducer,
    ProducerIdentity,
)
from replog.model.errors import ErrorCode
from replog.model.inputs import Received
from replog.model.messages import Response
from replog.model.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from replog.node.handlers.admin import AdminCall
from replog.node.producer_ids import WAIT_MS_MAX

if TYPE_CHECKING:
    from replog.node.node import Node

FIRST_VERSION_WITH_FENCED = 4


def handle(
    node: Node, request: Received, message: InitProducerIdRequest
) -> InitProducerIdResponse | None:
    """Give an id as soon as there is one."""
    error = _fault(node, message)
    if error is not ErrorCode.NONE:
        return _refused(request, error)
    if message.transactional_id is None:
        _idempotent(node, request, message)
    else:
        _transactional(node, request, message, message.transactional_id)
    return None


def _fault(node: Node, message: InitProducerIdRequest) -> ErrorCode:
    id_given = message.producer_id != NO_PRODUCER_ID
    epoch_given = message.producer_epoch != NO_PRODUCER_EPOCH
    if id_given != epoch_given:
        return ErrorCode.INVALID_REQUEST
    if message.transactional_id is None:
        return ErrorCode.NONE
    if not message.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if not 0 < message.transaction_timeout_ms <= node.config.transaction_max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def execute(node: Node, message: InitProducerIdRequest, call: AdminCall) -> None:
    """Give an id on the controller, for another broker; `call` is answered exactly once."""

    def done(error: ErrorCode, producer_id: int) -> None:
        if error is ErrorCode.NONE:
            call.answer(InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))
        else:
            call.answer(refuse(message, error))

    node.producer_ids.take(done)


def refuse(message: InitProducerIdRequest, error: ErrorCode) -> Response:
    """The answer when the controller gives none; that none is there is told as in Kafka."""
    if error is ErrorCode.REQUEST_TIMED_OUT:
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return _no_id(error)


def _idempotent(node: Node, request: Received, message: InitProducerIdRequest) -> None:
    def done(error: ErrorCode, producer_id: int) -> None:
        if error is ErrorCode.NONE:
            node.reply(request, InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))
        else:
            node.reply(request, _refused(request, error))

    if node.membership.coordinator_away_ms >= 0 and not node.producer_ids.in_stock:
        node.forwarding.pass_on(node, request, message, allowed_ms=WAIT_MS_MAX)
    else:
        node.producer_ids.take(done)


def _transactional(
    node: Node, request: Received, message: InitProducerIdRequest, transactional_id: str
) -> None:
    named = None
    if message.producer_id != NO_PRODUCER_ID:
        named = NamedProducer(message.producer_id, message.producer_epoch)

    def done(error: ErrorCode, identity: ProducerIdentity | None) -> None:
        if identity is None:
            node.reply(request, _refused(request, error))
            return
        response = InitProducerIdResponse(
            producer_id=identity.producer_id, producer_epoch=identity.epoch
        )
        node.reply(request, response)

    node.transactional_ids.init(
        transactional_id, named, timeout_ms=message.transaction_timeout_ms, on_done=done
    )


def _refused(request: Received, error: ErrorCode) -> InitProducerIdResponse:
    if error is ErrorCode.PRODUCER_FENCED and request.version < FIRST_VERSION_WITH_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return _no_id(error)


def _no_id(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )
