"""`ktui replay`: a recording in the live view, and its branches: what would have been."""

from __future__ import annotations

import asyncio
import gc
import math
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import click
import msgspec
from click.shell_completion import CompletionItem

from ktui.cli.context.config import config_dir, load_config
from ktui.cli.context.option import add_option
from ktui.cli.context.terminal import BadInput, need_terminal
from ktui.cli.options import common
from ktui.cli.output.view import read_keymap, show_app, temporary_folder
from ktui.cli.rehearsal_report import ShownTwin
from ktui.cli.rehearse_live import RehearsalEngines
from ktui.cli.snapshot import twin_notes
from ktui.cli.watch.demo import set_stage
from ktui.cluster.clock import Clock, PausableClock
from ktui.cluster.text import clean
from ktui.columns import table
from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.host.catalog import UnknownRun, find_run
from ktui.execution.host.client import RunClient
from ktui.execution.host.launch import write_rollback
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import JournalEntry
from ktui.execution.run.run import Run
from ktui.quantities import as_duration
from ktui.recording.reading import GoodLine, Session, find_sessions, read_lines
from ktui.recording.replay_tape import FASTEST, SLOWEST, ReplayClock, Tape, parse_second
from ktui.recording.segments import RunLine, from_wall_ms
from ktui.rehearsal.branch import twin_at
from ktui.rehearsal.compare import (
    BranchPoint,
    Happening,
    RecordedEntries,
    RunMoment,
    WhatWas,
    comparison,
    entries_for_twin,
    moment_of,
)
from ktui.rehearsal.play import LiveRehearsal, Rehearsal
from ktui.simulated.clock import ScaledClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.scenario.file import FASTEST as FASTEST_TWIN
from ktui.simulated.twin import CannotSnapshot, ClusterTwin
from ktui.simulated.twin_parts import rates_of
from ktui.tui.app.simulated import BranchApp
from ktui.tui.draw.themes import load_themes
from ktui.tui.replay.app import ReplayApp
from ktui.tui.replay.player import NOTHING_POLLED, Player, branch_point
from ktui.tui.replay.walk import RunStage, Survey

_FIRST_LINES = 200
"""A recording names its run within so many lines: an engine records the run's events first."""


class Playable(msgspec.Struct, frozen=True):
    """A session, or the consecutive sessions of one run, to be played as one recording."""

    sessions: tuple[Session, ...]
    run: str  # the name of the first run in the recording; empty if there is none
    run_id: str  # distinguishes the run from others of the same name
    until_ms: int  # wall time of the last line, in milliseconds since 1970 (UTC)

    @property
    def session(self) -> str:
        return self.sessions[0].head.session[:8]

    @property
    def row(self) -> tuple[str, ...]:
        head = self.sessions[0].head
        began = from_wall_ms(head.at).astimezone()
        return (
            self.session,
            f"{began:%Y-%m-%d %H:%M:%S}",
            clean(head.cluster or head.cluster_id),
            clean(self.run) or "-",
            as_duration((self.until_ms - head.at) / 1000),
        )


_HEADER = ("SESSION", "BEGAN", "CLUSTER", "RUN", "LENGTH")


def join_sessions(sessions: Sequence[Session]) -> list[Playable]:
    """Join consecutive sessions of the same run; `sessions` come in the order of their times."""
    joined: list[Playable] = []
    for session in sessions:
        run_line, until_ms = _run_of(session), _until_ms(session)
        run, run_id = ("", "") if run_line is None else (run_line.run, run_line.run_id)
        previous = next(
            (
                number
                for number, each in enumerate(joined)
                if run_id and each.run_id == run_id and each.until_ms <= session.head.at
            ),
            None,
        )
        if previous is None:
            joined.append(Playable((session,), run, run_id, until_ms))
        else:
            joined[previous] = Playable(
                (*joined[previous].sessions, session), run, run_id, until_ms
            )
    return joined


def choose_recording(known: Sequence[Playable], session_id: str | None, *, ask: bool) -> Playable:
    """Return the recording to play, and prompt for it where needed."""
    if session_id is not None:
        return _named(known, session_id)
    if len(known) == 1:
        return known[0]
    if not ask:
        raise BadInput(
            f"there are several recordings. Choose one with --session:\n{_listed(known)}"
        )
    numbers = [str(number) for number in range(1, len(known) + 1)]
    rows = [(number, *each.row) for number, each in zip(numbers, known, strict=True)]
    click.echo(table(("", *_HEADER), rows))
    answer = click.prompt("Which one", type=click.IntRange(1, len(known)), default=len(known))
    return known[answer - 1]


def _named(known: Sequence[Playable], session_id: str) -> Playable:
    found = [
        each for each in known if any(s.head.session.startswith(session_id) for s in each.sessions)
    ]
    if session_id and len(found) == 1:
        return found[0]
    several = "several sessions begin with this id" if found and session_id else "no such session"
    raise BadInput(f"--session {session_id!r}: {several}. The sessions are:\n{_listed(known)}")


def _listed(known: Sequence[Playable]) -> str:
    return table(_HEADER, [each.row for each in known])


def _run_of(session: Session) -> RunLine | None:
    for number, each in enumerate(read_lines(session.files[0])):
        if number >= _FIRST_LINES:
            return None
        if isinstance(each, GoodLine) and isinstance(each.line, RunLine):
            return each.line
    return None


def _until_ms(session: Session) -> int:
    times = (each.line for each in read_lines(session.files[-1]) if isinstance(each, GoodLine))
    return max(
        (line.at for line in times if not isinstance(line, RunLine)), default=session.head.at
    )


def _find_recorded_sessions(path: str, state: StateDir) -> list[Session]:
    if Path(path).exists():
        return find_sessions(Path(path))
    try:
        run = find_run(state, path)
    except UnknownRun as unknown:
        raise BadInput(f"{clean(path)}: there is no such file, and {unknown}") from None
    if not run.recording.is_dir():
        raise BadInput(f"run {run.name} has no recording: there is no folder {run.recording}")
    return find_sessions(run.recording)


def _complete(
    context: click.Context, argument: click.Parameter, begun: str
) -> list[CompletionItem[str]]:
    return common.files_and(common.complete_run(context, argument, begun), begun)


@click.command("replay")
@click.argument("path", metavar="FILE|DIR|RUN", shell_complete=_complete)
@common.speed_option(
    SLOWEST, FASTEST, "Play N seconds of the recording in each second; 1 by default.", default=1.0
)
@add_option(
    "--at TIME", "Start here: 14:02:31, a date and time, or +1h30m from the beginning.", "begin"
)
@add_option("--session ID", "The recording to play, if there are several.")
@add_option(
    "--branch", "Go on otherwise from the moment of --at, on a simulated twin of it. Key: W."
)
@common.theme_option
@common.state_dir_option
def command(
    path: str,
    *,
    speed: float,
    begin: str | None,
    session: str | None,
    branch: bool,
    theme: str | None,
    state: StateDir,
) -> None:
    """Play a recording in the live view. Needs no Kafka, and changes nothing.

    From any moment, the key W goes on differently: on a simulated twin, next to what really
    happened.

    FILE is a segment of a recording, DIR a folder of recordings, RUN the name of a run.
    """
    known = join_sessions(_find_recorded_sessions(path, state))
    chosen = choose_recording(known, session, ask=sys.stdin.isatty() and sys.stdout.isatty())
    tape = Tape(chosen.sessions)
    at_s = _second(begin, tape)
    need_terminal("; `ktui list` and `ktui status` are for pipes and scripts")
    words = ["ktui", "replay", path, *(["--session", chosen.session] if len(known) > 1 else [])]
    of_several = f", session {chosen.session}" if len(known) > 1 else ""
    show_recording(
        ShownRecording(
            tape=tape,
            name=f"{clean(path)}{of_several}",
            again=f"{shlex.join(words)}{common.state_option(state)} --at ",
            state=state,
        ),
        at_s,
        speed=speed,
        theme=theme or load_config().theme,
        branch=branch,
    )


def _second(begin: str | None, tape: Tape) -> float:
    if begin is None:
        return tape.first_look_s
    try:
        return parse_second(begin, tape)
    except ValueError as error:
        raise BadInput(f"--at {error}") from None


@contextmanager
def replay_app(
    tape: Tape,
    at_s: float,
    *,
    recording: str,
    speed: float = 1.0,
    theme: str | None = None,
    again: Callable[[str], str] = "ktui replay RECORDING --at ".__add__,
    real: Clock | None = None,
) -> Iterator[ReplayApp]:
    """Make an app that plays a recording; `again` returns the command for a position."""
    from_s = tape.from_s
    clock = ReplayClock(tape.wall(from_s), from_s, tape.until_s, speed=speed, real=real)
    with temporary_folder("ktui-replay-") as folder:
        runs = RunStage(folder)
        try:
            yield ReplayApp(
                Player(tape, clock, runs, at_s),
                state_dir=runs.state_dir,
                name=clean(tape.cluster or tape.cluster_id),
                recording=recording,
                again=again,
                theme=theme,
                themes=load_themes(config_dir() / "themes"),
                keymap=read_keymap(load_config()),
            )
        finally:
            runs.close()


_NO_RUN = "No run had begun at this moment, so there is nothing to compare."


def show_branch(point: BranchPoint, twin: ClusterTwin, speed: float, theme: str | None) -> None:
    """Show a branch until it is closed; from its moment again, as often as the operator wants."""
    while True:
        again, speed, theme = asyncio.run(_show(point, twin, speed, theme))
        gc.collect()  # a cluster and its app hold each other
        if not again:
            return


async def _show(
    point: BranchPoint, twin: ClusterTwin, speed: float, theme: str | None
) -> tuple[bool, float, str]:
    async with branch_app(point, twin, speed, theme) as app:
        await show_app(app)
        return app.plays_again, app.speed, app.theme


@asynccontextmanager
async def branch_app(
    point: BranchPoint,
    twin: ClusterTwin,
    speed: float,
    theme: str | None = None,
    real: Clock | None = None,
) -> AsyncIterator[BranchApp]:
    """Let the runs of a moment go on, on its twin, and make an app for them."""
    clock = ScaledClock(speed, point.at, point.clock_s, fastest=FASTEST_TWIN, real=real)
    cluster = SimulatedCluster(twin.spec, clock)
    newest = max(point.runs, key=lambda run: run.entries[0].at, default=None)
    on_stage = LiveRehearsal(_rehearsal(newest, point.at), cluster)
    engines = partial(RehearsalEngines, on_stage=on_stage)
    async with set_stage(cluster, clock, "branch", engines) as stage:
        folders = {
            run.name: _write_run(stage.state_dir, run, point.at, twin.spec.name, clock)
            for run in point.runs
        }
        app = BranchApp(
            branch=ShownBranch(point, twin, on_stage, newest, folders, clock),
            before=point.progress,
            name=point.cluster,
            run=None if newest is None else folders[newest.name].path,
            theme=theme,
            **stage.app,
        )
        for run in point.runs:
            then = run.until(point.at)
            if then.complete and not then.ended and then.left is None:  # it had an engine
                stage.engines.launch(folders[run.name])
        yield app


def _rehearsal(run: RecordedEntries | None, at: datetime) -> Rehearsal:
    """Return what the stage watches: the run that began last, with its time of --until."""
    if run is None:
        return Rehearsal(name="", first=())
    return Rehearsal(name=run.name, first=(), until=run.until(at).until)


def _write_run(
    state_dir: StateDir, run: RecordedEntries, at: datetime, cluster_id: str, clock: PausableClock
) -> RunDir:
    folder = state_dir.create_run(run.name)
    entries = entries_for_twin(run, at, cluster_id)
    with Journal.create(folder.journal, clock) as journal:
        journal.copy(entries)
    write_rollback(folder, Run(run.name).fold(entries))
    return folder


class ShownBranch(ShownTwin):
    """The branch of the view: changes the twin on request, and compares it with what was."""

    def __init__(
        self,
        point: BranchPoint,
        twin: ClusterTwin,
        on_stage: LiveRehearsal,
        run: RecordedEntries | None,
        folders: dict[str, RunDir],
        clock: PausableClock,
    ) -> None:
        super().__init__(on_stage)
        self._point, self._twin, self._clock = point, twin, clock
        self._run, self._folders = run, folders
        self._was = None if run is None else WhatWas(run.name, run.entries, point.at)

    name = "branch"

    def beside(self, run: Run | None) -> tuple[RunMoment | None, RunMoment | None]:
        """Return the run as it was at this moment, and as it is here."""
        if self._run is None or self._was is None:
            return None, None
        here = None
        if run is not None and run.name == self._run.name:
            here = moment_of(run, self._point.at)
        return self._was.at(self._clock.now()), here

    async def report(self) -> str:
        """Return what was beside what is here, as of now, and what the twin leaves out."""
        lines = [*self._heading(), ""]
        if self._run is None:
            return "\n".join([*lines, _NO_RUN])
        client = RunClient(self._folders[self._run.name])
        entries = (await asyncio.to_thread(client.read)).entries
        return "\n".join([*lines, await asyncio.to_thread(self._comparison, self._run, entries)])

    def _comparison(self, run: RecordedEntries, entries: Sequence[JournalEntry]) -> str:
        was = WhatWas(run.name, run.entries, self._point.at)
        now = self._clock.now()
        played = self.on_stage.played(entries)
        events = (
            []
            if played is None
            else [
                Happening(played.began + timedelta(seconds=hit.at_s), hit.text)
                for hit in played.hits
            ]
        )
        return comparison(
            was,
            entries,
            run.entries,
            happened=self._point.happened,
            events=events,
            since=self._point.at,
            now=now,
        )

    def _heading(self) -> list[str]:
        point = self._point
        at = f"{point.at.astimezone():%Y-%m-%d %H:%M:%S}"
        return [
            f"a branch of {point.recording} at {at}, {as_duration(point.at_s)} after its beginning",
            *twin_notes(self._twin),
        ]


class ShownRecording(msgspec.Struct, frozen=True, kw_only=True):
    """A recording as an operator has named it."""

    tape: Tape
    name: str
    again: str  # the beginning of the command that replays it from a position
    state: StateDir  # the state directory, whose insights may know the cluster


def show_recording(
    shown: ShownRecording, at_s: float, *, speed: float, theme: str | None, branch: bool
) -> None:
    """Play a recording, and its branches in between."""
    point = _first_point(shown, at_s) if branch else None
    plays = point is None
    while True:
        if point is not None:
            twin = _twin(shown, point)
            show_branch(point, twin, min(speed, FASTEST_TWIN), theme)
            at_s = shown.tape.from_s + point.at_s
        with replay_app(
            shown.tape,
            at_s,
            recording=shown.name,
            speed=speed,
            theme=theme,
            again=shown.again.__add__,
        ) as app:
            app.plays = plays
            asyncio.run(show_app(app))
            point, theme, speed = app.branch, app.theme, app.speed
        if point is None:
            return
        plays = False


def _first_point(shown: ShownRecording, at_s: float) -> BranchPoint:
    survey = Survey(shown.tape)
    survey.go_on(math.inf)
    point = branch_point(shown.name, shown.tape, survey, at_s)
    if point is None:
        raise BadInput(f"--branch: {NOTHING_POLLED}")
    return point


def _twin(shown: ShownRecording, point: BranchPoint) -> ClusterTwin:
    otherwise = rates_of(EarlierRuns(shown.state)(shown.tape.cluster_id))
    try:
        return twin_at(point, otherwise)
    except CannotSnapshot as problem:
        raise BadInput(str(problem)) from None
