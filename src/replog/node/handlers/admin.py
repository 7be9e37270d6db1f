"""What the controller needs to know of who asked for an admin request."""

from collections.abc import Callable
from dataclasses import dataclass

from replog.model.errors import ErrorCode
from replog.model.messages import Response


@dataclass(slots=True)
class AdminCall:
    """One request: by which broker it came in, and how it is answered.

    Exactly one of `respond` and `not_controller` is to be called, once.
    """

    respond: Callable[[Response], None]
    not_controller: Callable[[], None]  # this broker can't say: ask whoever is controller now
    origin: int  # broker that the client is connected to: it should know what it has brought about
    version: int  # of the API
    client_id: str | None = None
    client_host: str = ""

    def fail(self, error: ErrorCode, refusal: Response) -> None:
        """Answer a request that the controller's pipeline gave back."""
        if error is ErrorCode.NOT_CONTROLLER:
            self.not_controller()
        else:
            self.respond(refusal)
