"""How two brokers prove to each other that they belong to one cluster.

Both know the cluster's secret (it is in the coordinator) and neither sends it. In the first of two
rounds the dialler sends a nonce, and the acceptor answers with its own and a proof over both; in
the second the dialler sends its proof. A proof is an HMAC-SHA256 over everything that was claimed,
with the role of who made it, so that none can be used a second time, for another broker,
registration or cluster, or be sent back to its maker.
"""

import hashlib
import hmac
import struct
from dataclasses import dataclass
from typing import Final

from replog.model.errors import ErrorCode
from replog.model.messages.broker_handshake import BrokerHandshakeRequest, BrokerHandshakeResponse
from replog.version import INTER_BROKER_VERSION

NONCE_BYTES: Final = 32
_DIALLER: Final = b"dialler"
_ACCEPTOR: Final = b"acceptor"


class HandshakeRefused(Exception):
    """The other end is not, or can't prove to be, who we want to talk to."""


@dataclass(frozen=True, slots=True)
class Self:
    """Who we are when a handshake begins."""

    broker_id: int
    broker_epoch: int
    cluster_id: str
    secret: bytes


@dataclass(frozen=True, slots=True)
class _Claims:
    """All that the two ends say about themselves, as both see it."""

    cluster_id: str
    dialler: tuple[int, int, int]  # broker id, broker epoch, inter-broker version
    acceptor: tuple[int, int, int]
    dialler_nonce: bytes
    acceptor_nonce: bytes

    def proof(self, secret: bytes, role: bytes) -> bytes:
        cluster = self.cluster_id.encode()
        fields = (
            role,
            cluster,
            struct.pack("!iqh", *self.dialler),
            struct.pack("!iqh", *self.acceptor),
            self.dialler_nonce,
            self.acceptor_nonce,
        )
        text = b"".join(struct.pack("!I", len(field)) + field for field in fields)
        return hmac.new(secret, text, hashlib.sha256).digest()


class Dialler:
    """The end that connected. First `hello`, then `answer` with what comes back, then `finish`."""

    def __init__(self, own: Self, nonce: bytes) -> None:
        self._own = own
        self._nonce = nonce
        self.peer_epoch = -1  # of the acceptor's registration, once it has proved itself

    def hello(self) -> BrokerHandshakeRequest:
        """The first request."""
        return self._request(b"")

    def answer(self, response: BrokerHandshakeResponse, broker_id: int) -> BrokerHandshakeRequest:
        """The second request, when the acceptor is `broker_id`. Raises HandshakeRefused."""
        _check_answer(response)
        claims = _Claims(
            self._own.cluster_id,
            (self._own.broker_id, self._own.broker_epoch, INTER_BROKER_VERSION),
            (response.broker_id, response.broker_epoch, response.inter_broker_version),
            self._nonce,
            response.nonce,
        )
        if len(response.nonce) != NONCE_BYTES or not hmac.compare_digest(
            response.proof, claims.proof(self._own.secret, _ACCEPTOR)
        ):
            raise HandshakeRefused("it does not know this cluster's secret")
        if response.broker_id != broker_id:
            raise HandshakeRefused(f"it is broker {response.broker_id}")
        if response.inter_broker_version > INTER_BROKER_VERSION:
            raise HandshakeRefused(_newer(response.inter_broker_version))
        self.peer_epoch = response.broker_epoch
        return self._request(claims.proof(self._own.secret, _DIALLER))

    @staticmethod
    def finish(response: BrokerHandshakeResponse) -> None:
        """The second response. Raises HandshakeRefused."""
        _check_answer(response)

    def _request(self, proof: bytes) -> BrokerHandshakeRequest:
        return BrokerHandshakeRequest(
            broker_id=self._own.broker_id,
            broker_epoch=self._own.broker_epoch,
            cluster_id=self._own.cluster_id,
            inter_broker_version=INTER_BROKER_VERSION,
            nonce=self._nonce,
            proof=proof,
        )


class Acceptor:
    """The end that was connected to: `receive` each of the two requests."""

    def __init__(self, own: Self, nonce: bytes) -> None:
        self.own = own
        self._nonce = nonce
        self._hello: BrokerHandshakeRequest | None = None
        self.peer: tuple[int, int] | None = None  # (broker id, broker epoch), once proved

    def receive(self, request: BrokerHandshakeRequest) -> BrokerHandshakeResponse:
        """The response; with an error code when the connection is to be closed after it."""
        try:
            return self._receive(request)
        except HandshakeRefused as refusal:
            return BrokerHandshakeResponse(
                error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                error_message=str(refusal),
                inter_broker_version=INTER_BROKER_VERSION,
            )

    def _receive(self, request: BrokerHandshakeRequest) -> BrokerHandshakeResponse:
        if request.inter_broker_version > INTER_BROKER_VERSION:
            raise HandshakeRefused(_newer(request.inter_broker_version))
        if request.cluster_id != self.own.cluster_id:
            raise HandshakeRefused(f"this is cluster {self.own.cluster_id}")
        if len(request.nonce) != NONCE_BYTES or self.peer is not None:
            raise HandshakeRefused("not a handshake")
        claims = _Claims(
            self.own.cluster_id,
            (request.broker_id, request.broker_epoch, request.inter_broker_version),
            (self.own.broker_id, self.own.broker_epoch, INTER_BROKER_VERSION),
            request.nonce,
            self._nonce,
        )
        if self._hello is None:
            self._hello = request
            return self._response(claims.proof(self.own.secret, _ACCEPTOR))
        proof = claims.proof(self.own.secret, _DIALLER)
        if request.nonce != self._hello.nonce or not hmac.compare_digest(request.proof, proof):
            raise HandshakeRefused("you do not know this cluster's secret")
        self.peer = (request.broker_id, request.broker_epoch)
        return self._response(b"")

    def _response(self, proof: bytes) -> BrokerHandshakeResponse:
        return BrokerHandshakeResponse(
            broker_id=self.own.broker_id,
            broker_epoch=self.own.broker_epoch,
            inter_broker_version=INTER_BROKER_VERSION,
            nonce=self._nonce,
            proof=proof,
        )


def _check_answer(response: BrokerHandshakeResponse) -> None:
    if response.error_code != ErrorCode.NONE:
        raise HandshakeRefused(response.error_message or f"error {response.error_code}")


def _newer(version: int) -> str:
    return f"inter-broker version {version} is newer than {INTER_BROKER_VERSION}, the last known"
