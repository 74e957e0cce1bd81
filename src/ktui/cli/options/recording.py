"""The options of a recording: whether and where to record, and whether to hide names.

Names are hidden with a key. Each user has a key of their own, so that nobody else can test guesses
of names.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

import click

from ktui import __version__
from ktui.cli.context.config import load_config
from ktui.cli.context.option import add_option, all_of
from ktui.cluster.clock import Clock
from ktui.execution.host.state_dir import StateDir
from ktui.inputfile import FileProblem, Unreadable, read_input
from ktui.quantities import as_bytes, as_count
from ktui.recording.recorder import Recorder
from ktui.recording.redact import Redaction
from ktui.recording.stored import seal

_DAY_S = 86_400.0
"""Only sessions that have ended can be pruned, so a recorder does not write one forever."""

run_recorded_option = add_option(
    "--record/--no-record",
    "Record what the engine sees, in files next to the run's journal. Default: record.",
    default=None,
)

recording_options = all_of(
    add_option(
        "--to DIR",
        "Folder for the recording. Default: in the state directory.",
        type=click.Path(path_type=Path, file_okay=False),
    ),
    add_option(
        "--redact",
        "Hide names of topics, hosts, users and the like, so that you can share the recording.",
    ),
)


def recorded_in_words(recorder: Recorder, polls: int | None = None) -> str:
    """Describe how much was recorded, where it is, and why it stopped early, if it did."""
    stopped = "" if recorder.problem is None else f"; {recorder.problem}"
    if recorder.path is None:
        return f"nothing was recorded{stopped}"
    stopped = stopped.replace(f"{recorder.path}: ", "")  # one mention is enough
    count = "" if polls is None else f"{as_count(polls, 'poll')}, "
    return f"recorded {count}{as_bytes(recorder.written_bytes)}: {recorder.path}{stopped}"


def recorder(
    state: StateDir,
    to: Path | None,
    clock: Clock,
    *,
    cluster: str,
    verb: str,
    redact: bool,
    limited: bool = False,
) -> Recorder:
    """Return a recorder; repair what others left unfinished there. `limited`: options limit it."""
    if to is None:
        state.make(state.recordings)
    folder = (to or state.recordings).absolute()
    repair(folder)
    return Recorder(
        folder,
        clock,
        cluster=cluster,
        program=f"ktui {__version__} {verb}",
        redaction=redaction(state) if redact else None,
        longest_session_s=_DAY_S if limited or load_config().recordings.limits else None,
    )


def repair(folder: Path) -> None:
    """Repair recordings whose recorders died in a folder; warn of any that stay cut off."""
    with suppress(OSError):  # the recorder will report a folder that cannot be read
        for problem in seal(folder).problems if folder.is_dir() else ():
            click.echo(f"warning: an earlier recording stays cut off: {problem}", err=True)


_KEY_BYTES = 32
_FIX = (
    "Remove the file, and ktui makes a new key. Later recordings then hide the same names "
    "differently"
)


def redaction(state: StateDir) -> Redaction:
    """Return the redaction by the state directory's key, which is made when it is first needed."""
    path = state.redaction_key
    if not path.exists():
        state.make(state.path)
        _make_key(path)
    try:
        key = bytes.fromhex(read_input(path).decode())
    except Unreadable as problem:
        raise FileProblem(path, None, f"cannot be read: {problem}") from None
    except ValueError:
        key = b""
    if len(key) < _KEY_BYTES:
        raise FileProblem(path, None, f"is not a key of {_KEY_BYTES} bytes in hexadecimal. {_FIX}")
    return Redaction(key)


def _make_key(path: Path) -> None:
    """Make a key, or keep that of a quicker process. The file is there whole or not at all."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    file = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(file, "w") as key:
            key.write(secrets.token_hex(_KEY_BYTES))
        with suppress(FileExistsError):
            os.link(beside, path)
    finally:
        beside.unlink()
