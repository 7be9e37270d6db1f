"""What a cluster on one machine is: the file cluster.json in its data folder."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from replog.version import __version__

PLAN_FILE: Final = "cluster.json"


class ClusterError(Exception):
    """What was asked for can't be done; the text is one line for the user."""


@dataclass(frozen=True, slots=True)
class Member:
    """One broker of the cluster."""

    broker_id: int
    port: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What a cluster is: the content of cluster.json."""

    members: tuple[Member, ...]
    settings: dict[str, str] = field(default_factory=dict)  # Kafka names, for every broker
    version: str = __version__


def read_plan(data_dir: Path) -> Plan:
    """What is written there. Raises ClusterError."""
    path = data_dir / PLAN_FILE
    try:
        found = json.loads(path.read_text())
        members = tuple(Member(int(m["broker_id"]), int(m["port"])) for m in found["members"])
        return Plan(members, dict(found["settings"]), str(found["version"]))
    except FileNotFoundError as error:
        raise ClusterError(f"there is no cluster in {data_dir}") from error
    except OSError as error:
        raise ClusterError(f"{path} can't be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ClusterError(
            f"{path} is damaged: remove it, and start the cluster with the --brokers, "
            "--port and --set that it had; all data stays"
        ) from error


def write_plan(data_dir: Path, plan: Plan) -> None:
    """Write it down, at once or not at all. Raises OSError."""
    path = data_dir / PLAN_FILE
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(asdict(plan), indent=2) + "\n")
    draft.replace(path)


def describe(plan: Plan) -> str:
    """Its brokers, in words."""
    return f"brokers {', '.join(f'{m.broker_id} at port {m.port}' for m in plan.members)}"
