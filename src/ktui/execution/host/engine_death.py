"""How an engine ended that left its run without an event: killed, or by an error in its log."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from ktui.cluster.text import clean
from ktui.execution.host.heartbeat import last_poll_at
from ktui.execution.host.state_dir import RunDir
from ktui.execution.run.run import Run

_MOST_BYTES = 4096


def engine_death(folder: RunDir, run: Run) -> str:
    """Return how the engine of a run that nobody owns died; empty if it left by itself.

    An engine that leaves says why in the journal. One that is killed, or whose host goes down,
    says nothing; then the time of its last poll is all there is.
    """
    if run.owner is None or run.left is not None or run.ended:
        return ""
    if error := _last_line(folder, run.owner.since):
        return error
    polled = last_poll_at(folder)
    if polled is None or polled < run.owner.since:
        return "it was killed, or its host went down"
    at = polled.astimezone().strftime("%H:%M:%S")
    return f"it was killed, or its host went down, after {at}"


def _last_line(folder: RunDir, since: datetime) -> str:
    """Return the last line of the engine's log, if that engine wrote it."""
    try:
        with folder.log.open("rb") as log:
            status = os.fstat(log.fileno())
            if datetime.fromtimestamp(status.st_mtime, UTC) < since:
                return ""
            log.seek(max(0, status.st_size - _MOST_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return clean(lines[-1].strip()) if lines else ""
