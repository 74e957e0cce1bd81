"""Text that comes from a cluster, made safe to show on a terminal."""

from __future__ import annotations


def clean(text: str) -> str:
    r"""Replace what could drive or deceive a terminal by its escaped spelling.

    Control characters (ESC among them), bidirectional overrides, zero-width characters and odd
    spaces become `\x1b`-like escapes, so that a hostile name is seen for what it is.
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def clean_lines(text: str) -> str:
    """Clean a text of several lines: line ends and tabs stay."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(each if each in "\n\t" else _shown(each) for each in text)


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
