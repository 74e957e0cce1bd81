"""A story: captions under a demo, pictures of its screens, its last card, and its tour."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

import msgspec
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Event, Key
from textual.geometry import Size
from textual.keys import _character_to_key
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from ktui.captions import Caption, StoryMoment, TourStep
from ktui.cluster.clock import PausableClock
from ktui.durable import write_output
from ktui.execution.host.catalog import RunState
from ktui.execution.run.states import State
from ktui.quantities import as_bytes, as_count, as_duration
from ktui.tui.draw.cells import Piece
from ktui.tui.draw.paint import content
from ktui.tui.poll import Overview
from ktui.tui.run_view.attached import RunStatus
from ktui.tui.widgets.bindings import bind, give_ids, hidden
from ktui.tui.widgets.frame import BoxScreen


class StoryMoments:
    """The moments of a story that have come, judged by what the view shows."""

    def __init__(self) -> None:
        self.seen: set[StoryMoment] = set()

    def note(self, now: Overview, run: RunStatus | None) -> None:
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
        return None if self._shown < 0 else self.captions[self._shown]

    def advance(self, now_s: float, seen: set[StoryMoment]) -> None:
        for index in range(len(self.captions) - 1, self._shown, -1):
            caption = self.captions[index]
            if caption.when in seen or (caption.at_s is not None and caption.at_s <= now_s):
                self._shown = index
                return


_SIGN = Piece("» ", "moving", bold=True)


class CaptionLine(Widget):
    """Draws a caption. It is always as high as the story's longest one: nothing above jumps."""

    DEFAULT_CSS = "CaptionLine { height: auto; padding: 0 2; background: $cursor; }"
    shown: reactive[Caption | None] = reactive(None)

    def __init__(self, captions: Sequence[Caption]) -> None:
        super().__init__()
        self._every = [_drawn(caption) for caption in captions]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport
        return max((each.get_height({}, width) for each in self._every), default=0)

    def render(self) -> Content:
        return Content("") if self.shown is None else _drawn(self.shown)


def _drawn(caption: Caption) -> Content:
    parts = caption.say.split("`")
    keys = (
        Piece(part, "moving", bold=True) if number % 2 else Piece(part)
        for number, part in enumerate(parts)
    )
    return content([_SIGN, *keys])


_FOR_ALL = 0o644  # the mode of a picture: it is made to be shown


def picture_name(story: str, at_s: float) -> str:
    """Return the name of a picture, without its ending: `dead-target-2m05s`."""
    safe = "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in story).lstrip(".-")
    minutes, seconds = divmod(int(max(0.0, at_s)), 60)
    return f"{safe[:100] or 'story'}-{minutes}m{seconds:02}s"


def save_picture(folder: Path, name: str, svg: str) -> Path:
    """Write a picture, whole or not at all, and return its path; no picture is replaced."""
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    path = next(p for each in names if not os.path.lexists(p := folder / f"{each}.svg"))
    write_output(path, svg.encode(), mode=_FOR_ALL)
    return path


class Unhealthy(NamedTuple):
    """For how long something was wrong, and with how many partitions: at most, and now."""

    seconds: float
    most: int
    now: int


class ProduceTimes(NamedTuple):
    """How long producers with acks=all waited, in seconds."""

    p99_s: float
    longest_s: float


class StoryFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What has happened on a cluster since its story began, as its controller decided it."""

    moved: int  # partitions on other replicas than at the start
    back: int  # that have moved, or begun to, and are where they were
    gone: int  # deleted in the middle of it
    moving: int
    elected: int
    copied: int  # bytes
    took_s: float  # from the first move to the end of the last one
    produced: tuple[ProduceTimes, ...]  # at rest and since, or only since; empty if not measured
    lacking: Unhealthy  # replicas out of the ISR, beside those being added
    below_min: Unhealthy  # min.insync.replicas, so that acks=all is refused

    @property
    def moves(self) -> str:
        """What became of the moves: `21 partitions moved, 1 put back`."""
        counts = [
            f"{as_count(self.moved, 'partition')} moved",
            *([f"{self.back:,} put back"] if self.back else ()),
            *([f"{self.gone:,} deleted"] if self.gone else ()),
            *([f"{self.moving:,} still moving"] if self.moving else ()),
        ]
        return ", ".join(counts)

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield what stands on the card, each with its name."""
        yield "moves", self.moves
        yield "copied", f"{as_bytes(self.copied)} between brokers, in {as_duration(self.took_s)}"
        yield "leaders", as_count(self.elected, "change")
        if self.produced:
            now = self.produced[-1]
            rest = f", {_ms(self.produced[0].p99_s)} before" if len(self.produced) > 1 else ""
            yield "producers", f"p99 of acks=all at most {_ms(now.p99_s)}{rest}"
            yield "", f"longest wait {_ms(now.longest_s)}"
        yield from _lasted("ISR", self.lacking, "no replica was ever out of it", "out of it")
        yield from _lasted(
            "min ISR", self.below_min, "never below it", "below it: acks=all is refused"
        )


class Ledger(Protocol):
    """Writes down what happens to the cluster of a story."""

    def look(self) -> None:
        """Note what can only be seen now; called at least every ten seconds of the cluster."""
        ...

    def facts(self) -> StoryFacts: ...


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms" if seconds < 1 else as_duration(seconds)


def _lasted(name: str, seen: Unhealthy, never: str, what: str) -> Iterator[tuple[str, str]]:
    if not seen.most:
        yield name, never
        return
    yield (
        name,
        f"{as_count(seen.most, 'partition')} at once {what}, {as_duration(seen.seconds)} in all",
    )
    yield "", f"{seen.now:,} still" if seen.now else "none any more"


_MOST_REFUSALS = 20


class StoryScreen(BoxScreen[None]):
    """Shows the story, what the cluster did not accept of its plan, and at its end what came."""

    CSS = "StoryScreen > .box { max-width: 84; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape,q,i", "dismiss", "close", "Close the story"),
        hidden("R", "app.play_again", "again", "Play the story from the start", id="story.again"),
        hidden("full_stop", "app.next_story", "next", "Play the next story", id="story.next"),
    ]
    give_ids("story", BINDINGS)

    def __init__(
        self, title: str, about: str, refused: tuple[str, ...], facts: StoryFacts | None = None
    ) -> None:
        super().__init__()
        self._title, self._about, self._refused = title, about, refused
        self._facts = facts

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box") as scroll:
            scroll.border_title = Content(self._title)
            if self._facts is None:
                scroll.border_subtitle = "esc closes"
                text = Content("\n\n".join(filter(None, (self._about, *self._not_accepted()))))
            else:
                scroll.border_subtitle = "R again   . the next story   esc looks around"
                text = self._card(self._facts)
            yield Static(text)

    def _card(self, facts: StoryFacts) -> Content:
        rows = [content([Piece("The story is over.", bold=True)]), Content("")]
        for name, words in facts.lines():
            rows.append(content([Piece(f"{name:<11}", "dim"), Piece(words)]))
        return Content("\n").join(rows)

    def _not_accepted(self) -> list[str]:
        if not self._refused:
            return []
        more = len(self._refused) - _MOST_REFUSALS
        lines = [*self._refused[:_MOST_REFUSALS], *([f"and {more:,} more"] if more > 0 else ())]
        return ["\n".join(("Refused parts of the plan:", *lines))]


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
