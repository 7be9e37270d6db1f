"""Whatever comes in, decoding ends in a message or in MalformedMessage."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.codec.builder import CLASSES, build, versions

from replog.codec import MalformedMessage, decode, encode_bytes
from replog.model.messages import Message


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@given(junk=st.binary(max_size=200))
@settings(max_examples=20, deadline=None)
def test_random_bytes(cls: type[Message], junk: bytes) -> None:
    for version in versions(cls):
        try:
            message, end = decode(cls, version, junk)
        except MalformedMessage as error:
            assert str(error).startswith(f"{cls.__name__} v{version}: ")
        else:
            assert end <= len(junk)
            encode_bytes(message, version)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=5, deadline=None)
def test_messages_with_some_bytes_changed(cls: type[Message], seed: int) -> None:
    rng = random.Random(seed)
    for version in versions(cls):
        body = bytearray(encode_bytes(build(rng, cls, version), version))
        for _ in range(rng.randrange(1, 4)):
            if body:
                body[rng.randrange(len(body))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        try:
            message, end = decode(cls, version, memoryview(body))
        except MalformedMessage:
            continue
        assert end <= len(body)
        encode_bytes(message, version)
