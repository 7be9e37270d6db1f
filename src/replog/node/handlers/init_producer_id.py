"""InitProducerId, API key 22, versions 0-5: an id for an idempotent producer.

Versions: 2 flexible, 3 the producer may name the id and epoch it had (KIP-360), 4 PRODUCER_FENCED,
5 transactions of the second kind (KIP-890).

Without a transactional id every request gets a new id with epoch 0, whatever it names, as in Kafka.
With one it is refused: transactions are not served yet. The code is one that no client repeats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.model.errors import ErrorCode
from replog.model.inputs import Received
from replog.model.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

if TYPE_CHECKING:
    from replog.node.node import Node

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


def handle(
    node: Node, request: Received, message: InitProducerIdRequest
) -> InitProducerIdResponse | None:
    """Give an id as soon as there is one."""
    error = _fault(node, message)
    if error is not ErrorCode.NONE:
        return _refused(error)

    def done(error: ErrorCode, producer_id: int) -> None:
        if error is not ErrorCode.NONE:
            node.reply(request, _refused(error))
        else:
            node.reply(request, InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))

    node.producer_ids.take(done)
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
    return ErrorCode.UNSUPPORTED_VERSION


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )
