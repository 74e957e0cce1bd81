"""A story: captions under a demo, and pictures of its screens."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget
from textual.widgets import Static

from ktui.captions import Caption, StoryMoment
from ktui.durable import write_output
from ktui.execution.host.catalog import RunState
from ktui.execution.run.states import State
from ktui.tui.draw.cells import Piece
from ktui.tui.draw.paint import content
from ktui.tui.poll import Overview
from ktui.tui.run_view.attached import RunStatus
from ktui.tui.widgets.bindings import bind, give_ids
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

    def __init__(self, captions: Sequence[Caption]) -> None:
        super().__init__()
        self._every = [_drawn(caption) for caption in captions]
        self._shown: Caption | None = None

    def show(self, caption: Caption | None) -> None:
        if caption != self._shown:
            self._shown = caption
            self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport
        return max((each.get_height({}, width) for each in self._every), default=0)

    def render(self) -> Content:
        return Content("") if self._shown is None else _drawn(self._shown)


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


_MOST_REFUSALS = 20


class StoryScreen(BoxScreen[None]):
    """Shows the story, and the parts of the plan that the cluster did not accept."""

    CSS = "StoryScreen > .box { max-width: 84; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape,q,i", "dismiss", "close", "Close the story"),
    ]
    give_ids("story", BINDINGS)

    def __init__(self, title: str, about: str, refused: tuple[str, ...]) -> None:
        super().__init__()
        self._title, self._about, self._refused = title, about, refused

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box") as scroll:
            scroll.border_title = Content(self._title)
            scroll.border_subtitle = "esc closes"
            yield Static(Content("\n\n".join(filter(None, (self._about, *self._not_accepted())))))

    def _not_accepted(self) -> list[str]:
        if not self._refused:
            return []
        more = len(self._refused) - _MOST_REFUSALS
        lines = [*self._refused[:_MOST_REFUSALS], *([f"and {more:,} more"] if more > 0 else ())]
        return ["\n".join(("Refused parts of the plan:", *lines))]
