"""The JSON form of when the steps of a run may begin, and it is to be done; a contract."""

from __future__ import annotations

from datetime import datetime

import msgspec

from ktui.cli.output.json_form import utc
from ktui.execution.run.schedule import Schedule


class ScheduleJson(msgspec.Struct, frozen=True, rename={"while_command": "while"}):
    """When steps may begin; null where nothing holds them back."""

    start_at: str | None
    """UTC."""
    window: str | None
    """Local time of the host that runs the engine: "22:00-05:00,Sat,Sun"."""
    while_command: str | None
    by: str | None
    """When the run is to have ended, UTC."""
    begins_at: str | None
    """When steps may begin next, UTC; null if they may now, but for the command."""


def schedule_json(schedule: Schedule, now: datetime) -> ScheduleJson:
    """Return the JSON form of a schedule."""
    begins_at = schedule.begins_at(now)
    return ScheduleJson(
        start_at=None if schedule.start_at is None else utc(schedule.start_at),
        window=schedule.window or None,
        while_command=schedule.while_command or None,
        by=None if schedule.by is None else utc(schedule.by),
        begins_at=None if begins_at is None else utc(begins_at),
    )
