"""What the journal of a run keeps of its recording."""

from __future__ import annotations

from ktui.execution.run_event import RunEvent


class Recording(RunEvent, frozen=True, kw_only=True, tag="recording"):
    """What the process that owns the run sees is recorded, or is not any more."""

    on: bool
    reason: str = ""
    """Why not; empty where that is as was asked for."""


NOT_RECORDED = Recording(on=False)
