"""Single changes that each break one rule: what the simulator must be able to find.

They live here alone, as patches on named functions. Nothing in the package can switch them on, and
one whose function is gone fails at once.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.sim.mutants_of_replication import REPLICATION
from tests.sim.mutants_of_storage import STORAGE
from tests.sim.patches import Patch

MUTANTS: dict[str, tuple[Patch, ...]] = REPLICATION | STORAGE


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """The package with one rule broken, for the time of a test."""
    patches = MUTANTS[name]
    kept = [(owner, attribute, owner.__dict__[attribute]) for owner, attribute, _ in patches]
    for owner, attribute, replacement in patches:
        setattr(owner, attribute, replacement)
    try:
        yield
    finally:
        for owner, attribute, original in kept:
            setattr(owner, attribute, original)
