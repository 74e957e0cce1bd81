"""What the run has asked for, for the fold of what is seen: a step may fall between two looks."""

from __future__ import annotations

import msgspec

from ktui.execution.run.run import Run
from ktui.execution.run.track import Track
from ktui.progress.timeline import Phase, Progress, Timeline


def informed(progress: Progress, run: Run) -> Progress:
    """Give what is seen with what only the run knows.

    What settles on the replicas of a later step of ours has that step's target: it would be taken
    for somebody else's change. And a partition whose steps are not over goes on after this one.
    """
    told = {
        tp: informed_of
        for tp, timeline in progress.timelines.items()
        if (track := run.tracks.get(tp)) is not None
        and (informed_of := _informed(timeline, track)) is not timeline
    }
    if not told:
        return progress
    return msgspec.structs.replace(progress, timelines={**progress.timelines, **told})


def _informed(timeline: Timeline, track: Track) -> Timeline:
    settling = timeline.phase is Phase.SETTLING and track.sent is not None
    if settling and timeline.state.replicas == track.sent != timeline.target:
        timeline = msgspec.structs.replace(timeline, target=track.sent)
    goes_on = track.begun and not _over(timeline, track)
    if goes_on is not timeline.goes_on:
        timeline = msgspec.structs.replace(timeline, goes_on=goes_on)
    return timeline


def _over(timeline: Timeline, track: Track) -> bool:
    """Whether its last step is over, and was seen to be."""
    seen = timeline.phase.ended and timeline.state.replicas == track.replicas
    return track.state.ended and seen
