"""The header of every screen: the cluster and its state, and on the list the sums of all moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import msgspec
from textual.content import Content
from textual.widget import Widget

from ktui.progress.summary import Totals
from ktui.progress.timeline import Range
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece, cut_pieces, faded, pieces_width
from ktui.tui.draw.paint import content
from ktui.tui.poll.overview import Overview
from ktui.tui.widgets.services import Status, services

_NAMED = 4
"""The most brokers named as down; there is no room for more."""
_OLD_POLLS = 3
"""Values are old after so many intervals, or polls if those take longer."""
_FAR_S = 366 * 86_400
"""A longer time left is shown as this one, because dates have a maximum."""


class HeaderPart(msgspec.Struct, frozen=True):
    """Words of a line that stand together; the higher the rank, the sooner they are left out."""

    pieces: tuple[Piece, ...]
    rank: int = 0
    gap: int = 2
    """Cells between it and the part before."""


class StatusHeader(Widget):
    """Draws the status of the cluster: in one line, or in two with the sums."""

    DEFAULT_CSS = """
    StatusHeader { height: 1; background: $background; }
    StatusHeader.-with-sums { height: 2; }
    """

    def __init__(self, *, with_sums: bool = False) -> None:
        super().__init__(classes="-with-sums" if with_sums else None)
        self._with_sums = with_sums
        self._status: Status | None = None

    @property
    def with_sums(self) -> bool:
        """Whether there is a line for the sums; without it trouble is shown beside the brokers."""
        return self._with_sums

    @with_sums.setter
    def with_sums(self, shown: bool) -> None:
        self._with_sums = shown
        self.set_class(shown, "-with-sums")
        self.refresh(layout=True)

    def on_mount(self) -> None:
        """Draw the present status, and start the clock."""
        self.set_interval(1.0, self.update_status)
        self.update_status()

    def update_status(self) -> None:
        """Read the present status, and redraw if it has changed."""
        status = services(self).cluster_status()
        if status != self._status:
            self._status = status
            self.refresh()

    def render(self) -> Content:
        """Draw the lines."""
        status, width = self._status, self.size.width
        if status is None:
            return Content("")
        first = line(_first(status, with_sums=self._with_sums), _clock(status.now, width), width)
        if not self._with_sums:
            return content(first)
        second = line(_standing(status), HeaderPart(()), width)
        return Content("\n").join([content(first), content(second)])


def line(parts: Sequence[HeaderPart], right: HeaderPart, width: int) -> list[Piece]:
    """Fit parts into a line, leaving out those of the highest rank until the rest fits."""
    room = width - 3 - pieces_width(right.pieces)
    kept = list(parts)
    while len(kept) > 1 and _width(kept) > room and max(part.rank for part in kept) > 0:
        kept.remove(max(reversed(kept), key=lambda part: part.rank))
    pieces = [piece for part in kept for piece in (Piece(" " * part.gap), *part.pieces)][1:]
    gap = Piece(" " if right.pieces and _width(kept) > room else "")
    return [Piece("  "), *cut_pieces(pieces, room - len(gap.text)), gap, *right.pieces, Piece(" ")]


def _width(parts: Sequence[HeaderPart]) -> int:
    return sum(pieces_width(part.pieces) + part.gap for part in parts)


def _part(text: str, role: str = "", *, rank: int = 0, bold: bool = False) -> HeaderPart:
    return HeaderPart((Piece(text, role, bold),), rank)


def _labelled(label: str, value: str, *, rank: int = 0) -> HeaderPart:
    return HeaderPart((Piece(f"{label} ", "dim"), Piece(value)), rank)


def _clock(now: datetime, width: int) -> HeaderPart:
    pieces = [Piece(figures.as_time(now), bold=True)]
    if width >= 100:  # noqa: PLR2004 - the width from which on there is room for the offset
        pieces.append(Piece(f" {figures.as_offset(now)}", "dim"))
    return HeaderPart(tuple(pieces))


def _who(status: Status) -> list[HeaderPart]:
    parts = [_part("ktui", "moving", rank=2, bold=True), _part(status.cluster_name, bold=True)]
    if status.badge:
        parts.append(_part(f" {status.badge} ", "badge"))
    elif not status.read_only:
        parts.append(_part(" WRITE ", "badge"))
    else:
        parts.append(_part(" READ-ONLY ", "badge", rank=0 if status.outage is None else 1))
    if status.tls_unverified:
        parts.append(_part("TLS unverified", "stalled", bold=True))
    if status.recorded is not None:
        words, role = ("REC", "moving") if status.recorded else ("REC STOPPED", "stalled")
        parts.append(_part(words, role, bold=True))
    if status.cancel_gate:
        parts.append(_part("CANCEL GATE SHUT", "stalled", bold=True))
        parts.append(_part(status.cancel_gate, "stalled", rank=1))
    return parts


def _first(status: Status, *, with_sums: bool) -> list[HeaderPart]:
    """Return the first line, which shows an outage where it is the only line."""
    if not with_sums and (status.outage is not None or status.seen is None):
        return [*_who(status), *_standing(status)]
    trouble = () if with_sums else _trouble(status)
    return [*_who(status), *_cluster(status), *trouble]


def _cluster(status: Status) -> list[HeaderPart]:
    """Show brokers and polls, but no controller: in KRaft mode any broker is named as one."""
    seen = status.seen
    if seen is None:
        return []
    poll = HeaderPart(
        (
            Piece("poll ", "dim"),
            Piece(f"{status.interval_s:.1f} s"),
            Piece(f" ({figures.as_took(seen.took_s)})", "dim"),
        ),
        rank=1,
    )
    parts = [_brokers(status.overview), poll]
    if status.outage is not None:
        return [HeaderPart(tuple(faded(part.pieces)), part.rank) for part in parts]
    patience_s = _OLD_POLLS * max(status.interval_s, seen.took_s)
    return parts if status.now_s - seen.monotonic_s < patience_s else [parts[0], *_age(status)]


def _age(status: Status) -> list[HeaderPart]:
    if status.seen is None:
        return []
    age = figures.as_age(status.now_s - status.seen.monotonic_s)
    return [_part(f"values {age} old", "stalled")]


def _brokers(overview: Overview) -> HeaderPart:
    down = overview.down
    count = f"{overview.brokers - len(down)}/{overview.brokers} brokers"
    if not down:
        return _part(count)
    named = ", ".join(map(str, down[:_NAMED])) + (" …" if len(down) > _NAMED else "")
    return _part(f"{count}, {named} down", "stalled", bold=True)


def _standing(status: Status) -> list[HeaderPart]:
    if status.outage is not None:
        words = _part("! reconnecting", "stalled", bold=True)
        return [words, *_age(status), _part(status.outage.reason)]
    if status.seen is None:
        return [_part(status.until_seen or f"connecting to {status.cluster_name} …", "waiting")]
    sums = status.overview.totals
    if sums.moving or sums.stalled or sums.settling:
        return list(_sums(status))
    lately = f" · {ended} lately" if (ended := _ended(sums)) else ""
    return [_part(f"nothing is moving{lately}", "dim"), *_trouble(status)]


def _trouble(status: Status) -> Iterator[HeaderPart]:
    counts = (status.overview.offline, "OFFLINE"), (status.overview.under_min, "UNDER MIN")
    yield from (_part(f"{n:,} {word}", "stalled", bold=True) for n, word in counts if n)
    if status.left_behind:
        throttles = figures.as_count(status.left_behind, "throttle")
        yield _part(f"{throttles} left behind? ktui doctor", "falling-behind")


def _ended(sums: Totals) -> str:
    counts = (
        (sums.done, "done"), (sums.cancelled, "cancelled"),
        (sums.changed_elsewhere, "changed elsewhere"), (sums.topic_gone, "topic gone"),
    )  # fmt: skip
    return ", ".join(f"{n:,} {word}" for n, word in counts if n)


def _sums(status: Status) -> Iterator[HeaderPart]:
    sums = status.overview.totals
    yield _part(f"{sums.moving:,} moving", "moving", bold=True)
    if sums.stalled:
        yield _part(f"{sums.stalled:,} STALLED", "stalled", bold=True)
    yield from _trouble(status)
    if sums.falling_behind:
        yield _part(f"{sums.falling_behind:,} falling behind", "falling-behind")
    if sums.settling:
        yield _part(f"{sums.settling:,} settling", "waiting", rank=4)
    if ended := _ended(sums):
        yield _part(ended, "dim", rank=4)
    if sums.share is not None:
        yield _part(f"{figures.as_share(sums.share)} caught up", rank=3)
    if sums.bytes_left is not None:
        yield _part(f"{figures.as_bytes(sums.bytes_left)} left", rank=1)
    if (rate := figures.as_copying(sums.bytes_s)) != figures.UNKNOWN:
        yield _part(rate, rank=2)
    yield _eta(sums.left_s, status.now)


def _eta(left: Range | None, now: datetime) -> HeaderPart:
    """Show when all will have caught up; stalled partitions make that unknown."""
    if left is None:
        return _labelled("ETA", "unknown", rank=5)
    low, middle, high = (
        figures.as_clock(now + timedelta(seconds=min(seconds, _FAR_S)), now)
        for seconds in (left.low, left.middle, left.high)
    )
    spread = f" ({low}-{high})" if low != high else ""
    return HeaderPart((Piece("ETA ", "dim"), Piece(middle), Piece(spread, "dim")))
