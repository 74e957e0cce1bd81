"""What is recorded, where to, and under which names."""

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
    help="Record what the run's process sees beside its journal; the default.",
)
"""Gives `record`: None where neither is given."""

_TO = click.option(
    "--to",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where the recording goes; else into the state directory.",
)
_REDACT = click.option(
    "--redact",
    is_flag=True,
    help="Hide the names of topics, hosts, users and the like, so that it can be given away.",
)


def recording_options(function: F) -> F:
    """Add the options of a recording: to and redact."""
    return _TO(_REDACT(function))


def in_words(recorder: Recorder, looks: int | None = None) -> str:
    """Say how much has been recorded, where it is, and why it is not more."""
    stopped = "" if recorder.problem is None else f"; {recorder.problem}"
    if recorder.path is None:
        return f"nothing was recorded{stopped}"
    stopped = stopped.replace(f"{recorder.path}: ", "")  # it is named once
    count = "" if looks is None else f"{as_count(looks, 'look')}, "
    return f"recorded {count}{as_bytes(recorder.written_bytes)}: {recorder.path}{stopped}"


def recorder(
    state: StateDir, to: Path | None, clock: Clock, *, cluster: str, verb: str, redact: bool
) -> Recorder:
    """Give what records, into a folder in which what earlier recorders left behind is made whole.

    Args:
        state: where recordings go that are to go nowhere else.
        to: where else.
        clock: the one by which the cluster is looked at.
        cluster: what the operator calls it.
        verb: of ktui, that records.
        redact: whether names are hidden.

    Raises:
        StateDirProblem: the state directory cannot be used.
        FileProblem: the key that hides names cannot be.
    """
    if to is None:
        state.make(state.recordings)
    folder = (to or state.recordings).absolute()
    _make_whole(folder)
    return Recorder(
        folder,
        clock,
        cluster=cluster,
        program=f"ktui {__version__} {verb}",
        redaction=redaction(state) if redact else None,
    )


def _make_whole(folder: Path) -> None:
    """Make whole what recorders that died have left in a folder; say what stays cut off."""
    with suppress(OSError):  # a folder that cannot be looked into: the recorder will say so
        for problem in seal(folder).problems if folder.is_dir() else ():
            click.echo(f"warning: an earlier recording stays cut off: {problem}", err=True)
