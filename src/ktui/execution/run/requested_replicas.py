"""Complete the input of a fold with a run's requests: a whole step may fall between two polls."""

from __future__ import annotations

import msgspec

from ktui.execution.run.run import Run
from ktui.execution.run.track import Track
from ktui.progress.timeline import Phase, Progress, Timeline


def with_requested_replicas(progress: Progress, run: Run) -> Progress:
    """Return the progress completed with what only the run knows.

    A partition that settles on the replicas of a later step of ours gets that step's target.
    Otherwise the change would count as somebody else's. A partition whose steps are not over is
    marked as going on after this one.
    """
    changed = {
        tp: updated
        for tp, timeline in progress.timelines.items()
        if (track := run.tracks.get(tp)) is not None
        and (updated := _inform(timeline, track)) is not timeline
    }
    if not changed:
        return progress
    return msgspec.structs.replace(progress, timelines={**progress.timelines, **changed})


def _inform(timeline: Timeline, track: Track) -> Timeline:
    settling = timeline.phase is Phase.SETTLING and track.sent is not None
    if settling and timeline.state.replicas == track.sent != timeline.target:
        timeline = msgspec.structs.replace(timeline, target=track.sent)
    goes_on = track.begun and not _over(timeline, track)
    if goes_on is not timeline.goes_on:
        timeline = msgspec.structs.replace(timeline, goes_on=goes_on)
    return timeline


def _over(timeline: Timeline, track: Track) -> bool:
    """Whether the last step is over by the journal, and was seen to be over."""
    seen = timeline.phase.ended and timeline.state.replicas == track.replicas
    return track.state.ended and seen
