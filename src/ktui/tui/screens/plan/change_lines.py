"""What every broker has before a plan and after it: bytes as a bar, and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ktui.planning.intents.before_after import BeforeAfter, BrokerBeforeAfter, Holding
from ktui.planning.intents.layout import UNKNOWN_BYTES
from ktui.preview.preview import sizes_phrase
from ktui.quantities import as_bytes
from ktui.tui.draw.cells import Piece
from ktui.tui.draw.change_bar import change_bar, change_legend

Line = list[Piece]

_MOST_BAR, _LEAST_BAR = 24, 3
_ARROW, _NO_ARROW = " → ", "   "
_GAP = Piece("  ")


def change_lines(change: BeforeAfter, width: int, rows: int) -> Iterator[Line]:
    """Draw a line for each broker, after a heading.

    Args:
        change: what all brokers have.
        width: the width in cells.
        rows: how many brokers fit; those that change most are shown then.
    """
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
    """Return all brokers by id if they fit; else those that change most, these first."""
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
    """Count the brokers that are not shown."""
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
    """Draw the figures of brokers before and after, after a heading: all of one width."""
    now = [text(figure(each.before)) for each in shown]
    then = [text(figure(each.after)) for each in shown]
    left, right = max(map(len, now)), max(map(len, then))
    width = max(len(name), left + len(_ARROW) + right)
    lines = [[Piece(f"{name:<{width}}", "header")]]
    for before, after in zip(now, then, strict=True):
        changes = before != after
        lines.append(
            [
                Piece(f"{before:>{left}}", "" if changes else "dim"),
                Piece(_ARROW if changes else _NO_ARROW, "dim"),
                Piece(f"{after if changes else '':<{width - left - len(_ARROW)}}", bold=True),
            ]
        )
    return lines


def _number(count: int) -> str:
    return f"{count:,}"
