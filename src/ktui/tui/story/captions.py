"""Which caption of a story is shown: the last one whose time or moment has come."""

from __future__ import annotations

from collections.abc import Sequence

from ktui.captions import Caption, StoryMoment
from ktui.execution.host.catalog import RunState
from ktui.execution.run.states import State
from ktui.tui.poll.overview import Overview
from ktui.tui.run_view.attached import RunStatus


class StoryMoments:
    """The moments of a story that have come, judged by what the view shows."""

    def __init__(self) -> None:
        self.seen: set[StoryMoment] = set()

    def note(self, now: Overview, run: RunStatus | None) -> None:
        """Note what a poll shows."""
        sums = now.totals
        done = sums.done or (run is not None and run.counts.get(State.DONE, 0))
        trouble = {
            StoryMoment.BEHIND: sums.falling_behind,
            StoryMoment.STALLED: sums.stalled,
            StoryMoment.BROKER_DOWN: len(now.down),
        }
        if self.seen & trouble.keys() and not any(trouble.values()):
            self.seen.add(StoryMoment.RECOVERED)
        if StoryMoment.MOVING in self.seen and _at_rest(now, run):
            self.seen.add(StoryMoment.OVER)
        self.seen |= {moment for moment, count in trouble.items() if count}
        self.seen |= {
            moment
            for moment, has_come in (
                (StoryMoment.MOVING, now.open),
                (StoryMoment.DONE, done),
                (StoryMoment.CANCELLED, sums.cancelled),
                (StoryMoment.TOPIC_GONE, sums.topic_gone),
            )
            if has_come
        }


def _at_rest(now: Overview, run: RunStatus | None) -> bool:
    if run is not None:
        return run.state is RunState.ENDED
    return not now.open and not now.totals.settling


class CaptionTrack:
    """The captions of a story; a later one replaces all before it, also those never shown."""

    def __init__(self, captions: Sequence[Caption]) -> None:
        self.captions = captions
        self._shown = -1

    @property
    def shown(self) -> Caption | None:
        """The caption that is shown; None before the first."""
        return None if self._shown < 0 else self.captions[self._shown]

    def advance(self, now_s: float, seen: set[StoryMoment]) -> None:
        """Go on to the last caption that is due; none comes back."""
        for index in range(len(self.captions) - 1, self._shown, -1):
            caption = self.captions[index]
            if caption.when in seen or (caption.at_s is not None and caption.at_s <= now_s):
                self._shown = index
                return
