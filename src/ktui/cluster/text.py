"""Escaping of text that comes from a cluster, so that it is safe on a terminal."""

from __future__ import annotations


def clean(text: str) -> str:
    r"""Escape characters that could control or deceive a terminal.

    Control characters (including ESC), bidirectional overrides, zero-width characters and unusual
    spaces become escapes such as `\x1b`. A hostile name is then visible as such.
    """
    return text if text.isprintable() else "".join(map(_escaped, text))


def clean_lines(text: str) -> str:
    """Clean a text of several lines, keeping line ends and tabs."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(each if each in "\n\t" else _escaped(each) for each in text)


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
