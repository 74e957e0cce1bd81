"""Whole sentences about runs, as the app shows them."""

from __future__ import annotations

from ktui.execution.cancel.foreign_outcome import ListedReassignment
from ktui.execution.host.catalog import RunState
from ktui.tui.draw import format as figures
from ktui.tui.run_view.attached import RunStatus

READ_ONLY = "This view is read-only; ktui watch --write opens one that is not."
NO_RUN = "The view is attached to no run. r shows the runs there are, n starts a plan."
NO_ENGINES = "Nothing can be started from here."
FOREIGN = "Somebody else reassigns it: X cancels this foreign reassignment."
NOT_FOREIGN = "No reassignment of somebody else is under the cursor. c cancels what the run does."
NOT_CURRENT = "The cluster does not answer: this is the last state that was read."
SHUTS_GATE = (
    "The cancel gate of the cluster is shut with it: no run submits anything on it but what cancels"
    " and rolls back, until O opens it."
)
OPENING_GATE = (
    "It was shut by {}. Once it is open, every run of this cluster submits again what was not"
    " cancelled, and plans can be started."
)
GATE_SHUT = (
    "The cancel gate of the cluster is shut {}: nothing is started or added until it is open. Leave"
    " with esc, and open it with O."
)


def beside_live_run(live: str, attached: str) -> str:
    """Return what it means to start a run beside one that is live.

    Args:
        live: the run that is live on the cluster.
        attached: the run that the plan can be added to from here; empty for none.
    """
    words = (
        f"Run {live} is live on this cluster. Another is started only if that is allowed, for the"
        " limits of runs know nothing of each other: they add up."
    )
    there = f" To add the plan to run {live}, leave with esc, show the run with r, and press n."
    return words if attached else f"{words}{there}"


def takes_no_plans(status: RunStatus) -> str:
    """Return why a run takes no further plan, and what to do; empty where it takes one."""
    if status.state is RunState.ENDED:
        return f"Run {status.name} has ended and takes no plan: start it as a run of its own."
    if not status.owned:
        return (
            f"Run {status.name} has no engine: it takes plans once it is resumed. Leave"
            f" with esc, then r and R, or: ktui resume {status.name}"
        )
    return ""


def resumed_for_cancel(status: RunStatus, *, whole: bool) -> str:
    """Return what happens to a run without an engine when some or all of it is cancelled."""
    if status.state is RunState.ENDED:
        return "The run has ended: an engine is started for this, and ends with it."
    rest = "" if whole else ", and the rest of it is paused"
    return f"The run has no engine: one is started for this{rest}."


def cancel_consequences(move: ListedReassignment) -> str:
    """Return what the cancel of a foreign reassignment does."""
    now, target = (" ".join(map(str, brokers)) for brokers in (move.original, move.target))
    danger = "" if move.danger is None else f" ! {move.danger}."
    return (
        f"It is on its way to {target}; nobody here knows who began it. Kafka drops what it is"
        f" adding and keeps {now}. Which order those had before, Kafka has forgotten: it is lost"
        f" unless whoever began it knows it.{danger}"
    )


def pause_consequences(status: RunStatus, *, paused: bool) -> str:
    """Return what a pause does, or what its end does."""
    left = figures.as_count(status.partitions - status.over, "partition")
    if paused:
        why = f" It is paused {status.why}." if status.why else ""
        return f"{left} of it have not ended, and will be moved under the limits in force.{why}"
    in_flight = figures.as_count(status.in_flight, "step")
    return (
        f"Nothing new is submitted for its {left} that have not ended."
        f" Nothing is cancelled: {in_flight} in flight will finish. p lets it go on."
    )


def why_unchangeable(status: RunStatus) -> str | None:
    """Return why no command can be sent to a run now; None if one can."""
    if status.state is RunState.ENDED:
        return f"Run {status.name} has ended."
    if not status.owned:
        words = f"Run {status.name} has no engine. Resume it first: r, or"
        return f"{words} ktui resume {status.name}"
    return None
