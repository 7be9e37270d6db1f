"""Single changes that each break one rule: what the simulator must be able to find.

They live here alone, as patches on named functions. Nothing in the package can switch them on.
One whose function is gone, or takes something else by now, fails at once: it would raise in every
call, which says nothing about the rule.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

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
        takes_the_same(_function(owner.__dict__[attribute]), _function(replacement))
        setattr(owner, attribute, replacement)
    try:
        yield
    finally:
        for owner, attribute, original in kept:
            setattr(owner, attribute, original)


def _function(found: Any) -> Callable[..., Any]:
    """What is called for a function, a method of any kind, or a property."""
    if isinstance(found, property):
        assert found.fget is not None
        return found.fget
    function: Callable[..., Any] = inspect.unwrap(getattr(found, "__func__", found))
    return function


def takes_the_same(original: Callable[..., Any], replacement: Callable[..., Any]) -> None:
    """Raises TypeError when a call of `original` with all that it takes would be none of
    `replacement`."""
    given = inspect.signature(original).parameters.values()
    named = {p.name: None for p in given if p.kind is p.KEYWORD_ONLY}
    others = [None for p in given if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    inspect.signature(replacement).bind(*others, **named)
