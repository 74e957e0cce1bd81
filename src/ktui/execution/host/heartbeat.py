"""The time of the last poll of a run's engine: a suspended process also keeps its lock.

The time is the modification time of a file in the run's folder. The journal has no event for each
poll.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime

from ktui.execution.host.ownership import Holder
from ktui.execution.host.state_dir import RunDir
from ktui.execution.regular_files import open_regular
from ktui.execution.run.run import Run
from ktui.quantities import as_duration

_SHORTEST_S = 30.0
_POLLS = 5
"""A silence of fewer polls means nothing: an answer may be slow."""


class Heartbeat:
    """Records each poll of the cluster by an engine."""

    def __init__(self, run: RunDir) -> None:
        self._path = run.last_look

    def beat(self) -> None:
        """Record that a poll has just ended; if that cannot be recorded, the run goes on."""
        with suppress(OSError):
            file = open_regular(self._path, os.O_WRONLY | os.O_CREAT)
            try:
                os.utime(file)
            finally:
                os.close(file)


def last_look_at(run: RunDir) -> datetime | None:
    """Return when an engine of a run last polled the cluster; None if that was not recorded."""
    try:
        return datetime.fromtimestamp(run.last_look.stat().st_mtime, UTC)
    except OSError:
        return None


def silence(
    run: Run, owner: Holder | None, last_look: datetime | None, now: datetime
) -> str | None:
    """Return for how long the owner of a run has not polled, in words, if that is too long.

    Args:
        run: the run, read from its journal.
        owner: the process that owns the run.
        last_look: the time that the run's folder has recorded.
        now: the present time.
    """
    if owner is None or last_look is None or run.outage is not None or run.ended:
        return None
    silent_s = (now - max(last_look, owner.since)).total_seconds()
    if silent_s <= max(_SHORTEST_S, _POLLS * run.options.poll_s):
        return None
    why = "its process may be suspended, or wait for a locked journal"
    return f"no poll for {as_duration(silent_s)}: {why}"
