"""Which options go together, beside what Apache's tool has answered (test_arguments.py)."""

from __future__ import annotations

import pytest

from ktui.cli.reassign.command import BadArguments, check, help_text, parse
from ktui.cli.reassign.options import OPTIONS, Action

SERVER = "--bootstrap-server localhost:1234"
FILE = "--reassignment-json-file myfile.json"
TOPICS = "--topics-to-move-json-file mytopics.json"
LISTING = f"{SERVER} --list"
EXECUTING = f"{SERVER} --execute {FILE}"

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
        (
            "--bootstrap-controller c:1 --verify --throttle 5",
            missing("reassignment-json-file"),
        ),
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


@pytest.mark.parametrize(
    "line",
    [
        f"{LISTING} --list=x",
        "--bootstrap-server --list",
        f"{EXECUTING} --throttle abc --timeout 1.5",
        f"{EXECUTING} {FILE} {SERVER}",
    ],
)
def test_what_the_tool_finds_out_later_is_not_refused_here(line: str) -> None:
    assert problem(line) is None


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


@pytest.mark.parametrize(
    "line",
    [
        f"{SERVER} --cancel-all",
        "--bootstrap-controller c:1 --cancel-all",
        "--context prod --cancel-all --take-over --state-dir d",
        "--context prod --cancel-all --no-ownership --command-config f",
        f"{SERVER} --remove-cancel --command-config f",
        f"{SERVER} --progress {FILE}",
        f"--context prod --progress {FILE} --state-dir d",
        "--context prod --list",
        "--context prod --command-config f --list",
        f"{EXECUTING} --as-run --take-over",
        f"{SERVER} --verify {FILE} --clear-foreign-throttles",
        f"{EXECUTING} --reassignment-batch-size 3 --incremental",
        f"{EXECUTING} --reassignment-batch-size 0 --reassignment-poll-interval-ms 1",
        f"{EXECUTING} --allow-full-log-dirs",
    ],
)
def test_the_actions_and_options_that_the_tool_lacks_are_accepted(line: str) -> None:
    assert problem(line) is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"{SERVER} --cancel-all --list", ONE_ACTION),
        (f"{SERVER} --progress", missing("reassignment-json-file")),
        (f"{SERVER} --cancel-all {FILE}", not_with("reassignment-json-file", "cancel-all")),
        (f"{SERVER} --remove-cancel --take-over", not_with("take-over", "remove-cancel")),
        (f"{LISTING} --as-run", not_with("as-run", "list")),
        (f"{LISTING} --incremental", not_with("incremental", "list")),
        (
            f"{SERVER} --verify {FILE} --reassignment-batch-size 0",
            not_with("reassignment-batch-size", "verify"),
        ),
        (
            f"{SERVER} --cancel {FILE} --reassignment-poll-interval-ms 5",
            not_with("reassignment-poll-interval-ms", "cancel"),
        ),
        (
            f"{EXECUTING} --clear-foreign-throttles",
            not_with("clear-foreign-throttles", "execute"),
        ),
        (
            f"{LISTING} --context prod",
            "Please don't specify both --context and --bootstrap-server",
        ),
        (
            "--bootstrap-controller c:1 --list --context prod",
            "Please don't specify both --context and --bootstrap-controller",
        ),
        (
            f"{EXECUTING} --take-over --no-ownership",
            "Please don't specify both --take-over and --no-ownership",
        ),
        (f"{LISTING} --allow-full-log-dirs", not_with("allow-full-log-dirs", "list")),
        (
            f"{EXECUTING} --as-run --allow-full-log-dirs",
            (
                "--allow-full-log-dirs is about moves between log directories, and --as-run makes "
                "none. Leave one of them out"
            ),
        ),
        (
            f"{SERVER} --verify {FILE} --clear-foreign-throttles --preserve-throttles",
            "Please don't specify both --preserve-throttles and --clear-foreign-throttles",
        ),
    ],
)
def test_ktuis_own_options_are_refused_as_the_tools_are(line: str, message: str) -> None:
    assert problem(line) == message


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("--reassignment-batch-size -1", "--reassignment-batch-size is -1"),
        ("--incremental", "--incremental needs batches"),
        ("--incremental --reassignment-batch-size 0", "--incremental needs batches"),
        ("--reassignment-poll-interval-ms 0", "--reassignment-poll-interval-ms is 0"),
        ("--reassignment-poll-interval-ms -5", "--reassignment-poll-interval-ms is -5"),
        ("--reassignment-batch-size x", "Cannot parse argument 'x'"),
        ("--reassignment-batch-size 1 --reassignment-batch-size 2", "Found multiple arguments"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(options: str, named: str) -> None:
    assert (problem(f"{EXECUTING} {options}") or "").startswith(named)


@pytest.mark.parametrize(
    "line",
    [
        f"--zookeeper zk:2181 --execute {FILE}",
        f"--execute {FILE} --zookeeper",
        f"{LISTING} --zookeeper zk:2181",
    ],
)
def test_zookeeper_is_refused_with_the_reason_and_the_fix(line: str) -> None:
    message = problem(line) or ""

    assert "Kafka 3.0" in message
    assert "--bootstrap-server" in message


def test_the_help_has_an_example_of_every_action_that_is_accepted() -> None:
    text = help_text("ktui reassign").partition("Examples:\n")[2]

    examples = text.replace("\\\n", "").splitlines()
    assert [problem(line) for line in examples] == [None] * len(Action)
    assert {parse(line.split()).action for line in examples} == {*Action}
