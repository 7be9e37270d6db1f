"""Our bytes are kio's bytes, written and read, for every message and version that kio has."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.codec.builder import CLASSES, build, versions
from tests.codec.kio_oracle import counterpart, kio_bytes, kio_read, tame, to_kio

from replog.codec import decode, encode_bytes
from replog.model.messages import Message

KNOWN = tuple(cls for cls in CLASSES if any(counterpart(cls, v) for v in versions(cls)))


@pytest.mark.parametrize("cls", KNOWN, ids=lambda cls: cls.__name__)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=8, deadline=None)
def test_bytes_are_the_same_in_both_directions(cls: type[Message], seed: int) -> None:
    rng = random.Random(seed)
    for version in versions(cls):
        theirs = counterpart(cls, version)
        if theirs is None:
            continue
        message = build(rng, cls, version)
        tame(rng, message, version, theirs)
        entity = to_kio(message, version, theirs)
        body = kio_bytes(entity)
        assert encode_bytes(message, version) == body
        back, end = decode(cls, version, body)
        assert end == len(body)
        assert to_kio(back, version, theirs) == entity
        assert kio_read(theirs, body) == entity


def test_kio_knows_nearly_all_of_it() -> None:
    """Otherwise the test above would be empty without anybody noticing."""
    covered = sum(counterpart(cls, v) is not None for cls in CLASSES for v in versions(cls))
    assert covered >= 300, covered
