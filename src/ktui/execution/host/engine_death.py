"""How an engine ended that left its run without an event: killed, or by an error in its log."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from datetime import UTC, datetime

from ktui.cluster.text import clean
from ktui.execution.host.heartbeat import last_poll_at
from ktui.execution.host.state_dir import RunDir
from ktui.execution.run.run import Run

_MOST_BYTES = 4096


_INNOCENT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d{3}Z (?:DEBUG|INFO) ")
"""The beginning of a line of the log that reports what goes as it should, and its time in UTC."""


def engine_death(folder: RunDir, run: Run) -> str:
    """Return how the engine of a run that nobody owns died; empty if it left by itself.

    An engine that leaves says why in the journal. One that is killed, or whose host goes down,
    says nothing; then the times of its last poll and of its last line are all there is. A line
    below WARNING is no cause: it is merely the last thing that the engine did.
    """
    if run.owner is None or run.left is not None or run.ended:
        return ""
    line = _last_line(folder, run.owner.since)
    if cause := "".join(possible_causes([line])):
        return clean(cause)
    words = "it was killed, or its host went down"
    polled = last_poll_at(folder)
    if polled is not None and polled >= run.owner.since:
        words += f", after {polled.astimezone():%H:%M:%S}"
    if innocent := _INNOCENT.match(line):
        ends = datetime.fromisoformat(f"{innocent[1]}+00:00").astimezone()
        words += f"; its log ends at {ends:%H:%M:%S}"
    return words


def possible_causes(lines: Iterable[str]) -> list[str]:
    """Return the lines of a log that may say why its process has ended.

    These are the warnings and errors, and what the interpreter wrote.
    """
    return [line for line in lines if line.strip() and not _INNOCENT.match(line)]


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
    return lines[-1].strip() if lines else ""
