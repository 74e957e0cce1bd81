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
    REMOVE_CANCEL = "remove-cancel"
    """Open the cancel gate again (KIP-236)."""
    PROGRESS = "progress"
    """The lag of each replica (KIP-179)."""


class Group(enum.StrEnum):
    """The heading in the help under which an option stands."""

    ACTIONS = "Actions"
    CLUSTER = "The cluster and the reassignment"
    EXECUTE = "With --execute"
    VERIFY_AND_CANCEL = "With --verify and --cancel"
    GENERATE = "With --generate"
    KTUI = "ktui's own"
    OTHER = "Other"


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """An option of the command line."""

    name: str
    """Without the dashes."""
    group: Group
    help: str
    metavar: str = ""
    """What stands for the argument in the help; empty for a flag."""
    argument_optional: bool = False
    default: int | None = None
    """The value of a number that is not given; None for an option that is no number."""
    required: frozenset[Action] = frozenset()
    """The actions that need the option."""
    permitted: frozenset[Action] = frozenset()
    """The further actions that accept it."""
    example: str = ""
    """The words after the program's name in the help's example of an action."""
    refusal: str = ""
    """Why the option is refused, though known. The help then leaves it out."""

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

_TABLE = (
    Option(
        name="generate",
        group=Group.ACTIONS,
        help="Propose a new assignment of topics to brokers. Nothing is started.",
        example=f"{_BROKER} --generate --topics-to-move-json-file topics.json --broker-list 4,5,6",
    ),
    Option(
        name="execute",
        group=Group.ACTIONS,
        help="Start a reassignment.",
        example=f"{_BROKER} --execute {_MOVE} --throttle 50000000",
    ),
    Option(
        name="verify",
        group=Group.ACTIONS,
        help="Show whether a reassignment is complete. Once it is, remove its throttles.",
        example=f"{_BROKER} --verify {_MOVE}",
    ),
    Option(
        name="cancel",
        group=Group.ACTIONS,
        help="Cancel a reassignment, and remove its throttles.",
        example=f"{_BROKER} --cancel {_MOVE}",
    ),
    Option(
        name="list",
        group=Group.ACTIONS,
        help="List the reassignments under way on the cluster.",
        example=f"{_BROKER} --list",
    ),
    Option(
        name="cancel-all",
        group=Group.ACTIONS,
        help="Cancel all reassignments under way on the cluster, without a JSON file (KIP-1351).",
        example="--context prod-eu --cancel-all",
    ),
    Option(
        name="remove-cancel",
        group=Group.ACTIONS,
        help="Open the cluster's cancel gate again (KIP-236).",
        example="--context prod-eu --remove-cancel",
    ),
    Option(
        name="progress",
        group=Group.ACTIONS,
        help="Show how far behind each replica of a reassignment is (KIP-179).",
        example=f"--context prod-eu --progress {_MOVE}",
    ),
    Option(
        name="bootstrap-server",
        group=Group.CLUSTER,
        help="Brokers to connect to first.",
        metavar="HOST:PORT,...",
        argument_optional=True,
        permitted=_EVERY,
    ),
    Option(
        name="bootstrap-controller",
        group=Group.CLUSTER,
        help="Controllers to connect to in place of brokers. Only with --list, --cancel and "
        "--cancel-all.",
        metavar="HOST:PORT,...",
        argument_optional=True,
        permitted=frozenset({Action.LIST, Action.CANCEL, Action.CANCEL_ALL}),
    ),
    Option(
        name="command-config",
        group=Group.CLUSTER,
        help="Client properties file, with Java's or librdkafka's property names.",
        metavar="FILE",
        permitted=_EVERY,
    ),
    Option(
        name="reassignment-json-file",
        group=Group.CLUSTER,
        help="The reassignment. --execute, --verify, --cancel and --progress need it.",
        metavar="FILE",
        required=frozenset({Action.EXECUTE, Action.VERIFY, Action.CANCEL, Action.PROGRESS}),
    ),
    Option(
        name="throttle",
        group=Group.EXECUTE,
        help="Bytes a second that each broker may copy to and from others for the partitions that "
        "move. To change it later, execute again with --additional. A negative number sets no "
        "throttle.",
        metavar="BYTES",
        default=-1,
        permitted=_EXECUTE,
    ),
    Option(
        name="replica-alter-log-dirs-throttle",
        group=Group.EXECUTE,
        help="Bytes a second that each broker may copy between its own log directories; the same "
        "holds as for --throttle.",
        metavar="BYTES",
        default=-1,
        permitted=_EXECUTE,
    ),
    Option(
        name="timeout",
        group=Group.EXECUTE,
        help="Milliseconds to wait for moves between log directories to begin; also with --cancel.",
        metavar="MS",
        default=10_000,
        permitted=frozenset({Action.EXECUTE, Action.CANCEL}),
    ),
    Option(
        name="additional",
        group=Group.EXECUTE,
        help="Start although other reassignments are under way. With the same file again, this "
        "changes its throttle.",
        permitted=_EXECUTE,
    ),
    Option(
        name="disallow-replication-factor-change",
        group=Group.EXECUTE,
        help="Refuse a reassignment that changes the number of replicas of a partition.",
        permitted=_EXECUTE,
    ),
    Option(
        name="reassignment-batch-size",
        group=Group.EXECUTE,
        help="Submit so many partitions at a time, a batch once the one before is complete "
        "(KIP-1335). 0 submits all at once.",
        metavar="N",
        default=0,
        permitted=_EXECUTE,
    ),
    Option(
        name="incremental",
        group=Group.EXECUTE,
        help="Do not wait for a whole batch: submit the next partition once one is complete.",
        permitted=_EXECUTE,
    ),
    Option(
        name="reassignment-poll-interval-ms",
        group=Group.EXECUTE,
        help="Milliseconds between two polls while a batch is under way.",
        metavar="MS",
        default=1000,
        permitted=_EXECUTE,
    ),
    Option(
        name="preserve-throttles",
        group=Group.VERIFY_AND_CANCEL,
        help="Leave all throttles as they are.",
        permitted=frozenset({Action.VERIFY, Action.CANCEL}),
    ),
    Option(
        name="clear-foreign-throttles",
        group=Group.VERIFY_AND_CANCEL,
        help="Remove also throttles that this state directory has not set, as Apache's tool does.",
        permitted=frozenset({Action.VERIFY, Action.CANCEL}),
    ),
    Option(
        name="topics-to-move-json-file",
        group=Group.GENERATE,
        help="The topics; required.",
        metavar="FILE",
        required=_GENERATE,
    ),
    Option(
        name="broker-list",
        group=Group.GENERATE,
        help="Ids of the brokers that are to hold the topics; required.",
        metavar="ID,...",
        required=_GENERATE,
    ),
    Option(
        name="disable-rack-aware",
        group=Group.GENERATE,
        help="Ignore the racks of the brokers.",
        permitted=_GENERATE,
    ),
    Option(
        name="context",
        group=Group.KTUI,
        help="A cluster from your config.yaml, in place of --bootstrap-server.",
        metavar="NAME",
        permitted=_EVERY,
    ),
    Option(
        name="state-dir",
        group=Group.KTUI,
        help=f"Folder that keeps the runs, on a local disk. Default: ${STATE_DIR}, else the "
        "platform's folder for state.",
        metavar="DIR",
        permitted=_EVERY,
    ),
    Option(
        name="as-run",
        group=Group.KTUI,
        help="With --execute: make a paced run of the reassignment, as `ktui start` does.",
        permitted=_EXECUTE,
    ),
    Option(
        name="allow-full-log-dirs",
        group=Group.KTUI,
        help="With --execute: move replicas also to log directories without room for them. A full "
        "one takes all its replicas offline.",
        permitted=_EXECUTE,
    ),
    Option(
        name="take-over",
        group=Group.KTUI,
        help="With --execute, --verify, --cancel and --cancel-all: take the cluster over from "
        "another state directory; its engines then send nothing more.",
        permitted=_CHANGING,
    ),
    Option(
        name="no-ownership",
        group=Group.KTUI,
        help="With the same actions as --take-over: do not check who owns the cluster, and do not "
        "keep others from it.",
        permitted=_CHANGING,
    ),
    Option(name="help", group=Group.OTHER, help="Show this message and exit."),
    Option(name="version", group=Group.OTHER, help="Show the version and exit."),
    Option(
        name="zookeeper",
        group=Group.OTHER,
        help="",
        metavar="HOST:PORT",
        argument_optional=True,
        refusal="--zookeeper was removed in Kafka 3.0, and Kafka 4.0 has no ZooKeeper: name the "
        "brokers with --bootstrap-server HOST:PORT",
    ),
)

OPTIONS: Mapping[str, Option] = {option.name: option for option in _TABLE}
"""Every option by its name, in the order of the help and of the checks."""
DEFAULTS: Mapping[str, int] = {
    option.name: option.default for option in _TABLE if option.default is not None
}
"""The defaults of the options that are numbers."""
