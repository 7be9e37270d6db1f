"""Altering configurations: both APIs for it, which differ in what a resource says.

A broker's settings are judged by that broker, with its own file at hand, and only then passed on;
everything is judged by the controller, which stores what may be stored in one multi. The answer
comes once the client's broker knows of it, and for a short while waits for all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from replog.core.config_changes import (
    ALL_BROKERS,
    AlterOp,
    ConfigChange,
    altered,
    check_alterations,
    check_form,
    contradictions,
)
from replog.core.controller.state import Draft
from replog.model.config import ConfigError
from replog.model.config_resources import ResourceType
from replog.model.errors import ErrorCode, Refused
from replog.model.ids import NO_BROKER
from replog.model.inputs import Received
from replog.model.messages import Message
from replog.model.messages import alter_configs as replaced
from replog.model.messages import incremental_alter_configs as altered_each
from replog.node.dynamic_config import usable
from replog.node.handlers.admin import AdminCall
from replog.node.handlers.create_topics import when_told

if TYPE_CHECKING:
    from replog.node.node import Node

Resource = tuple[int, str]
Refusals = Mapping[Resource, Refused]

EVERYTHING: Resource = (NO_BROKER, "")  # a refusal of this one is one of all

AnyRequest = replaced.AlterConfigsRequest | altered_each.IncrementalAlterConfigsRequest
AnyResponse = replaced.AlterConfigsResponse | altered_each.IncrementalAlterConfigsResponse
AnyResult = replaced.AlterConfigsResourceResponse | altered_each.AlterConfigsResourceResponse


class Alterations:
    """One of the two APIs. `change_of` reads a resource of its requests."""

    def __init__(
        self,
        request: type[AnyRequest],
        response: type[AnyResponse],
        result: type[AnyResult],
        change_of: Callable[[Any], ConfigChange],
    ) -> None:
        self._request = request
        self._response = response
        self._result = result
        self._change_of = change_of

    def handle(self, node: Node, request: Received, message: AnyRequest) -> Message | None:
        """Refuse what this broker can tell, and have the controller do the rest."""
        refused = _refused_here(node, self._changes(message))
        rest: list[Any] = [
            r for r in message.resources if (r.resource_type, r.resource_name) not in refused
        ]
        here = self._answer(message, refused)
        if not rest:
            return here

        def join(response: Message) -> None:
            if isinstance(response, self._response):
                there = {(r.resource_type, r.resource_name): r for r in response.responses}
                joined: list[Any] = [
                    there.get((r.resource_type, r.resource_name), r) for r in here.responses
                ]
                response.responses = joined
            node.reply(request, response)

        passed = self._request(resources=rest, validate_only=message.validate_only)
        node.forwarding.pass_on(node, request, passed, respond=join)
        return None

    def execute(self, node: Node, message: AnyRequest, call: AdminCall) -> None:
        """Carry it out on the controller; `call` is answered exactly once."""

        def answer(refusals: Refusals) -> None:
            response = self._answer(message, refusals)
            whole = refusals.get(EVERYTHING)
            if whole is None:
                call.answer(response)
            else:
                call.fail(whole.error, response)

        call.limit(node, self.refuse(message, ErrorCode.REQUEST_TIMED_OUT))
        _execute(
            node, call, self._changes(message), validate_only=message.validate_only, answer=answer
        )

    def refuse(self, message: AnyRequest, error: ErrorCode) -> AnyResponse:
        """The answer that refuses everything."""
        return self._answer(message, _refuse_all(error))

    def _changes(self, message: AnyRequest) -> list[ConfigChange]:
        return [self._change_of(resource) for resource in message.resources]

    def _answer(self, message: AnyRequest, refusals: Refusals) -> AnyResponse:
        whole = refusals.get(EVERYTHING, Refused(ErrorCode.NONE))
        results: list[Any] = []
        for resource in message.resources:
            refused = refusals.get((resource.resource_type, resource.resource_name), whole)
            results.append(
                self._result(
                    error_code=refused.error,
                    error_message=refused.message,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
            )
        return self._response(responses=results)


def _refused_here(node: Node, changes: Sequence[ConfigChange]) -> dict[Resource, Refused]:
    """What the broker that was asked refuses at once."""
    counts = Counter((change.kind, change.name) for change in changes)
    found: dict[Resource, Refused] = {}
    for change in changes:
        resource = (change.kind, change.name)
        refusal: Refused | None
        if counts[resource] > 1:
            refusal = Refused(ErrorCode.INVALID_REQUEST, "a resource comes more than once")
        elif change.kind == ResourceType.BROKER_LOGGER:
            refusal = _refuse_logger(node, change)
        else:
            refusal = check_form(change)
            if refusal is None and change.kind == ResourceType.BROKER:
                refusal = _refuse_broker(node, change)
        if refusal is not None:
            found[resource] = refusal
    return found


def _refuse_logger(node: Node, change: ConfigChange) -> Refused:
    """There are no loggers whose level could be set: what names none is answered at once, too."""
    if change.name != str(node.broker_id):
        text = f"broker {node.broker_id} was asked for the loggers of broker {change.name!r}"
        return Refused(ErrorCode.INVALID_REQUEST, text)
    refused = check_alterations(change)
    if refused is not None or not change.alterations:
        return refused or Refused(ErrorCode.NONE)
    if any(a.op in (AlterOp.APPEND, AlterOp.SUBTRACT) for a in change.alterations):
        return Refused(ErrorCode.INVALID_REQUEST, "the level of a logger is no list")
    return Refused(ErrorCode.INVALID_CONFIG, "there are no loggers whose level could be set")


def _refuse_broker(node: Node, change: ConfigChange) -> Refused | None:
    """Whether this broker can do with its settings after `change`."""
    own = str(node.broker_id)
    if change.name not in (ALL_BROKERS, own):
        text = f"broker {node.broker_id} was asked for broker {change.name}: ask that one"
        return Refused(ErrorCode.INVALID_REQUEST, text)
    stored = node.cluster.broker_configs
    after = altered(change, stored.get(change.name, {}), node.config)
    if isinstance(after, Refused):
        return after
    try:
        config = node.config.with_dynamic(
            dynamic=usable(after if change.name == own else stored.get(own, {})),
            dynamic_default=usable(
                after if change.name == ALL_BROKERS else stored.get(ALL_BROKERS, {})
            ),
        )
        config.check_cordoned()
    except ConfigError as error:
        return Refused(ErrorCode.INVALID_REQUEST, str(error))
    before = set(contradictions(node.config))  # an earlier release may have taken them
    new = next((fault for fault in contradictions(config) if fault not in before), None)
    return None if new is None else Refused(ErrorCode.INVALID_REQUEST, new)


def _execute(
    node: Node,
    call: AdminCall,
    changes: Sequence[ConfigChange],
    *,
    validate_only: bool,
    answer: Callable[[Refusals], None],
) -> None:
    """Carry `changes` out on the controller; `answer` is told which of them are refused."""

    def plan(draft: Draft) -> Callable[[], None]:
        if call.answered:
            return lambda: None
        refusals: dict[Resource, Refused] = {}
        stored = False
        for change in changes:
            outcome = _judge(node, draft, change)
            if isinstance(outcome, Refused):
                refusals[change.kind, change.name] = outcome
            elif not validate_only:
                kind = ResourceType(change.kind)
                if outcome != draft.configs_of(kind, change.name):
                    draft.put_configs(kind, change.name, outcome)
                    stored = True
        if not stored:
            return lambda: answer(refusals)
        draft.reconcile()  # who may lead, and without whom, depends on settings too
        return lambda: when_told(node, call, set(), lambda: answer(refusals))

    node.controlling.submit(plan, lambda error: answer(_refuse_all(error)))


def _refuse_all(error: ErrorCode) -> dict[Resource, Refused]:
    """The refusals of a request that was not carried out at all."""
    return {EVERYTHING: Refused(error)}


def _judge(node: Node, draft: Draft, change: ConfigChange) -> dict[str, str] | Refused:
    refusal = check_form(change)
    if refusal is not None:
        return refusal
    kind = ResourceType(change.kind)
    after = altered(change, draft.configs_of(kind, change.name), node.config)
    if isinstance(after, Refused):  # said before anybody looks for the topic, as by Kafka
        return after
    if kind is ResourceType.TOPIC and draft.topic(change.name) is None:
        return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {change.name}")
    return after
