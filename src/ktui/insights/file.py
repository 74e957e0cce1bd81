"""The file of insights: found, read and written."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ktui.durable import make_folder, write_whole
from ktui.fileproblem import FileProblem
from ktui.insights.insights import SCHEMA_VERSION, ClusterInsights, Insights

NAME = "insights.json"
"""In a lake, and in a state directory, where the live view finds it."""
_AGAIN = "make it anew with: ktui pipeline run"


class _Versioned(msgspec.Struct):
    schema_version: int


def insights_in(folder: Path) -> Insights:
    """Give what a lake or a state directory holds; nothing where it holds none.

    Raises:
        FileProblem: it cannot be read; says what to do.
    """
    path = folder / NAME
    return read_insights(path) if path.exists() else Insights()


def read_insights(path: Path) -> Insights:
    """Read insights from a file.

    Raises:
        FileProblem: there is none, or it cannot be read; says what to do.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise FileProblem(path, None, f"there is no such file; {_AGAIN}") from None
    except OSError as error:
        raise FileProblem(path, None, f"cannot be read: {error.strerror}") from None
    return _decoded(text, path)


def insights_of(folder: Path, cluster_id: str) -> ClusterInsights | None:
    """Give what a state directory knows of a cluster; None where it knows nothing.

    Whoever asks goes on without: a file that cannot be read tells nothing.
    """
    try:
        return insights_in(folder).of(cluster_id)
    except FileProblem:
        return None


def encode(insights: Insights) -> bytes:
    """Give the file's bytes."""
    return msgspec.json.format(msgspec.json.encode(insights), indent=1) + b"\n"


def share_insights(insights: Insights, folder: Path) -> None:
    """Put insights where a live view finds them, beside what is known of other clusters.

    Raises:
        OSError: the file cannot be written.
    """
    make_folder(folder)
    try:
        before = insights_in(folder).clusters
    except FileProblem:
        before = ()  # what cannot be read is replaced
    new = {each.cluster_id for each in insights.clusters}
    kept = tuple(each for each in before if each.cluster_id not in new)
    whole = msgspec.structs.replace(insights, clusters=(*kept, *insights.clusters))
    write_whole(folder / NAME, encode(whole))


def _decoded(text: bytes, path: Path) -> Insights:
    try:
        version = msgspec.json.decode(text, type=_Versioned).schema_version
        if version > SCHEMA_VERSION:
            problem = f"written by a newer ktui (schema_version {version}); {_AGAIN}"
            raise FileProblem(path, None, problem)
        return msgspec.json.decode(text, type=Insights)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise FileProblem(path, None, f"these are no insights: {error}; {_AGAIN}") from None
