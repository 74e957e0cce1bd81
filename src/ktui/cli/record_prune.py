"""`ktui record prune`: remove old recordings."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import click
import msgspec

from ktui import __version__
from ktui.cli.context.config import load_config
from ktui.cli.context.option import add_option
from ktui.cli.context.terminal import FAILED, NOT_ALL_DONE, BadInput, print_note
from ktui.cli.options import common
from ktui.cli.output.json_form import SCHEMA_VERSION, encode
from ktui.cli.pipeline.group import LakeSegments, lake_in, read_lake
from ktui.cluster.clock import Clock, SystemClock
from ktui.cluster.observation import Observation
from ktui.cluster.observer import ObservationSource
from ktui.cluster.settings import names_by_scope
from ktui.cluster.text import clean
from ktui.execution import RunProblem
from ktui.execution.host.catalog import is_over
from ktui.execution.host.kept import LiveRunsRecording, RunRecording
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.run.events import NOT_RECORDED, JournalEntry, Recording
from ktui.execution.run.run import Run
from ktui.inputfile import FileProblem, Unreadable, expand_home
from ktui.quantities import Seconds, Size, as_bytes, as_count
from ktui.recording.recorder import Recorder
from ktui.recording.replay_tape import RecordingSource
from ktui.recording.segments import ENGINE, wall_ms
from ktui.recording.stored import (
    Choice,
    KeptFor,
    Removal,
    Retention,
    StoredSegment,
    choose_segments,
    is_live,
    remove_segments,
    seal,
    stored_sessions,
    tidy,
)

Sessions = Mapping[Path, tuple[StoredSegment, ...]]
"""The segments of each session, by the session's folder."""


class PruneRequest(msgspec.Struct, frozen=True):
    """Where to prune, and how much."""

    folders: tuple[Path, ...]  # absolute
    limits: Retention
    lakes: tuple[LakeSegments, ...] = ()
    force: bool = False  # whether to remove what an unfinished run needs, or no lake has read
    dry_run: bool = False


class Pruned(msgspec.Struct, frozen=True):
    """The result of a pruning."""

    choice: Choice
    removal: Removal  # in a dry run, what would be removed


def _recording_folders(state: StateDir) -> tuple[Path, ...]:
    return (state.recordings, *(run.recording for run in state.run_dirs()))


def _read_lakes(places: Collection[str], state: StateDir) -> tuple[LakeSegments, ...]:
    """Read which segments lakes have: those named, or else that of the state directory, if any."""
    if places:
        return tuple(map(read_lake, places))
    usual = lake_in(state.path / "lake")
    return () if usual is None else (usual,)


def amount(segments: Collection[StoredSegment]) -> str:
    """Describe segments by their number and their size."""
    size = sum(each.size for each in segments)
    return f"{as_count(len(segments), 'segment')}, {as_bytes(size)}"


def given_limits(older_than: str | None, keep: str | None) -> Retention | None:
    """Return the limits that the options --older-than and --keep give; None without either."""
    if older_than is None and keep is None:
        return None
    return Retention(
        None if older_than is None else common.parse_amount("--older-than", Seconds, older_than),
        None if keep is None else common.parse_amount("--keep", Size, keep),
    )


def prune_as_configured(state: StateDir, given: Retention | None = None) -> list[str]:
    """Prune a state directory within the limits of config.yaml, if it has any.

    A file that cannot be removed is no reason not to record, so this raises nothing for one.

    Returns:
        Why recordings beyond the limits stay; nothing about live recorders and unfinished runs.
    """
    try:
        config = load_config().recordings
        limits = given or config.limits
        if limits is None:
            return []
        request = PruneRequest(
            _recording_folders(state),
            limits,
            _read_lakes(config.lakes, state),
            force=given is None and config.force,
        )
        pruned = prune(request, wall_ms(SystemClock().now()))
    except (BadInput, FileProblem, RunProblem, OSError) as problem:
        return [f"old recordings stay: {problem}"]
    unread = pruned.choice.staying[KeptFor.UNREAD]
    warnings = [str(problem) for problem in pruned.removal.problems]
    if unread:
        warnings.append(
            f"{amount(unread)} of old recordings stay, because no lake has read them. See: "
            "ktui record prune"
        )
    return warnings


def prune(request: PruneRequest, now_ms: int) -> Pruned:
    """Remove the oldest segments beyond the limits, then empty folders; `now_ms` is since 1970."""
    found = [(folder, *each) for folder in request.folders for each in stored_sessions(folder)]
    sessions = {session: segments for _, session, segments in found}
    needs = _Needs(sessions, request.lakes, force=request.force)
    all_segments = (segment for segments in sessions.values() for segment in segments)
    choice = choose_segments(all_segments, request.limits, now_ms, needs.reason)
    if request.dry_run:
        return Pruned(choice, Removal(choice.going, ()))
    removal = remove_segments(choice.going)
    for folder, session, _ in found:
        tidy(session, folder)
    return Pruned(choice, removal)


class _Needs:
    """Finds out what still needs a segment. Its session decides, once for all its segments.

    For when a session grows, the pipeline may compute its forecasts again, from all its segments.
    """

    def __init__(self, sessions: Sessions, lakes: Iterable[LakeSegments], *, force: bool) -> None:
        self._sessions, self._lakes, self._force = sessions, tuple(lakes), force
        self._of_session = cache(self._find)

    def reason(self, segment: StoredSegment) -> KeptFor | None:
        return self._of_session(segment.session)

    def _find(self, session: Path) -> KeptFor | None:
        if is_live(session):
            return KeptFor.LIVE
        if self._force:
            return None
        run = _run_of(session)
        if run is not None and not is_over(run):
            return KeptFor.RUN
        segments = self._sessions[session]
        if any(all(map(lake.has, segments)) for lake in self._lakes):
            return None
        return KeptFor.UNREAD


def _run_of(session: Path) -> RunDir | None:
    of_run = [each.name for each in session.parents[1:4:2]] == ["recording", "runs"]
    return RunDir(session.parents[2]) if of_run else None


_REASONS = {
    KeptFor.LIVE: "because a recorder is writing their session",
    KeptFor.RUN: "because their run is not over",
    KeptFor.UNREAD: "because no lake has read all of their session",
    KeptFor.YOUNG: "within the limits",
}


@click.command("prune", short_help="Remove old recordings.")
@add_option("--older-than TIME", "Remove segments whose last line is older than this, such as 30d.")
@add_option(
    "--keep SIZE",
    "Remove the oldest segments until all together have no more than this, such as 20GB.",
)
@add_option(
    "--lake DIR",
    "The folder of a lake that reads the recordings; may be repeated. Default: `lake` in the "
    "state directory.",
    "lakes",
    multiple=True,
)
@add_option(
    "--recordings DIR",
    "A folder with recordings; may be repeated. Default: those of the state directory.",
    "folders",
    multiple=True,
)
@add_option("--force", "Also remove what no lake has read, and what unfinished runs need.")
@add_option("--dry-run", "Only report what would be removed.")
@common.json_option
@common.state_dir_option
def command(  # noqa: PLR0913 - an option each
    *,
    older_than: str | None,
    keep: str | None,
    lakes: tuple[str, ...],
    folders: tuple[str, ...],
    force: bool,
    dry_run: bool,
    json: bool,
    state: StateDir,
) -> None:
    """Remove the oldest recordings: what is too old, or too much.

    The limits are --older-than and --keep, or those of config.yaml. A recording stays while a
    recorder is writing it, its run is not over, or no lake has read it.

    Exit code 1 if a file could not be removed, 3 if recordings beyond the limits stay because
    something needs them.
    """
    config = load_config().recordings
    given = given_limits(older_than, keep)
    limits = given or config.limits
    if limits is None:
        raise BadInput(
            "prune needs a limit. Give --older-than 30d, --keep 20GB, or both; or put "
            "`recordings:` with `older_than:` or `keep:` into config.yaml"
        )
    request = PruneRequest(
        tuple(map(_folder, folders)) or _recording_folders(state),
        limits,
        _read_lakes(lakes or config.lakes, state),
        force=force or (given is None and config.force),
        dry_run=dry_run,
    )
    pruned = prune(request, wall_ms(SystemClock().now()))
    text = "\n".join(_lines(pruned, dry_run=dry_run))
    click.echo(encode(_json(pruned, dry_run=dry_run)) if json else text)
    for problem in pruned.removal.problems:
        print_note(str(problem))
    if pruned.removal.problems:
        sys.exit(FAILED)
    if pruned.choice.beyond_limits:
        sys.exit(NOT_ALL_DONE)


def _folder(place: str) -> Path:
    try:
        folder = expand_home(place).absolute()
    except Unreadable as why:
        raise BadInput(f"--recordings {clean(place)}: {why}") from None
    if not folder.is_dir():
        raise BadInput(f"--recordings {clean(place)}: there is no such folder")
    return folder


def _lines(pruned: Pruned, *, dry_run: bool) -> Iterator[str]:
    yield f"{'would remove' if dry_run else 'removed'} {amount(pruned.removal.removed)}"
    for reason, words in _REASONS.items():
        kept = pruned.choice.staying[reason]
        if kept:
            yield f"{'would keep' if dry_run else 'kept'} {amount(kept)}, {words}"
    if pruned.choice.staying[KeptFor.UNREAD]:
        yield "`ktui pipeline run` reads recordings into the lake; --force removes them unread"


def _amount_json(segments: Collection[StoredSegment]) -> dict[str, int]:
    return {"segments": len(segments), "bytes": sum(each.size for each in segments)}


def _json(pruned: Pruned, *, dry_run: bool) -> dict[str, object]:
    removed, staying = pruned.removal.removed, pruned.choice.staying
    each_for: list[tuple[KeptFor | None, Collection[StoredSegment]]] = [(None, removed)]
    each_for += staying.items()
    return {
        "schema_version": SCHEMA_VERSION,
        "dry_run": dry_run,
        "removed": _amount_json(removed),
        "kept": {reason: _amount_json(kept) for reason, kept in staying.items()},
        "files": [
            {"path": str(each.path), "bytes": each.size, "kept_for": reason}
            for reason, segments in each_for
            for each in segments
        ],
        "problems": [str(problem) for problem in pruned.removal.problems],
    }


log = logging.getLogger(__name__)


class EngineRecording:
    """Records what an engine sees and writes, or nothing; the run does not depend on it."""

    def __init__(self, recorder: Recorder | None, name: str) -> None:
        self._recorder = recorder
        self._events = None if recorder is None else RunRecording(recorder, name)

    def through(self, source: ObservationSource) -> ObservationSource:
        return source if self._recorder is None else RecordingSource(source, self._recorder)

    def take(self, entries: Iterable[JournalEntry]) -> None:
        if self._events is not None:
            self._events.take(entries)

    def state(self) -> Recording:
        return NOT_RECORDED if self._events is None else self._events.state()


@contextmanager
def record_run(
    state: StateDir, run: Run, cluster: str, clock: Clock, *, record: bool | None
) -> Iterator[EngineRecording]:
    """Record a run that this process owns, as its options or `record` say; seal older segments."""
    folder = state.run(run.name)
    if folder.recording.is_dir():
        for problem in seal(folder.recording).problems:
            log.warning("an earlier recording stays cut off: %s", problem)
    is_recorded = run.options.record if record is None else record
    for warning in prune_as_configured(state) if is_recorded else ():
        log.warning("%s", warning)
    if run.started is None or not is_recorded:
        yield EngineRecording(None, run.name)
        return
    program = f"ktui {__version__}{ENGINE}"
    recorder = Recorder(folder.recording, clock, cluster=cluster, program=program)
    recorder.begin(run.started.cluster_id)
    try:
        yield EngineRecording(recorder, run.name)
    finally:
        recorder.close()


class ClusterRecording(RecordingSource):
    """Records every poll, with the events of runs; prunes old recordings with each new session."""

    def __init__(
        self,
        source: ObservationSource,
        recorder: Recorder,
        state: StateDir,
        limits: Retention | None = None,
    ) -> None:
        super().__init__(source, recorder)
        self.runs = LiveRunsRecording(recorder, state)
        self._state, self._limits = state, limits
        self._writing: asyncio.Future[None] | None = None

    async def _record(self, observation: Observation) -> None:
        # Ten thousand moves, or a long journal, take a while. The view draws meanwhile.
        writing = asyncio.to_thread(self._record_with_runs, observation)
        self._writing = asyncio.ensure_future(writing)
        await asyncio.shield(self._writing)
        # Settings are read every 30 s; by then a throttle may have come and gone.
        self.settings_changed(*names_by_scope(self.runs.changed))

    def _record_with_runs(self, observation: Observation) -> None:
        before = self.recorder.path
        self.runs.record(observation)
        if before not in (None, self.recorder.path):
            prune_as_configured(self._state, self._limits)

    async def aclose(self) -> None:
        if self._writing is not None:
            await asyncio.wait([self._writing])
        await asyncio.to_thread(self.runs.close)
        self.recorder.close()
