"""Alerts to an operator who looks elsewhere: the terminal's bell and its notification (OSC 9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ktui.cluster.text import clean
from ktui.execution.run.events import JournalEntry, Outage
from ktui.execution.run.notices import Notice, NoticeFilter, NoticeKind
from ktui.execution.run.run import Run
from ktui.execution.run.text import event_sentence
from ktui.quantities import as_count

_KINDS = (NoticeKind.STALL, NoticeKind.FAILURE, NoticeKind.OUTAGE, NoticeKind.END)
_LONGEST = 200


class Alerts:
    """Rings the bell and shows a notification for a stall, a failure, a death or an end.

    Args:
        bell: rings the bell of the terminal.
        write: writes an escape sequence to the terminal.
        on: whether the operator wants any of it.
        on_death: called when the engine of the followed run has died; None for nothing.
    """

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

    def take(self, run: Run, entries: Iterable[JournalEntry], *, owned: bool) -> None:
        """Take new entries of the run's journal, and whether an engine owns it now."""
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
        """Take how many partitions are stalled on a cluster whose runs the view does not follow."""
        if count > self._stalled:
            self._alert(f"{as_count(count, 'partition')} stalled")
        self._stalled = count

    def _alert(self, words: str) -> None:
        if self._on:
            self._bell()
            self._write(f"\x1b]9;ktui: {clean(words)[:_LONGEST]}\x07")


def _is_over(notice: Notice) -> bool:
    """Whether a notice says that the cluster answers again."""
    last = notice.entries[-1].event
    return isinstance(last, Outage) and not last.lost


def _words(notice: Notice) -> str:
    first, *others = notice.entries
    more = f"; and {len(others):,} more" if others else ""
    return f"{event_sentence(first.event)}{more}"
