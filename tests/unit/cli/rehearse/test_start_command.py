"""A rehearsal ends with the command that starts its plan with the settings that it came to."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ktui.cli.context.config import Context
from ktui.cli.options.limits import complete_limits
from ktui.cli.rehearse.command import StartCommand
from ktui.execution.host.state_dir import StateDir, resolve_state_dir
from ktui.execution.run.options import NO_SCHEDULE, Schedule
from ktui.pacing.limits import Limits, default_limits, parse_broker_limits
from ktui.rehearsal.summary import Settings

START = StartCommand(
    path=Path("plan.json"),
    given=(),
    context=Context(),
    state=resolve_state_dir(None),
    exclude_internal=False,
)


def command(
    limits: Limits,
    throttle: str = "none",
    *,
    schedule: Schedule = NO_SCHEDULE,
    **start: Any,
) -> tuple[str, ...]:
    """Return the commands for some settings, and for what else the command line named."""
    settings = Settings(limits=limits, throttle=throttle, schedule=schedule, changes=())
    return replace(START, **start).lines(settings)


@pytest.mark.parametrize(
    ("of_context", "given", "options"),
    [
        ({}, {}, ""),
        ({}, {"partitions": 5}, " --partitions 5"),
        ({}, {"bytes-per-broker": "none"}, " --bytes-per-broker none"),
        (
            {},
            {"bytes-per-broker": "64MiB", "partitions": 5},
            " --partitions 5 --bytes-per-broker 64MiB",
        ),
        ({}, {"shape": "kip-435"}, " --shape kip-435"),
        ({"partitions": 8}, {}, ""),
        ({"partitions": 8}, {"partitions": "none"}, " --partitions none"),
        ({"pace": "quiet"}, {"pace": "quiet"}, ""),
    ],
)
def test_only_limits_that_would_not_hold_anyway_are_named(
    of_context: dict[str, object], given: dict[str, int | str | None], options: str
) -> None:
    limits = complete_limits(of_context, given)

    (line,) = command(limits, context=Context(limits=of_context))
    assert line == f"ktui start plan.json{options}"


@pytest.mark.parametrize(
    ("of_context", "throttle", "options"),
    [
        (None, "30MB,3=20MB", " --throttle 30MB,3=20MB"),
        ("30MB/s", "30MB", ""),
        ("30MB/s", "none", " --throttle none"),
        (None, "none", ""),
    ],
)
def test_the_throttle_is_that_of_the_end(
    of_context: str | None, throttle: str, options: str
) -> None:
    (line,) = command(default_limits(), throttle, context=Context(throttle=of_context))

    assert line == f"ktui start plan.json{options}"


def test_leaders_are_not_throttled_without_a_rate() -> None:
    given = ("--context", "prod", "--throttle-leaders")

    assert command(default_limits(), "1MB", given=given) == (
        "ktui start plan.json --context prod --throttle-leaders --throttle 1MB",
    )
    assert command(default_limits(), given=given) == ("ktui start plan.json --context prod",)


def test_names_are_quoted_and_what_a_run_gets_later_has_a_command_of_its_own(
    tmp_path: Path,
) -> None:
    limits = parse_broker_limits({3: {"per-broker": 4, "per-leader": "none"}}, default_limits())
    schedule = Schedule(by=datetime(2026, 11, 25, 22, tzinfo=UTC), window="22:00-05:00,Sat")

    start, after = command(
        limits,
        schedule=schedule,
        path=Path("tonight's plan.json"),
        state=StateDir(tmp_path),
        exclude_internal=True,
    )

    assert start.startswith("ktui start 'tonight'\"'\"'s plan.json' --internal exclude --window ")
    assert "--window 22:00-05:00,Sat --by 2026-11-2" in start
    assert start.endswith(f" --state-dir {tmp_path}")
    assert after == (
        "ktui limits tonight-s-plan --broker 3 --per-broker 4 --per-leader none"
        f" --state-dir {tmp_path}"
    )
