"""DescribeCluster, FindCoordinator, DescribeLogDirs and UpdateFeatures."""

from typing import Any, Final

from tests.conformance.steps import Ask, Batch, Case, Topic, Write

FOUND: Final = ("node_id",)


def find(*keys: str, kind: int = 0, patient: bool = True) -> Ask:
    body = {"key": keys[0] if keys else "", "key_type": kind, "coordinator_keys": list(keys)}
    return Ask("FindCoordinator", body, hide=FOUND, to="any", patient=patient)


def features(name: str, *updates: dict[str, Any], versions: Any = (0, 1, 2), **given: Any) -> Case:
    """Nothing is ever changed: only whether it could be."""
    body = {"feature_updates": list(updates), "validate_only": True, **given}
    return Case(f"features.{name}", "UpdateFeatures", [Ask("UpdateFeatures", body)], versions)


def level(
    number: int, name: str = "metadata.version", kind: int = 1, **given: Any
) -> dict[str, Any]:
    return {"feature": name, "max_version_level": number, "upgrade_type": kind, **given}


def folders(*topics: dict[str, Any]) -> Ask:
    return Ask(
        "DescribeLogDirs", {"topics": list(topics)}, hide=("log_dir", "total_bytes", "usable_bytes")
    )


CASES: Final = [
    Case("describecluster.plain", "DescribeCluster", [Ask("DescribeCluster")], "all"),
    Case(
        "describecluster.operations",
        "DescribeCluster",
        [Ask("DescribeCluster", {"include_cluster_authorized_operations": True})],
        "all",
    ),
    *(
        Case(
            f"describecluster.endpoint.{kind}",
            "DescribeCluster",
            [Ask("DescribeCluster", {"endpoint_type": kind})],
            (1, 2),
        )
        for kind in (0, 2, 3, -1)
    ),
    Case(
        "describecluster.fenced",
        "DescribeCluster",
        [Ask("DescribeCluster", {"include_fenced_brokers": True})],
        (2,),
    ),
    Case("findcoordinator.plain", "FindCoordinator", [find("<g>")], "all"),
    Case("findcoordinator.txn", "FindCoordinator", [find("<x>", kind=1)], (1, 2, 3, 4, 5, 6)),
    Case("findcoordinator.empty", "FindCoordinator", [find("")], "all"),
    Case("findcoordinator.txn.empty", "FindCoordinator", [find("", kind=1)], (1, 2, 3, 4, 5, 6)),
    Case("findcoordinator.many", "FindCoordinator", [find("<g>", "<h>", "<g>")], (4, 5, 6)),
    Case("findcoordinator.nobody", "FindCoordinator", [find()], (4, 6)),
    *(
        Case(
            f"findcoordinator.kind.{kind}",
            "FindCoordinator",
            [find("<g>", kind=kind)],
            (1, 3, 4, 6),
        )
        for kind in (3, -1, 99)
    ),
    *(
        Case(
            f"findcoordinator.share.{name}",
            "FindCoordinator",
            [find(key, kind=2, patient=False)],
            versions,
        )
        for name, key, versions in (
            ("below", "<g>:AAAAAAAAAAAAAAAAAAAAAQ:0", (1, 3, 4, 5)),
            ("bad", "<g>", (6,)),
            ("bad.id", "<g>:x:0", (6,)),
            ("bad.partition", "<g>:AAAAAAAAAAAAAAAAAAAAAQ:x", (6,)),
        )
    ),
    Case(
        "logdirs.plain",
        "DescribeLogDirs",
        [
            Topic("a", [[1, 2], [2, 3]]),
            Write("a", Batch()),
            folders({"topic": "<a>", "partitions": [0, 1, 7]}),
            folders({"topic": "<nobody>", "partitions": [0]}),
            folders({"topic": "<a>", "partitions": []}),
            folders(),
        ],
        "all",
    ),
    features("none"),
    features("current", level(33)),
    features("above", level(34)),
    features("far", level(999)),
    features("below", level(32, allow_downgrade=False)),
    features("downgrade", level(32, kind=2, allow_downgrade=True)),
    features("lowest", level(1, kind=2, allow_downgrade=True)),
    features("zero", level(0)),
    features("negative", level(-1)),
    features("unknown", level(1, "no.such")),
    features("empty", level(1, "")),
    features("twice", level(33), level(33)),
    features("elr", level(1, "eligible.leader.replicas.version")),
    features("elr.above", level(2, "eligible.leader.replicas.version")),
    *(features(f"type.{kind}", level(33, kind=kind), versions=(1, 2)) for kind in (0, 2, 3, 4, -1)),
    features("timeout.0", level(33), timeout_ms=0),
    *(
        features(f"others.{name}", level(number, f"{name}.version"))
        for name, number in (
            ("group", 1),
            ("transaction", 2),
            ("share", 1),
            ("streams", 1),
            ("kraft", 1),
        )
    ),
]
