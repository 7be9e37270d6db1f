"""Classic groups: joining, syncing, beating, leaving, and static members."""

from collections.abc import Sequence
from typing import Any, Final

from tests.conformance.steps import Ask, Case, Hangup, Pause, Saved, Step, Take

AT: Final = "coordinator:<g>"
M: Final = Saved("m")  # the member that joined first
# What a consumer of topic "t" says: version 0, one topic, no user data.
SUBSCRIBED: Final = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"
RANGE: Final = {"name": "range", "metadata": SUBSCRIBED}
STICKY: Final = {"name": "sticky", "metadata": b"s"}


def join(
    member: Any = "",
    *,
    version: int | None = None,
    line: str = "",
    later: bool = False,
    save: str = "m",
    to: str = AT,
    check: bool = True,
    patient: bool = True,
    **given: Any,
) -> Ask:
    body = {
        "group_id": "<g>",
        "session_timeout_ms": 10000,
        "rebalance_timeout_ms": 10000,
        "member_id": member,
        "protocol_type": "consumer",
        "protocols": [RANGE],
        **given,
    }
    return Ask(
        "JoinGroup",
        body,
        version,
        to=to,
        save={save: "member_id"} if save else {},
        line=line,
        later=later,
        check=check,
        patient=patient,
    )


def joined(**given: Any) -> list[Step]:
    """One member, by whatever number of requests that takes, looked at by nobody."""
    return [join(version=3, check=False, **given)]


def sync(
    member: Any = M,
    generation: int = 1,
    *,
    assigned: Sequence[Any] = (),
    version: int | None = None,
    line: str = "",
    later: bool = False,
    check: bool = True,
    to: str = AT,
    **given: Any,
) -> Ask:
    body = {
        "group_id": "<g>",
        "generation_id": generation,
        "member_id": member,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": each, "assignment": b"mine"} for each in assigned],
        **given,
    }
    return Ask("SyncGroup", body, version, to=to, line=line, later=later, check=check)


def stable() -> list[Step]:
    """A group of one that is done with its rebalance."""
    return [*joined(), sync(assigned=[Saved("m")], version=3, check=False)]


def beat(
    member: Any = M,
    generation: int = 1,
    *,
    version: int | None = None,
    to: str = AT,
    **given: Any,
) -> Ask:
    body = {"group_id": "<g>", "generation_id": generation, "member_id": member, **given}
    return Ask("Heartbeat", body, version, to=to)


def leave(*members: Any, version: int | None = None, to: str = AT, group: str = "<g>") -> Ask:
    first = members[0] if members else ""
    body = {
        "group_id": group,
        "member_id": first["member_id"] if isinstance(first, dict) else first,
        "members": [
            m if isinstance(m, dict) else {"member_id": m, "reason": "done"} for m in members
        ],
    }
    return Ask("LeaveGroup", body, version, to=to)


def describe(version: int | None = None, group: str = "<g>", **given: Any) -> Ask:
    at = f"coordinator:{group}"
    return Ask("DescribeGroups", {"groups": [group], **given}, version, to=at)


def listed(version: int | None = None, **given: Any) -> Ask:
    return Ask("ListGroups", given, version, to=AT, own=True)


def static(name: str, member: Any = "", **given: Any) -> Ask:
    return join(member, group_instance_id=name, **given)


def case(api: str, name: str, *steps: Step, versions: Any = "all") -> Case:
    return Case(name, api, steps, versions)


SOME: Final = (0, 3, 4, 5, 6, 9)

_JOIN = [
    case("JoinGroup", "joingroup.plain", join(), join(Saved("m")), join(Saved("m"))),
    case(
        "JoinGroup",
        "joingroup.again.changed",
        *stable(),
        join(Saved("m"), protocols=[{"name": "range", "metadata": b"new"}]),
    ),
    case("JoinGroup", "joingroup.again.same", *stable(), join(Saved("m")), describe(5)),
    *(
        case("JoinGroup", f"joingroup.{name}", join(**given), versions=SOME)
        for name, given in {
            "group.empty": {"group_id": "", "patient": False},
            "session.short": {"session_timeout_ms": 999},
            "session.long": {"session_timeout_ms": 1_800_001},
            "session.lowest": {"session_timeout_ms": 1000},
            "session.0": {"session_timeout_ms": 0},
            "session.negative": {"session_timeout_ms": -1},
            "rebalance.negative": {"rebalance_timeout_ms": -1},
            "rebalance.0": {"rebalance_timeout_ms": 0},
            "protocols.none": {"protocols": []},
            "protocol.nameless": {"protocols": [{"name": "", "metadata": b""}]},
            "protocol.nodata": {"protocols": [{"name": "range", "metadata": b""}]},
            "type.empty": {"protocol_type": ""},
            "type.other": {"protocol_type": "connect"},
            "two.protocols": {"protocols": [STICKY, RANGE]},
            "stranger": {"member": "who", "save": ""},
        }.items()
    ),
    *(
        case(
            "JoinGroup",
            f"joingroup.second.{name}",
            *stable(),
            join(save="", **given),
            versions=SOME,
        )
        for name, given in {
            "type.other": {"protocol_type": "connect"},
            "type.empty": {"protocol_type": ""},
            "protocol.other": {"protocols": [STICKY]},
            "protocols.none": {"protocols": []},
            "stranger": {"member": "who"},
        }.items()
    ),
    case("JoinGroup", "joingroup.wrongbroker", join(to="other:<g>", patient=False, save="")),
    case(
        "JoinGroup",
        "joingroup.vote",
        join(version=3, check=False, protocols=[STICKY, RANGE]),
        sync(assigned=[Saved("m")], version=3, check=False, protocol_name="sticky"),
        join(version=3, line="second", later=True, save="n", protocols=[RANGE, STICKY]),
        Pause(200),
        join(Saved("m"), version=3, protocols=[STICKY, RANGE]),
        Take("second"),
        describe(5),
        versions=(3,),
    ),
    case(
        "JoinGroup",
        "joingroup.two",
        *stable(),
        join(version=3, line="second", later=True, save="n"),
        Pause(200),
        beat(version=3),
        sync(version=3),
        join(Saved("m"), version=3),
        Take("second"),
        beat(generation=2, version=3),
        sync(Saved("n"), 2, version=3, line="second", later=True),
        sync(generation=2, assigned=[Saved("m"), Saved("n")], version=3),
        Take("second"),
        describe(5),
        leave(Saved("m"), version=3),
        beat(Saved("n"), 2, version=3),
        versions=(3,),
    ),
    case(
        "JoinGroup",
        "joingroup.abandoned",
        *stable(),
        join(version=3, line="second", later=True, save="n"),
        Pause(200),
        Hangup("second"),
        join(Saved("m"), version=3, save=""),
        versions=(3,),
    ),
]
_SYNC = [
    case(
        "SyncGroup",
        "syncgroup.plain",
        *joined(),
        sync(assigned=[Saved("m")]),
        sync(),
        sync(assigned=[Saved("m")]),
    ),
    case("SyncGroup", "syncgroup.nothing", *joined(), sync(), versions=(0, 3, 5)),
    case(
        "SyncGroup",
        "syncgroup.others",
        *joined(),
        sync(assigned=["who"]),
        describe(5),
        versions=(0, 3, 5),
    ),
    case(
        "SyncGroup",
        "syncgroup.generation",
        *joined(),
        sync(generation=2),
        sync(generation=0),
        sync(generation=-1),
        versions=(0, 3, 5),
    ),
    case("SyncGroup", "syncgroup.stranger", *joined(), sync("who"), sync(""), versions=(0, 3, 5)),
    case("SyncGroup", "syncgroup.nogroup", sync("who")),
    case("SyncGroup", "syncgroup.group.empty", sync("who", group_id=""), versions=(0, 5)),
    case(
        "SyncGroup",
        "syncgroup.wrongbroker",
        Ask("SyncGroup", sync("who").body, to="other:<g>", patient=False),
        versions=(0, 5),
    ),
    case("SyncGroup", "syncgroup.type", *joined(), sync(protocol_type="connect"), versions=(5,)),
    case("SyncGroup", "syncgroup.protocol", *joined(), sync(protocol_name="sticky"), versions=(5,)),
    case(
        "SyncGroup",
        "syncgroup.untold",
        *joined(),
        sync(protocol_name=None, protocol_type=None),
        versions=(5,),
    ),
]
_BEAT = [
    case(
        "Heartbeat",
        "heartbeat.plain",
        *joined(),
        beat(),
        sync(assigned=[Saved("m")], version=3, check=False),
        beat(),
    ),
    case(
        "Heartbeat",
        "heartbeat.generation",
        *stable(),
        beat(generation=2),
        beat(generation=0),
        beat(generation=-1),
        versions=(0, 3, 4),
    ),
    case("Heartbeat", "heartbeat.stranger", *stable(), beat("who"), beat(""), versions=(0, 3, 4)),
    case("Heartbeat", "heartbeat.nogroup", beat("who")),
    case("Heartbeat", "heartbeat.group.empty", beat("who", group_id=""), versions=(0, 4)),
    case(
        "Heartbeat",
        "heartbeat.wrongbroker",
        Ask("Heartbeat", beat("who").body, to="other:<g>", patient=False),
    ),
    case(
        "Heartbeat",
        "heartbeat.instance.unknown",
        *stable(),
        beat(group_instance_id="i"),
        versions=(3, 4),
    ),
    case(
        "Heartbeat",
        "heartbeat.left",
        *stable(),
        leave(Saved("m"), version=3),
        beat(),
        versions=(0, 4),
    ),
    case("Heartbeat", "heartbeat.joining", join(version=4), beat(generation=-1), versions=(0, 4)),
    case(
        "Heartbeat",
        "heartbeat.late.synced",
        join(version=3, check=False, session_timeout_ms=2000),
        sync(assigned=[Saved("m")], version=3),
        Pause(1300),
        sync(version=3),
        Pause(1300),
        beat(),
        versions=(3,),
    ),
    # Both sessions begin when the assignment is handed out, and end in the same moment.
    case(
        "Heartbeat",
        "heartbeat.late.together",
        join(version=3, check=False, session_timeout_ms=2000),
        join(version=3, line="second", later=True, save="n", session_timeout_ms=2000),
        Pause(200),
        join(Saved("m"), version=3, check=False, session_timeout_ms=2000),
        Take("second"),
        sync(Saved("n"), 2, version=3, line="second", later=True),
        Pause(200),
        sync(generation=2, assigned=[Saved("m"), Saved("n")], version=3, check=False),
        Take("second"),
        join(version=4, save="o"),
        Pause(3500),
        describe(5),
        join(Saved("o"), version=4),
        versions=(3,),
    ),
    case(
        "Heartbeat",
        "heartbeat.late",
        join(version=3, check=False, session_timeout_ms=1000),
        sync(assigned=[Saved("m")], version=3, check=False),
        Pause(1800),
        beat(),
        describe(5),
        versions=(3,),
    ),
]
_LEAVE = [
    case(
        "LeaveGroup",
        "leavegroup.plain",
        *stable(),
        leave(Saved("m")),
        leave(Saved("m")),
        describe(5),
    ),
    case("LeaveGroup", "leavegroup.stranger", *stable(), leave("who")),
    case("LeaveGroup", "leavegroup.nogroup", leave("who")),
    case("LeaveGroup", "leavegroup.group.empty", leave("who", group="")),
    case("LeaveGroup", "leavegroup.nobody", *stable(), leave(), versions=(3, 4, 5)),
    case("LeaveGroup", "leavegroup.some", *stable(), leave(Saved("m"), "who"), versions=(3, 4, 5)),
    case(
        "LeaveGroup", "leavegroup.twice", *stable(), leave(Saved("m"), Saved("m")), versions=(3, 5)
    ),
    case(
        "LeaveGroup",
        "leavegroup.instance",
        static("i", version=5, check=False),
        sync(assigned=[Saved("m")], version=3, check=False, group_instance_id="i"),
        leave({"member_id": "", "group_instance_id": "j"}),
        leave({"member_id": "who", "group_instance_id": "i"}),
        leave({"member_id": "", "group_instance_id": "i"}),
        describe(5),
        versions=(3, 4, 5),
    ),
    case(
        "LeaveGroup",
        "leavegroup.wrongbroker",
        Ask("LeaveGroup", leave("who").body, to="other:<g>", patient=False),
    ),
    case(
        "LeaveGroup",
        "leavegroup.joining",
        join(version=4),
        leave(Saved("m")),
        describe(5),
        versions=(0, 3, 5),
    ),
]
_STATIC = [
    case(
        "JoinGroup", "static.plain", static("i"), static("i", Saved("m")), versions=(5, 6, 7, 8, 9)
    ),
    case(
        "JoinGroup",
        "static.returns",
        static("i"),
        sync(assigned=[Saved("m")], version=3, check=False, group_instance_id="i"),
        static("i", save="n"),
        beat(version=3, group_instance_id="i"),
        beat(Saved("n"), version=3, group_instance_id="i"),
        describe(5),
        versions=(5, 6, 7, 8, 9),
    ),
    case(
        "JoinGroup",
        "static.returns.changed",
        static("i"),
        sync(assigned=[Saved("m")], version=3, check=False, group_instance_id="i"),
        static("i", save="n", protocols=[{"name": "range", "metadata": b"new"}]),
        versions=(5, 7, 9),
    ),
    case(
        "JoinGroup",
        "static.returns.waiting",
        *stable(),
        static("i", version=5, line="first", later=True, save="n", session_timeout_ms=1000),
        Pause(200),
        static("i", version=5, line="second", later=True, save="o", session_timeout_ms=1000),
        Pause(1800),
        Take("first"),
        join(Saved("m"), version=3),
        Take("second"),
        beat(Saved("o"), 2, version=3, group_instance_id="i"),
        versions=(5,),
    ),
    case(
        "JoinGroup",
        "static.id.of.another",
        join(version=4),
        static("i", Saved("m"), save=""),
        join(Saved("m"), version=4),
        versions=(5, 9),
    ),
    case(
        "JoinGroup",
        "static.protocol.nameless",
        static("i", protocols=[{"name": "", "metadata": b"x"}]),
        sync(version=5, assigned=[Saved("m")], protocol_name="", group_instance_id="i"),
        describe(5),
        versions=(5, 6, 7, 9),
    ),
    case("JoinGroup", "static.stranger", static("i", "who", save=""), versions=(5, 9)),
    case(
        "JoinGroup",
        "static.fenced",
        static("i"),
        static("i", save="n"),
        static("i", Saved("m"), save=""),
        beat(version=3, group_instance_id="i"),
        sync(version=3, group_instance_id="i"),
        versions=(5, 9),
    ),
    case(
        "JoinGroup",
        "static.leaves",
        static("i"),
        leave(Saved("m"), version=2),
        beat(version=3, group_instance_id="i"),
        versions=(5, 9),
    ),
    *(
        case("JoinGroup", f"static.name.{name}", static(text, save=""), versions=(5, 9))
        for name, text in {
            "empty": "",
            "dot": ".",
            "dots": "..",
            "space": "a b",
            "slash": "a/b",
            "long": "x" * 250,
            "longest": "x" * 249,
        }.items()
    ),
]
CASES: Final = [*_JOIN, *_SYNC, *_BEAT, *_LEAVE, *_STATIC]
