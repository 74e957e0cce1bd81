"""The lines of a plan's preview: its figures, its findings, and what changes."""

from __future__ import annotations

import enum
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ktui.planning.check.findings import LOW, Finding, FindingKind, Severity
from ktui.planning.intents.layout import UNKNOWN_BYTES, BeforeAfter, BrokerBeforeAfter, Holding
from ktui.preview import text
from ktui.preview.preview import BrokerPreview, PlanPreview, sizes_phrase
from ktui.quantities import as_bytes, as_count
from ktui.tui.draw.bars import change_bar, change_legend
from ktui.tui.draw.cells import Piece, pieces_width


class PlanStep(NamedTuple):
    """One step."""

    name: str
    first_field: str


PLAN, LIMITS, THROTTLE, CHECK = "plan", "limits", "throttle", "check"
"""The steps that findings belong to."""
_STEP_OF_KIND = {
    FindingKind.NEVER_FITS: LIMITS,
    FindingKind.NEVER_ENDS: THROTTLE,
    FindingKind.SLOWER_THAN_A_FETCH: THROTTLE,
    FindingKind.INBOUND_UNKNOWN: THROTTLE,
    FindingKind.LEADERS_THROTTLED: THROTTLE,
    FindingKind.LIST_TOO_LONG: THROTTLE,
    FindingKind.THROTTLE_REPLACED: THROTTLE,
    FindingKind.OTHERS_THROTTLED: THROTTLE,
    FindingKind.ONE_THROTTLE: THROTTLE,
    FindingKind.THROTTLE_NOT_PERMITTED: THROTTLE,
    FindingKind.CANARY_REFUSED: THROTTLE,
}


def step_of(finding: Finding) -> str:
    """Return the step in which a finding can be mended.

    A problem that nothing allows is mended in the plan's file. All others are read in the check.
    """
    mended = finding.severity is not Severity.PROBLEM or finding.option is not None
    return _STEP_OF_KIND.get(finding.kind, CHECK if mended else PLAN)


def findings_of(step: str, findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that belong to a step."""
    return [finding for finding in findings if step_of(finding) == step]


def worst_of(step: str, findings: Sequence[Finding]) -> Severity | None:
    """Return the worst severity of a step's findings; None without a problem or a warning."""
    found = {finding.severity for finding in findings_of(step, findings)}
    return next((each for each in (Severity.PROBLEM, Severity.WARNING) if each in found), None)


Line = list[Piece]

_MOST_BAR, _LEAST_BAR = 24, 3
_GAP = Piece("  ")
_ARROW = Piece(" → ", "dim")
_NO_ARROW = "   "


def change_lines(change: BeforeAfter, width: int, rows: int) -> Iterator[Line]:
    """Draw a heading and a line for each broker; if not all fit, for those that change most."""
    shown = _most_changed(change.brokers, rows)
    if not shown:
        return
    ids = max(len("broker"), *(len(str(each.broker)) for each in shown))
    columns = [
        _column("bytes", shown, lambda each: each.bytes, as_bytes),
        _column("replicas", shown, lambda each: each.replicas, _number),
        _column("leaders", shown, lambda each: each.leaders, _number),
    ]
    figures = sum(2 + sum(map(len, (piece.text for piece in column[0]))) for column in columns)
    bar = min(_MOST_BAR, max(_LEAST_BAR, width - ids - figures - 2))
    most = max(max(each.before.bytes, each.after.bytes) for each in change.brokers)
    yield [
        Piece(f"{'broker':<{ids}}", "header"),
        _GAP,
        Piece(" " * bar),
        *(part for column in columns for part in (_GAP, *column[0])),
    ]
    for place, each in enumerate(shown, 1):
        now, then = each.before.bytes, each.after.bytes
        yield [
            Piece(f"{each.broker:<{ids}}", bold=each.before != each.after),
            _GAP,
            *change_bar(min(now, then), max(0, then - now), max(0, now - then), most, bar),
            *(part for column in columns for part in (_GAP, *column[place])),
        ]
    yield from _rest(change.brokers, shown)
    if change.sizes_unknown:
        unknown = sizes_phrase(change.sizes_unknown)
        yield [Piece(f"{unknown} not known: each counts as {as_bytes(UNKNOWN_BYTES)}", "dim")]
    yield change_legend()


def _most_changed(brokers: Sequence[BrokerBeforeAfter], rows: int) -> Sequence[BrokerBeforeAfter]:
    if len(brokers) <= rows:
        return brokers
    return sorted(brokers, key=_change)[:rows]


def _change(each: BrokerBeforeAfter) -> tuple[int, int, int, int]:
    before, after = each.before, each.after
    return (
        -abs(after.bytes - before.bytes),
        -abs(after.replicas - before.replicas),
        -abs(after.leaders - before.leaders),
        each.broker,
    )


def _rest(
    brokers: Sequence[BrokerBeforeAfter], shown: Sequence[BrokerBeforeAfter]
) -> Iterator[Line]:
    if len(shown) == len(brokers):
        return
    changed = sum(each.before != each.after for each in brokers)
    less = changed - sum(each.before != each.after for each in shown)
    same = len(brokers) - len(shown) - less
    parts = [
        (less, "changes less" if less == 1 else "change less"),
        (same, "does not change" if same == 1 else "do not change"),
    ]
    words = " and ".join(f"{count:,} more that {what}" for count, what in parts if count)
    yield [Piece(f"and {words}", "dim")]


def _column(
    name: str,
    shown: Sequence[BrokerBeforeAfter],
    figure: Callable[[Holding], int],
    text: Callable[[int], str],
) -> list[Line]:
    now = [text(figure(each.before)) for each in shown]
    then = [text(figure(each.after)) for each in shown]
    left, right = max(map(len, now)), max(map(len, then))
    width = max(len(name), left + len(_NO_ARROW) + right)
    lines = [[Piece(f"{name:<{width}}", "header")]]
    for before, after in zip(now, then, strict=True):
        changes = before != after
        lines.append(
            [
                Piece(f"{before:>{left}}", "" if changes else "dim"),
                _ARROW if changes else Piece(_NO_ARROW, "dim"),
                Piece(f"{after if changes else '':<{width - left - len(_NO_ARROW)}}", bold=True),
            ]
        )
    return lines


def _number(count: int) -> str:
    return f"{count:,}"


_MOST_BROKERS = 40  # with more brokers than this, those that do not change are left out
_SIDE_BY_SIDE = 128  # the width in cells from which counts and disks share a line
_FIRST_FINDINGS, _LINES_OF_FINDING = 2, 2
_ROLES = {Severity.PROBLEM: "stalled", Severity.WARNING: "falling-behind", Severity.NOTE: "dim"}
_TIME_INDENT = len("time  ")
_SIZE = len("999 GiB")
_SIGNED = _SIZE + 1
_NOT_KNOWN = "size not known"


class PreviewSection(enum.Enum):
    """A part of the preview."""

    FINDINGS = enum.auto()
    """How many there are, and the first ones that the open step does not show."""
    TIME = enum.auto()
    BROKERS = enum.auto()
    SHAPES = enum.auto()
    FIGURES = enum.auto()


EVERYTHING = tuple(PreviewSection)


def preview_lines(
    preview: PlanPreview,
    sections: Sequence[PreviewSection],
    width: int,
    change: BeforeAfter | None = None,
    rows: int = _MOST_BROKERS,
    step: str = "",
) -> list[Line]:
    """Draw sections of a preview, with an empty line between them, for the open step."""
    drawn = [
        list(_findings(preview, width, step))
        if section is PreviewSection.FINDINGS
        else list(_section(preview, section, width, change, rows))
        for section in sections
    ]
    return [line for lines in drawn if lines for line in ([], *lines)][1:]


def _section(
    preview: PlanPreview, section: PreviewSection, width: int, change: BeforeAfter | None, rows: int
) -> Iterator[Line]:
    if section is PreviewSection.BROKERS:
        if change is None:
            yield from _brokers(preview, width)
        else:
            yield from change_lines(change, width, rows)
            yield from _disks_of(preview, width, rows)
    elif section is PreviewSection.FIGURES:
        yield from ([Piece(line)] for line in text.figures(preview))
    elif section is PreviewSection.SHAPES:
        for line in text.shape_lines(preview) if preview.moves else ():
            yield from ([Piece(part)] for part in _fitted(line, width))
    elif preview.moves:
        indent = " " * _TIME_INDENT
        for line in (f"time  {text.time_text(preview)}", *text.throttle_lines(preview)):
            wrapped = textwrap.wrap(line, width, subsequent_indent=indent, drop_whitespace=True)
            yield from ([Piece(part)] for part in wrapped)


def _fitted(line: str, width: int) -> list[str]:
    """Wrap a sentence; the lines of a table keep their blanks."""
    return [line] if len(line) <= width else textwrap.wrap(line, width)


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
            yield [name, *count, Piece(" " * (room - pieces_width(count))), *disk]
    else:
        for name, count in zip(_names(shown, ids), _counts(shown, width - ids), strict=True):
            yield [name, *count]
        if changed:
            yield from _disk_lines(changed, width, ids)
    if (more := len(preview.brokers) - len(shown)) > 0:
        yield [Piece(f"and {more:,} more that do not change", "dim")]
    yield change_legend()


def _disks_of(preview: PlanPreview, width: int, rows: int) -> Iterator[Line]:
    changed = [each for each in preview.brokers if each.copies]
    if not changed:
        return
    most = sorted(changed, key=lambda each: -(each.bytes_in or 0) - (each.bytes_out or 0))[:rows]
    shown = sorted(most, key=lambda each: each.broker)
    ids = max(len("broker"), *(len(str(each.broker)) for each in shown))
    yield from _disk_lines(shown, width, ids)
    if more := len(changed) - len(shown):
        yield [Piece(f"and {more:,} more that copy less", "dim")]


def _disk_lines(shares: Sequence[BrokerPreview], width: int, ids: int) -> Iterator[Line]:
    yield []
    for name, disk in zip(_names(shares, ids), _disks(shares, width - ids), strict=True):
        yield [name, *disk]


def _shown(shares: Sequence[BrokerPreview]) -> Sequence[BrokerPreview]:
    if len(shares) <= _MOST_BROKERS:
        return shares
    return [share for share in shares if share.changes]


def _names(shares: Sequence[BrokerPreview], width: int) -> Iterator[Piece]:
    yield Piece(f"{'broker':<{width}}", "header")
    for share in shares:
        yield Piece(f"{share.broker:<{width}}", bold=share.changes)


def _counts(shares: Sequence[BrokerPreview], width: int) -> Iterator[Line]:
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
    return min(_MOST_BAR, max(_LEAST_BAR, spare))


def _disks(brokers: Sequence[BrokerPreview], width: int) -> Iterator[Line]:
    """A broker that copies nothing has no line."""
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
        Piece(f"  {(sign if count else '') + as_bytes(count):>{_SIGNED}}", "" if count else "dim")
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


def _room(room: int | None, disk: int | None) -> Line:
    words = text.room_text(room)
    if room is not None and room <= 0:
        return [Piece(f"{words}!", "stalled", bold=True)]
    if room is not None and disk is not None and room < LOW * disk:
        return [Piece(f"{words}!", "falling-behind")]
    return [Piece(words)]
