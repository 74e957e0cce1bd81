"""`ktui replay`: the live view on a recording."""

from __future__ import annotations

import asyncio
import math
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from ktui.cli import options
from ktui.cli.config import config_dir, load_config
from ktui.cli.errors import BadInput
from ktui.cli.replay_sessions import choices, choose
from ktui.cli.show_app import show_app
from ktui.cli.terminal import need_terminal
from ktui.cluster.clock import Clock
from ktui.cluster.text import clean
from ktui.execution.runs import UnknownRun, find_run
from ktui.execution.statedir import StateDir
from ktui.recording.reading import Session, recordings
from ktui.recording.replay_clock import FASTEST, SLOWEST, ReplayClock
from ktui.recording.replay_moment import second_of
from ktui.recording.replay_tape import Tape
from ktui.tui.replay import ReplayApp
from ktui.tui.replay_playing import Playing
from ktui.tui.replay_stage import RunStage
from ktui.tui.themes import load_themes


def _number(_context: click.Context, _option: click.Parameter, value: float) -> float:
    """Refuse what a range lets through: nan is neither too small nor too large."""
    if math.isnan(value):
        raise click.BadParameter("nan is not a number.")
    return value


@click.command("replay")
@click.argument("path", metavar="FILE|DIR|RUN")
@click.option(
    "--speed",
    type=click.FloatRange(SLOWEST, FASTEST),
    default=1.0,
    callback=_number,
    metavar="N",
    help="How many of the recording's seconds pass in one of yours; 1 unless given.",
)
@click.option(
    "--at",
    "begin",
    metavar="TIME",
    help="Where to begin: 14:02:31, a date and time, or +1h30m from the beginning.",
)
@click.option("--session", metavar="ID", help="Of several recordings, the one to play.")
@click.option("--theme", metavar="NAME", help="The colour theme to start with.")
@options.state_dir_option
def command(
    path: str,
    *,
    speed: float,
    begin: str | None,
    session: str | None,
    theme: str | None,
    state: StateDir,
) -> None:
    """Play a recording in the live view. Needs no Kafka, and changes nothing.

    FILE is a segment of a recording, DIR a folder of recordings, RUN the name of a run.
    """
    known = choices(found(path, state))
    chosen = choose(known, session, ask=sys.stdin.isatty() and sys.stdout.isatty())
    tape = Tape(chosen.sessions)
    at_s = _second(begin, tape)
    need_terminal("; `ktui list` and `ktui status` are for pipes and scripts")
    words = ["ktui", "replay", path, *(["--session", chosen.session] if len(known) > 1 else [])]
    again = f"{shlex.join(words)}{options.state_option(state)} --at "
    of_several = f", session {chosen.session}" if len(known) > 1 else ""
    with stage(
        tape,
        at_s,
        recording=f"{clean(path)}{of_several}",
        speed=speed,
        theme=theme or load_config().theme,
        again=again.__add__,
    ) as app:
        asyncio.run(show_app(app))


def found(path: str, state: StateDir) -> list[Session]:
    """Give the sessions of a file, of a folder, or of a run where there is no such file.

    Raises:
        FileProblem: there is no recording in it.
        BadInput: there is neither such a file nor such a run.
    """
    if Path(path).exists():
        return recordings(Path(path))
    try:
        run = find_run(state, path)
    except UnknownRun as unknown:
        raise BadInput(f"{clean(path)}: there is no such file, and {unknown}") from None
    if not run.recording.is_dir():
        raise BadInput(f"run {run.name} has no recording: there is nothing in {run.recording}")
    return recordings(run.recording)


def _second(begin: str | None, tape: Tape) -> float:
    if begin is None:
        return tape.first_look_s
    try:
        return second_of(begin, tape)
    except ValueError as error:
        raise BadInput(f"--at {error}") from None


@contextmanager
def stage(
    tape: Tape,
    at_s: float,
    *,
    recording: str,
    speed: float = 1.0,
    theme: str | None = None,
    again: Callable[[str], str] = "ktui replay RECORDING --at ".__add__,
    real: Clock | None = None,
) -> Iterator[ReplayApp]:
    """Put up an app that plays a recording, which is yet to be run.

    Args:
        tape: the recording.
        at_s: the second of it to begin at.
        recording: what it is called.
        speed: how many of its seconds pass in one of ours.
        theme: the theme to start with.
        again: gives the command that goes on from a position.
        real: our time.
    """
    from_s = tape.from_s
    clock = ReplayClock(tape.wall(from_s), from_s, tape.until_s, speed=speed, real=real)
    with tempfile.TemporaryDirectory(prefix="ktui-replay-") as folder:
        runs = RunStage(Path(folder))
        try:
            yield ReplayApp(
                Playing(tape, clock, runs, at_s),
                state_dir=runs.state_dir,
                name=clean(tape.cluster or tape.cluster_id),
                recording=recording,
                again=again,
                theme=theme,
                themes=load_themes(config_dir() / "themes"),
            )
        finally:
            runs.close()
