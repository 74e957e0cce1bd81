"""`ktui schedule`, and the options of a start for when steps begin."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ktui.cli.context.errors import BadInput
from ktui.cli.main import ktui
from ktui.cluster.clock import SystemClock
from ktui.execution.errors import RunRefused
from ktui.execution.host.state_dir import RunDir, StateDir
from support.cli.owned_run import owned_run
from support.cli.plan_sandbox import PlanSandbox
from support.journals.journals import a_start, written
from support.simulated.moving_clusters import a_cluster


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunDir]:
    with owned_run(StateDir(tmp_path_factory.mktemp("state"))) as run:
        yield run


def call(run: RunDir, *arguments: str) -> Result:
    state = str(run.path.parent.parent)
    return CliRunner().invoke(ktui, ["schedule", run.name, "--state-dir", state, *arguments])


def answer(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_schedule_of_a_live_run_is_shown_changed_in_part_and_lifted(live: RunDir) -> None:
    assert call(live).stdout == "steps of drain-b3 begin at any time\n"

    call(live, "--window", "22:00-05:00,sun,sat")
    in_two_days = SystemClock().now().astimezone() + timedelta(days=2)
    start_at = in_two_days.replace(hour=12, minute=0, second=0, microsecond=0)  # in no window
    said = call(live, "--start-at", start_at.isoformat(), "--while", "/bin/true now")

    shown = f"{start_at.astimezone():%Y-%m-%d %H:%M}"
    scheduled = f"from {shown}, in 22:00-05:00,Sat,Sun, while /bin/true now succeeds"
    assert f"in force: {scheduled}" in said.stdout
    assert call(live).stdout.startswith(f"steps of drain-b3 begin {scheduled}\nnow: its window, ")
    shown_json = answer(call(live, "--json"))
    schedule = shown_json["schedule"]
    assert (schedule["window"], schedule["while_command"]) == (
        "22:00-05:00,Sat,Sun",
        "/bin/true now",
    )
    assert shown_json["begins_at"] >= schedule["start_at"]

    call(live, "--window", "none", "--while", "none", "--start-at", "none")
    lifted = answer(call(live, "--json"))
    assert lifted["schedule"] == {"start_at": None, "window": "", "while_command": "", "by": None}
    assert lifted["begins_at"] is None


def test_a_time_by_which_a_run_is_to_be_done_is_named_and_lifted(live: RunDir) -> None:
    before = SystemClock().now()
    assert call(live, "--within", "1h30m").exit_code == 0

    by = answer(call(live, "--json"))["schedule"]["by"]
    assert 5_399 <= (datetime.fromisoformat(by) - before).total_seconds() <= 5_460
    shown = f"{datetime.fromisoformat(by).astimezone():%Y-%m-%d %H:%M}"
    assert f"begin at any time; done by {shown}" in call(live).stdout

    call(live, "--by", "none")
    assert answer(call(live, "--json"))["schedule"]["by"] is None


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--window", "22-5", "--window: '22-5' is not a window. Give it such as 22:00-05:00"),
        ("--start-at", "2020-01-01T12:00", "--start-at 2020-01-01T12:00: is in the past"),
        ("--start-at", "soon", "--start-at 'soon': is not a time"),
        ("--by", "2020-01-01T12:00", "--by 2020-01-01T12:00: is in the past"),
        (
            "--by",
            "9999-12-31T23:59:59",
            "--by 9999-12-31T23:59:59: a time before 1970 or after 9998",
        ),
        (
            "--start-at",
            "9999-01-02T00:00",
            "--start-at 9999-01-02T00:00: a time before 1970 or after 9998",
        ),
        ("--within", "soon", "--within 'soon': expected a time such as 90s, 5m, 1h30m or seconds"),
        ("--within", "0s", "--within 0s: is not between 1 s and 365 days"),
        ("--within", "400d", "--within 400d: is not between 1 s and 365 days"),
        ("--while", "/no/such/program", "--while: /no/such/program: no such program"),
        ("--while", "'open", '--while: "\'open": no closing quotation'),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_sent(
    live: RunDir, option: str, value: str, words: str
) -> None:
    refused = call(live, option, value)

    assert isinstance(refused.exception, BadInput)
    assert str(refused.exception).startswith(words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--by", "22:00", "--within", "8h"), "--by and --within name the same time"),
        (
            ("--by", "2100-01-01T12:00", "--start-at", "2100-01-01T13:00"),
            "--by: the run would be done before it starts",
        ),
    ],
)
def test_times_that_contradict_each_other_are_refused(
    live: RunDir, options: tuple[str, ...], words: str
) -> None:
    refused = call(live, *options)

    assert isinstance(refused.exception, BadInput)
    assert str(refused.exception).startswith(words)


def test_a_run_without_an_engine_shows_its_schedule_and_takes_no_other(tmp_path: Path) -> None:
    run = StateDir(tmp_path / "left").create_run("audit")
    written(run.journal, a_start()).close()

    assert call(run).stdout == "steps of audit begin at any time\n"
    refused = call(run, "--window", "none")
    assert isinstance(refused.exception, RunRefused)
    assert "ktui resume audit" in str(refused.exception)


def test_a_dry_run_says_when_steps_begin_and_when_the_run_is_expected_to_end(
    plan_sandbox: PlanSandbox,
) -> None:
    plan_sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}))
    plan = plan_sandbox.plan(orders_0=(4, 2, 3))
    in_two_days = SystemClock().now().astimezone() + timedelta(days=2)
    start_at = in_two_days.replace(hour=12, minute=0, second=0, microsecond=0)  # in no window
    options = ["--context", "prod-eu", "--start-at", start_at.isoformat(), "--dry-run"]

    text = CliRunner().invoke(ktui, ["start", plan, *options]).stdout
    shape = json.loads(CliRunner().invoke(ktui, ["start", plan, *options, "--json"]).stdout)

    assert f"steps begin from {start_at.astimezone():%Y-%m-%d %H:%M}; the plan is expected" in text
    assert shape["begins_at"] == shape["schedule"]["start_at"]
    assert shape["ends_at"] > shape["schedule"]["start_at"]


@pytest.mark.parametrize(
    ("within", "words"),
    [
        ("10d", "there is room to go slower"),
        ("1s", "that is too early, "),
    ],
)
def test_a_dry_run_says_whether_the_time_can_be_kept(
    plan_sandbox: PlanSandbox, within: str, words: str
) -> None:
    plan_sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}))
    plan = plan_sandbox.plan(orders_0=(4, 2, 3))
    options = ["--context", "prod-eu", "--within", within, "--dry-run"]

    text = CliRunner().invoke(ktui, ["start", plan, *options]).stdout

    assert "done by " in text
    assert words in text
