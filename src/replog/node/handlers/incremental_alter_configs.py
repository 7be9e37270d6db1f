"""IncrementalAlterConfigs, API key 44, versions 0-1: single settings are altered (KIP-339).

Versions: 1 is flexible. Settings are set, or deleted: they go back to what they fall back to then.
To lists, items can be appended and subtracted.

For topics, brokers (dynamic ones, of one broker or of all), groups and client metrics
subscriptions; see `config_alterations`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from replog.core.config_changes import Alteration, ConfigChange
from replog.model.errors import ErrorCode, Refused
from replog.model.inputs import Received
from replog.model.messages import Message
from replog.model.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from replog.node import config_alterations
from replog.node.config_alterations import EVERYTHING, Refusals, refuse_all
from replog.node.handlers.admin import AdminCall

if TYPE_CHECKING:
    from replog.node.node import Node


def handle(
    node: Node, request: Received, message: IncrementalAlterConfigsRequest
) -> Message | None:
    """Refuse what this broker can tell, and have the controller do the rest."""
    refused = config_alterations.refused_here(node, _changes(message.resources))
    rest = [r for r in message.resources if (r.resource_type, r.resource_name) not in refused]
    here = _responses(message.resources, refused)
    if not rest:
        return IncrementalAlterConfigsResponse(responses=here)

    def join(response: Message) -> None:
        if isinstance(response, IncrementalAlterConfigsResponse):
            there = {(r.resource_type, r.resource_name): r for r in response.responses}
            response.responses = [there.get((r.resource_type, r.resource_name), r) for r in here]
        node.reply(request, response)

    message = IncrementalAlterConfigsRequest(resources=rest, validate_only=message.validate_only)
    node.forwarding.pass_on(node, request, message, respond=join)
    return None


def execute(node: Node, message: IncrementalAlterConfigsRequest, call: AdminCall) -> None:
    """Carry it out on the controller; `call` is answered exactly once."""

    def answer(refusals: Refusals) -> None:
        response = IncrementalAlterConfigsResponse(
            responses=_responses(message.resources, refusals)
        )
        config_alterations.settle(call, refusals, response)

    call.limit(node, refuse(message, ErrorCode.REQUEST_TIMED_OUT))
    config_alterations.execute(
        node,
        call,
        _changes(message.resources),
        validate_only=message.validate_only,
        answer=answer,
    )


def refuse(
    message: IncrementalAlterConfigsRequest, error: ErrorCode
) -> IncrementalAlterConfigsResponse:
    """The answer that refuses everything."""
    return IncrementalAlterConfigsResponse(
        responses=_responses(message.resources, refuse_all(error))
    )


def _changes(resources: Sequence[AlterConfigsResource]) -> list[ConfigChange]:
    return [
        ConfigChange(
            resource.resource_type,
            resource.resource_name,
            tuple(
                Alteration(config.name, config.value, config.config_operation)
                for config in resource.configs
            ),
        )
        for resource in resources
    ]


def _responses(
    resources: Sequence[AlterConfigsResource], refusals: Refusals
) -> list[AlterConfigsResourceResponse]:
    fine = Refused(ErrorCode.NONE)
    whole = refusals.get(EVERYTHING, fine)
    responses = []
    for resource in resources:
        refused = refusals.get((resource.resource_type, resource.resource_name), whole)
        responses.append(
            AlterConfigsResourceResponse(
                error_code=refused.error,
                error_message=refused.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return responses
