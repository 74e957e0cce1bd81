"""What the run has asked for, for the fold of what is seen: a step may fall between two looks."""

from __future__ import annotations

import msgspec

from ktui.execution.run import Run
from ktui.progress.timeline import Phase, Progress


def informed(progress: Progress, run: Run) -> Progress:
    """Give what settles on the replicas of a later step of ours that step's target.

    Without that it would be taken for somebody else's change.
    """
    known = {
        tp: msgspec.structs.replace(timeline, target=track.sent)
        for tp, timeline in progress.timelines.items()
        if timeline.phase is Phase.SETTLING
        and (track := run.tracks.get(tp)) is not None
        and track.sent is not None
        and timeline.state.replicas == track.sent != timeline.target
    }
    if not known:
        return progress
    return msgspec.structs.replace(progress, timelines={**progress.timelines, **known})
