"""The insights file: finding, reading and writing it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ktui.durable import make_folder, write_whole
from ktui.fileproblem import FileProblem
from ktui.inputfile import Unreadable, read_input
from ktui.insights.insights import SCHEMA_VERSION, ClusterInsights, Insights

NAME = "insights.json"
"""The file's name in a lake, and in a state directory, where the live view finds it."""
_MOST_BYTES = 256 * 1024**2
_FIX = "make a new one: ktui pipeline run"


class _Versioned(msgspec.Struct):
    schema_version: int


def insights_in(folder: Path) -> Insights:
    """Return the insights of a lake or a state directory; empty insights if it has none.

    Raises:
        FileProblem: the file cannot be read; the message includes the fix.
    """
    path = folder / NAME
    return read_insights(path) if path.exists() else Insights()


def read_insights(path: Path) -> Insights:
    """Read insights from a file.

    Raises:
        FileProblem: the file is missing or cannot be read; the message includes the fix.
    """
    try:
        text = read_input(path, _MOST_BYTES)
    except Unreadable as why:
        if not path.exists():
            raise FileProblem(path, None, f"there is no such file; {_FIX}") from None
        raise FileProblem(path, None, f"cannot be read: {why}") from None
    return _decoded(text, path)


def insights_of(folder: Path, cluster_id: str) -> ClusterInsights | None:
    """Return a state directory's insights into a cluster; None if it has none.

    Callers can do without: a file that cannot be read counts as empty.
    """
    try:
        return insights_in(folder).of(cluster_id)
    except FileProblem:
        return None


def encode(insights: Insights) -> bytes:
    """Encode insights as the bytes of the file."""
    return msgspec.json.format(msgspec.json.encode(insights), indent=1) + b"\n"


def publish_insights(insights: Insights, folder: Path) -> None:
    """Write insights where a live view finds them, and keep those of other clusters.

    Raises:
        OSError: the file cannot be written.
    """
    make_folder(folder)
    try:
        before = insights_in(folder).clusters
    except FileProblem:
        before = ()  # an unreadable file is replaced
    new = {each.cluster_id for each in insights.clusters}
    kept = tuple(each for each in before if each.cluster_id not in new)
    whole = msgspec.structs.replace(insights, clusters=(*kept, *insights.clusters))
    write_whole(folder / NAME, encode(whole))


def _decoded(text: bytes, path: Path) -> Insights:
    try:
        version = msgspec.json.decode(text, type=_Versioned).schema_version
        if version > SCHEMA_VERSION:
            problem = f"written by a newer ktui (schema_version {version}); {_FIX}"
            raise FileProblem(path, None, problem)
        return msgspec.json.decode(text, type=Insights)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise FileProblem(path, None, f"this is not an insights file: {error}; {_FIX}") from None
