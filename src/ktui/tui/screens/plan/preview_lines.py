"""What a plan does to each broker, drawn before and after; and what its run costs."""

from __future__ import annotations

import enum
import textwrap
from collections.abc import Iterator, Sequence

from ktui.planning.check.disks import LOW
from ktui.planning.check.findings import Severity
from ktui.planning.intents.before_after import BeforeAfter
from ktui.preview import text
from ktui.preview.preview import BrokerPreview, PlanPreview
from ktui.quantities import as_bytes, as_count
from ktui.tui.draw.cells import Piece, pieces_width
from ktui.tui.draw.change_bar import change_bar, change_legend
from ktui.tui.screens.plan.change_lines import Line, change_lines
from ktui.tui.screens.plan.steps import step_of

_MOST_BROKERS = 40
"""With more brokers than this, those that do not change are left out."""
_SIDE_BY_SIDE = 128
"""The width in cells from which counts and disks share a line."""
_BAR, _LEAST_BAR = 24, 3
_FIRST_FINDINGS, _LINES_OF_FINDING = 2, 2
_ROLES = {Severity.PROBLEM: "stalled", Severity.WARNING: "falling-behind", Severity.NOTE: "dim"}
_TIME_INDENT = len("time  ")
_GAP = Piece("  ")
_ARROW = Piece(" → ", "dim")
_SIZE = len("999 GiB")
_SIGNED = _SIZE + 1
_NOT_KNOWN = "size not known"


class Section(enum.Enum):
    """A part of the preview."""

    FINDINGS = enum.auto()
    """How many there are, and the first ones that the open step does not show."""
    TIME = enum.auto()
    BROKERS = enum.auto()
    """Replicas, leaders and disks, a line per broker."""
    SHAPES = enum.auto()
    FIGURES = enum.auto()


EVERYTHING = (Section.FINDINGS, Section.TIME, Section.BROKERS, Section.SHAPES, Section.FIGURES)


def preview_lines(
    preview: PlanPreview,
    sections: Sequence[Section],
    width: int,
    change: BeforeAfter | None = None,
    rows: int = _MOST_BROKERS,
    step: str = "",
) -> list[Line]:
    """Draw sections of a preview, with an empty line between them.

    Args:
        preview: the preview.
        sections: the sections.
        width: the width in cells.
        change: what brokers have before and after; shown in place of their replicas, if given.
        rows: how many brokers fit, of those.
        step: the open step, which shows its own findings.
    """
    drawn = [
        list(_findings(preview, width, step))
        if section is Section.FINDINGS
        else list(_section(preview, section, width, change, rows))
        for section in sections
    ]
    return [line for lines in drawn if lines for line in ([], *lines)][1:]


def _section(
    preview: PlanPreview, section: Section, width: int, change: BeforeAfter | None, rows: int
) -> Iterator[Line]:
    if section is Section.BROKERS:
        if change is None:
            yield from _brokers(preview, width)
        else:
            yield from change_lines(change, width, rows)
            yield from _disks_of(preview, width, rows)
    elif section is Section.FIGURES:
        yield from ([Piece(line)] for line in text.figures(preview))
    elif section is Section.SHAPES:
        yield from ([Piece(line)] for line in text.shape_lines(preview) if preview.moves)
    elif preview.moves:
        indent = " " * _TIME_INDENT
        for line in (f"time  {text.time_text(preview)}", *text.throttle_lines(preview)):
            wrapped = textwrap.wrap(line, width, subsequent_indent=indent, drop_whitespace=True)
            yield from ([Piece(part)] for part in wrapped)


def _findings(preview: PlanPreview, width: int, step: str) -> Iterator[Line]:
    if not preview.findings:
        return
    found = {severity: len(preview.of(severity)) for severity in Severity}
    counts = ", ".join(as_count(n, severity.value) for severity, n in found.items() if n)
    yield [
        Piece(counts, _ROLES[preview.findings[0].severity], bold=True),
        Piece("  ^g shows all", "dim"),
    ]
    elsewhere = [each for each in preview.findings if step_of(each) != step]
    for each in elsewhere[:_FIRST_FINDINGS]:
        words = text.finding_text(each)
        lines = textwrap.wrap(words, width, max_lines=_LINES_OF_FINDING, placeholder=" …")
        yield from ([Piece(line, _ROLES[each.severity])] for line in lines)


def _brokers(preview: PlanPreview, width: int) -> Iterator[Line]:
    shown = _shown(preview.brokers)
    if not shown:
        return
    ids = max(len("broker"), *(len(str(each.broker)) for each in shown))
    changed = [each for each in shown if each.copies]
    if width >= _SIDE_BY_SIDE:
        counts = list(_counts(shown, width // 2 - ids))
        room = max(map(pieces_width, counts)) + 2
        disks = _disks(shown, width - ids - room)
        for name, count, disk in zip(_names(shown, ids), counts, disks, strict=True):
            yield [name, *_padded(count, room), *disk]
    else:
        for name, count in zip(_names(shown, ids), _counts(shown, width - ids), strict=True):
            yield [name, *count]
        if changed:
            yield []
            disks = _disks(changed, width - ids)
            for name, disk in zip(_names(changed, ids), disks, strict=True):
                yield [name, *disk]
    if (more := len(preview.brokers) - len(shown)) > 0:
        yield [Piece(f"and {more:,} more that do not change", "dim")]
    yield change_legend()


def _disks_of(preview: PlanPreview, width: int, rows: int) -> Iterator[Line]:
    """Draw the disks of brokers below what they have before and after."""
    changed = [each for each in preview.brokers if each.copies]
    if not changed:
        return
    most = sorted(changed, key=lambda each: -_copied(each))[:rows]
    shown = sorted(most, key=lambda each: each.broker)
    ids = max(len("broker"), *(len(str(each.broker)) for each in shown))
    yield []
    disks = _disks(shown, width - ids)
    for name, disk in zip(_names(shown, ids), disks, strict=True):
        yield [name, *disk]
    if more := len(changed) - len(shown):
        yield [Piece(f"and {more:,} more that copy less", "dim")]


def _copied(load: BrokerPreview) -> int:
    return (load.bytes_in or 0) + (load.bytes_out or 0)


def _shown(shares: Sequence[BrokerPreview]) -> Sequence[BrokerPreview]:
    if len(shares) <= _MOST_BROKERS:
        return shares
    return [share for share in shares if share.changes]


def _names(shares: Sequence[BrokerPreview], width: int) -> Iterator[Piece]:
    yield Piece(f"{'broker':<{width}}", "header")
    for share in shares:
        yield Piece(f"{share.broker:<{width}}", bold=share.changes)


# ------------------------------------------------------------------------ replicas and leaders


def _counts(shares: Sequence[BrokerPreview], width: int) -> Iterator[Line]:
    """Draw the replicas and the leaders of brokers, after a heading."""
    most = max((share.replicas + share.gains for share in shares), default=0)
    replicas = max(len("now"), *(len(f"{each.replicas:,}") for each in shares))
    after = max(len("after"), *(len(f"{each.replicas_after:,}") for each in shares))
    moves = max(len("+/-"), *(len(_moves(each)) for each in shares))
    leaders = [_leaders(each) for each in shares]
    led = max(len("leaders"), *map(pieces_width, leaders))
    bar = _bar_cells(width - replicas - after - 3 - moves - led - 8)
    heading = f"{'replicas':<{bar}}  {'now':>{replicas}}   {'after':<{after}}  {'+/-':<{moves}}"
    yield [_GAP, Piece(f"{heading}  leaders", "header")]
    for share, leading in zip(shares, leaders, strict=True):
        stays = share.replicas - share.loses
        moved = bool(share.gains or share.loses)
        then = f"{share.replicas_after:<{after},}" if moved else " " * after
        yield [
            _GAP,
            *change_bar(stays, share.gains, share.loses, most, bar),
            Piece(f"  {share.replicas:>{replicas},}", "" if moved else "dim"),
            _ARROW if moved else Piece("   "),
            Piece(then, bold=True),
            Piece(f"  {_moves(share):<{moves}}  ", "dim"),
            *leading,
        ]


def _moves(share: BrokerPreview) -> str:
    signed = (
        f"{sign}{count:,}" for sign, count in (("+", share.gains), ("-", share.loses)) if count
    )
    return " ".join(signed)


def _leaders(share: BrokerPreview) -> Line:
    if share.leaders == share.leaders_after:
        return [Piece(f"{share.leaders:,}", "dim")]
    return [Piece(f"{share.leaders:,}"), _ARROW, Piece(f"{share.leaders_after:,}", bold=True)]


def _bar_cells(spare: int) -> int:
    return min(_BAR, max(_LEAST_BAR, spare))


# ------------------------------------------------------------------------------------- disks


def _disks(brokers: Sequence[BrokerPreview], width: int) -> Iterator[Line]:
    """Draw the disks of brokers, after a heading. A broker that copies nothing has no line."""
    bar = _bar_cells(width - 4 * (_SIGNED + 2) - _SIZE - 7)
    heading = f"{'disk':<{bar}}  {'in':>{_SIGNED}}  {'out':>{_SIGNED}}  {'room now':>{_SIZE + 1}}"
    yield [_GAP, Piece(f"{heading}  {'after':<{_SIGNED}}  at peak", "header")]
    for each in brokers:
        yield [_GAP, *_disk(each, bar)] if each.copies else []


def _disk(load: BrokerPreview, bar: int) -> Line:
    room = f"  {as_bytes(load.room_bytes):>{_SIZE}}"
    if load.bytes_in is None or load.bytes_out is None:
        sizes = Piece(f"  {_NOT_KNOWN:>{2 * _SIGNED + 2}}", "falling-behind")
        return [Piece(" " * bar), sizes, Piece(room), _ARROW, Piece(_NOT_KNOWN, "falling-behind")]
    copied = [
        Piece(f"  {_signed(sign, count):>{_SIGNED}}", "" if count else "dim")
        for sign, count in (("+", load.bytes_in), ("-", load.bytes_out))
    ]
    if load.room_after_bytes is None:
        return [Piece(" " * bar), *copied, Piece("  room not known", "falling-behind")]
    after = _room(load.room_after_bytes, load.disk_bytes)
    peak = _room(load.room_at_peak_bytes, load.disk_bytes)
    spare = Piece(" " * max(0, _SIGNED - pieces_width(after)))
    return [*_disk_bar(load, bar), *copied, Piece(room), _ARROW, *after, spare, _GAP, *peak]


def _disk_bar(load: BrokerPreview, bar: int) -> Line:
    disk, room = load.disk_bytes, load.room_bytes
    if disk is None or room is None or load.bytes_in is None or load.bytes_out is None:
        return [Piece(" " * bar)]
    goes = min(load.bytes_out, disk - room)
    return change_bar(disk - room - goes, load.bytes_in, goes, disk, bar)


def _signed(sign: str, count: int) -> str:
    return f"{sign}{as_bytes(count)}" if count else as_bytes(count)


def _room(room: int | None, disk: int | None) -> Line:
    """Draw a room with a sign where it is low, or less than nothing."""
    words = text.room_text(room)
    if room is not None and room <= 0:
        return [Piece(f"{words}!", "stalled", bold=True)]
    if room is not None and disk is not None and room < LOW * disk:
        return [Piece(f"{words}!", "falling-behind")]
    return [Piece(words)]


def _padded(line: Line, width: int) -> Line:
    return [*line, Piece(" " * max(0, width - pieces_width(line)))]
