"""Sentences on a partition's state and alarms, and what to do about them."""

from __future__ import annotations

from textual.content import Content

from ktui.cluster.observation import Observation
from ktui.progress.timeline import Cause, Phase, Stall, StallKind, Timeline
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece
from ktui.tui.draw.paint import content
from ktui.tui.run_view.rows import RunRows
from ktui.tui.screens.watch.row import reason, state_cell
from ktui.tui.screens.watch.row_context import build_row_context

_EXPLAINED = {
    Phase.SETTLED: "not being reassigned",
    Phase.SETTLING: "no longer listed; what became of it is not certain yet",
    Phase.DONE: "reached its target",
    Phase.CANCELLED: "ended on its original replicas",
    Phase.CHANGED_ELSEWHERE: "ended on replicas that are neither its target nor its original",
    Phase.TOPIC_GONE: "the topic was deleted",
}

_ADVICE = {
    Cause.TARGET_DOWN: "Start broker {broker}, or cancel the reassignment.",
    Cause.LOG_DIR_OFFLINE: (
        "Mend or replace the log dir of broker {broker} and restart it, or cancel the reassignment."
    ),
    Cause.KEPT_OUT_OF_SYNC: (
        "Bring broker {broker} back into the ISR: before Kafka 4.3 the reassignment cannot"
        " complete without it."
    ),
    Cause.NO_LEADER: "Start a broker of the ISR: without a leader there is nothing to copy from.",
    Cause.THROTTLED: (
        "Raise the throttle: t has that of the run that is shown; else"
        " follower.replication.throttled.rate on broker {broker}, and the leader's."
    ),
    Cause.NOT_FETCHING: (
        "Look for fetcher errors in the log of broker {broker}; restart it if its fetcher has died."
    ),
    Cause.UNKNOWN: "Look into the logs of broker {broker} and of the leader.",
}


def state_sentence(timeline: Timeline, observation: Observation, run: RunRows | None) -> Content:
    """Return a partition's state in the words of the list, and what that means."""
    moment = build_row_context(observation, run, health_first=True)
    state = state_cell(timeline, moment)._replace(bold=True)
    reported_by_run = moment.track(timeline) is not None
    why = ["" if reported_by_run else _EXPLAINED.get(timeline.phase, "")]
    trouble = reason(timeline, moment)
    if trouble is not None and (timeline.stall is None or timeline.phase.ended):
        why.append(trouble.text)
    words = "; ".join(filter(None, why))
    return content([state, Piece(f"   {words}" if words else "", "dim")])


def alarm(stall: Stall, now_s: float) -> Content:
    """Return the sentence of an alarm: which replica, for how long, why, and what to do."""
    lasted = figures.as_duration(now_s - stall.since_s)
    cause = f"{stall.cause.value}: {stall.detail}" if stall.detail else stall.cause.value
    if not stall.alarm:
        words = f"· broker {stall.broker} waits for {lasted} by now: {cause}."
        return Content.styled(words, "$waiting")
    colour = "bold $stalled" if stall.kind is StallKind.STALLED else "bold $falling-behind"
    return Content.assemble(
        (f"! broker {stall.broker} {stall.kind.value} for {lasted}: {cause}. ", colour),
        _ADVICE[stall.cause].format(broker=stall.broker),
    )
