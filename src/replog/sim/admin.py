"""The simulated administrator: makes the topics, and asks again until they are there."""

from collections.abc import Callable
from typing import Final

from replog.model.errors import ErrorCode
from replog.model.messages import Message
from replog.model.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from replog.sim.client import Ground, SimClient
from replog.sim.plan import Plan

TIMEOUT_MS: Final = 500


class SimAdmin(SimClient):
    """Creates the topics of the plan."""

    def __init__(self, ground: Ground, name: str, plan: Plan) -> None:
        super().__init__(ground, name, ())
        self._plan = plan
        self._missing = dict(plan.topics)
        self._when_made: Callable[[], None] | None = None

    @property
    def finished(self) -> bool:
        return not self._missing

    def start(self, when_made: Callable[[], None]) -> None:
        """Make the topics; `when_made` runs once all are there."""
        self._when_made = when_made
        self.later(20.0, self._create)

    def _create(self) -> None:
        brokers = self.ground.brokers
        settings = {**self._plan.topic_settings, "min.insync.replicas": str(self._plan.min_isr)}
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=count,
                    replication_factor=self._plan.brokers,
                    configs=[CreatableTopicConfig(name=k, value=v) for k, v in settings.items()],
                )
                for name, count in self._missing.items()
            ],
            timeout_ms=TIMEOUT_MS,
        )
        broker_id = brokers[int(self.draw("broker") * len(brokers))]
        self.ask(broker_id, request, self._on_created, TIMEOUT_MS * 1.5)

    def _on_created(self, message: Message | None) -> None:
        if isinstance(message, CreateTopicsResponse):
            for topic in message.topics:
                if topic.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    self._missing.pop(topic.name, None)
        if self._missing:
            self.later(30.0, self._create)
        elif self._when_made is not None:
            self._when_made()
