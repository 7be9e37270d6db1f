"""JoinGroup, API key 11, versions 0-9: a member enters a classic group, or enters it again.

Versions: 1 a rebalance timeout of its own, 4 the member id has to be known first (KIP-394), 5
static members (KIP-345), 6 flexible, 7 protocol type in the answer, 8 a reason (KIP-800), 9 the
answer may spare a returning leader the assignment (KIP-814).

Answered when the round of joining ends. A protocol that is named twice is refused; Kafka never
answers that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.core.group.facts import NO_MEMBER_ID, JoinAnswer, JoinCall, Protocol
from replog.model.errors import ErrorCode, Refused
from replog.model.inputs import Received
from replog.model.messages.join_group import JoinGroupRequest, JoinGroupResponse
from replog.node.group_answers import join_response

if TYPE_CHECKING:
    from replog.node.node import Node

FIRST_VERSION_WITH_REBALANCE_TIMEOUT = 1
FIRST_VERSION_WITH_KNOWN_ID = 4
FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT = 9

# Characters of a client's or instance's name that go into the member ids made from it: ids are
# strings of the protocol too, which end at 32,767 bytes.
NAME_LENGTH_MAX = 4096


def handle(node: Node, request: Received, message: JoinGroupRequest) -> JoinGroupResponse | None:
    """Hand the member to its group."""
    error = _fault(node, message)
    if error is not ErrorCode.NONE:
        return _refusal(request, message, error)
    home = node.groups.home_of(message.group_id)
    if isinstance(home, ErrorCode):
        return _refusal(request, message, home)
    if message.group_id not in home.groups and message.member_id != NO_MEMBER_ID:
        return _refusal(request, message, ErrorCode.UNKNOWN_MEMBER_ID)
    entry = home.open_group(message.group_id)
    if isinstance(entry, Refused):
        return _refusal(request, message, entry.error)
    entry.named = True
    outcome = entry.group.join(_call(node, request, message), home.instant())
    node.groups.carry_out(home, entry, outcome)
    return None


def _fault(node: Node, message: JoinGroupRequest) -> ErrorCode:
    config = node.config
    timeout_ms = message.session_timeout_ms
    if not message.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if not (
        config.group_min_session_timeout_ms <= timeout_ms <= config.group_max_session_timeout_ms
    ):
        return ErrorCode.INVALID_SESSION_TIMEOUT
    names = [protocol.name for protocol in message.protocols]
    if len(set(names)) != len(names):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _call(node: Node, request: Received, message: JoinGroupRequest) -> JoinCall:
    version = request.version
    rebalance_timeout_ms = message.rebalance_timeout_ms
    if version < FIRST_VERSION_WITH_REBALANCE_TIMEOUT:
        rebalance_timeout_ms = message.session_timeout_ms
    client_id = request.client_id or ""
    name = client_id if message.group_instance_id is None else message.group_instance_id
    return JoinCall(
        ticket=node.groups.park(request),
        member_id=message.member_id,
        instance_id=message.group_instance_id,
        client_id=client_id,
        client_host=f"/{request.client_host}",  # the form in which Kafka shows and stores it
        session_timeout_ms=message.session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        protocol_type=message.protocol_type,
        protocols=tuple(Protocol(p.name, p.metadata) for p in message.protocols),
        new_member_id=f"{name[:NAME_LENGTH_MAX]}-{_uuid4(node.rng.randbytes(16))}",
        known_member_id_required=version >= FIRST_VERSION_WITH_KNOWN_ID,
        skip_assignment_known=version >= FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT,
    )


def _uuid4(random_bytes: bytes) -> str:
    """16 random bytes in the form of a random UUID."""
    digits = random_bytes.hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def _refusal(request: Received, message: JoinGroupRequest, error: ErrorCode) -> JoinGroupResponse:
    return join_response(JoinAnswer(0, error, message.member_id), request.version)
