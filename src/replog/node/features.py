"""Features that this release claims (KIP-584): clients look at them, nothing here depends on them.

Only what is there is claimed. `metadata.version` says for which release of Kafka's clients and
tools we speak.
"""

from typing import NamedTuple


class Feature(NamedTuple):
    """A feature, the levels that are known, and the one at which it is."""

    name: str
    min_level: int
    max_level: int
    level: int


FEATURES = (
    Feature("metadata.version", 7, 33, 33),  # Kafka 4.4
    Feature("eligible.leader.replicas.version", 0, 1, 1),  # KIP-966
)
