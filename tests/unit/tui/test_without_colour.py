"""Trouble is seen first without colour, with 16 colours, and by eyes that see few colours."""

from __future__ import annotations

from itertools import combinations

import pytest
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.theme import Theme

from ktui.progress.timeline import Mark
from ktui.tui.draw.cells import SIGNS, Piece
from ktui.tui.draw.paint import ROLES, TROUBLE, GreyFilter, Paint
from ktui.tui.draw.themes import FEW_COLOURS, load_themes

THEMES = load_themes(None).themes
Eyes = tuple[tuple[float, float, float], ...]
DEUTERANOPIA: Eyes = (
    (0.367322, 0.860646, -0.227968),
    (0.280085, 0.672501, 0.047413),
    (-0.011820, 0.042940, 0.968881),
)
PROTANOPIA: Eyes = (
    (0.152286, 1.052583, -0.204868),
    (0.114503, 0.786281, 0.099216),
    (-0.003882, -0.048116, 1.051998),
)
"""What such eyes make of linear red, green and blue (Machado, Oliveira and Fernandes, 2009)."""
SEEN_APART = 12.0
"""A difference in CIE L*a*b* that nobody overlooks between two words."""
WELL_APART = 17.0


def without_colour(theme: Theme, style: Style) -> Style:
    (drawn,) = GreyFilter(lambda: theme).apply([Segment("x", style)], Color(0, 0, 0))
    assert drawn.style is not None
    return drawn.style


def brightness(style: Style) -> float:
    assert style.color is not None
    return Color.from_rich_color(style.color).brightness


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES.keys())
@pytest.mark.parametrize("role", [*TROUBLE, "error", "warning"])
def test_trouble_is_bold_and_as_plain_as_other_words_without_colour(
    theme: Theme, role: str
) -> None:
    variables = {**theme.variables, "error": theme.error or "", "warning": theme.warning or ""}
    colours = {
        **variables,
        "foreground": theme.foreground or "",
        "background": theme.background or "",
    }
    paint = Paint(colours)
    for behind in ("background", "cursor"):
        trouble = without_colour(theme, paint.style(Piece("!", role), behind))
        plain = without_colour(theme, paint.style(Piece("x"), behind))
        assert trouble.bold
        assert not trouble.dim
        assert brightness(trouble) == brightness(plain)
        assert trouble.bgcolor == plain.bgcolor


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES.keys())
def test_no_colour_is_left_without_colour(theme: Theme) -> None:
    paint = Paint({**theme.variables, "background": theme.background or ""})
    for role in ROLES:
        style = without_colour(theme, paint.style(Piece("x", role)))
        for color in filter(None, (style.color, style.bgcolor)):
            assert len(set(color.get_truecolor())) == 1


def test_the_theme_of_a_16_colour_terminal_tells_trouble_from_all_else() -> None:
    variables = THEMES[FEW_COLOURS].variables

    def number(role: str) -> int | None:
        return Color.parse(variables[role]).rich_color.downgrade(ColorSystem.STANDARD).number

    well = {number(role) for role in ("in-sync", "moving", "waiting", "dim")}
    assert not {number(role) for role in TROUBLE} & well
    assert number("stalled") != number("falling-behind")


def linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


def lab(colour: str, eyes: Eyes) -> tuple[float, float, float]:
    """Return a colour as such eyes see it, in CIE L*a*b*."""
    light = [linear(part) for part in Color.parse(colour).normalized]
    red, green, blue = (
        min(1.0, max(0.0, sum(a * b for a, b in zip(row, light, strict=True)))) for row in eyes
    )
    x, y, z = (
        (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047,
        0.2126 * red + 0.7152 * green + 0.0722 * blue,
        (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883,
    )
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def difference(theme: Theme, one: str, other: str, eyes: Eyes) -> float:
    ends = (lab(theme.variables[role], eyes) for role in (one, other))
    return float(sum((a - b) ** 2 for a, b in zip(*ends, strict=True)) ** 0.5)


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES.keys())
def test_stalled_and_done_differ_also_for_eyes_without_green(theme: Theme) -> None:
    assert difference(theme, "stalled", "in-sync", DEUTERANOPIA) >= SEEN_APART


@pytest.mark.parametrize("eyes", [DEUTERANOPIA, PROTANOPIA], ids=["deuteranopia", "protanopia"])
def test_the_colour_blind_theme_keeps_red_orange_and_green_well_apart(
    eyes: Eyes,
) -> None:
    theme = THEMES["colour-blind"]
    for one, other in combinations(("stalled", "falling-behind", "in-sync"), 2):
        assert difference(theme, one, other, eyes) >= WELL_APART


def test_no_two_marks_of_a_timeline_share_a_sign_unless_both_are_trouble_or_neither() -> None:
    by_sign: dict[str, set[bool]] = {}
    for mark in Mark:
        if mark in SIGNS:
            cell = SIGNS[mark]
            by_sign.setdefault(cell[0], set()).add(cell[1] in TROUBLE)
    assert all(len(kinds) == 1 for kinds in by_sign.values())
