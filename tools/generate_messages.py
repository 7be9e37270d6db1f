"""Writes the protocol messages in src/replog/model/messages/ from the facts in tools/schemas/.

    python tools/generate_messages.py            writes the modules and the registry
    python tools/generate_messages.py --out DIR  writes them there instead (the tests compare)

`schemas/kafka.json` holds Kafka's messages as far as Replog speaks them, `schemas/replog.json`
those of its own. Both have the format of Kafka's message schemas: `versions` is `0-3`, `2+`, `5` or
`none`; a type is `int32`, `[]string`, a struct that the field itself describes in `fields`, or one
that an earlier field or `commonStructs` described. Needs ruff, which formats what is written.
"""

import argparse
import json
import keyword
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SCHEMAS = ("kafka.json", "replog.json")
PACKAGE = ROOT / "src" / "replog" / "model" / "messages"
VERSION_MAX = 32767

# Stored and opaque data, which has no API, by module.
DATA_MODULES = {
    "consumer_protocol": (
        "What members of classic consumer groups tell each other through the group's coordinator.",
        ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment"),
    ),
    "control_records": (
        "Control records of partitions, and an entry of the index of aborted transactions.",
        ("ControlRecordTypeSchema", "EndTxnMarker", "LeaderChangeMessage", "AbortedTxn"),
    ),
    "group_records": (
        "Records of the topic with the committed offsets and the groups, keys and values.",
        (
            "LegacyOffsetCommitKey",
            "LegacyOffsetCommitValue",
            "OffsetCommitKey",
            "OffsetCommitValue",
            "GroupMetadataKey",
            "GroupMetadataValue",
        ),
    ),
    "transaction_records": (
        "Records of the topic with the state of transactions, keys and values.",
        ("TransactionLogKey", "TransactionLogValue"),
    ),
}

# kind: (Python type, default as source)
KINDS = {
    "int8": ("int", "0"),
    "int16": ("int", "0"),
    "uint16": ("int", "0"),
    "int32": ("int", "0"),
    "uint32": ("int", "0"),
    "int64": ("int", "0"),
    "float64": ("float", "0.0"),
    "bool": ("bool", "False"),
    "string": ("str", '""'),
    "bytes": ("bytes", 'b""'),
    "uuid": ("bytes", "ZERO_UUID"),
    "records": ("Records", "None"),
}

# The linter's limit on arguments holds for everything but these constructors.
ARGUMENTS_MAX = 8
LINT_NOTE = ("# One argument for each field of the protocol:", "# ruff: noqa: PLR0913", "")

Range = tuple[int, int]
NOWHERE: Range = (1, 0)


class SchemaError(ValueError):
    """The facts contradict themselves or use a feature that no message of ours has."""


def parse_range(text: str | None) -> Range:
    """`0-3`, `2+`, `5` or `none` as (first, last); an empty range is NOWHERE."""
    if text is None or text == "none":
        return NOWHERE
    if text.endswith("+"):
        return int(text[:-1]), VERSION_MAX
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def overlap(a: Range, b: Range) -> Range:
    """The versions in both."""
    both = max(a[0], b[0]), min(a[1], b[1])
    return both if both[0] <= both[1] else NOWHERE


def snake(name: str) -> str:
    """`ForgottenTopicsData` as `forgotten_topics_data`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    return words + "_" if keyword.iskeyword(words) else words


@dataclass
class FieldSpec:
    """One field, with its ranges cut to the versions that the message has."""

    name: str
    kind: str
    array: bool
    versions: Range
    nullable: Range
    tag: int | None
    default: str  # as Python source
    ignorable: bool
    struct: "StructSpec | None" = None

    @property
    def annotation(self) -> str:
        """The Python type."""
        one = self.struct.name if self.struct else KINDS[self.kind][0]
        kind = f"list[{one}]" if self.array else one
        may_be_none = self.nullable != NOWHERE or self.default == "None"
        return f"{kind} | None" if may_be_none and self.kind != "records" else kind


@dataclass
class StructSpec:
    """A class to write."""

    name: str
    fields: list[FieldSpec] = field(default_factory=list)


@dataclass
class MessageSpec:
    """A message: its own struct and those in it, the inner ones first."""

    name: str
    kind: str  # request, response or data
    key: int
    versions: Range
    flexible: Range
    structs: list[StructSpec]
    source: str

    @property
    def api(self) -> str:
        """`FetchRequest` and `FetchResponse` are of the API `Fetch`."""
        return self.name.removesuffix("Request").removesuffix("Response")


class Reader:
    """Turns one message of the JSON into a MessageSpec."""

    def __init__(self, raw: dict[str, Any], source: str) -> None:
        self.raw = raw
        self.source = source
        self.valid = parse_range(raw["validVersions"])
        self.flexible = overlap(parse_range(raw.get("flexibleVersions")), self.valid)
        self.structs: dict[str, StructSpec] = {}
        self.common = {s["name"]: s["fields"] for s in raw.get("commonStructs", ())}

    def message(self) -> MessageSpec:
        """The whole."""
        raw = self.raw
        top = StructSpec(raw["name"], self.fields(raw["fields"]))
        key = raw.get("apiKey", raw.get("recordType", -1))
        return MessageSpec(
            name=raw["name"],
            kind=raw["type"],
            key=key,
            versions=self.valid,
            flexible=self.flexible,
            structs=[*self.structs.values(), top],
            source=self.source,
        )

    def fields(self, raws: list[dict[str, Any]]) -> list[FieldSpec]:
        """The fields that some version has."""
        specs = [self.field(raw) for raw in raws]
        return [spec for spec in specs if spec.versions != NOWHERE]

    def field(self, raw: dict[str, Any]) -> FieldSpec:
        """One field."""
        array = raw["type"].startswith("[]")
        kind = raw["type"].removeprefix("[]")
        struct = None if kind in KINDS else self.struct(kind, raw.get("fields"))
        tagged = overlap(parse_range(raw.get("taggedVersions")), self.valid)
        versions = overlap(parse_range(raw.get("versions", raw.get("taggedVersions"))), self.valid)
        if tagged not in (NOWHERE, versions):
            raise SchemaError(f"{self.raw['name']}.{raw['name']}: tagged in some versions only")
        nullable = overlap(parse_range(raw.get("nullableVersions")), versions)
        if struct and not array and tagged == NOWHERE and nullable == NOWHERE:
            raise SchemaError(f"{self.raw['name']}.{raw['name']}: a bare struct has no default")
        return FieldSpec(
            name=snake(raw["name"]),
            kind="struct" if struct else kind,
            array=array,
            versions=versions,
            nullable=nullable,
            tag=raw["tag"] if tagged != NOWHERE else None,
            default=default_of(kind, array, raw.get("default")),
            ignorable=raw.get("ignorable", False),
            struct=struct,
        )

    def struct(self, name: str, raws: list[dict[str, Any]] | None) -> StructSpec:
        """The struct of that name, described here or before."""
        if name not in self.structs:
            found = raws if raws is not None else self.common.get(name)
            if found is None:
                raise SchemaError(f"{self.raw['name']}: struct {name} is not described")
            fields = self.fields(found)
            self.structs[name] = StructSpec(name, fields)
        return self.structs[name]


def default_of(kind: str, array: bool, given: object) -> str:
    """The default as Python source."""
    if given == "null":
        return "None"
    if array:
        return "NEW_LIST"
    if kind not in KINDS:
        return "None"
    python_type, usual = KINDS[kind]
    if given is None or given == "":
        return usual
    if python_type == "int":
        return str(int(str(given), 0))
    if python_type == "bool":
        return str(str(given).lower() == "true")
    if python_type == "float":
        return str(float(str(given)))
    if kind == "string":
        return json.dumps(given)
    raise SchemaError(f"no default {given!r} for {kind}")


def load() -> list[MessageSpec]:
    """All messages of both files, in their order, Kafka's with what brokers add between them."""
    files = {
        source: json.loads((ROOT / "tools" / "schemas" / source).read_text()) for source in SCHEMAS
    }
    for extension in files["replog.json"]["extensions"]:
        extend(files["kafka.json"]["messages"], extension)
    return [
        Reader(message, source).message()
        for source, raw in files.items()
        for message in raw["messages"]
    ]


def extend(messages: list[dict[str, Any]], extension: dict[str, Any]) -> None:
    """Add a tagged field of our own to a struct of a Kafka message: whoever does not know the tag
    skips it (KIP-482)."""
    (message,) = (m for m in messages if m["name"] == extension["message"])
    (struct,) = (f for f in every_field(message) if f["type"] == f"[]{extension['struct']}")
    struct["fields"].append(extension["field"])


def every_field(struct: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The fields of a message at any depth."""
    for each in struct.get("fields", ()):
        yield each
        yield from every_field(each)


# --- writing


def field_source(spec: FieldSpec, valid: Range) -> str:
    """The `Field(...)` of a schema."""
    parts = [f'"{spec.name}", "{spec.kind}"']
    first = spec.versions[0] if spec.versions[0] > valid[0] else 0
    if first:
        parts.append(str(first))
    if spec.versions[1] < valid[1]:
        parts.append(f"last={spec.versions[1]}")
    if spec.array:
        parts.append("array=True")
    if spec.struct:
        parts.append(f"struct={spec.struct.name}")
    if spec.nullable != NOWHERE:
        low = spec.nullable[0] if spec.nullable[0] > spec.versions[0] else 0
        parts.append(f"nullable_from={low}")
        if spec.nullable[1] < spec.versions[1]:
            parts.append(f"nullable_to={spec.nullable[1]}")
    if spec.tag is not None:
        parts.append(f"tag={spec.tag}")
    default = "()" if spec.default == "NEW_LIST" else spec.default
    if default != "None":
        parts.append(f"default={default}")
    if spec.ignorable:
        parts.append("ignorable=True")
    return f"Field({', '.join(parts)})"


def class_source(struct: StructSpec, base: str, head: list[str], valid: Range) -> str:
    """One class."""
    names = sorted(f.name for f in struct.fields)
    slots = "".join(f'"{name}", ' for name in names)
    lines = [f"class {struct.name}({base}):", *head, f"    __slots__ = ({slots})"]
    lines.append("    SCHEMA: ClassVar[tuple[Field, ...]] = (")
    lines += [f"        {field_source(f, valid)}," for f in struct.fields]
    lines.append("    )")
    if struct.fields:
        lines += ["", "    def __init__(self, *,"]
        lines += [f"        {f.name}: {f.annotation} = {f.default}," for f in struct.fields]
        lines.append("    ) -> None:")
        for f in struct.fields:
            value = f"[] if {f.name} is NEW_LIST else {f.name}" if "NEW" in f.default else f.name
            lines.append(f"        self.{f.name}: {f.annotation} = {value}")
    return "\n".join(lines)


def range_text(versions: Range) -> str:
    """`3-13`, or `0` when there is only one."""
    return str(versions[0]) if versions[0] == versions[1] else f"{versions[0]}-{versions[1]}"


def flexible_text(spec: MessageSpec) -> str:
    """How the flexible versions are named in docstrings."""
    return "none flexible" if spec.flexible == NOWHERE else f"flexible from {spec.flexible[0]}"


def message_source(spec: MessageSpec, response: str | None) -> str:
    """The classes of one message."""
    base = {"request": "Request", "response": "Response", "data": "Data"}[spec.kind]
    flexible = "NOT_FLEXIBLE" if spec.flexible == NOWHERE else str(spec.flexible[0])
    what = {
        "request": f"A request of {spec.api}",
        "response": f"An answer of {spec.api}",
        "data": "Stored or passed on",
    }[spec.kind]
    head = [f'    """{what}: versions {range_text(spec.versions)}, {flexible_text(spec)}."""', ""]
    if spec.kind == "data":
        if spec.key >= 0:
            head.append(f"    RECORD_TYPE: ClassVar[int] = {spec.key}")
    else:
        head.append(f"    API_KEY: ClassVar[int] = {spec.key}")
    head.append(f"    VERSIONS: ClassVar[tuple[int, int]] = {spec.versions}")
    head.append(f"    FLEXIBLE_FROM: ClassVar[int] = {flexible}")
    if response:
        head.append(f"    RESPONSE: ClassVar[type[Response]] = {response}")
    *inner, top = spec.structs
    classes = [class_source(struct, "Struct", [], spec.versions) for struct in inner]
    classes.append(class_source(top, base, head, spec.versions))
    return "\n\n\n".join(classes)


def rename_twins(specs: Iterable[MessageSpec]) -> None:
    """Structs of one name in a request and its response get the message's name in front."""
    seen: dict[str, list[tuple[MessageSpec, StructSpec]]] = {}
    for spec in specs:
        for struct in spec.structs[:-1]:
            seen.setdefault(struct.name, []).append((spec, struct))
    for twins in seen.values():
        if len(twins) > 1:
            for spec, struct in twins:
                struct.name = spec.name + struct.name


def module_source(doc: str, specs: list[MessageSpec]) -> str:
    """A module with these messages, answers before their requests."""
    rename_twins(specs)
    answers = {spec.api: spec.name for spec in specs if spec.kind == "response"}
    ordered = sorted(specs, key=lambda spec: spec.kind == "request")
    bodies = [
        message_source(spec, answers[spec.api] if spec.kind == "request" else None)
        for spec in ordered
    ]
    body = "\n\n\n".join(bodies)
    used = [
        name
        for name in (
            "NEW_LIST",
            "NOT_FLEXIBLE",
            "ZERO_UUID",
            "Data",
            "Field",
            "Request",
            "Response",
            "Struct",
        )
        if re.search(rf"\b{name}\b", body)
    ]
    sources = ", ".join(sorted({f"tools/schemas/{spec.source}" for spec in specs}))
    lines = [
        f'"""{doc}',
        "",
        f"Generated by tools/generate_messages.py from {sources}: change those.",
        '"""',
        "",
        *LINT_NOTE[: 3 * any(len(s.fields) > ARGUMENTS_MAX for m in specs for s in m.structs)],
        "from typing import ClassVar",
        "",
        f"from replog.model.messages.base import {', '.join(used)}",
    ]
    if re.search(r"\bRecords\b", body):
        lines.append("from replog.model.records import Records")
    return "\n".join(lines) + "\n\n\n" + body + "\n"


def api_doc(specs: list[MessageSpec]) -> str:
    """The first line of an API's module."""
    one = specs[0]
    versions = f"versions {range_text(one.versions)}, {flexible_text(one)}"
    return f"{one.api}: API key {one.key}, {versions}."


def registry_source(apis: dict[str, list[MessageSpec]]) -> str:
    """The module that lists all APIs by key."""
    lines = [
        '"""All APIs by key.',
        "",
        "Generated by tools/generate_messages.py: change that.",
        '"""',
        "",
    ]
    rows = []
    imports = {module: f"{s[0].api}Request, {s[0].api}Response" for module, s in apis.items()}
    imports["base"] = "NOT_FLEXIBLE, Api"
    for module, names in sorted(imports.items()):
        lines.append(f"from replog.model.messages.{module} import {names}")
    for specs in sorted(apis.values(), key=lambda specs: specs[0].key):
        one = specs[0]
        first, last = one.versions
        flexible = "NOT_FLEXIBLE" if one.flexible == NOWHERE else one.flexible[0]
        rows.append(
            f'    {one.key}: Api({one.key}, "{one.api}", {one.api}Request, {one.api}Response, '
            f"{first}, {last}, {flexible}),"
        )
    return "\n".join([*lines, "", "APIS: dict[int, Api] = {", *rows, "}", ""])


def modules() -> Iterator[tuple[str, str]]:
    """Name and source of each module to write."""
    specs = load()
    apis: dict[str, list[MessageSpec]] = {}
    for spec in specs:
        if spec.kind != "data":
            apis.setdefault(snake(spec.api), []).append(spec)
    for module, pair in apis.items():
        yield module, module_source(api_doc(pair), pair)
    data = {spec.name: spec for spec in specs if spec.kind == "data"}
    for module, (doc, names) in DATA_MODULES.items():
        yield module, module_source(doc, [data[name] for name in names])
    yield "registry", registry_source(apis)


def write(out: Path) -> list[Path]:
    """Writes all modules into `out`; the files written."""
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, source in modules():
        path = out / f"{name}.py"
        path.write_text(source)
        paths.append(path)
    config = ["--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    files = [str(path) for path in paths]
    ruff = [sys.executable, "-m", "ruff", "format", "--quiet", *config, *files]
    subprocess.run(ruff, check=True)
    return paths


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=PACKAGE, help="the folder to write to")
    for path in write(parser.parse_args().out):
        print(path)


if __name__ == "__main__":
    main()
