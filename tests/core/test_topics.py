"""Names that topics can have."""

import pytest

from replog.core.topics import NAME_CHARACTERS_MAX, MetricNames, topic_name_fault


@pytest.mark.parametrize(
    "name", ["a", "A-Z_0.9", "...", ".a", "-", "__consumer_offsets", "n" * NAME_CHARACTERS_MAX]
)
def test_good_names(name: str) -> None:
    assert topic_name_fault(name) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", "empty"),
        (".", "'.'"),
        ("..", "'..'"),
        ("a/b", "only ASCII letters"),
        ("a b", "only ASCII letters"),
        ("a:b", "only ASCII letters"),
        ("*", "only ASCII letters"),
        ("\u00e4", "only ASCII letters"),
        ("a\n", "only ASCII letters"),
        ("n" * (NAME_CHARACTERS_MAX + 1), "at most 249 characters; this one has 250"),
    ],
)
def test_bad_names(name: str, expected: str) -> None:
    fault = topic_name_fault(name)
    assert fault is not None and expected in fault


def test_names_that_differ_only_by_dot_and_underscore_collide() -> None:
    assert MetricNames(["x", "a_b", "c"]).twin("a.b") == "a_b"
    assert MetricNames(["a.b_c"]).twin("a_b.c") == "a.b_c"
    names = MetricNames(["a.b", "a-b"])
    assert names.twin("a.b") is None and names.twin("a") is None
