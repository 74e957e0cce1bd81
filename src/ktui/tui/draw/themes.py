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
        reader = _Reader(read_yaml(path))
    except FileProblem as problem:
        return None, [problem]
    theme = reader.read()
    problems = sorted(reader.problems, key=lambda problem: problem.line or 0)
    return (None if problems else theme), problems


class _Reader:
    """Checks the values of one file, and collects the problems."""

    def __init__(self, file: YamlFile) -> None:
        self.file = file
        self.problems: list[FileProblem] = []

    def read(self) -> ThemeFile | None:
        parts = self._mapping((), "a theme file", KEYS)
        if not parts:
            return None
        theme = ThemeFile(
            file=self.file,
            name=self._name(parts),
            dark=self._flag("dark", parts),
            ansi=self._flag("ansi", parts),
            extends=self._word("extends", parts["extends"]) if "extends" in parts else None,
            colors=self._colors("colors", (*REQUIRED_COLORS, *OPTIONAL_COLORS), parts),
            roles=self._colors("roles", ROLES, parts),
        )
        if theme.extends is None:
            self._require(theme.colors)
        return theme

    def _problem(self, keys: KeyPath, what: str) -> None:
        self.problems.append(self.file.problem(keys, what))

    def _mapping(self, keys: KeyPath, what: str, allowed: Collection[str]) -> dict[str, Any]:
        data = self.file.data
        for key in keys:
            data = data[key]
        if not isinstance(data, dict) or not data:
            self._problem(keys, f"{what} is made of `key: value` lines")
            return {}
        for key in data.keys() - set(allowed):
            self._problem((*keys, str(key)), unknown_key(str(key), allowed))
        return {key: value for key, value in data.items() if key in allowed}

    def _name(self, parts: Mapping[str, Any]) -> str:
        if "name" not in parts:
            self._problem((), "`name` is missing: what the theme is called in the list of themes")
            return ""
        return self._word("name", parts["name"])

    def _word(self, key: str, value: Any) -> str:
        if isinstance(value, str) and _NAME.fullmatch(value):
            return value
        self._problem(
            (key,), f"`{key}` is a word of letters, digits, - and _ that starts with a letter"
        )
        return ""

    def _flag(self, key: str, parts: Mapping[str, Any]) -> bool | None:
        value = parts.get(key)
        if value is None or isinstance(value, bool):
            return value
        self._problem((key,), f"`{key}` is true or false")
        return None

    def _colors(
        self, section: str, allowed: Collection[str], parts: Mapping[str, Any]
    ) -> dict[str, str]:
        if section not in parts:
            return {}
        colors = self._mapping((section,), f"`{section}`", allowed)
        for name, value in colors.items():
            wrong = _wrong_color(value)
            if wrong is not None:
                self._problem((section, name), f"`{name}` {wrong}")
        return colors

    def _require(self, colors: Mapping[str, str]) -> None:
        missing = [name for name in REQUIRED_COLORS if name not in colors]
        if missing:
            names = ", ".join(missing)
            what = f"`colors` lacks {names}; give them, or let the theme extend another"
            self._problem(("colors",), what)


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
    own, problems = _read_folder(shipped_folder())
    users, more = _read_folder(user) if user is not None else ({}, [])
    maker = _Maker(own, users)
    made = {name: maker.make(file) for name, file in {**own, **users}.items()}
    themes = {name: theme for name, theme in made.items() if theme is not None}
    for name in own.keys() - themes.keys():  # a broken override does not hide the shipped one
        theme = maker.make(own[name])
        if theme is not None:
            themes[name] = theme
    return LoadedThemes(themes, (*problems, *more, *maker.problems), user)


def shipped_folder() -> Path:
    """Return the folder of the shipped themes: installed, or in an editable checkout."""
    installed = Path(str(importlib.resources.files("ktui"))) / "themes"
    return installed if installed.is_dir() else Path(__file__).parents[4] / "themes"


def theme_paths(folder: Path) -> Iterator[Path]:
    """Yield the theme files of a folder; hidden ones are an editor's own."""
    found = (path for pattern in ("*.yaml", "*.yml") for path in folder.glob(pattern))
    return (path for path in found if not path.name.startswith("."))


def _read_folder(folder: Path) -> tuple[dict[str, ThemeFile], list[FileProblem]]:
    files: dict[str, ThemeFile] = {}
    problems: list[FileProblem] = []
    for path in sorted(theme_paths(folder)):
        theme, wrong = read_theme_file(path)
        problems.extend(wrong)
        if theme is None:
            continue
        if theme.name in files:
            what = f"the name {theme.name!r} is taken by {files[theme.name].file.path.name}"
            problems.append(theme.file.problem(("name",), what))
            continue
        files[theme.name] = theme
    return files, problems


class _Maker:
    """Merges each theme with the themes that it extends."""

    def __init__(self, own: Mapping[str, ThemeFile], users: Mapping[str, ThemeFile]) -> None:
        self.own = own
        self.users = users
        self._problems: dict[str, FileProblem] = {}

    def make(self, file: ThemeFile) -> Theme | None:
        chain = self._chain(file)
        if chain is None:
            return None
        colors = {k: v for part in reversed(chain) for k, v in part.colors.items()}
        roles = {k: v for part in reversed(chain) for k, v in part.roles.items()}
        ansi = _first([part.ansi for part in chain], default=False)
        # one of the terminal's own 16 colours, or its default, begins so
        odd = [n for n, c in {**colors, **roles}.items() if c.startswith("ansi_") is not ansi]
        if odd:
            self._problem(file, (), _mixed(odd, ansi=ansi))
            return None
        dark = _first([part.dark for part in chain], default=True)
        return _theme(file.name, colors, roles, dark=dark, ansi=ansi)

    def _chain(self, file: ThemeFile) -> list[ThemeFile] | None:
        chain = [file]
        while (name := chain[-1].extends) is not None:
            base = self._base(chain[-1], name)
            if base is None:
                self._unknown(chain[-1], name)
                return None
            if base in chain:
                names = " -> ".join([*(part.name for part in chain), base.name])
                self._problem(file, ("extends",), f"`extends` goes round in a circle: {names}")
                return None
            chain.append(base)
        return chain

    def _base(self, file: ThemeFile, name: str) -> ThemeFile | None:
        """Look up a name; a theme that extends its own name means the shipped one."""
        if name == file.name:
            base = self.own.get(name)
            return base if base is not file else None
        return self.users.get(name) or self.own.get(name)

    def _unknown(self, file: ThemeFile, name: str) -> None:
        known = sorted((self.own.keys() | self.users.keys()) - {file.name})
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
        what = f"cannot read the theme {name!r} that `extends` names; {hint}"
        self._problem(file, ("extends",), what)

    def _problem(self, file: ThemeFile, keys: KeyPath, what: str) -> None:
        problem = file.file.problem(keys, what)
        self._problems[str(problem)] = problem

    @property
    def problems(self) -> list[FileProblem]:
        return list(self._problems.values())


def _first(values: Sequence[bool | None], *, default: bool) -> bool:
    return next((value for value in values if value is not None), default)


def _mixed(names: Sequence[str], *, ansi: bool) -> str:
    listed = ", ".join(names)
    if ansi:
        return f"an `ansi: true` theme takes only colours like ansi_blue; others are: {listed}"
    return f"colours like ansi_blue need `ansi: true` in the theme; they are: {listed}"


def _theme(
    name: str, colors: Mapping[str, str], roles: Mapping[str, str], *, dark: bool, ansi: bool
) -> Theme:
    # a theme in the terminal's own colours has no shades: its surfaces are its background
    plain = colors["background"] if ansi else None
    theme = Theme(
        name=name,
        dark=dark,
        ansi=ansi,
        background=colors["background"],
        foreground=colors["foreground"],
        primary=colors["primary"],
        secondary=colors.get("secondary"),
        accent=colors["accent"],
        success=colors["success"],
        warning=colors["warning"],
        error=colors["error"],
        surface=colors.get("surface", plain),
        panel=colors.get("panel", plain),
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
