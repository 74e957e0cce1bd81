"""Escaping of text that comes from a cluster, and the ids that only simulated clusters have."""

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


SIMULATED = "simulated"


def simulated_id(name: str) -> str:
    """Return the id of the twin of a cluster; that of a simulated cluster stays as it is."""
    return name if is_simulated(name) else f"{SIMULATED}-{name}"


def is_simulated(cluster_id: str) -> bool:
    """Return whether an id is that of a simulated cluster."""
    return cluster_id == SIMULATED or cluster_id.startswith(f"{SIMULATED}-")


def marked(words: str, cluster_id: str) -> str:
    """Return words about a cluster, which say so where it is a simulated one."""
    return f"{words} ({SIMULATED})" if is_simulated(cluster_id) else words
