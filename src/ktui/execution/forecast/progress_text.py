"""Describe a run in one line, and its end, for terminals and logs without the live view."""

from __future__ import annotations

import enum
from collections.abc import Iterator

from ktui.execution.forecast.estimate import BY_EARLIER_RUNS, NOT_KNOWN, CopiedBytes
from ktui.execution.run.event_text import chosen_text
from ktui.execution.run.events import PauseOrigin
from ktui.execution.run.run import ClusterLost, Run
from ktui.execution.run.states import UNWELL, State
from ktui.execution.run.throttle_status import throttle_status
from ktui.execution.time_left.least_left import LeastLeft
from ktui.preview.text import how_much_longer, why_no_less
from ktui.quantities import as_bytes, as_count, as_duration

MOST_NAMED = 10
CALLED_OFF = (State.STOPPED, State.ROLLING_BACK, State.ROLLED_BACK)


class RunEnding(enum.Enum):
    """How a run stands after its engine has exited."""

    ALL_DONE = enum.auto()
    SOME_NOT_DONE = enum.auto()
    """The run has ended, some partitions not at their target; or nothing more fits its time."""
    LEFT = enum.auto()
    """The run can be resumed."""
    FAILED = enum.auto()
    """A failure stopped the run, or its engine has died."""


def run_ending(run: Run) -> RunEnding:
    """Return how a run stands after its engine has exited."""
    if run.ended:
        return RunEnding.ALL_DONE if run.counts[State.DONE] == run.over else RunEnding.SOME_NOT_DONE
    whole = run.pauses.whole
    if run.left is None or (PauseOrigin.FAILURE in whole and PauseOrigin.SIGNAL not in whole):
        return RunEnding.FAILED
    if PauseOrigin.UNTIL in whole and PauseOrigin.SIGNAL not in whole:
        return RunEnding.SOME_NOT_DONE
    return RunEnding.LEFT


def progress_line(run: Run, copied: CopiedBytes = NOT_KNOWN) -> str:
    """Describe a run's progress in one line, with the time left if it is known."""
    parts = [f"{run.name}: {run.counts[State.DONE]:,} of {len(run.tracks):,} done"]
    in_flight = ((run.in_flight - run.held_up, "moving"), (run.held_up, "held up"))
    parts += [f"{count:,} {words}" for count, words in in_flight if count]
    if run.batch:
        parts.append(f"batch {run.batch:,}")
    if run.copies.whole:
        parts.append(copied_text(run, copied))
    parts += [f"{run.counts[s]:,} {s.words}" for s in (*CALLED_OFF, *UNWELL) if run.counts[s]]
    parts += _throttle(run)
    if run.outage is not None:
        parts.append(f"cluster lost {outage_text(run.outage)}")
    if reason := run.pauses.reason:
        parts.append(f"paused: {reason}")
    elif run.cancel_gate.shut:
        parts.append(f"cancel gate shut by {run.cancel_gate.reason}")
    elif run.gate.until is not None:
        parts.append(f"waiting: {run.gate.reason}")
    elif run.gate.shut:
        parts.append(f"gate shut: {run.gate.reason}")
    elif copied.left_s is not None and not run.held_up:  # nobody knows how long that lasts
        by = f" {BY_EARLIER_RUNS}" if copied.by_earlier_runs else ""
        parts.append(f"{as_duration(copied.left_s.middle)} left{by}")
    return ", ".join(parts)


def copied_text(run: Run, copied: CopiedBytes) -> str:
    """Describe how much has been copied; finished steps count where nothing else is known."""
    done = max(copied.done, run.copies.done)
    return f"{as_bytes(done)} of {as_bytes(run.copies.whole)} copied"


def least_text(run: Run, least: LeastLeft) -> str:
    """Describe how close a run is to the least time that its limits allow, and what sets that."""
    time = as_duration(least.bound.time_s.middle)
    why = why_no_less(least.bound, run.limits)
    longer = how_much_longer(least.times)
    return f"{time} for the rest{least.rates.words}, {why}; it takes {longer}"


def outage_text(outage: ClusterLost) -> str:
    """Describe since when the cluster has not answered, in local time, and why."""
    since = outage.since.astimezone().isoformat(" ", timespec="seconds")
    return f"since {since}, {outage.reason}"


def end_lines(run: Run) -> list[str]:
    """Describe a run's end, or where it was left; then the partitions not done, with the reason."""
    count = as_count(len(run.tracks), "partition")
    if not run.ended:
        in_flight = ""
        if run.in_flight:
            go = "goes on" if run.in_flight == 1 else "go on"
            in_flight = f"; {as_count(run.in_flight, 'step')} in flight {go} in Kafka"
        why = f" ({run.left})" if run.left else ""
        left = (
            f"run {run.name} was left{why}: {run.counts[State.DONE]:,} of {count} done{in_flight}"
        )
        return [left, *filter(None, [throttle_status(run).stays])]
    if run.counts[State.DONE] == run.over:
        all_of_them = f"all {count}" if len(run.tracks) > 1 else count
        return [f"run {run.name} has ended: {all_of_them} done{_took(run)}"]
    stand = ((run.counts[state], state.words) for state in State)
    counts = ", ".join(f"{count:,} {words}" for count, words in stand if count)
    others = [track for track in run.troubled.values() if track.state.ended]
    named = [
        f"  {track.tp}: {track.state.words}{f': {track.reason}' if track.reason else ''}"
        for track in others[:MOST_NAMED]
    ]
    more = [f"  and {len(others) - MOST_NAMED:,} more"] if len(others) > MOST_NAMED else []
    return [f"run {run.name} has ended: {counts}{_took(run)}", *named, *more]


def _throttle(run: Run) -> Iterator[str]:
    throttle = throttle_status(run)
    if throttle.waits is not None:
        yield throttle.waits
    elif throttle.bounded:
        yield f"throttle {throttle.bounded.words}"
    if throttle.chosen is not None and throttle.chosen.late:
        yield chosen_text(throttle.chosen)
    if throttle.refusal:
        yield f"throttle refused: {throttle.refusal}"


def _took(run: Run) -> str:
    if run.started_at is None or run.ended_at is None:
        return ""
    return f", after {as_duration((run.ended_at - run.started_at).total_seconds())}"
