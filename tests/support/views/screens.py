"""A host for one screen, and hand-made progress to show on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from rich.color import Color
from textual._context import visible_screen_stack
from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen

from ktui.cluster.broker import Broker
from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.progress.flows import BrokerFlow, Flows
from ktui.progress.timeline import (
    Cause,
    Event,
    LagHistory,
    Lane,
    Mark,
    Phase,
    Progress,
    Role,
    Slots,
    Stall,
    StallKind,
    Timeline,
)
from ktui.simulated.clock import VirtualClock
from ktui.speed.answer import Span
from ktui.tui.draw.cells import Piece
from ktui.tui.draw.themes import DEFAULT, load_themes, role_defaults
from ktui.tui.poll import ClusterOutage
from ktui.tui.widgets.services import Services, ShowsProgress

S = TypeVar("S", bound=Screen[None])
A = TypeVar("A", bound=App[None])
_KEYS = {
    " ": "space", ",": "comma", "-": "minus", ".": "full_stop", "/": "slash", ":": "colon",
    "=": "equals_sign",
}  # fmt: skip

SHIPPED = load_themes(None)
"""The program's own themes, read once for all apps."""

BEGAN = datetime(2026, 11, 21, 14, 2, 31, tzinfo=UTC)
BEGAN_S = 1_000.0
FLOWS = Flows({1: BrokerFlow(out_s=48e6), 4: BrokerFlow(in_s=48e6)})
SIZES = [(80, 24), (120, 30), (200, 60)]
HOSTILE = "[bold]x[/bold][@click=app.quit]y[/]\\x1b[31m $adding"
"""A name that a hostile cluster may use: Textual's and Rich's markup, and a cleaned escape."""


class Host(App[None], Services, Generic[S]):
    """An app with one screen on it, themed as the real one."""

    def __init__(self, screen: S, theme: str = DEFAULT) -> None:
        super().__init__()
        for each in SHIPPED.themes.values():
            self.register_theme(each)
        self.theme = theme
        self.shown = screen
        self._progress = Progress()
        self._outage: ClusterOutage | None = None

    @property
    def progress(self) -> Progress:
        return self._progress

    @property
    def outage(self) -> ClusterOutage | None:
        return self._outage

    def show(self, progress: Progress, outage: ClusterOutage | None = None) -> None:
        """Show a progress on the screen, as after a poll."""
        self._progress, self._outage = progress, outage
        screen: Screen[None] = self.shown
        assert isinstance(screen, ShowsProgress)
        screen.show_progress()

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return role_defaults(self.current_theme)

    def on_mount(self) -> None:
        self.push_screen(self.shown)


class Operating(Generic[A]):
    """An app in a terminal, and the operator before it."""

    def __init__(self, app: A, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    @property
    def text(self) -> str:
        return screen_text(self.app)

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    def line(self, words: str) -> str:
        """Return the line of the screen that contains these words."""
        found = [line for line in self.lines if words in line]
        assert found, f"no line has {words!r} in it:\n{self.text}"
        return found[0]

    async def press(self, *keys: str, say: str = "") -> None:
        """Press keys, and wait for some words."""
        await self.pilot.press(*keys)
        await self.pilot.pause()
        if say:
            await self.say(say)

    async def type(self, text: str) -> None:
        await self.press(*(_KEYS.get(character, character) for character in text))

    async def submit(self, text: str, say: str = "") -> None:
        """Type a text and press enter, and wait for some words."""
        await self.type(text)
        await self.press("enter", say=say)

    async def still_until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition, while time stands still."""
        async with asyncio.timeout(60):
            while not condition():
                await self.pilot.pause()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition, as long as it may take."""
        await self.still_until(condition)

    async def say(self, words: str) -> None:
        """Wait, while time stands still, until the screen shows some words."""
        try:
            await self.still_until(lambda: words in self.text)
        except TimeoutError:
            raise AssertionError(f"{words!r} never came:\n{self.text}") from None

    async def quit(self) -> str:
        """Close the view, and return its last words."""
        await self.press("q")
        await self.until(lambda: self.app._exit)
        return self.last_words

    @property
    def last_words(self) -> str:
        (words,) = self.app._exit_renderables
        return str(words)


class RealTime(Operating[A]):
    """An app whose cluster's time runs with the real one, which is a virtual clock here."""

    def __init__(self, app: A, real: VirtualClock, pilot: Pilot[None]) -> None:
        super().__init__(app, pilot)
        self.real = real

    async def until(self, condition: Callable[[], object]) -> None:
        """Let real time pass, half a second at a time, until a condition holds."""
        async with asyncio.timeout(60):
            while not condition():
                await self.real.advance(0.5)
                await self.pilot.pause()


class Hosted(Operating["Host[S]"], Generic[S]):
    """A screen in its host, and the operator before it."""

    def __init__(self, app: Host[S], pilot: Pilot[None]) -> None:
        super().__init__(app, pilot)
        self.screen = app.shown

    @property
    def left(self) -> bool:
        """Whether the operator has gone back from the screen."""
        return self.app.screen is not self.screen

    async def show(self, seen: Progress | Sequence[Event]) -> str:
        """Show a progress, or events alone, and return the text of the screen then."""
        await self.pilot.pause()
        self.app.show(seen if isinstance(seen, Progress) else Progress(events=tuple(seen)))
        await self.pilot.pause()
        return self.text

    async def press(self, *keys: str, say: str = "") -> str:  # type: ignore[override] # it returns the text, too
        await self.pilot.press(*keys)
        await self.pilot.wait_for_scheduled_animations()
        if say:
            await self.say(say)
        return self.text


@asynccontextmanager
async def hosted(
    screen: S | Host[S], seen: Progress | Sequence[Event] | None = None, **how: Any
) -> AsyncIterator[Hosted[S]]:
    """Open a screen in a host, and show it what was seen."""
    app = screen if isinstance(screen, Host) else Host(screen)
    async with app.run_test(**how) as pilot:
        view = Hosted(app, pilot)
        if seen is not None:
            await view.show(seen)
        yield view


async def text_of(
    screen: Screen[None], seen: Progress, *keys: str, size: tuple[int, int] = (80, 24)
) -> str:
    """Return what a screen shows of a progress after some keys."""
    async with hosted(screen, seen, size=size) as view:
        return await view.press(*keys)


def screen_text(app: App[None]) -> str:
    """Return everything on the screen, also what shows below a dialog."""
    width, height = app.size
    visible_screen_stack.set(app._background_screens)
    strips = app.screen._compositor.render_strips()
    assert len(strips) == height
    return "\n".join(strip.text[:width].rstrip() for strip in strips)


def plain(pieces: Iterable[Piece]) -> str:
    """Return the words of a line, without their colours."""
    return "".join(piece.text for piece in pieces)


def line_with(text: str, words: str) -> str:
    return next(line for line in text.splitlines() if words in line)


async def resize(pilot: Pilot[Any], size: tuple[int, int]) -> None:
    """Give the terminal another size, and wait until the screen is laid out for it."""
    await pilot.resize_terminal(*size)
    async with asyncio.timeout(30):
        while pilot.app.screen._compositor.size != size:
            await pilot.pause()
    await pilot.pause()


def colour_of(app: App[None], words: str) -> Color | None:
    """Return the colour of the first piece of text on the screen that has `words` in it."""
    for strip in app.screen._compositor.render_strips():
        for segment in strip:
            if words in segment.text and segment.style is not None:
                return segment.style.color
    return None


def events(count: int, severity: int = 0, tp: TopicPartition | None = None) -> tuple[Event, ...]:
    """Return ``count`` events, a second apart."""
    return tuple(
        Event(at=BEGAN + timedelta(seconds=i), what=f"event {i}", severity=severity, tp=tp)
        for i in range(count)
    )


RAN_S = 600
"""Seconds for which the hand-made move has been running."""
TP = TopicPartition("orders", 1)
BROKERS = {
    i: Broker(i, f"kafka-{i}.eu.example", 9092, rack=f"eu-1{'abc'[i % 3]}", alive=i != 9)
    for i in (1, 2, 3, 4, 5, 9)
}


def observation(after_s: float = RAN_S, **changes: Any) -> Observation:
    """Return the result of a poll ``after_s`` seconds after the move began."""
    given: dict[str, Any] = {
        "cluster_id": "test",
        "controller": 1,
        "brokers": BROKERS,
        "partitions": {},
        "at": BEGAN + timedelta(seconds=after_s),
        "monotonic_s": BEGAN_S + after_s,
        "took_s": 0.009,
    }
    return Observation(**{**given, **changes})


def history(*parts: tuple[int, int]) -> Slots:
    """Return 150 slots of four seconds: the given number of each mark."""
    marks = b"".join(bytes((mark,)) * count for mark, count in parts)
    return Slots(slot_s=4.0, end_s=BEGAN_S + 4.0 * len(marks), marks=marks)


def timeline(tp: TopicPartition = TP, **changes: Any) -> Timeline:
    """Return a move of ten minutes: [1, 2, 3] to [1, 2, 9, 4], 4 copying and 9 stalled."""
    climb = [(share, 1) for share in range(42)]
    lanes = [
        Lane(1, Role.LEADER, history=history((Mark.LEADER, 150))),
        Lane(2, Role.IN_SYNC, history=history((Mark.IN_SYNC, 150))),
        Lane(3, Role.RETIRING, history=history((Mark.IN_SYNC, 10), (Mark.RETIRING, 140))),
        Lane(
            4, Role.ADDING, lag_messages=1_200_000, lag_bytes=3_435_973_836, share=0.873,
            rate_messages_s=20_000.0, rate_bytes_s=48e6, left_s=Span(60, 72, 110),
            history=history((Mark.WAITING, 10), *((share * 87 // 140, 1) for share in range(140))),
        ),
        Lane(
            9, Role.ADDING, lag_messages=8_100_000, lag_bytes=21_474_836_480, share=0.41,
            rate_messages_s=0.0, rate_bytes_s=0.0,
            stall=Stall(
                StallKind.STALLED, Cause.TARGET_DOWN, BEGAN_S + 408, 9, "broker 9 is down"
            ),
            history=history((Mark.WAITING, 10), *climb, (41, 48), (Mark.STALLED, 50)),
        ),
    ]  # fmt: skip
    given: dict[str, Any] = {
        "state": PartitionState(
            tp, "dPqkT3xvRHqXw8mXb0yZ9A", (1, 2, 9, 4, 3), (1, 2, 3), 1, 12, (9, 4), (3,), (9,)
        ),
        "phase": Phase.STALLED,
        "began_at": BEGAN,
        "began_s": BEGAN_S,
        "ended_at": None,
        "original": (1, 2, 3),
        "original_ordered": False,
        "target": (1, 2, 9, 4),
        "lanes": {lane.broker: lane for lane in lanes},
        "recent": Slots(slot_s=5.0, end_s=BEGAN_S + RAN_S, marks=bytes((Mark.WAITING,) * 120)),
        "lag_history": LagHistory.of(
            (BEGAN_S + at, 14_000_000 - at * 14_000 if at < 420 else 8_100_000 + at)
            for at in range(0, RAN_S, 5)
        ),
        "events": (
            Event(BEGAN, "reassignment seen: adding 9, 4; removing 3", tp),
            Event(BEGAN + timedelta(seconds=40), "broker 4 started to copy", tp, 4),
            Event(BEGAN + timedelta(seconds=200), "broker 2 left the ISR", tp, 2, 1),
            Event(BEGAN + timedelta(seconds=203), "broker 2 joined the ISR", tp, 2),
            Event(
                BEGAN + timedelta(seconds=438), "stalled: target broker down: broker 9 is down",
                tp, 9, 2,
            ),
        ),
    }  # fmt: skip
    return Timeline(**{**given, **changes})


def progress(*timelines: Timeline, **changes: Any) -> Progress:
    """Return a progress with these timelines, seen ten minutes after they began."""
    by_name = {each.tp: each for each in timelines}
    return Progress(**{"timelines": by_name, "last": observation(), "flows": FLOWS, **changes})
