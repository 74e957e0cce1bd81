"""The options of `ktui reassign`: one table for the parser, the checks, the help and the shells."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from ktui.execution.host.state_dir import STATE_DIR


class Action(enum.StrEnum):
    """What the command does; each is an option of this name."""

    GENERATE = "generate"
    EXECUTE = "execute"
    VERIFY = "verify"
    CANCEL = "cancel"
    LIST = "list"
    CANCEL_ALL = "cancel-all"
    """Cancel without a file (KIP-1351). Apache's tool lacks this action and the next two."""
    REMOVE_CANCEL = "remove-cancel"  # open the cancel gate again (KIP-236)
    PROGRESS = "progress"  # the lag of each replica (KIP-179)


class Group(enum.StrEnum):
    """The heading in the help under which an option stands."""

    ACTIONS = "Actions"
    CLUSTER = "The cluster and the reassignment"
    EXECUTE = "With --execute"
    VERIFY_AND_CANCEL = "With --verify and --cancel"
    GENERATE = "With --generate"
    KTUI = "ktui's own"
    OTHER = "Other"


class Option(msgspec.Struct, frozen=True):
    """An option of the command line."""

    name: str  # without the dashes
    metavar: str = ""  # what stands for the argument in the help; empty for a flag
    help: str = ""
    actions: frozenset[Action] = frozenset()  # those that accept the option
    required: bool = False  # whether they need it
    argument_optional: bool = False
    default: int | None = None
    """The value of a number that is not given; None for an option that is no number."""
    example: str = ""  # the words after the program's name in the help's example of an action
    refusal: str = ""  # Why the option is refused, though known. The help then leaves it out.
    group: Group = Group.OTHER

    @property
    def about(self) -> str:
        return self.help if self.default is None else f"{self.help} Default: {self.default}."

    def goes_with(self, action: Action) -> bool:
        return self.name == action or action in self.actions


_EVERY, _EXECUTE = frozenset(Action), frozenset({Action.EXECUTE})
_GENERATE = frozenset({Action.GENERATE})
_VERIFY_CANCEL = frozenset({Action.VERIFY, Action.CANCEL})
_CHANGING = _VERIFY_CANCEL | {Action.EXECUTE, Action.CANCEL_ALL}
_BROKER = "--bootstrap-server broker1:9092"
_MOVE = "--reassignment-json-file move.json"

_GROUPS: Mapping[Group, tuple[Option, ...]] = {
    Group.ACTIONS: (
        Option(
            "generate", "", "Propose a new assignment of topics to brokers. Nothing is started.",
            example=f"{_BROKER} --generate --topics-to-move-json-file topics.json "
            "--broker-list 4,5,6",
        ),
        Option(
            "execute", "", "Start a reassignment.",
            example=f"{_BROKER} --execute {_MOVE} --throttle 50000000",
        ),
        Option(
            "verify", "", "Show whether a reassignment is complete. Once it is, remove its "
            "throttles.", example=f"{_BROKER} --verify {_MOVE}",
        ),
        Option(
            "cancel", "", "Cancel a reassignment, and remove its throttles.",
            example=f"{_BROKER} --cancel {_MOVE}",
        ),
        Option(
            "list", "", "List the reassignments under way on the cluster.",
            example=f"{_BROKER} --list",
        ),
        Option(
            "cancel-all", "", "Cancel all reassignments under way on the cluster, without a JSON "
            "file (KIP-1351).", example="--context prod-eu --cancel-all",
        ),
        Option(
            "remove-cancel", "", "Open the cluster's cancel gate again (KIP-236).",
            example="--context prod-eu --remove-cancel",
        ),
        Option(
            "progress", "", "Show how far behind each replica of a reassignment is (KIP-179).",
            example=f"--context prod-eu --progress {_MOVE}",
        ),
    ),
    Group.CLUSTER: (
        Option(
            "bootstrap-server", "HOST:PORT,...", "Brokers to connect to first.", _EVERY,
            argument_optional=True,
        ),
        Option(
            "bootstrap-controller", "HOST:PORT,...", "Controllers to connect to in place of "
            "brokers. Only with --list, --cancel and --cancel-all.",
            frozenset({Action.LIST, Action.CANCEL, Action.CANCEL_ALL}), argument_optional=True,
        ),
        Option(
            "command-config", "FILE",
            "Client properties file, with Java's or librdkafka's property names.", _EVERY,
        ),
        Option(
            "reassignment-json-file", "FILE",
            "The reassignment. --execute, --verify, --cancel and --progress need it.",
            _VERIFY_CANCEL | {Action.EXECUTE, Action.PROGRESS}, required=True,
        ),
    ),
    Group.EXECUTE: (
        Option(
            "throttle", "BYTES", "Bytes a second that each broker may copy to and from others for "
            "the partitions that move. To change it later, execute again with --additional. A "
            "negative number sets no throttle.", _EXECUTE, default=-1,
        ),
        Option(
            "replica-alter-log-dirs-throttle", "BYTES", "Bytes a second that each broker may copy "
            "between its own log directories; the same holds as for --throttle.", _EXECUTE,
            default=-1,
        ),
        Option(
            "timeout", "MS", "Milliseconds to wait for moves between log directories to begin; "
            "also with --cancel.", frozenset({Action.EXECUTE, Action.CANCEL}), default=10_000,
        ),
        Option(
            "additional", "", "Start although other reassignments are under way. With the same "
            "file again, this changes its throttle.", _EXECUTE,
        ),
        Option(
            "disallow-replication-factor-change", "", "Refuse a reassignment that changes the "
            "number of replicas of a partition.", _EXECUTE,
        ),
        Option(
            "reassignment-batch-size", "N", "Submit N partitions at a time, each batch once the "
            "one before is complete (KIP-1335). 0 submits all at once.", _EXECUTE, default=0,
        ),
        Option(
            "incremental", "", "Do not wait for a whole batch: submit the next partition once one "
            "is complete.", _EXECUTE,
        ),
        Option(
            "reassignment-poll-interval-ms", "MS",
            "Milliseconds between two polls while a batch is under way.", _EXECUTE, default=1000,
        ),
    ),
    Group.VERIFY_AND_CANCEL: (
        Option("preserve-throttles", "", "Leave all throttles as they are.", _VERIFY_CANCEL),
        Option(
            "clear-foreign-throttles", "", "Remove also throttles that this state directory has "
            "not set, as Apache's tool does.", _VERIFY_CANCEL,
        ),
    ),
    Group.GENERATE: (
        Option(
            "topics-to-move-json-file", "FILE", "The topics; required.", _GENERATE, required=True
        ),
        Option(
            "broker-list", "ID,...", "Ids of the brokers that are to hold the topics; required.",
            _GENERATE, required=True,
        ),
        Option("disable-rack-aware", "", "Ignore the racks of the brokers.", _GENERATE),
    ),
    Group.KTUI: (
        Option(
            "context", "NAME", "A cluster from your config.yaml, in place of --bootstrap-server.",
            _EVERY,
        ),
        Option(
            "state-dir", "DIR", f"Folder that keeps the runs, on a local disk. Default: "
            f"${STATE_DIR}, else the platform's folder for state.", _EVERY,
        ),
        Option(
            "as-run", "",
            "With --execute: make a paced run of the reassignment, as `ktui start` does.", _EXECUTE,
        ),
        Option(
            "allow-full-log-dirs", "", "With --execute: move replicas also to log directories "
            "without room for them. A full one takes all its replicas offline.", _EXECUTE,
        ),
        Option(
            "take-over", "", "With --execute, --verify, --cancel and --cancel-all: take the "
            "cluster over from another state directory; its engines then send nothing more.",
            _CHANGING,
        ),
        Option(
            "no-ownership", "", "With the same actions as --take-over: do not check who owns the "
            "cluster, and do not keep others from it.", _CHANGING,
        ),
    ),
    Group.OTHER: (
        Option("help", "", "Show this message and exit."),
        Option("version", "", "Show the version and exit."),
        Option(
            "zookeeper", "HOST:PORT", argument_optional=True,
            refusal="--zookeeper was removed in Kafka 3.0, and Kafka 4.0 has no ZooKeeper: name "
            "the brokers with --bootstrap-server HOST:PORT",
        ),
    ),
}  # fmt: skip
OPTIONS: Mapping[str, Option] = {
    option.name: msgspec.structs.replace(option, group=group)
    for group, options in _GROUPS.items()
    for option in options
}
"""Every option by its name, in the order of the help and of the checks."""
DEFAULTS: Mapping[str, int] = {
    option.name: option.default for option in OPTIONS.values() if option.default is not None
}
"""The defaults of the options that are numbers."""
