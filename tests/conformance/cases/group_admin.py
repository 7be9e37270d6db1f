"""DescribeGroups, ListGroups and DeleteGroups."""

from typing import Final

from tests.conformance.cases.groups import (
    AT,
    case,
    describe,
    join,
    joined,
    leave,
    listed,
    stable,
    static,
    sync,
)
from tests.conformance.steps import Ask, Saved

CASES: Final = [
    case("DescribeGroups", "describegroups.plain", *stable(), describe()),
    case(
        "DescribeGroups",
        "describegroups.emptied",
        *stable(),
        leave(Saved("m"), version=3),
        describe(),
    ),
    case("DescribeGroups", "describegroups.unknown", describe()),
    case(
        "DescribeGroups",
        "describegroups.twice",
        *stable(),
        Ask("DescribeGroups", {"groups": ["<g>", "<g>"]}, to=AT),
        versions=(0, 6),
    ),
    case(
        "DescribeGroups",
        "describegroups.static",
        static("i", version=5, check=False),
        sync(assigned=[Saved("m")], version=3, check=False, group_instance_id="i"),
        describe(),
    ),
    case(
        "DescribeGroups",
        "describegroups.operations",
        *stable(),
        describe(include_authorized_operations=True),
        versions=(3, 4, 5, 6),
    ),
    case(
        "DescribeGroups",
        "describegroups.wrongbroker",
        Ask("DescribeGroups", {"groups": ["<g>"]}, to="other:<g>", patient=False),
    ),
    case("ListGroups", "listgroups.stable", *stable(), listed()),
    case(
        "ListGroups",
        "listgroups.connect",
        *joined(protocol_type="connect"),
        sync(assigned=[Saved("m")], version=3, check=False),
        listed(),
        versions=(0, 4, 5),
    ),
    *(
        case(
            "ListGroups",
            f"listgroups.state.{name}",
            *stable(),
            listed(states_filter=states),
            versions=(4, 5),
        )
        for name, states in {
            "stable": ["Stable"],
            "lower": ["stable"],
            "other": ["Empty"],
            "two": ["Empty", "STABLE"],
            "unknown": ["Nothing"],
            "empty.text": [""],
            "spaces": [" Stable"],
            "blanks": ["\t\x01Stable\n\x00 "],
            "other.blanks": ["\u00a0Stable"],
            "preparing": ["PreparingRebalance"],
            "dead": ["Dead"],
        }.items()
    ),
    *(
        case(
            "ListGroups",
            f"listgroups.type.{name}",
            *stable(),
            listed(types_filter=types),
            versions=(5,),
        )
        for name, types in {
            "classic": ["classic"],
            "upper": ["CLASSIC"],
            "consumer": ["consumer"],
            "unknown": ["Nothing"],
            "empty.text": [""],
            "spaces": [" classic"],
            "two": ["share", "Classic"],
            "share": ["share"],
            "streams": ["streams"],
        }.items()
    ),
    case(
        "DeleteGroups",
        "deletegroups.plain",
        *stable(),
        Ask("DeleteGroups", {"groups_names": ["<g>"]}, to=AT),
        leave(Saved("m"), version=3),
        Ask("DeleteGroups", {"groups_names": ["<g>"]}, to=AT),
        Ask("DeleteGroups", {"groups_names": ["<g>"]}, to=AT),
    ),
    case(
        "DeleteGroups",
        "deletegroups.joining",
        join(version=4),
        Ask("DeleteGroups", {"groups_names": ["<g>"]}, to=AT),
        describe(5),
        join(Saved("m"), version=4),
        versions=(0, 3),
    ),
    case(
        "DeleteGroups",
        "deletegroups.refused",
        join(version=4, protocols=[], save=""),
        describe(5),
        Ask("DeleteGroups", {"groups_names": ["<g>"]}, to=AT),
        versions=(3,),
    ),
    case(
        "DeleteGroups",
        "deletegroups.odd",
        Ask("DeleteGroups", {"groups_names": ["<h>"]}, to="coordinator:<h>", patient=False),
        Ask("DeleteGroups", {"groups_names": ["<g>", "<g>"]}, to=AT),
        Ask("DeleteGroups", {"groups_names": ["<g>"]}, to="other:<g>", patient=False),
    ),
]
