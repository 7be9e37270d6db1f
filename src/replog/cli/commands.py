"""The table of all commands. Adding one is a row here and two functions in its module.

For a row `(("topic", "create"), "replog.cli.topic", "create", ...)` the module has
`create_options(parser)`, which adds options and examples, and `create(arguments) -> int`, which
does the work and returns the exit code.
"""

from typing import NamedTuple


class Command(NamedTuple):
    """One command: what is typed, and where its code is."""

    path: tuple[str, ...]
    module: str
    function: str
    summary: str

    @property
    def name(self) -> str:
        return " ".join(self.path)


COMMANDS: tuple[Command, ...] = (
    Command(("up",), "replog.cli.up", "up", "start a cluster on this machine"),
    Command(("down",), "replog.cli.up", "down", "stop the brokers of a cluster; data stays"),
    Command(("status",), "replog.cli.status", "status", "show brokers, topics and their health"),
    Command(("broker", "start"), "replog.cli.broker", "start", "start one broker of a cluster"),
    Command(("broker", "stop"), "replog.cli.broker", "stop", "stop one broker in good order"),
    Command(("broker", "kill"), "replog.cli.broker", "kill", "kill one broker (SIGKILL)"),
    Command(("broker", "pause"), "replog.cli.broker", "pause", "freeze one broker (SIGSTOP)"),
    Command(("broker", "resume"), "replog.cli.broker", "resume", "let a frozen broker go on"),
    Command(("broker", "run"), "replog.cli.broker", "run", "run a broker here, from a file"),
    Command(("topic", "create"), "replog.cli.topic_create", "create", "create a topic"),
    Command(("topic", "list"), "replog.cli.topic", "list_topics", "list topics"),
    Command(("topic", "describe"), "replog.cli.topic", "describe", "show every replica of topics"),
    Command(
        ("topic", "alter"), "replog.cli.topic_alter", "alter_topic", "more partitions, settings"
    ),
    Command(("topic", "delete"), "replog.cli.topic", "delete", "delete topics and their records"),
    Command(("elect",), "replog.cli.elect", "elect", "give leadership back to preferred leaders"),
    Command(
        ("reassign", "plan"), "replog.cli.reassign", "plan", "say which partitions should move"
    ),
    Command(("reassign", "apply"), "replog.cli.reassign", "apply", "move partitions elsewhere"),
    Command(("reassign", "status"), "replog.cli.reassign", "status", "show how far moves are"),
    Command(("reassign", "cancel"), "replog.cli.reassign", "cancel", "end moves, and go back"),
    Command(("config", "get"), "replog.cli.config", "get", "show settings and their sources"),
    Command(("config", "set"), "replog.cli.config", "alter_settings", "alter settings in use"),
    Command(("group", "list"), "replog.cli.group", "list_all", "list consumer groups"),
    Command(("group", "describe"), "replog.cli.group", "show", "show positions, lag and members"),
    Command(("group", "reset"), "replog.cli.group_reset", "reset", "move the positions of a group"),
    Command(("group", "delete"), "replog.cli.group", "delete", "delete groups, or positions"),
    Command(("produce",), "replog.cli.produce", "produce", "write lines of stdin to a topic"),
    Command(("consume",), "replog.cli.consume", "consume", "write records of a topic to stdout"),
    Command(("log", "dump"), "replog.cli.log", "dump", "print what is in partitions' folders"),
    Command(("log", "verify"), "replog.cli.log", "verify_logs", "look for faults in such folders"),
    Command(
        ("import", "kafka-data"),
        "replog.cli.import_kafka",
        "import_kafka",
        "bring a Kafka broker's data folder into a cluster",
    ),
    Command(
        ("coordinator", "export"),
        "replog.cli.coordinator",
        "export_tree",
        "write what a stopped cluster has agreed on",
    ),
    Command(
        ("coordinator", "import"),
        "replog.cli.coordinator",
        "import_tree",
        "move a stopped cluster, e.g. to ZooKeeper",
    ),
    Command(("demo", "failover"), "replog.cli.demo", "failover", "watch leadership move, proven"),
    Command(("sim",), "replog.cli.simulate", "simulate", "run brokers in a simulated world"),
)

GROUPS: dict[str, str] = {
    "broker": "one broker: start, stop, kill, pause, resume, run",
    "topic": "topics: create, list, describe, alter, delete",
    "config": "settings of topics, brokers and groups: get, set",
    "group": "consumer groups: list, describe, reset, delete",
    "reassign": "moving partitions to other brokers: plan, apply, status, cancel",
    "log": "partitions' folders on disk: dump, verify",
    "import": "bring data of other systems into a cluster: kafka-data",
    "coordinator": "where brokers meet: export, import",
    "demo": "show what replication does",
}


def find(words: list[str]) -> tuple[Command, list[str]] | None:
    """The command that `words` begins with, and the words after it; None when there is none."""
    for command in COMMANDS:
        depth = len(command.path)
        if tuple(words[:depth]) == command.path:
            return command, words[depth:]
    return None
