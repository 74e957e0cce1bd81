"""Which options go together, beside what Apache's tool has answered (test_arguments.py)."""

import pytest

from ktui.cli.reassign.command import BadArguments, check, help_text, parse
from ktui.cli.reassign.options import OPTIONS, Action

SERVER = "--bootstrap-server localhost:1234"
FILE = "--reassignment-json-file myfile.json"

ONE_ACTION = (
    "Command must include exactly one action: --generate, --execute, --verify, --cancel, --list"
)
NO_CLUSTER = "Please specify either --bootstrap-server or --bootstrap-controller"
TWO_CLUSTERS = "Please don't specify both --bootstrap-server and --bootstrap-controller"


def missing(option: str) -> str:
    return f'Missing required argument "[{option}]"'


def not_with(option: str, action: str) -> str:
    return f'Option "[{option}]" can\'t be used with action "[{action}]"'


def problem(line: str) -> str | None:
    """The message by which a line is refused; None for an accepted one."""
    try:
        check(parse(line.split()))
    except BadArguments as refused:
        return str(refused)
    return None


@pytest.mark.parametrize(
    ("line", "first"),
    [
        (f"{SERVER} --bootstrap-controller c:1 --list --verify --throttle 5", ONE_ACTION),
        (f"{SERVER} --bootstrap-controller c:1 --verify --throttle 5", TWO_CLUSTERS),
        ("--verify --throttle 5", NO_CLUSTER),
        ("--bootstrap-controller c:1 --verify --throttle 5", missing("reassignment-json-file")),
        (
            f"--bootstrap-controller c:1 --verify {FILE} --throttle 5",
            not_with("bootstrap-controller", "verify"),
        ),
        (
            f"--throttle 5 --bootstrap-controller c:1 --verify {FILE}",
            not_with("throttle", "verify"),
        ),
    ],
)
def test_of_several_problems_the_tools_first_one_is_named(line: str, first: str) -> None:
    assert problem(line) == first


TOOLS = {
    "generate": "bootstrap-server command-config topics-to-move-json-file broker-list "
    "disable-rack-aware",
    "execute": "bootstrap-server command-config reassignment-json-file throttle "
    "replica-alter-log-dirs-throttle timeout additional disallow-replication-factor-change",
    "verify": "bootstrap-server command-config reassignment-json-file preserve-throttles",
    "cancel": "bootstrap-server bootstrap-controller command-config reassignment-json-file "
    "timeout preserve-throttles",
    "list": "bootstrap-server bootstrap-controller command-config",
}
"""The options that Apache's tool accepts with its actions."""
OURS: dict[str, set[str]] = {
    **{action.value: {"context", "state-dir"} for action in Action},
    "execute": {
        "context", "state-dir", "as-run", "no-ownership", "take-over", "reassignment-batch-size",
        "incremental", "reassignment-poll-interval-ms", "allow-full-log-dirs",
    },
    "verify": {"context", "state-dir", "clear-foreign-throttles", "no-ownership", "take-over"},
    "cancel": {"context", "state-dir", "clear-foreign-throttles", "no-ownership", "take-over"},
}  # fmt: skip
"""The further options with the tool's actions."""


@pytest.mark.parametrize("action", TOOLS)
def test_an_action_accepts_the_options_of_the_tool_and_ours(action: str) -> None:
    accepted = {name for name, option in OPTIONS.items() if option.goes_with(Action(action))}

    assert accepted == {action, *TOOLS[action].split(), *OURS[action]}


def test_the_help_has_an_example_of_every_action_that_is_accepted() -> None:
    text = help_text("ktui reassign").partition("Examples:\n")[2]

    examples = text.replace("\\\n", "").splitlines()
    assert [problem(line) for line in examples] == [None] * len(Action)
    assert {parse(line.split()).action for line in examples} == {*Action}
