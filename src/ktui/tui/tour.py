"""A tour: a demo that presses its own keys and says what they do, until somebody takes over."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence

from textual.events import Event, Key
from textual.keys import _character_to_key

from ktui.captions import Caption, StoryMoment, TourStep
from ktui.cluster.clock import PausableClock

_LOOK_S, _KEY_S = 2.0, 0.4
"""Real seconds in which a step is read before its first key, and between two keys."""
_ASK_S = 0.25  # real seconds between two looks at whether a moment has come
_MOST_OWN = 50


class Tour:
    """Plays steps one by one; `held` while somebody else has the keys."""

    def __init__(
        self, steps: Sequence[TourStep], clock: PausableClock, seen: Collection[StoryMoment]
    ) -> None:
        self._steps, self._clock, self._seen = steps, clock, seen
        self._at = 0
        self._own: deque[Key] = deque(maxlen=_MOST_OWN)
        self.held = False
        self.begun = False

    @property
    def over(self) -> bool:
        return self._at >= len(self._steps)

    @property
    def plays(self) -> bool:
        return self.begun and not self.held and not self.over

    @property
    def caption(self) -> Caption | None:
        """What the present step says, or how the tour goes on; None before and after it."""
        if self.over or not self.begun:
            return None
        return HELD if self.held else Caption(say=self._steps[self._at].say)

    async def play(
        self, press: Callable[[Key], object], begin: Callable[[TourStep], object]
    ) -> None:
        """Play from the step at hand, or from the last one before it that begins on the list."""
        while self._at and not self._steps[self._at].begins_on_list:
            self._at -= 1
        self.begun, self.held = True, False
        while not self.over:
            step = self._steps[self._at]
            if self._is_past(step):
                self._at += 1
                continue
            while step.when is not None and step.when not in self._seen:
                await self._pass_time(_ASK_S)
            begin(step)
            if step.press:
                await self._pass_time(_LOOK_S)
            for name in step.press:
                press(self._key(name))
                await self._pass_time(_KEY_S)
            await self._pass_time(step.hold_s)
            self._at += 1

    def _is_past(self, step: TourStep) -> bool:
        """Whether a step is about moves, and none is left: its keys would do something else."""
        return StoryMoment.OVER in self._seen and step.when is not StoryMoment.OVER

    def is_own(self, event: Event) -> bool:
        """Whether an event is a key that the tour has pressed."""
        return any(event is key for key in self._own)

    def _key(self, name: str) -> Key:
        single = len(name) == 1
        key = Key(_character_to_key(name) if single else name, name if single else None)
        self._own.append(key)
        return key

    async def _pass_time(self, real_s: float) -> None:
        await self._clock.sleep(real_s * self._clock.speed)


HELD = Caption(say="You have the keys. `^g` goes on with the tour.")
