"""The colour themes: ours, the operator's files, and what is wrong with them."""

from __future__ import annotations

import difflib
import importlib.resources
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from textual.color import Color, ColorParseError
from textual.theme import Theme

from ktui.inputfile import FileProblem, unknown_key
from ktui.tui.draw.paint import ROLES, role_defaults, role_style
from ktui.yamlfile import KeyPath, YamlFile, read_yaml

REQUIRED_COLORS = (
    "background", "foreground", "primary", "accent", "success", "warning", "error",
)  # fmt: skip
OPTIONAL_COLORS = ("secondary", "surface", "panel")
KEYS = ("name", "dark", "ansi", "extends", "colors", "roles")

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


class ThemeFile(msgspec.Struct, frozen=True):
    """A theme as written in its file, before the themes that it extends are merged in."""

    file: YamlFile
    name: str
    dark: bool | None
    ansi: bool | None
    extends: str | None
    colors: Mapping[str, str]
    roles: Mapping[str, str]


def read_theme_file(path: Path) -> tuple[ThemeFile | None, list[FileProblem]]:
    """Read a theme file; return the theme, or None with every problem by line."""
    try:
        file = read_yaml(path)
    except FileProblem as problem:
        return None, [problem]
    data = file.data
    problems = [file.problem(keys, what) for keys, what in _mistakes(data)]
    if problems:
        return None, sorted(problems, key=lambda problem: problem.line or 0)
    own = {key: data.get(key) for key in ("name", "dark", "ansi", "extends")}
    return ThemeFile(file, **own, colors=data.get("colors", {}), roles=data.get("roles", {})), []


def _mistakes(data: Any) -> Iterator[tuple[KeyPath, str]]:
    yield from _odd_keys((), "a theme file", data, KEYS)
    if not isinstance(data, dict) or not data:
        return
    if "name" not in data:
        yield (), "`name` is missing: what the theme is called in the list of themes"
    for key in data.keys() & {"name", "extends"}:
        if not isinstance(data[key], str) or not _NAME.fullmatch(data[key]):
            yield (key,), f"`{key}` is a word of letters, digits, - and _ that starts with a letter"
    for key in ("dark", "ansi"):
        if not isinstance(data.get(key), bool | None):
            yield (key,), f"`{key}` is true or false"
    yield from _odd_colors("colors", data, (*REQUIRED_COLORS, *OPTIONAL_COLORS))
    yield from _odd_colors("roles", data, ROLES)
    missing = [name for name in REQUIRED_COLORS if name not in _mapping(data, "colors")]
    if "extends" not in data and missing:
        names = ", ".join(missing)
        yield ("colors",), f"`colors` lacks {names}; give them, or let the theme extend another"


def _odd_colors(
    section: str, data: dict[str, Any], allowed: Collection[str]
) -> Iterator[tuple[KeyPath, str]]:
    if section in data:
        yield from _odd_keys((section,), f"`{section}`", data[section], allowed)
    for name in _mapping(data, section).keys() & set(allowed):
        if (wrong := _wrong_color(data[section][name])) is not None:
            yield (section, name), f"`{name}` {wrong}"


def _mapping(data: dict[str, Any], section: str) -> dict[str, Any]:
    found = data.get(section)
    return found if isinstance(found, dict) else {}


def _odd_keys(
    keys: KeyPath, what: str, data: Any, allowed: Collection[str]
) -> Iterator[tuple[KeyPath, str]]:
    if not isinstance(data, dict) or not data:
        yield keys, f"{what} is made of `key: value` lines"
        return
    for key in data.keys() - set(allowed):
        yield (*keys, str(key)), unknown_key(str(key), allowed)


def _wrong_color(value: Any) -> str | None:
    if value is None:
        return 'has no colour; one that begins with # needs quotes: "#5aa9ff"'
    if not isinstance(value, str):
        return f'is not a colour: {value!r}; write "#5aa9ff" (quoted), a CSS name or ansi_blue'
    try:
        color = Color.parse(value)
    except ColorParseError as error:
        near = error.suggested_color
        hint = f"did you mean {near}?" if near else 'write "#5aa9ff", a CSS name or ansi_blue'
        return f"is not a colour: {value!r}; {hint}"
    return f"is see-through: {value!r}; give an opaque colour" if color.a < 1 else None


__all__ = [
    "DEFAULT", "FEW_COLOURS", "ROLES", "LoadedThemes", "load_themes", "role_defaults", "role_style",
    "shipped_folder",
]  # fmt: skip

DEFAULT = "dark"
FEW_COLOURS = "sixteen"
"""The default on a terminal of 16 colours: the nearest ones to another theme's are often alike."""


class LoadedThemes(msgspec.Struct, frozen=True):
    """Every theme that could be read, by name, and the problems of the others."""

    themes: Mapping[str, Theme]
    problems: tuple[FileProblem, ...] = ()
    folder: Path | None = None


def load_themes(user: Path | None) -> LoadedThemes:
    """Load the shipped themes and the user's, which win by name; a broken one yields problems."""
    problems: dict[str, FileProblem] = {}
    own = _read_folder(shipped_folder(), problems)
    users = {} if user is None else _read_folder(user, problems)
    themes = {}
    for file in (*own.values(), *users.values()):  # a broken override leaves the shipped one
        try:
            themes[file.name] = _theme(file, _chain(file, own, users))
        except FileProblem as problem:
            problems[str(problem)] = problem
    return LoadedThemes(themes, tuple(problems.values()), user)


def shipped_folder() -> Path:
    """Return the folder of the shipped themes: installed, or in an editable checkout."""
    installed = Path(str(importlib.resources.files("ktui"))) / "themes"
    return installed if installed.is_dir() else Path(__file__).parents[4] / "themes"


def theme_paths(folder: Path) -> Iterator[Path]:
    """Yield the theme files of a folder; hidden ones are an editor's own."""
    found = (path for pattern in ("*.yaml", "*.yml") for path in folder.glob(pattern))
    return (path for path in found if not path.name.startswith("."))


def _read_folder(folder: Path, problems: dict[str, FileProblem]) -> dict[str, ThemeFile]:
    files: dict[str, ThemeFile] = {}
    for path in sorted(theme_paths(folder)):
        theme, wrong = read_theme_file(path)
        if theme is not None and theme.name in files:
            what = f"the name {theme.name!r} is taken by {files[theme.name].file.path.name}"
            wrong = [theme.file.problem(("name",), what)]
        elif theme is not None:
            files[theme.name] = theme
        problems |= {str(problem): problem for problem in wrong}
    return files


def _chain(
    file: ThemeFile, own: Mapping[str, ThemeFile], users: Mapping[str, ThemeFile]
) -> list[ThemeFile]:
    """Return a theme and those that it extends; one that extends its own name means the shipped."""
    chain = [file]
    while (name := chain[-1].extends) is not None:
        last = chain[-1]
        base = own.get(name) if name == last.name else users.get(name) or own.get(name)
        if base is None or base is last:
            known = sorted((own.keys() | users.keys()) - {last.name})
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            what = f"cannot read the theme {name!r} that `extends` names; {hint}"
            raise last.file.problem(("extends",), what)
        if base in chain:
            names = " -> ".join([*(part.name for part in chain), base.name])
            what = f"`extends` goes round in a circle: {names}"
            raise file.file.problem(("extends",), what)
        chain.append(base)
    return chain


def _first(values: Sequence[bool | None], *, default: bool) -> bool:
    return next((value for value in values if value is not None), default)


def _mixed(names: Sequence[str], *, ansi: bool) -> str:
    listed = ", ".join(names)
    if ansi:
        return f"an `ansi: true` theme takes only colours like ansi_blue; others are: {listed}"
    return f"colours like ansi_blue need `ansi: true` in the theme; they are: {listed}"


def _theme(file: ThemeFile, chain: Sequence[ThemeFile]) -> Theme:
    colors = {k: v for part in reversed(chain) for k, v in part.colors.items()}
    roles = {k: v for part in reversed(chain) for k, v in part.roles.items()}
    ansi = _first([part.ansi for part in chain], default=False)
    # one of the terminal's own 16 colours, or its default, begins so
    odd = [n for n, c in {**colors, **roles}.items() if c.startswith("ansi_") is not ansi]
    if odd:
        raise file.file.problem((), _mixed(odd, ansi=ansi))
    # a theme in the terminal's own colours has no shades: its surfaces are its background
    plain = colors["background"] if ansi else None
    theme = Theme(
        name=file.name,
        dark=_first([part.dark for part in chain], default=True),
        ansi=ansi,
        surface=colors.pop("surface", plain),
        panel=colors.pop("panel", plain),
        **colors,  # type: ignore[arg-type]  # a theme's colours have the names of its fields
    )
    full = {**role_defaults(theme), **roles}
    theme.variables = {**full, **_widget_variables(theme, full)}
    return theme


def _widget_variables(theme: Theme, roles: Mapping[str, str]) -> dict[str, str]:
    foreground, background = theme.foreground or "", theme.background or ""
    scrollbar = ("", "-hover", "-active")
    of_colour: list[tuple[str, tuple[str, ...]]] = [
        (roles["cursor"], (
            "block-cursor-background", "block-cursor-blurred-background",
            "block-hover-background",
        )),
        (foreground, ("block-cursor-foreground", "block-cursor-blurred-foreground")),
        (background, (
            *(f"footer-{part}background" for part in ("", "item-", "description-", "key-")),
            *(f"scrollbar-background{state}" for state in scrollbar), "scrollbar-corner-color",
        )),
        (roles["dim"], ("footer-foreground", "footer-description-foreground", "scrollbar-hover")),
        (theme.primary, ("footer-key-foreground", "border", "scrollbar-active")),
        (roles["rule"], ("border-blurred", "scrollbar")),
    ]  # fmt: skip
    if theme.ansi:
        states = ("", "-muted", "-disabled")
        words = [f"{name}{state}" for name in ("text", "foreground") for state in states]
        words.remove("foreground")
        surfaces = ("surface", "panel", "surface-active", "ansi-background")
        of_colour += [(foreground, (*words, "ansi-foreground")), (background, surfaces)]
    return {name: colour for colour, names in of_colour for name in names}


def theme_problems(themes: LoadedThemes, requested: str | None) -> Iterator[str]:
    """Yield which themes were left out, and that the requested one does not exist."""
    for problem in themes.problems:
        yield f"Theme left out: {problem}"
    if requested is not None and requested not in themes.themes:
        known = ", ".join(sorted(themes.themes))
        yield f"There is no usable theme {requested!r}, so {DEFAULT} is used. There are {known}."
