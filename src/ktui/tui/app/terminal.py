"""What the operator's terminal does beside the screens: title, alerts, keys typed ahead, themes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.control import Control
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual._queue import Queue
from textual.app import App
from textual.events import Event, Key, MouseDown, MouseUp, Paste
from textual.message_pump import MessagePump
from textual.strip import Strip

from ktui.cluster.text import clean
from ktui.execution.host.catalog import OtherRun, RunState
from ktui.execution.run.events import JournalEntry, Outage
from ktui.execution.run.notices import Notice, NoticeFilter, NoticeKind
from ktui.execution.run.run import Run
from ktui.execution.run.text import event_sentence
from ktui.quantities import as_count
from ktui.tui.draw import format as figures
from ktui.tui.draw.themes import LoadedThemes, load_themes, theme_paths
from ktui.tui.poll import Overview
from ktui.tui.run_view.attached import RunStatus

_KINDS = (NoticeKind.STALL, NoticeKind.FAILURE, NoticeKind.OUTAGE, NoticeKind.END)
_LONGEST = 200


class Alerts:
    """Rings the bell and shows a notification for a stall, a failure, a death or an end."""

    def __init__(
        self,
        bell: Callable[[], None],
        write: Callable[[str], None],
        *,
        on: bool,
        on_death: Callable[[Run], None] | None = None,
    ) -> None:
        self._bell, self._write, self._on = bell, write, on
        self._on_death = on_death
        self._notices = NoticeFilter()
        self._owned = False
        self._missed = False
        """Whether the engine was gone at the last call; its last words may follow in this one."""
        self._stalled = 0

    def follow(self) -> None:
        """Follow another run: what happened to it before is no alert."""
        self._notices, self._owned, self._missed = NoticeFilter(), False, False

    def note_entries(self, run: Run, entries: Iterable[JournalEntry], *, owned: bool) -> None:
        for notice in self._notices.take(entries):
            if notice.kind in _KINDS and not _is_over(notice):
                self._alert(f"run {run.name}: {_words(notice)}")
        dead = not owned and run.left is None and not run.ended
        if dead and self._missed:
            self._alert(f"the engine of run {run.name} has died")
            if self._on_death is not None:
                self._on_death(run)
        self._missed = dead and self._owned
        self._owned = owned

    def note_stalls(self, count: int) -> None:
        if count > self._stalled:
            self._alert(f"{as_count(count, 'partition')} stalled")
        self._stalled = count

    def _alert(self, words: str) -> None:
        if self._on:
            self._bell()
            self._write(f"\x1b]9;ktui: {clean(words)[:_LONGEST]}\x07")


def _is_over(notice: Notice) -> bool:
    last = notice.entries[-1].event
    return isinstance(last, Outage) and not last.lost


def _words(notice: Notice) -> str:
    first, *others = notice.entries
    more = f"; and {len(others):,} more" if others else ""
    return f"{event_sentence(first.event)}{more}"


OPENING = frozenset({"attach", "choosing"})
"""The groups of workers that open a screen, or change the run that the keys are for."""
_LONGEST_S = 3.0
"""How long a key waits at most, so that no defect of a widget can take the keyboard away."""
_TURNS = 50
_PAUSE_S = 0.002
"""After so many turns of the loop without a pause, somebody waits for a disk or a thread."""


class TypedAhead:
    """Holds keys, clicks and pastes back while an earlier one has not had its effect."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._held: deque[Event] = deque()
        self._due: Event | None = None
        self._releasing: asyncio.Task[None] | None = None

    def holds(self, event: Event) -> bool:
        if not isinstance(event, (Key, MouseDown, MouseUp, Paste)) or event.is_forwarded:
            return False
        if event is self._due:
            self._due = None
            return False
        if self._due is None and not self._held and not self._busy:
            return False
        self._held.append(event)
        if self._releasing is None or self._releasing.done():
            self._releasing = asyncio.create_task(self._release())
        return True

    async def _release(self) -> None:
        while self._held:
            await self._rest()
            self._due = self._held.popleft()
            if not self._app.post_message(self._due):  # the app closes
                return

    async def _rest(self) -> None:
        loop = asyncio.get_running_loop()
        until_s, turns = loop.time() + _LONGEST_S, 0
        while (
            self._due is not None or _processes(self._app) or self._busy
        ) and loop.time() < until_s:
            turns += 1
            await asyncio.sleep(0 if turns < _TURNS else _PAUSE_S)

    @property
    def _busy(self) -> bool:
        return (
            self._app.message_queue_size > 0
            or any(
                _processes(each)
                for s in self._app.screen_stack
                for each in s.walk_children(with_self=True)
            )
            or any(w.group in OPENING and w.is_running for w in self._app.workers)
        )


def _processes(pump: MessagePump) -> bool:
    """Return whether a widget has a message, or is at one: it does not wait for the next."""
    queue: Queue[Any] = pump._message_queue  # noqa: SLF001 - Textual shows it in no other way
    waits = queue.ready_event._waiters  # noqa: SLF001 - nor asyncio
    return pump.is_running and (not queue.empty() or not waits)


EVERY_S = 1.0
_Stamp = tuple[int, int]


class ThemeReload:
    """Watches the folder of the user's themes."""

    def __init__(self, app: App[Any], loaded: LoadedThemes) -> None:
        self._app, self._folder = app, loaded.folder
        self._problems = {*map(str, loaded.problems)}
        self._seen: dict[Path, _Stamp] = {}
        self._seen = self._stamps()

    def start(self) -> None:
        if self._folder is not None:
            self._app.set_interval(EVERY_S, self._look)

    def _stamps(self) -> dict[Path, _Stamp]:
        stamps: dict[Path, _Stamp] = {}
        try:
            for path in () if self._folder is None else theme_paths(self._folder):
                found = path.stat()
                stamps[path] = (found.st_mtime_ns, found.st_size)
        except OSError:
            return self._seen  # an editor replaces the file just now
        return stamps

    def _look(self) -> None:
        stamps = self._stamps()
        if stamps == self._seen:
            return
        saved = {path for path, _ in stamps.items() - self._seen.items()}
        self._seen = stamps
        loaded = load_themes(self._folder)
        problems = [
            problem
            for problem in loaded.problems
            if problem.path in saved or str(problem) not in self._problems
        ]
        self._problems = {*map(str, loaded.problems)}
        for problem in problems:
            self._app.notify(f"The theme stays as it was: {problem}", severity="warning")
        if not problems:
            self._use(loaded)

    def _use(self, loaded: LoadedThemes) -> None:
        for theme in loaded.themes.values():
            self._app.register_theme(theme)
        self._app.mutate_reactive(App.theme)


KEEP_TITLE, RESTORE_TITLE = "\x1b[22;0t", "\x1b[23;0t"
"""Escape sequences for xterm's stack of titles; other terminals ignore them."""


def terminal_title(
    overview: Overview, run: RunStatus | None, others: Sequence[OtherRun] = ()
) -> str:
    """Return the terminal's title: how far the run is, or what is moving."""
    if run is not None:
        also = [f"run {each.name} {each.state.words}" for each in others[:1]]
        return ", ".join((_run_title(run), *also))
    if not overview.open:
        return "nothing is moving"
    sums = overview.totals
    share = f"{figures.as_share(sums.share)}, " if sums.share is not None else ""
    stalled = f", {sums.stalled:,} STALLED" if sums.stalled else ""
    return f"{share}{sums.moving:,} moving{stalled}"


def words_at_close(overview: Overview, run: RunStatus | None, *, write: bool) -> str:
    """Return what goes on without the view, and that a read-only view changed nothing."""
    if of_run := _run_without_view(run):
        return f"ktui: view closed.{of_run}"
    if run is not None and run.state is RunState.RESUMABLE:
        waits = f"Run {run.name} has no engine. Start one: `ktui resume {run.name}`."
        words = f"ktui: view closed. {waits}"
    elif write:
        words = "ktui: view closed."
    else:
        words = "ktui: view closed; nothing on the cluster was changed by it."
    moving = overview.open
    if moving:
        goes_on = "is being reassigned" if moving == 1 else "are being reassigned"
        words += f" {figures.as_count(moving, 'partition')} {goes_on} and will go on without it."
    return words


def _run_title(status: RunStatus) -> str:
    share = "" if status.share is None else f"{figures.as_share(status.share)}, "
    return f"{share}run {status.name}, {status.over:,}/{status.partitions:,} ended"


def _run_without_view(status: RunStatus | None) -> str:
    if status is None or not status.owned:
        return ""
    name = status.name
    if status.state is RunState.PAUSED:
        return f" Run {name} stays paused; `ktui continue {name}` lets it go on."
    return (
        f" Run {name} goes on without it: `ktui watch` shows it again,"
        f" `ktui status {name}` shows its state."
    )


_APART = 8
"""Cells between two changes that cost more to go over than to write again."""
ShownCell = tuple[str, Style | None]


def differing(
    was: Sequence[ShownCell | None], now: Sequence[ShownCell | None]
) -> list[tuple[int, int]]:
    """Return from where to where cells differ, those close together as one; None never agrees."""
    parts: list[tuple[int, int]] = []
    start = end = -1
    for x, (old, new) in enumerate(zip(was, now, strict=True)):
        if old == new and new is not None:
            continue
        if start >= 0 and x - end > _APART:
            parts.append((start, end))
            start = -1
        start, end = (x if start < 0 else start), x + 1
    return [*parts, (start, end)] if start >= 0 else parts


class ShownCells:
    """What the terminal shows, as far as it is known, so that no cell is written twice.

    Over a slow line each cell counts. A timeline that has moved on by a cell differs only where its
    bars rise and its signs stand; and Textual writes all of a widget that moves, and of those
    around it, in each pass of a layout.
    """

    def __init__(self) -> None:
        self._lines: dict[int, list[ShownCell | None]] = {}

    def forget(self) -> None:
        self._lines.clear()

    def changed(self, x: int, y: int, strip: Strip) -> list[tuple[int, int]]:
        """Return from where to where a strip differs from what is shown, as it will be."""
        stop = x + strip.cell_length
        now: list[ShownCell | None]
        now = [(character, style) for text, style, _ in strip for character in text]
        if len(now) != strip.cell_length:  # characters two cells wide, or none
            now = [None] * strip.cell_length
        line = self._lines.setdefault(y, [])
        line += [None] * (stop - len(line))
        was, line[x:stop] = line[x:stop], now
        return differing(was, now)

    def only_changed(self, renderable: RenderableType | None) -> RenderableType | None:
        """Return what writes a frame with the fewest cells; other output stays as it is."""
        if type(renderable) is ChopsUpdate:
            return _ChangedCells(renderable, self)
        if type(renderable) is LayoutUpdate:
            return _WholeScreen(renderable, self)
        return renderable


class _ChangedCells(ChopsUpdate):
    """Writes the changed cells of each line, and not also those between its widget's edge and them.

    Textual writes a line from the left edge of its widget up to the last cell that has changed,
    which doubles what a slow line has to carry.
    """

    def __init__(self, frame: ChopsUpdate, shown: ShownCells) -> None:
        super().__init__(frame.chops, frame.spans, frame.chop_ends)
        self._shown = shown

    def render_segments(self, console: Console) -> str:
        written: list[str] = []
        for y, first, end in self.spans:
            ends, strips = self.chop_ends[y], self.chops[y].items()
            for strip_end, (x, strip) in zip(ends, strips, strict=False):
                start, stop = max(x, first), min(strip_end, end)
                if strip is None or start >= stop:
                    continue
                cells = strip.crop(start - x, stop - x)
                for begin, over in self._shown.changed(start, y, cells):
                    written.append(Control.move_to(start + begin, y).segment.text)
                    written.append(cells.crop(begin, over).render(console))
        return "".join(written)


class _WholeScreen(LayoutUpdate):
    """Writes all cells, whatever the terminal showed."""

    def __init__(self, frame: LayoutUpdate, shown: ShownCells) -> None:
        super().__init__([[*line] for line in frame.strips], frame.region)
        self._shown = shown

    def render_segments(self, console: Console) -> str:
        self._shown.forget()
        for y, line in enumerate(self.strips, self.region.y):
            self._shown.changed(self.region.x, y, Strip.join(line))
        return super().render_segments(console)
