"""When the engine of a run last looked at the cluster: a suspended process holds its lock, too.

The time is that of a file in the run's folder. The journal has no event for each look.
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
"""A silence of fewer polls is nothing: an answer may be slow."""


class Heartbeat:
    """Notes each look of an engine at its cluster."""

    def __init__(self, run: RunDir) -> None:
        self._path = run.last_look

    def beat(self) -> None:
        """Note that a look is over, now; where that cannot be noted, the run goes on."""
        with suppress(OSError):
            file = open_regular(self._path, os.O_WRONLY | os.O_CREAT)
            try:
                os.utime(file)
            finally:
                os.close(file)


def last_look_at(run: RunDir) -> datetime | None:
    """Return when an engine of a run last looked at the cluster; None where that is not noted."""
    try:
        return datetime.fromtimestamp(run.last_look.stat().st_mtime, UTC)
    except OSError:
        return None


def silence(
    run: Run, owner: Holder | None, last_look: datetime | None, now: datetime
) -> str | None:
    """Say for how long the process that owns a run has not looked, where that is too long.

    Args:
        run: by its journal.
        owner: the process that owns it.
        last_look: as the run's folder has it.
        now: the moment at which that is asked.
    """
    if owner is None or last_look is None or run.outage is not None or run.ended:
        return None
    silent_s = (now - max(last_look, owner.since)).total_seconds()
    if silent_s <= max(_SHORTEST_S, _POLLS * run.options.poll_s):
        return None
    why = "its process may be suspended, or wait for a locked journal"
    return f"no look for {as_duration(silent_s)}: {why}"
