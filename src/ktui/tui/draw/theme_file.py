"""Read one theme file, and report each mistake in it with its place and a correction."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec
from textual.color import Color, ColorParseError

from ktui.inputfile import FileProblem, unknown_key
from ktui.tui.draw.roles import ROLES
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
    """Read a theme file.

    Returns:
        The theme, or None with every problem found in the file, in the order of lines.
    """
    try:
        reader = _Reader(read_yaml(path))
    except FileProblem as problem:
        return None, [problem]
    theme = reader.read()
    problems = sorted(reader.problems, key=lambda problem: problem.line or 0)
    return (None if problems else theme), problems


def is_ansi(color: str) -> bool:
    """Return whether a colour is one of the terminal's own 16, or its default."""
    return color.startswith("ansi_")


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
        """Return the values of the known keys; unknown keys are problems."""
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
