"""`ktui replay`: play a recording in the live view."""

from __future__ import annotations

import shlex
import sys

import click
from click.shell_completion import CompletionItem

from ktui.cli.context.config import load_config
from ktui.cli.context.errors import BadInput
from ktui.cli.context.terminal import need_terminal
from ktui.cli.options import common
from ktui.cli.replay.recordings import choose_recording, find_recorded_sessions, join_sessions
from ktui.cli.replay.show import ShownRecording, show_recording
from ktui.cluster.text import clean
from ktui.execution.host.state_dir import StateDir
from ktui.recording.replay_clock import FASTEST, SLOWEST
from ktui.recording.replay_moment import parse_second
from ktui.recording.replay_tape import Tape


def _complete(
    context: click.Context, argument: click.Parameter, begun: str
) -> list[CompletionItem[str]]:
    return common.files_and(common.complete_run(context, argument, begun), begun)


@click.command("replay")
@click.argument("path", metavar="FILE|DIR|RUN", shell_complete=_complete)
@common.speed_option(
    SLOWEST, FASTEST, "Play N seconds of the recording in each second; 1 by default.", default=1.0
)
@click.option(
    "--at",
    "begin",
    metavar="TIME",
    help="Start here: 14:02:31, a date and time, or +1h30m from the beginning.",
)
@click.option("--session", metavar="ID", help="The recording to play, if there are several.")
@click.option(
    "--branch",
    is_flag=True,
    help="Go on otherwise from the moment of --at, on a simulated twin of it. Key: W.",
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

    From any moment, the key W goes on otherwise: on a simulated twin, beside what was.

    FILE is a segment of a recording, DIR a folder of recordings, RUN the name of a run.
    """
    known = join_sessions(find_recorded_sessions(path, state))
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
