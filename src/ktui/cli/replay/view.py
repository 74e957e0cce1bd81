"""The replay of a recording in the live view."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ktui.cli.context.config import config_dir, load_config
from ktui.cli.output.keymap import read_keymap
from ktui.cli.output.view import temporary_folder
from ktui.cluster.clock import Clock
from ktui.cluster.text import clean
from ktui.recording.replay_clock import ReplayClock
from ktui.recording.replay_tape import Tape
from ktui.tui.draw.themes import load_themes
from ktui.tui.replay.app import ReplayApp
from ktui.tui.replay.player import Player
from ktui.tui.replay.run_stage import RunStage


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
    """Make an app that plays a recording; the caller runs it.

    Args:
        tape: the recording.
        at_s: the second of the recording to begin at.
        recording: the recording's name on the screen.
        speed: how many seconds of the recording pass in one real second.
        theme: the theme to start with.
        again: returns the command that replays from a position.
        real: the real clock; None for the system's.
    """
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
