"""The options of `ktui reassign`: one table for the parser, the checks, the help and the shells."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping

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
    help: str = ""
    metavar: str = ""  # what stands for the argument in the help; empty for a flag
    argument_optional: bool = False
    default: int | None = None
    """The value of a number that is not given; None for an option that is no number."""
    required: frozenset[Action] = frozenset()  # the actions that need the option
    permitted: frozenset[Action] = frozenset()  # the further actions that accept it
    example: str = ""  # the words after the program's name in the help's example of an action
    refusal: str = ""  # Why the option is refused, though known. The help then leaves it out.
    group: Group = Group.OTHER

    @property
    def about(self) -> str:
        """The help's text, with the default."""
        return self.help if self.default is None else f"{self.help} Default: {self.default}."

    def goes_with(self, action: Action) -> bool:
        """Return whether an action accepts the option."""
        return self.name == action or action in self.required or action in self.permitted


_EVERY = frozenset(Action)
_EXECUTE = frozenset({Action.EXECUTE})
_CHANGING = frozenset({Action.EXECUTE, Action.VERIFY, Action.CANCEL, Action.CANCEL_ALL})
_GENERATE = frozenset({Action.GENERATE})
_BROKER = "--bootstrap-server broker1:9092"
_MOVE = "--reassignment-json-file move.json"


def _section(group: Group, permitted: frozenset[Action], *options: Option) -> Iterator[Option]:
    """Yield the options of a group; those that name no actions are permitted with these."""
    for option in options:
        actions = option.permitted or (frozenset() if option.required else permitted)
        yield msgspec.structs.replace(option, group=group, permitted=actions)


_TABLE = (
    *_section(
        Group.ACTIONS,
        frozenset(),
        Option(
            "generate",
            "Propose a new assignment of topics to brokers. Nothing is started.",
            example=f"{_BROKER} --generate --topics-to-move-json-file topics.json "
            "--broker-list 4,5,6",
        ),
        Option(
            "execute",
            "Start a reassignment.",
            example=f"{_BROKER} --execute {_MOVE} --throttle 50000000",
        ),
        Option(
            "verify",
            "Show whether a reassignment is complete. Once it is, remove its throttles.",
            example=f"{_BROKER} --verify {_MOVE}",
        ),
        Option(
            "cancel",
            "Cancel a reassignment, and remove its throttles.",
            example=f"{_BROKER} --cancel {_MOVE}",
        ),
        Option(
            "list", "List the reassignments under way on the cluster.", example=f"{_BROKER} --list"
        ),
        Option(
            "cancel-all",
            "Cancel all reassignments under way on the cluster, without a JSON file (KIP-1351).",
            example="--context prod-eu --cancel-all",
        ),
        Option(
            "remove-cancel",
            "Open the cluster's cancel gate again (KIP-236).",
            example="--context prod-eu --remove-cancel",
        ),
        Option(
            "progress",
            "Show how far behind each replica of a reassignment is (KIP-179).",
            example=f"--context prod-eu --progress {_MOVE}",
        ),
    ),
    *_section(
        Group.CLUSTER,
        _EVERY,
        Option(
            "bootstrap-server",
            "Brokers to connect to first.",
            metavar="HOST:PORT,...",
            argument_optional=True,
        ),
        Option(
            "bootstrap-controller",
            "Controllers to connect to in place of brokers. Only with --list, --cancel and "
            "--cancel-all.",
            metavar="HOST:PORT,...",
            argument_optional=True,
            permitted=frozenset({Action.LIST, Action.CANCEL, Action.CANCEL_ALL}),
        ),
        Option(
            "command-config",
            "Client properties file, with Java's or librdkafka's property names.",
            metavar="FILE",
        ),
        Option(
            "reassignment-json-file",
            "The reassignment. --execute, --verify, --cancel and --progress need it.",
            metavar="FILE",
            required=frozenset({Action.EXECUTE, Action.VERIFY, Action.CANCEL, Action.PROGRESS}),
        ),
    ),
    *_section(
        Group.EXECUTE,
        _EXECUTE,
        Option(
            "throttle",
            "Bytes a second that each broker may copy to and from others for the partitions that "
            "move. To change it later, execute again with --additional. A negative number sets no "
            "throttle.",
            metavar="BYTES",
            default=-1,
        ),
        Option(
            "replica-alter-log-dirs-throttle",
            "Bytes a second that each broker may copy between its own log directories; the same "
            "holds as for --throttle.",
            metavar="BYTES",
            default=-1,
        ),
        Option(
            "timeout",
            "Milliseconds to wait for moves between log directories to begin; also with --cancel.",
            metavar="MS",
            default=10_000,
            permitted=frozenset({Action.EXECUTE, Action.CANCEL}),
        ),
        Option(
            "additional",
            "Start although other reassignments are under way. With the same file again, this "
            "changes its throttle.",
        ),
        Option(
            "disallow-replication-factor-change",
            "Refuse a reassignment that changes the number of replicas of a partition.",
        ),
        Option(
            "reassignment-batch-size",
            "Submit N partitions at a time, each batch once the one before is complete "
            "(KIP-1335). 0 submits all at once.",
            metavar="N",
            default=0,
        ),
        Option(
            "incremental",
            "Do not wait for a whole batch: submit the next partition once one is complete.",
        ),
        Option(
            "reassignment-poll-interval-ms",
            "Milliseconds between two polls while a batch is under way.",
            metavar="MS",
            default=1000,
        ),
    ),
    *_section(
        Group.VERIFY_AND_CANCEL,
        frozenset({Action.VERIFY, Action.CANCEL}),
        Option("preserve-throttles", "Leave all throttles as they are."),
        Option(
            "clear-foreign-throttles",
            "Remove also throttles that this state directory has not set, as Apache's tool does.",
        ),
    ),
    *_section(
        Group.GENERATE,
        _GENERATE,
        Option(
            "topics-to-move-json-file", "The topics; required.", metavar="FILE", required=_GENERATE
        ),
        Option(
            "broker-list",
            "Ids of the brokers that are to hold the topics; required.",
            metavar="ID,...",
            required=_GENERATE,
        ),
        Option("disable-rack-aware", "Ignore the racks of the brokers."),
    ),
    *_section(
        Group.KTUI,
        frozenset(),
        Option(
            "context",
            "A cluster from your config.yaml, in place of --bootstrap-server.",
            metavar="NAME",
            permitted=_EVERY,
        ),
        Option(
            "state-dir",
            f"Folder that keeps the runs, on a local disk. Default: ${STATE_DIR}, else the "
            "platform's folder for state.",
            metavar="DIR",
            permitted=_EVERY,
        ),
        Option(
            "as-run",
            "With --execute: make a paced run of the reassignment, as `ktui start` does.",
            permitted=_EXECUTE,
        ),
        Option(
            "allow-full-log-dirs",
            "With --execute: move replicas also to log directories without room for them. A full "
            "one takes all its replicas offline.",
            permitted=_EXECUTE,
        ),
        Option(
            "take-over",
            "With --execute, --verify, --cancel and --cancel-all: take the cluster over from "
            "another state directory; its engines then send nothing more.",
            permitted=_CHANGING,
        ),
        Option(
            "no-ownership",
            "With the same actions as --take-over: do not check who owns the cluster, and do not "
            "keep others from it.",
            permitted=_CHANGING,
        ),
    ),
    *_section(
        Group.OTHER,
        frozenset(),
        Option("help", "Show this message and exit."),
        Option("version", "Show the version and exit."),
        Option(
            "zookeeper",
            metavar="HOST:PORT",
            argument_optional=True,
            refusal="--zookeeper was removed in Kafka 3.0, and Kafka 4.0 has no ZooKeeper: name "
            "the brokers with --bootstrap-server HOST:PORT",
        ),
    ),
)

OPTIONS: Mapping[str, Option] = {option.name: option for option in _TABLE}
"""Every option by its name, in the order of the help and of the checks."""
DEFAULTS: Mapping[str, int] = {
    option.name: option.default for option in _TABLE if option.default is not None
}
"""The defaults of the options that are numbers."""
