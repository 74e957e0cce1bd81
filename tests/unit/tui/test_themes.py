"""Themes, and the view without colour."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from ktui.progress.timeline import Mark
from ktui.tui.draw.cells import SIGNS, Piece
from ktui.tui.draw.paint import ROLES as PAINT_ROLES
from ktui.tui.draw.paint import TROUBLE, GreyFilter, Paint
from ktui.tui.draw.themes import (
    DEFAULT,
    FEW_COLOURS,
    ROLES,
    LoadedThemes,
    load_themes,
    role_defaults,
    role_style,
    shipped_folder,
)

SHIPPED = sorted(path.stem for path in shipped_folder().glob("*.yaml"))
BASE = (
    'colors: {background: "#000", foreground: "#fff", primary: blue, accent: red,'
    " success: green, warning: orange, error: red}\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "themes"


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def load(folder: Path) -> LoadedThemes:
    return load_themes(folder)


def luminance(color: Color) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    parts = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in color.normalized
    ]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: str, other: str) -> float:
    dim, bright = sorted(luminance(Color.parse(color)) for color in (one, other))
    return (bright + 0.05) / (dim + 0.05)


def shipped(name: str) -> Theme:
    return load_themes(None).themes[name]


def test_the_shipped_themes_load_without_a_problem() -> None:
    loaded = load_themes(None)
    assert loaded.problems == ()
    assert sorted(loaded.themes) == SHIPPED
    assert {"dark", "light", "high-contrast", "colour-blind", "sixteen"} <= set(SHIPPED)
    assert DEFAULT in SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_theme_sets_the_colour_of_every_role_itself(name: str) -> None:
    text = (shipped_folder() / f"{name}.yaml").read_text(encoding="utf-8")
    assert [role for role in ROLES if f"\n  {role}: " not in text] == []


@pytest.mark.parametrize("name", SHIPPED)
def test_the_text_of_a_shipped_theme_stands_out_from_its_background(name: str) -> None:
    theme = shipped(name)
    least = 3 if theme.ansi else 4.5  # the terminal itself has the say on its 16 colours
    words = {role: theme.variables[role] for role, what in ROLES.items() if what.text}
    words |= {"foreground": theme.foreground or "", "primary": theme.primary}
    words |= {"warning": theme.warning or "", "error": theme.error or ""}
    behind = {"background": theme.background or "", "cursor": theme.variables["cursor"]}
    poor = {
        (word, back): round(contrast(color, ground), 2)
        for word, color in words.items()
        for back, ground in behind.items()
        if contrast(color, ground) < least
    }
    assert poor == {}


def test_the_high_contrast_theme_keeps_a_contrast_of_seven_to_one() -> None:
    theme = shipped("high-contrast")
    for role, what in ROLES.items():
        if what.text:
            assert contrast(theme.variables[role], theme.background or "") >= 7


@pytest.mark.parametrize("name", SHIPPED)
def test_the_text_of_a_badge_stands_out_from_it(name: str) -> None:
    theme = shipped(name)
    assert contrast(theme.variables["badge-text"], theme.variables["badge"]) >= 4.5


def test_the_sixteen_colour_theme_uses_the_terminals_own_colours_only() -> None:
    theme = shipped("sixteen")
    assert theme.ansi
    for role in ROLES:
        assert theme.variables[role].startswith("ansi_")
        number = role_style(theme.variables, role).color
        assert number is not None
        assert number.number is not None
        assert 0 <= number.number < 16


@pytest.mark.parametrize("theme", BUILTIN_THEMES.values(), ids=lambda theme: theme.name)
def test_every_role_has_a_colour_in_a_theme_without_roles(theme: Theme) -> None:
    defaults = role_defaults(theme)
    assert defaults.keys() == ROLES.keys()
    for color in defaults.values():
        Color.parse(color)


def test_a_role_that_a_theme_leaves_out_takes_its_base_colour(folder: Path) -> None:
    write(folder, "mine.yaml", "name: mine\n" + BASE)
    theme = load(folder).themes["mine"]
    assert theme.variables["moving"] == "blue"
    assert theme.variables["stalled"] == "red"
    assert theme.variables["dim"] == "#999999"


def test_a_users_theme_replaces_the_shipped_one_of_its_name(folder: Path) -> None:
    write(folder, "dark.yaml", 'name: dark\nextends: dark\nroles: {leader: "#00ffff"}\n')
    loaded = load(folder)
    assert loaded.problems == ()
    assert loaded.themes["dark"].variables["leader"] == "#00ffff"
    assert loaded.themes["dark"].variables["moving"] == shipped("dark").variables["moving"]


def test_a_theme_inherits_what_it_does_not_set(folder: Path) -> None:
    write(folder, "a.yaml", 'name: paper\nextends: light\ncolors: {background: "#fff8e0"}\n')
    write(folder, "b.yaml", "name: paper-red\nextends: paper\nroles: {moving: darkred}\n")
    theme = load(folder).themes["paper-red"]
    assert not theme.dark
    assert theme.background == "#fff8e0"
    assert theme.variables["moving"] == "darkred"
    assert theme.variables["leader"] == shipped("light").variables["leader"]


def test_a_broken_override_leaves_the_shipped_theme_in_place(folder: Path) -> None:
    path = write(folder, "dark.yaml", "name: dark\nextends: drak\n")
    loaded = load(folder)
    assert loaded.themes["dark"].variables == shipped("dark").variables
    assert [(problem.path, problem.line) for problem in loaded.problems] == [(path, 2)]


def test_an_editors_hidden_lock_file_is_no_theme(folder: Path) -> None:
    folder.mkdir()
    (folder / ".#mine.yaml").symlink_to("somebody@somewhere.4711")
    assert load(folder).problems == ()


def test_a_missing_theme_folder_is_no_problem(tmp_path: Path) -> None:
    assert load(tmp_path / "none").problems == ()


BAD = {
    "a key with a typo": (
        "name: x\nextends: dark\ncolours: {}\n", 3, "unknown key 'colours'; did you mean 'colors'?",
    ),
    "an unknown key": (
        "name: x\nextends: dark\nfont: Fira\n", 3,
        "unknown key 'font'; known keys: ansi, colors, dark, extends, name, roles",
    ),
    "a role with a typo": (
        "name: x\nextends: dark\nroles:\n  moving: blue\n  stalld: red\n", 5,
        "unknown key 'stalld'; did you mean 'stalled'?",
    ),
    "a key that is given twice": (
        "name: x\nextends: dark\nroles:\n  moving: blue\n  moving: red\n", 5,
        "'moving' is given twice; remove one",
    ),
    "a colour with a typo": (
        "name: x\nextends: dark\nroles:\n  moving: blu\n", 4,
        "`moving` is not a colour: 'blu'; did you mean blue?",
    ),
    "an unknown colour": (
        "name: x\nextends: dark\nroles:\n  moving: '#12'\n", 4,
        "`moving` is not a colour: '#12'; write \"#5aa9ff\", a CSS name or ansi_blue",
    ),
    "a colour without its quotes": (
        "name: x\nextends: dark\nroles:\n  moving: #5aa9ff\n", 4,
        '`moving` has no colour; one that begins with # needs quotes: "#5aa9ff"',
    ),
    "a see-through colour": (
        "name: x\nextends: dark\nroles:\n  moving: '#5aa9ff80'\n", 4,
        "`moving` is see-through: '#5aa9ff80'; give an opaque colour",
    ),
    "a list where a colour belongs": (
        "name: x\nextends: dark\nroles:\n  moving: [blue]\n", 4,
        "`moving` is not a colour: ['blue']; write \"#5aa9ff\" (quoted), a CSS name or ansi_blue",
    ),
    "no name": (
        "extends: dark\n", 1, "`name` is missing: what the theme is called in the list of themes",
    ),
    "a name with spaces": (
        "extends: dark\nname: my theme\n", 2,
        "`name` is a word of letters, digits, - and _ that starts with a letter",
    ),
    "dark that is neither true nor false": (
        "name: x\nextends: dark\ndark: very\n", 3, "`dark` is true or false",
    ),
    "missing base colours": (
        (
            "name: x\ncolors: {background: black, foreground: white, primary: blue,"
            " accent: red, warning: orange}\n"
        ), 2,
        "`colors` lacks success, error; give them, or let the theme extend another",
    ),
    "no colours at all": (
        "name: x\n", 1,
        (
            "`colors` lacks background, foreground, primary, accent, success, warning, error;"
            " give them, or let the theme extend another"
        ),
    ),
    "a list instead of a mapping": ("- name\n", 1, "a theme file is made of `key: value` lines"),
    "roles that are a word": (
        "name: x\nextends: dark\nroles: blue\n", 3, "`roles` is made of `key: value` lines",
    ),
    "an empty file": ("", 1, "a theme file is made of `key: value` lines"),
    "broken YAML": (
        'name: x\nroles: {moving: "blue\n', 3,
        "not valid YAML: found unexpected end of stream; close the quotation",
    ),
    "a tab": (
        "name: x\nroles:\n\tadding: blue\n", 3,
        "not valid YAML: found character '\\t' that cannot start any token; indent with spaces",
    ),
    "an unknown base": (
        "name: x\nextends: drak\n", 2,
        "cannot read the theme 'drak' that `extends` names; did you mean 'dark'?",
    ),
    "itself as its base": (
        "name: x\nextends: x\n", 2,
        "cannot read the theme 'x' that `extends` names; there are "
        + ", ".join(sorted([*SHIPPED, "good"])),
    ),
    "a colour of the terminal among true colours": (
        "name: x\nextends: dark\nroles:\n  moving: ansi_blue\n", 1,
        "colours like ansi_blue need `ansi: true` in the theme; they are: moving",
    ),
    "a true colour among those of the terminal": (
        "name: x\nextends: sixteen\nroles:\n  moving: '#ff0000'\n", 1,
        "an `ansi: true` theme takes only colours like ansi_blue; others are: moving",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "line", "what"), BAD.values(), ids=BAD.keys())
def test_a_mistake_in_a_theme_is_reported_with_file_and_line_and_the_others_load(
    folder: Path, text: str, line: int, what: str
) -> None:
    path = write(folder, "bad.yaml", text)
    write(folder, "good.yaml", "name: good\nextends: dark\n")
    loaded = load(folder)
    assert [str(problem) for problem in loaded.problems] == [f"{path}:{line}: {what}"]
    assert set(loaded.themes) == {*SHIPPED, "good"}


def test_all_mistakes_of_a_theme_file_are_reported_at_once(folder: Path) -> None:
    write(folder, "bad.yaml", "nam: x\nextends: dark\nroles:\n  moving: blu\n  leder: red\n")
    assert [problem.line for problem in load(folder).problems] == [1, 1, 4, 5]


def test_themes_that_extend_each_other_are_a_problem_of_each(folder: Path) -> None:
    write(folder, "a.yaml", "name: a\nextends: b\n")
    write(folder, "b.yaml", "name: b\nextends: a\n")
    loaded = load(folder)
    assert [problem.problem for problem in loaded.problems] == [
        "`extends` goes round in a circle: a -> b -> a",
        "`extends` goes round in a circle: b -> a -> b",
    ]
    assert set(loaded.themes) == set(SHIPPED)


def test_two_themes_of_one_name_are_a_problem_of_the_second(folder: Path) -> None:
    write(folder, "a.yaml", "name: twin\nextends: dark\n")
    write(folder, "b.yaml", "name: twin\nextends: light\n")
    loaded = load(folder)
    assert [problem.problem for problem in loaded.problems] == [
        "the name 'twin' is taken by a.yaml"
    ]
    assert loaded.themes["twin"].dark


def test_a_file_that_is_not_text_is_named(folder: Path) -> None:
    path = write(folder, "bad.yaml", "")
    path.write_bytes(b"name: \xff\n")
    assert [problem.problem for problem in load(folder).problems] == [
        "cannot be read: it is not UTF-8 text"
    ]


def test_a_file_that_cannot_be_read_is_named(folder: Path) -> None:
    (folder / "bad.yaml").mkdir(parents=True)
    assert [problem.problem for problem in load(folder).problems] == [
        "cannot be read: Is a directory"
    ]


def test_the_documentation_lists_every_role_and_its_example_is_the_shipped_theme() -> None:
    docs = (Path(__file__).parents[3] / "docs" / "themes.md").read_text(encoding="utf-8")
    for name, role in ROLES.items():
        assert f"| `{name}` | {role.meaning} | " in docs
    assert (shipped_folder() / "dark.yaml").read_text(encoding="utf-8") in docs
    for name in SHIPPED:
        assert f"| `{name}` |" in docs


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
    for role in PAINT_ROLES:
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
