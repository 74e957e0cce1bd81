"""The checks of a command line's options against each other, in the order of Apache's tool."""

from __future__ import annotations

from ktui.cli.reassign.command_line.arguments import Arguments, BadArguments
from ktui.cli.reassign.command_line.options import OPTIONS

SERVER, CONTROLLER, CONTEXT = "bootstrap-server", "bootstrap-controller", "context"
BATCH_SIZE, INCREMENTAL = "reassignment-batch-size", "incremental"
POLL_INTERVAL = "reassignment-poll-interval-ms"
AS_RUN, IGNORES_ROOM = "as-run", "allow-full-log-dirs"

_OPPOSITES = (
    ("take-over", "no-ownership"),
    ("preserve-throttles", "clear-foreign-throttles"),
    ("as-run", "replica-alter-log-dirs-throttle"),
    ("as-run", POLL_INTERVAL),
)


def check(arguments: Arguments) -> None:
    """Check that a command line has one action, and the options that go with it.

    Raises:
        BadArguments: something is wrong; the message names the first problem.
    """
    _check_refused(arguments)
    if len(arguments.actions) != 1:
        raise BadArguments(
            "Command must include exactly one action: --generate, --execute, --verify, --cancel, "
            "--list"
        )
    _check_cluster(arguments)
    _check_required(arguments)
    _check_permitted(arguments)
    for one, other in _OPPOSITES:
        _check_not_both(arguments, one, other)
    _check_batches(arguments)
    _check_room_ignored(arguments)


def _check_refused(arguments: Arguments) -> None:
    for name, _ in arguments.given:
        if OPTIONS[name].refusal:
            raise BadArguments(OPTIONS[name].refusal)


def _check_cluster(arguments: Arguments) -> None:
    _check_not_both(arguments, SERVER, CONTROLLER)
    _check_not_both(arguments, CONTEXT, SERVER)
    _check_not_both(arguments, CONTEXT, CONTROLLER)
    if not any(map(arguments.has, (SERVER, CONTROLLER, CONTEXT))):
        raise BadArguments(f"Please specify either --{SERVER} or --{CONTROLLER}")


def _check_required(arguments: Arguments) -> None:
    for option in OPTIONS.values():
        if arguments.action in option.required and not arguments.has(option.name):
            raise BadArguments(f'Missing required argument "[{option.name}]"')


def _check_permitted(arguments: Arguments) -> None:
    action = arguments.action
    for name, _ in arguments.given:
        if not OPTIONS[name].goes_with(action):
            raise BadArguments(f'Option "[{name}]" can\'t be used with action "[{action}]"')


def _check_not_both(arguments: Arguments, one: str, other: str) -> None:
    if arguments.has(one) and arguments.has(other):
        raise BadArguments(f"Please don't specify both --{one} and --{other}")


def _check_batches(arguments: Arguments) -> None:
    """Check the options of KIP-1335, which has the rules, and no words for them."""
    size, interval = arguments.number(BATCH_SIZE), arguments.number(POLL_INTERVAL)
    if size < 0:
        raise BadArguments(f"--{BATCH_SIZE} is {size}. Give 0 for no batches, or a positive number")
    if arguments.has(INCREMENTAL) and size == 0:
        raise BadArguments(f"--{INCREMENTAL} needs batches. Give --{BATCH_SIZE} N, with N above 0")
    if interval <= 0:
        raise BadArguments(f"--{POLL_INTERVAL} is {interval}. Give a number above 0")


def _check_room_ignored(arguments: Arguments) -> None:
    """Check the option about moves between log dirs, which no run makes."""
    if arguments.has(AS_RUN) and arguments.has(IGNORES_ROOM):
        raise BadArguments(
            f"--{IGNORES_ROOM} is about moves between log directories, and --{AS_RUN} makes none. "
            "Leave one of them out"
        )
