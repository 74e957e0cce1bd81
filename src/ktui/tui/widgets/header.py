"""The header of every screen: the cluster and its state, and on the list the sums of all moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec
from textual.content import Content
from textual.widget import Widget

from ktui.execution.host.catalog import RunState
from ktui.execution.run.states import State
from ktui.progress.summary import Totals
from ktui.speed.answer import Span
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece, cut_pieces, faded, pieces_width
from ktui.tui.draw.paint import content
from ktui.tui.run_view.attached import RunStatus
from ktui.tui.widgets.bindings import key_names
from ktui.tui.widgets.lines import DrawnLines
from ktui.tui.widgets.services import Status, services
from ktui.tui.widgets.trouble import fit_troubles, troubles

_OTHER_ENDS = frozenset(
    {State.FAILED, State.STOPPED, State.ROLLED_BACK, State.CHANGED_ELSEWHERE, State.TOPIC_GONE}
)
_OLD_POLLS = 3  # values are old after so many intervals, or polls if those take longer
_SHORT_NAME = 20  # the cells of a name in a line that is too long
_UNLIMITED = 10_000
_FAR_S = 366 * 86_400  # a longer time left is shown as this one, because dates have a maximum


WidgetT = TypeVar("WidgetT", bound=Widget)


def line_under(header: StatusHeader, kind: type[WidgetT]) -> WidgetT:
    """Return the widget of a kind under a screen's header, mounted first where it is missing."""
    found = header.screen.query(kind)
    if found:
        return found.first()
    line = kind()
    header.parent.mount(line, after=header)  # type: ignore[union-attr]  # it is on the screen
    return line


class HeaderPart(msgspec.Struct, frozen=True):
    """Words of a line that stand together; the higher the rank, the sooner they are left out."""

    pieces: tuple[Piece, ...]
    rank: int = 0
    gap: int = 2
    name: bool = False
    """Whether its last words are a name, which is cut before any other part is left out."""


class StatusHeader(DrawnLines):
    """Draws the status of the cluster, and what is wrong.

    The second line shows trouble, and with sums also what moves and the run that has ended. Without
    sums there is such a line only while something is wrong.
    """

    DEFAULT_CSS = """
    StatusHeader { height: 1; background: $background; }
    StatusHeader.-two-lines { height: 2; }
    """

    def __init__(self, *, with_sums: bool = False) -> None:
        super().__init__(classes="-two-lines" if with_sums else None)
        self._with_sums = with_sums
        self._status: Status | None = None
        self._updated = False

    def on_mount(self) -> None:
        self.set_interval(1.0, self._tick)
        self.update_status()

    def _tick(self) -> None:
        """Let the clock go on, unless a poll has just done so: a frame each would be two."""
        if not self._updated:
            self.update_status()
        self._updated = False

    def update_status(self) -> None:
        self._updated = True
        status = services(self).cluster_status()
        if status != self._status:
            self._status = status
            wrong = status is not None and bool(troubles(status))
            self.set_class(self._with_sums or wrong, "-two-lines")
            self.redraw()

    def lines(self, width: int) -> list[Content]:
        status = self._status
        if status is None:
            return []
        two = self.has_class("-two-lines")
        keys = key_names(self.screen) if two or status.cancel_gate else {}
        first = content(
            line(
                [
                    *_who(status, services(self).trail_to(self.screen), keys.get("open_gate", "")),
                    *_cluster(status),
                ],
                _clock(status.now, width),
                width,
            )
        )
        if not two:
            return [first]
        second = _second(status, width, keys, with_sums=self._with_sums)
        return Content("\n").join([first, content(second)]).split()


def line(parts: Sequence[HeaderPart], right: HeaderPart, width: int) -> list[Piece]:
    """Fit parts into a line: long names are cut, then parts left out, the highest rank first."""
    room = width - 3 - pieces_width(right.pieces)
    kept = list(parts)
    if _width(kept) > room:
        kept = [_with_short_name(each) if each.name else each for each in kept]
    least = 0 if right.pieces else 1
    while len(kept) > least and _width(kept) > room and max(part.rank for part in kept) > 0:
        kept.remove(max(reversed(kept), key=lambda part: part.rank))
    pieces = [piece for part in kept for piece in (Piece(" " * part.gap), *part.pieces)][1:]
    gap = Piece(" " if right.pieces and _width(kept) > room else "")
    return [Piece("  "), *cut_pieces(pieces, room - len(gap.text)), gap, *right.pieces, Piece(" ")]


def _with_short_name(part: HeaderPart) -> HeaderPart:
    *before, name = part.pieces
    short = cut_pieces([name], min(_SHORT_NAME, pieces_width([name])))
    return msgspec.structs.replace(part, pieces=(*before, *short))


def _width(parts: Sequence[HeaderPart]) -> int:
    return sum(pieces_width(part.pieces) + part.gap for part in parts)


def part(
    text: str, role: str = "", *, label: str = "", rank: int = 0, bold: bool = False, gap: int = 2
) -> HeaderPart:
    """Return a text as a part, behind a label if it has one."""
    before = (Piece(f"{label} ", "dim"),) if label else ()
    return HeaderPart((*before, Piece(text, role, bold)), rank, gap)


def _clock(now: datetime, width: int) -> HeaderPart:
    pieces = [Piece(figures.as_time(now), bold=True)]
    if width >= 100:  # noqa: PLR2004 - the width from which on there is room for the offset
        pieces.append(Piece(f" {figures.as_offset(now)}", "dim"))
    return HeaderPart(tuple(pieces))


def _who(status: Status, trail: Sequence[str], key: str) -> list[HeaderPart]:
    name = HeaderPart((Piece(status.cluster_name, bold=True),), name=True)
    sign = Piece("› ", "dim")  # noqa: RUF001 - the usual sign of a trail
    way = (HeaderPart((sign, Piece(each, "header")), rank=4, gap=1) for each in trail)
    parts = [part("ktui", "moving", rank=2, bold=True), name, *way]
    if status.badge:
        parts.append(part(f" {status.badge} ", "badge"))
    elif not status.read_only:
        parts.append(part(" WRITE ", "badge"))
    else:
        parts.append(part(" READ-ONLY ", "badge", rank=0 if status.outage is None else 1))
    if status.tls_unverified:
        parts.append(part("TLS unverified", "stalled", bold=True))
    if status.recorded is not None:
        words, role = ("REC", "moving") if status.recorded else ("REC STOPPED", "stalled")
        parts.append(part(words, role, bold=True))
    if status.cancel_gate:
        parts.append(part("ONLY ROLLBACKS GO ON", "stalled", bold=True))
        parts.append(part(f"cancelled {status.cancel_gate}", "stalled", rank=1))
        if key:
            pieces = Piece(key, "moving", bold=True), Piece(" allows moves", "dim")
            parts.append(HeaderPart(pieces, rank=1))
    return parts


def _cluster(status: Status) -> list[HeaderPart]:
    """Show brokers and polls, but no controller: in KRaft mode any broker is named as one."""
    last = status.last
    if last is None:
        return []
    poll = HeaderPart(
        (
            Piece("poll ", "dim"),
            Piece(f"{status.interval_s:.1f} s"),
            Piece(f" ({figures.as_took(last.took_s)})", "dim"),
        ),
        rank=1,
    )
    known = status.overview.brokers
    up = known - len(status.overview.down)  # which are down stands among the troubles
    parts = [part(f"{up}/{known} brokers"), poll]
    if status.outage is not None:
        return [HeaderPart(tuple(faded(part.pieces)), part.rank) for part in parts]
    age_s, patience_s = status.now_s - last.monotonic_s, max(status.interval_s, last.took_s)
    if age_s < _OLD_POLLS * patience_s:
        return parts
    return [parts[0], part(f"values {figures.as_age(age_s)} old", "stalled")]


def _second(status: Status, width: int, keys: Mapping[str, str], *, with_sums: bool) -> list[Piece]:
    wrong = troubles(status)
    key, beside = keys.get("show_runs", ""), bool(status.others)
    chip = _chip(status.run, key, beside=beside) if with_sums else HeaderPart(())
    room = width - 3 - pieces_width(chip.pieces)
    if wrong and chip.pieces and pieces_width(fit_troubles(wrong, _UNLIMITED, keys)) >= room:
        chip = _chip(status.run, key, beside=beside, short=True)
        room = width - 3 - pieces_width(chip.pieces)
    shown = HeaderPart(tuple(fit_troubles(wrong, room, keys)))
    parts = [shown] if wrong else []
    if with_sums and status.outage is None:
        standing = _standing(status, wrong=bool(wrong))
        parts += [msgspec.structs.replace(part, rank=part.rank + 1) for part in standing]
    return line(parts, chip, width)


def _chip(
    run: RunStatus | None, key: str, *, beside: bool = False, short: bool = False
) -> HeaderPart:
    """Show a run that has ended, small: it must not hide what goes on without it."""
    if run is None or run.state is not RunState.ENDED:
        return HeaderPart(())
    done = run.counts.get(State.DONE, 0)
    sign, role = ("✓", "in-sync") if done == run.partitions else ("■", "cancelled")
    role = "dim" if beside else role  # green is for what needs no eye
    time = "" if run.ended_at is None else f" {figures.as_time(run.ended_at)[:5]}"
    counts = [f"done {done:,}/{run.partitions:,}"]
    ends = {**run.counts, State.STOPPED: run.stopped}
    counts += [
        f"{n:,} {state.value.replace('_', ' ')}"
        for state, n in ends.items()
        if n and state in _OTHER_ENDS
    ]
    if run.not_started:
        counts.append(f"{run.not_started:,} not started")
    shown = Piece(f" ({key})" if key else "", "dim")
    if short:
        [name] = cut_pieces([Piece(run.name)], min(_SHORT_NAME, pieces_width([Piece(run.name)])))
        return HeaderPart((Piece(f"{sign} {name.text} ENDED{time}", role, bold=True), shown))
    words = Piece(f"{sign} {run.name} ENDED{time and f' at{time}'}", role, bold=True)
    return HeaderPart((words, Piece(f" {', '.join(counts)}"), shown))


def _standing(status: Status, *, wrong: bool) -> list[HeaderPart]:
    if status.last is None:
        return [part(status.until_seen or f"connecting to {status.cluster_name} …", "waiting")]
    health = status.overview.health
    healthy = health.counted_at is not None and not health.unhealthy  # else it is trouble
    parts = [part("0 under-replicated", "in-sync", rank=5)] if healthy else []
    if status.run is not None and status.run.state is not RunState.ENDED:
        parts += [part(words, "foreign", rank=1) for words in _beside(status)]
        return parts if parts or wrong else [part("no trouble seen", "dim", rank=6)]
    sums = status.overview.totals
    if sums.moving or sums.stalled or sums.settling:
        of_runs = [part(words, "foreign", rank=2) for words in _of_runs(status)]
        return [*_sums(status), *of_runs, *parts]
    ended = _ended(sums) if status.run is None else ""  # else the run says so
    lately = f" · {ended} lately" if ended else ""
    return [*parts, part(f"nothing is moving{lately}", "dim")]


def _of_runs(status: Status) -> Iterator[str]:
    named = {each.name for each in status.others}  # the line of other runs has these
    for run, count in sorted(status.foreign_of_runs.items()):
        if run not in named:
            yield f"{figures.as_count(count, 'move')} of run {run}"


def _beside(status: Status) -> Iterator[str]:
    yield from _of_runs(status)
    if others := status.foreign - sum(status.foreign_of_runs.values()):
        yield figures.as_count(others, "foreign move")


def _ended(sums: Totals) -> str:
    counts = (
        (sums.done, "done"), (sums.cancelled, "cancelled"),
        (sums.changed_elsewhere, "changed elsewhere"), (sums.topic_gone, "topic gone"),
    )  # fmt: skip
    return ", ".join(f"{n:,} {word}" for n, word in counts if n)


def _sums(status: Status) -> Iterator[HeaderPart]:
    sums = status.overview.totals
    if moving := sums.moving - sums.held_up:
        yield part(f"{moving:,} moving", "moving", bold=True)
    if sums.falling_behind:
        yield part(f"{sums.falling_behind:,} falling behind", "falling-behind")
    if sums.settling:
        yield part(f"{sums.settling:,} settling", "waiting", rank=4)
    if status.run is None and (ended := _ended(sums)):  # else the run says so
        yield part(ended, "dim", rank=4)
    if sums.share is not None:
        yield part(f"{figures.as_share(sums.share)} caught up", rank=3)
    if sums.bytes_left is not None:
        yield part(f"{figures.as_bytes(sums.bytes_left)} left", rank=1)
    if (rate := figures.as_copying(sums.bytes_s)) != figures.UNKNOWN:
        yield part(rate, rank=2)
    yield _eta(sums.left_s, status.now)


def _eta(left: Span | None, now: datetime) -> HeaderPart:
    if left is None:
        return HeaderPart((Piece("ETA ", "dim"), Piece("unknown")), 5)
    low, middle, high = (
        figures.as_clock(now + timedelta(seconds=min(seconds, _FAR_S)), now)
        for seconds in (left.low, left.middle, left.high)
    )
    spread = f" ({low}-{high})" if low != high else ""
    return HeaderPart((Piece("ETA ", "dim"), Piece(middle), Piece(spread, "dim")))
