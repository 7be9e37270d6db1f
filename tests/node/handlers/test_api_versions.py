"""ApiVersions: what is served, and whom a client took us for."""

import pytest
from tests.node.handlers.one_broker import CLUSTER_ID, RANGES, OneBroker

from replog.model.errors import ErrorCode
from replog.model.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


def ask(version: int, **fields: object) -> ApiVersionsResponse:
    named = {"client_software_name": "client", "client_software_version": "1.0"} | fields
    message = ApiVersionsRequest()
    for name, value in named.items():
        setattr(message, name, value)
    return OneBroker().ask(message, ApiVersionsResponse, version=version)


@pytest.mark.parametrize("version", range(6))
def test_the_table_is_what_the_broker_was_born_with(version: int) -> None:
    answer = ask(version)
    assert answer.error_code == ErrorCode.NONE
    table = [(key.api_key, key.min_version, key.max_version) for key in answer.api_keys]
    assert tuple(table) == RANGES


def test_only_features_that_are_there_are_claimed() -> None:
    answer = ask(4)
    levels = {f.name: (f.min_version, f.max_version) for f in answer.supported_features}
    assert levels == {
        "metadata.version": (7, 33),
        "eligible.leader.replicas.version": (0, 1),
    }
    final = {f.name: (f.min_version_level, f.max_version_level) for f in answer.finalized_features}
    assert final == {"metadata.version": (33, 33), "eligible.leader.replicas.version": (1, 1)}


def test_features_that_may_be_at_level_0_are_kept_from_old_clients() -> None:
    answer = ask(3)
    assert [feature.name for feature in answer.supported_features] == ["metadata.version"]
    assert len(answer.finalized_features) == 2


@pytest.mark.parametrize(
    ("name", "version"), [("-x", "1.0"), ("", ""), ("ok", ""), ("a/b", "1"), ("ok", "1 0")]
)
def test_a_client_that_names_itself_badly_is_refused_from_version_3_on(
    name: str, version: str
) -> None:
    fields = {"client_software_name": name, "client_software_version": version}
    refused = ask(3, **fields)
    assert (refused.error_code, refused.api_keys) == (ErrorCode.INVALID_REQUEST, [])
    assert ask(2, **fields).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (None, -1, ErrorCode.NONE),
        (CLUSTER_ID, 1, ErrorCode.NONE),
        (CLUSTER_ID, -1, ErrorCode.INVALID_REQUEST),
        (None, 1, ErrorCode.INVALID_REQUEST),
        (CLUSTER_ID, 2, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("other", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
    ],
)
def test_a_client_that_took_us_for_another_is_sent_away(
    cluster_id: str | None, node_id: int, error: ErrorCode
) -> None:
    answer = ask(5, cluster_id=cluster_id, node_id=node_id)
    assert answer.error_code == error
    assert bool(answer.api_keys) == (error is ErrorCode.NONE)
