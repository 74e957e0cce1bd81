"""What the app says of a run in whole sentences."""

from __future__ import annotations

from ktui.execution.runs import RunState
from ktui.tui import figures
from ktui.tui.runs.attached import RunStatus

READ_ONLY = "This view is read-only; ktui watch --write opens one that is not."
NO_RUN = "The view is attached to no run. r shows the runs there are, n starts a plan."
NO_ENGINES = "Nothing can be started from here."


def pausing(status: RunStatus, *, paused: bool) -> str:
    """Say what a pause does, or what its end does."""
    left = figures.as_count(status.partitions - status.over, "partition")
    if paused:
        why = f" It is paused {status.why}." if status.why else ""
        return f"{left} of it have not ended, and will be moved under the limits in force.{why}"
    flying = figures.as_count(status.in_flight, "step")
    return (
        f"Nothing new is submitted for its {left} that have not ended."
        f" Nothing is cancelled: {flying} in flight will finish. p lets it go on."
    )


def unchangeable(status: RunStatus) -> str | None:
    """Say why nothing can be asked of a run now; None if it can."""
    if status.state is RunState.ENDED:
        return f"Run {status.name} has ended."
    if not status.owned:
        words = f"No process carries run {status.name} on. Resume it first: r, or"
        return f"{words} ktui resume {status.name}"
    return None


def without_the_view(status: RunStatus | None) -> str:
    """Say what becomes of a run when the view is closed; empty where there is none to go on."""
    if status is None or not status.owned:
        return ""
    name = status.name
    if status.state is RunState.PAUSED:
        return f" Run {name} stays paused; `ktui continue {name}` lets it go on."
    return (
        f" Run {name} goes on without it: `ktui watch` shows it again,"
        f" `ktui status {name}` tells how it is."
    )


def title(status: RunStatus) -> str:
    """Give the terminal's title while a run is shown."""
    share = "" if status.copied.share is None else f"{figures.as_share(status.copied.share)}, "
    return f"{share}run {status.name}, {status.over:,}/{status.partitions:,} ended"
