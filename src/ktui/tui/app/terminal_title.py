"""Texts outside the screens: the terminal's title, and the line printed when the view closes."""

from __future__ import annotations

from collections.abc import Sequence

from ktui.execution.host.catalog import OtherRun, RunState
from ktui.tui.draw import format as figures
from ktui.tui.poll.polling import Overview
from ktui.tui.run_view.attached import RunStatus

KEEP_TITLE, RESTORE_TITLE = "\x1b[22;0t", "\x1b[23;0t"
"""Escape sequences for xterm's stack of titles; other terminals ignore them."""


def title(overview: Overview, run: RunStatus | None, others: Sequence[OtherRun] = ()) -> str:
    """Return the terminal's title: how far the run is, or what is moving."""
    if run is not None:
        also = [f"run {each.name} {each.state.words}" for each in others[:1]]
        return ", ".join((_run_title(run), *also))
    if not overview.open:
        return "nothing is moving"
    sums = overview.totals
    share = f"{figures.as_share(sums.share)}, " if sums.share is not None else ""
    stalled = f", {sums.stalled:,} STALLED" if sums.stalled else ""
    return f"{share}{sums.moving:,} moving{stalled}"


def closed(overview: Overview, run: RunStatus | None, *, write: bool) -> str:
    """Return what goes on without the view, and that a read-only view changed nothing."""
    if of_run := _run_without_view(run):
        return f"ktui: view closed.{of_run}"
    if run is not None and run.state is RunState.RESUMABLE:
        waits = f"Run {run.name} has no engine. Start one: `ktui resume {run.name}`."
        words = f"ktui: view closed. {waits}"
    elif write:
        words = "ktui: view closed."
    else:
        words = "ktui: view closed; nothing on the cluster was changed by it."
    moving = overview.open
    if moving:
        goes_on = "is being reassigned" if moving == 1 else "are being reassigned"
        words += f" {figures.as_count(moving, 'partition')} {goes_on} and will go on without it."
    return words


def _run_title(status: RunStatus) -> str:
    share = "" if status.share is None else f"{figures.as_share(status.share)}, "
    return f"{share}run {status.name}, {status.over:,}/{status.partitions:,} ended"


def _run_without_view(status: RunStatus | None) -> str:
    if status is None or not status.owned:
        return ""
    name = status.name
    if status.state is RunState.PAUSED:
        return f" Run {name} stays paused; `ktui continue {name}` lets it go on."
    return (
        f" Run {name} goes on without it: `ktui watch` shows it again,"
        f" `ktui status {name}` shows its state."
    )
