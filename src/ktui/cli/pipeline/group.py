"""`ktui pipeline`: recordings into tables, and reports; and the segments that a lake has read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

import click
import msgspec

from ktui.cli.context.option import LazyGroup, add_option
from ktui.cli.context.terminal import FAILED, BadInput
from ktui.cluster.text import clean_lines
from ktui.execution.host.state_dir import StateDir
from ktui.inputfile import FileProblem, Unreadable, expand_home
from ktui.pipeline.lake import manifest as manifests
from ktui.pipeline.lake.manifest import PipelineProblem, SegmentRead
from ktui.recording.segments import open_recording_file
from ktui.recording.stored import StoredSegment

VERBS = {
    "run": "ktui.cli.pipeline.verbs:run",
    "check": "ktui.cli.pipeline.verbs:check",
    "report": "ktui.cli.pipeline.verbs:report",
    "sql": "ktui.cli.pipeline.verbs:sql",
    "package": "ktui.cli.pipeline.verbs:package",
}
_EXTRA = ("pyspark", "pyarrow", "duckdb", "pandas", "plotly", "py4j", "jinja2", "markupsafe")


class PipelineVerbs(LazyGroup):
    """The group of pipeline verbs; it names what to install if a verb cannot work without it."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the verb; if a library of the extra is missing, name the command that installs it."""
        try:
            return super().invoke(ctx)
        except PipelineProblem as problem:
            click.echo(f"ktui: {clean_lines(str(problem))}", err=True)
            ctx.exit(FAILED)
        except ModuleNotFoundError as error:
            library = (error.name or "").partition(".")[0]
            if library not in _EXTRA:
                raise
            raise BadInput(
                f"the pipeline needs {library}, which is not installed. "
                "Install it: pip install 'ktui[pipeline]'"
            ) from None


@click.group("pipeline", cls=PipelineVerbs, verbs=VERBS)
def command() -> None:
    """Turn recordings into tables with Spark, and tables into reports.

    Needs the extra `pipeline` (pip install 'ktui[pipeline]'). `run` also needs Java 17, except with
    --engine sail; so does `check` of a lake at a URI.
    """


lake_option = add_option(
    "--lake DIR",
    "The folder of the tables, as a path or URI; by default `lake` in the state directory.",
)


def lake_of(given: str | None, state: StateDir) -> str:
    """Return the place of the lake: the option, or `lake` in the state directory."""
    return given or str(state.path / "lake")


_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


class LakeSegments:
    """The segments in one version of a lake."""

    def __init__(self, segments: Iterable[SegmentRead]) -> None:
        read = tuple(segments)
        self._files = {(each.path, each.length, each.modified_ms) for each in read}
        self._sums = {each.sha256 for each in read}
        self._lengths = {each.length for each in read}

    def has(self, segment: StoredSegment) -> bool:
        """Whether the lake has read a segment, under this file's name or any other.

        As for the pipeline, path, size and time identify a file, and SHA-256 identifies its
        content.
        """
        if (str(segment.path), segment.size, segment.modified_ms) in self._files:
            return True
        return segment.size in self._lengths and _sha256(segment.path) in self._sums


def read_lake(place: str) -> LakeSegments:
    """Read which segments a lake has."""
    if _URI.match(place):
        raise BadInput(
            f"lake {place}: prune reads lakes in folders of this machine. Copy the lake's "
            f"{manifests.NAME} into a folder, and name that one"
        )
    try:
        folder = expand_home(place).absolute()
    except Unreadable as why:
        raise BadInput(f"lake {place}: {why}") from None
    found = lake_in(folder)
    if found is None:
        raise BadInput(f"{place} is not a lake: it has no {manifests.NAME}")
    return found


def lake_in(folder: Path) -> LakeSegments | None:
    """Read which segments the lake in a folder has; None if there is no lake."""
    path = folder / manifests.NAME
    try:
        with open_recording_file(path) as file:
            known = manifests.decode(file.read()).segments
        return LakeSegments(tuple(each for each in known if each.newer_format is None))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FileProblem(path, None, f"cannot be read: {error.strerror}") from None
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise FileProblem(path, None, f"the lake cannot be read: {error}") from None


def _sha256(path: Path) -> str:
    try:
        with open_recording_file(path) as file:
            return hashlib.sha256(file.read()).hexdigest()
    except (OSError, FileProblem):
        return ""
