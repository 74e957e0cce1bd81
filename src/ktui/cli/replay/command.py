"""`ktui replay`: play a recording in the live view."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from click.shell_completion import CompletionItem

from ktui.cli.context.config import load_config
from ktui.cli.context.errors import BadInput
from ktui.cli.context.option import add_option
from ktui.cli.context.terminal import need_terminal
from ktui.cli.options import common
from ktui.cli.output.table import table
from ktui.cli.replay.view import ShownRecording, show_recording
from ktui.cluster.text import clean
from ktui.execution.host.catalog import UnknownRun, find_run
from ktui.execution.host.state_dir import StateDir
from ktui.quantities import as_duration
from ktui.recording.reading import GoodLine, Session, find_sessions, read_lines
from ktui.recording.replay_tape import FASTEST, SLOWEST, Tape, parse_second
from ktui.recording.segments import RunLine, from_wall_ms

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
