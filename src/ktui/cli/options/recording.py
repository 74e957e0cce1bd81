"""The options of a recording: whether and where to record, and whether to hide names."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import click

from ktui import __version__
from ktui.cli.context.redaction_key import redaction
from ktui.cluster.clock import Clock
from ktui.execution.host.state_dir import StateDir
from ktui.quantities import as_bytes, as_count
from ktui.recording.recorder import Recorder
from ktui.recording.sealing import seal

F = TypeVar("F", bound=Callable[..., Any])

run_recorded_option = click.option(
    "--record/--no-record",
    default=None,
    help="Record what the engine sees, in files beside the run's journal. Default: record.",
)
"""Passes `record`: None without either option."""

_TO = click.option(
    "--to",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder for the recording. Default: in the state directory.",
)
_REDACT = click.option(
    "--redact",
    is_flag=True,
    help="Hide names of topics, hosts, users and the like, so that you can share the recording.",
)


def recording_options(function: F) -> F:
    """Add the options of a recording: to and redact."""
    return _TO(_REDACT(function))


def recorded_in_words(recorder: Recorder, looks: int | None = None) -> str:
    """Describe how much was recorded, where it is, and why it stopped early, if it did."""
    stopped = "" if recorder.problem is None else f"; {recorder.problem}"
    if recorder.path is None:
        return f"nothing was recorded{stopped}"
    stopped = stopped.replace(f"{recorder.path}: ", "")  # one mention is enough
    count = "" if looks is None else f"{as_count(looks, 'poll')}, "
    return f"recorded {count}{as_bytes(recorder.written_bytes)}: {recorder.path}{stopped}"


def recorder(
    state: StateDir, to: Path | None, clock: Clock, *, cluster: str, verb: str, redact: bool
) -> Recorder:
    """Return a recorder, and repair what earlier recorders left unfinished in its folder.

    Args:
        state: the state directory, which holds recordings by default.
        to: another folder for the recording.
        clock: the clock by which the cluster is polled.
        cluster: the operator's name for the cluster.
        verb: the verb of ktui that records.
        redact: whether names are hidden.

    Raises:
        StateDirProblem: the state directory cannot be used.
        FileProblem: the key that hides names cannot be used.
    """
    if to is None:
        state.make(state.recordings)
    folder = (to or state.recordings).absolute()
    _repair(folder)
    return Recorder(
        folder,
        clock,
        cluster=cluster,
        program=f"ktui {__version__} {verb}",
        redaction=redaction(state) if redact else None,
    )


def _repair(folder: Path) -> None:
    """Repair recordings whose recorders died in a folder; warn of any that stay cut off."""
    with suppress(OSError):  # the recorder will report a folder that cannot be read
        for problem in seal(folder).problems if folder.is_dir() else ():
            click.echo(f"warning: an earlier recording stays cut off: {problem}", err=True)
