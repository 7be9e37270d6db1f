"""Every message at every version comes back as it went, from the middle of a buffer too."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.codec.builder import CLASSES, build, versions

from replog.codec import MalformedMessage, decode, encode_bytes
from replog.codec.layout import layout_of
from replog.model.messages import Message

SEEDS = st.integers(0, 2**32)


def normal(message: Message, version: int) -> Message:
    """`message` after a trip: a tagged struct at its defaults is not sent, so it is absent then."""
    return decode(type(message), version, encode_bytes(message, version))[0]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@given(seed=SEEDS)
@settings(max_examples=5, deadline=None)
def test_round_trip(cls: type[Message], seed: int) -> None:
    rng = random.Random(seed)
    for version in versions(cls):
        message = build(rng, cls, version)
        body = encode_bytes(message, version)
        around = rng.randbytes(3)
        back, end = decode(cls, version, memoryview(around + body + around), 3)
        assert end == 3 + len(body)
        assert back == normal(message, version)
        assert encode_bytes(back, version) == body


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_field_survives_when_all_of_them_say_something(cls: type[Message]) -> None:
    for version in versions(cls):
        for attempt in range(3):
            message = build(random.Random(attempt), cls, version)
            back, _ = decode(cls, version, encode_bytes(message, version))
            for item in layout_of(cls, version).items:
                assert getattr(back, item.name) == getattr(normal(message, version), item.name)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_shorter_body_is_refused(cls: type[Message]) -> None:
    for version in versions(cls):
        body = encode_bytes(build(random.Random(version), cls, version), version)
        cuts = range(len(body)) if len(body) < 60 else random.Random(1).sample(range(len(body)), 60)
        for cut in cuts:
            with pytest.raises(MalformedMessage):
                decode(cls, version, body[:cut])


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_defaults_survive(cls: type[Message]) -> None:
    for version in versions(cls):
        assert decode(cls, version, encode_bytes(cls(), version))[0] == cls()


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_there_is_no_version_beyond(cls: type[Message]) -> None:
    low, high = cls.VERSIONS
    for version in (low - 1, high + 1):
        with pytest.raises(ValueError, match="not"):
            encode_bytes(cls(), version)
        with pytest.raises(ValueError, match="not"):
            decode(cls, version, bytes(100))
