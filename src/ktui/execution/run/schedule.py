"""When the steps of a run may begin, and by when the run is to have ended."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from ktui.execution.run.window import Window, parse_window
from ktui.json_input import checked_moment


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The times at which steps may begin. Steps in flight finish whenever they do."""

    start_at: datetime | None = None
    """No step begins before."""
    window: str = ""
    """Steps begin, and are expected to end, in this window; empty for any time."""
    while_command: str = ""
    """No step begins while this command fails; empty for none."""
    by: datetime | None = None
    """The run is to have ended by then, at the lowest rate with which it does."""

    def __post_init__(self) -> None:
        """Reject a time that cannot be shown, and what is no window.

        Raises:
            ValueError: `start_at`, `window` or `by` is such a one.
        """
        for moment in (self.start_at, self.by):
            if moment is not None:
                checked_moment(moment)
        if self.window:
            parse_window(self.window)

    @property
    def hours(self) -> Window | None:
        """The window; None for any time."""
        return parse_window(self.window) if self.window else None

    def begins_at(self, now: datetime) -> datetime | None:
        """Return when steps may begin next; None if they may now."""
        earliest = now if self.start_at is None else max(now, self.start_at)
        opens = earliest if self.hours is None else self.hours.opens_at(earliest)
        return None if opens <= now else opens

    def reason(self, begins_at: datetime) -> str:
        """Return why no step begins before a time, for people."""
        shown = local_minute(begins_at)
        if self.start_at is not None and begins_at == self.start_at:
            return f"the run starts at {shown}"
        return f"its window, {self.window}, opens at {shown}"

    def closes_at(self, now: datetime) -> datetime | None:
        """Return by when steps that begin now should end; None for any time, or where none may."""
        if self.hours is None or self.begins_at(now) is not None:
            return None
        return self.hours.closes_at(now)

    def after(self, now: datetime, seconds: float) -> datetime | None:
        """Return when steps will have been allowed for so many seconds; None for years from now."""
        earliest = now if self.start_at is None else max(now, self.start_at)
        if self.hours is None:
            try:
                return earliest + timedelta(seconds=seconds)
            except OverflowError:  # at 1 B/s, or from a time that the calendar ends soon after
                return None
        return self.hours.after(earliest, seconds)


def local_minute(moment: datetime) -> str:
    """Format a moment by local clocks: "2026-11-25 22:00"."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M}"


NO_SCHEDULE = Schedule()
