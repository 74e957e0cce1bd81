"""A bar of what stays, what comes and what goes: before and after at one glance."""

from __future__ import annotations

from ktui.tui.draw.cells import Piece

_STAYS, _COMES, _GOES, _NOTHING = "█", "▓", "░", "·"
_ROLES = ("header", "moving", "retiring")


def change_bar(stays: int, comes: int, goes: int, whole: int, cells: int) -> list[Piece]:
    """Draw parts of a whole: `████▓▓░···`.

    The part that stays and the one that comes are what there will be afterwards; the part that
    stays and the one that goes are what there is now. No part above zero is left out.

    Args:
        stays: what is there before and after.
        comes: what is there only after.
        goes: what is there only before.
        whole: the value of a full bar.
        cells: the cells of the bar, at least three.
    """
    parts = (max(0, stays), max(0, comes), max(0, goes))
    lengths = _lengths(parts, max(whole, sum(parts)), cells)
    signs = zip((_STAYS, _COMES, _GOES), _ROLES, lengths, strict=True)
    pieces = [Piece(sign * length, role) for sign, role, length in signs if length]
    rest = cells - sum(lengths)
    return [*pieces, Piece(_NOTHING * rest, "rule")] if rest else pieces


def change_legend() -> list[Piece]:
    """Return the meaning of the signs of a bar."""
    words = zip((_STAYS, _COMES, _GOES), _ROLES, ("stays", "comes", "goes"), strict=True)
    pieces = [part for sign, role, word in words for part in _meaning(sign, role, word)]
    return pieces[:-1]


def _meaning(sign: str, role: str, word: str) -> list[Piece]:
    return [Piece(sign * 2, role), Piece(f" {word}", "dim"), Piece("   ")]


def _lengths(parts: tuple[int, ...], whole: int, cells: int) -> list[int]:
    if whole <= 0:
        return [0] * len(parts)
    ends = [round(sum(parts[: end + 1]) * cells / whole) for end in range(len(parts))]
    starts = [0, *ends[:-1]]
    lengths = [
        max(end - start, int(part > 0))
        for start, end, part in zip(starts, ends, parts, strict=True)
    ]
    while sum(lengths) > cells:
        longest = lengths.index(max(lengths))
        lengths[longest] -= 1
    return lengths
