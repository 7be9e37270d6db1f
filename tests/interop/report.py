"""The page `docs/clients.md`: what the tests of this folder found, by client and by tool.

Tests say where their outcome belongs with `@pytest.mark.shows(column)`, and what they saw with the
fixture `note`. The page has neither dates nor figures that differ between two runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

COLUMNS = ("codecs", "group", "leader killed", "admin calls")
CLIENTS, TOOLS, SCENARIOS = "Clients", "Apache Kafka's tools", "Scenarios"
HEADS = ("client", "tool", "scenario")


@dataclass
class Findings:
    """What was found so far."""

    versions: dict[str, str] = field(default_factory=dict)
    languages: dict[str, str] = field(default_factory=dict)
    clients: dict[tuple[str, str], str] = field(default_factory=dict)  # (client, column)
    tools: dict[str, str] = field(default_factory=dict)
    scenarios: dict[str, str] = field(default_factory=dict)


def findings_in(text: str) -> Findings:
    """What a page says: a run of some of the tests renews their results and keeps the others."""
    found = Findings()
    section = ""
    for line in text.splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        cells = line.strip("| ").split(" | ")
        if not line.startswith("| ") or cells[0] in (*HEADS, "---"):
            continue
        if section == CLIENTS:
            name, found.versions[cells[0]], found.languages[cells[0]], *results = cells
            found.clients.update(zip(((name, column) for column in COLUMNS), results, strict=True))
        elif section == TOOLS:
            found.tools[cells[0]] = cells[1]
        else:
            found.scenarios[cells[0]] = cells[1]
    return found


def page(found: Findings) -> str:
    """The text of it."""
    rows = [
        [name, found.versions[name], found.languages[name]]
        + [found.clients.get((name, column), "") for column in COLUMNS]
        for name in found.languages
    ]
    return f"""# Clients and tools that were tried

`make interop` writes this page: it runs every client and tool named here against brokers of its
own. "fails" is said of what does not work, with no other word for it.

## {CLIENTS}

The same program for each client, in its own language and as its documentation says it.

- **codecs**: 300 records in each of them, all read again by another process of the same client.
- **group**: the next member goes on exactly where the committed positions of the last one say.
- **leader killed**: while the program produces with acks=all at a steady rate and another one reads
  in a group, the broker that leads a partition *and* coordinates the group gets a SIGKILL. All
  records are acknowledged, stand at the offsets that were acknowledged, and are read; an idempotent
  producer repeats none and keeps their order.
- **admin calls**: brokers; a topic's creation, partitions, configurations, growth, deletion;
  groups, their states, positions, deletion; ends of partitions; deletion of records. "no" names
  those that the client does not have.

kafka-python 3.0.12 can stop reading for ever where `group.initial.rebalance.delay.ms` is 0, with
brokers of Apache Kafka too: made leader of a group before it knows a topic's partitions, it assigns
none, joins again when it knows them, and drops what it is assigned then if `poll` ended meanwhile.
A program that calls `partitions_for_topic` before its first `poll` does not meet this, as ours
does. `replog up` sets 300; the default is 3000, as in Kafka.

{_table(["client", "version", "language", *COLUMNS], rows)}

## {TOOLS}

{_table(["tool", "result"], _sorted(found.tools))}

## {SCENARIOS}

{_table(["scenario", "result"], _sorted(found.scenarios))}
"""


def _sorted(results: Mapping[str, str]) -> list[list[str]]:
    return [[name, results[name]] for name in sorted(results)]


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
