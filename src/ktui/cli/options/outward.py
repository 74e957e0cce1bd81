"""The options by which a verb writes elsewhere: `--on-event`, `--metrics-file`, recordings."""

from __future__ import annotations

import os
import secrets
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path

import click
import msgspec

from ktui import __version__
from ktui.cli.context.config import load_config
from ktui.cli.context.option import add_option, all_of
from ktui.cli.context.terminal import BadInput
from ktui.cluster.clock import Clock
from ktui.cluster.text import clean
from ktui.durable import find_place
from ktui.execution.forecast.progress_text import FIRST_BYTES
from ktui.execution.host.operator_command import CommandProblem, resolve_command
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.options import RunOptions
from ktui.inputfile import FileProblem, Unreadable, read_input
from ktui.quantities import as_bytes, as_count
from ktui.recording.recorder import Recorder
from ktui.recording.redact import Redaction
from ktui.recording.stored import seal

ON_EVENT, METRICS_FILE, NONE = "--on-event", "--metrics-file", "none"


def resolved_command(place: str, text: str) -> str:
    """Return a command with the whole path of its program; empty for none."""
    if text.strip() in ("", NONE):
        return ""
    try:
        return resolve_command(text)
    except CommandProblem as problem:
        raise BadInput(f"{place}: {problem}") from None


_on_event = partial(resolved_command, ON_EVENT)

on_event_option = add_option(
    f"{ON_EVENT} CMD",
    "Run CMD for each stall, failure, pause, gate, outage and end, with one JSON object on "
    "its standard input. No shell; killed after 10 s. none: no command. Default: the context's.",
    reads=_on_event,
)

view_on_event_option = add_option(
    f"{ON_EVENT} CMD",
    "Run CMD when the engine of the shown run dies, with one JSON object on its standard "
    "input. The engine itself runs the command of the run for everything else.",
    reads=_on_event,
)


def with_event_command(options: RunOptions, of_context: str | None) -> RunOptions:
    """Add the context's command to the options of a run that name none."""
    if options.on_event is not None or of_context is None:
        return options
    command = resolved_command("on_event of the context", of_context)
    return msgspec.structs.replace(options, on_event=command)


def _metrics_file(text: str) -> str:
    if text in ("", NONE):
        return ""
    path = Path(os.path.abspath(text))  # noqa: PTH100 - keeps symbolic links
    try:
        _check_replaceable(path)
    except OSError as error:
        raise BadInput(
            f"{METRICS_FILE} {clean(text)}: cannot be written: {error.strerror}"
        ) from None
    return str(path)


def _check_replaceable(path: Path) -> None:
    """Check that an engine can write a file, and replaces nobody else's."""
    path.name.encode()
    place = find_place(path)
    if place.own_stream is not None:
        raise BadInput(
            f"{METRICS_FILE} {clean(str(path))}: is a stream of this process, which the engine "
            "does not have. Name a file or a named pipe"
        )
    if place.is_stream:
        return
    with tempfile.TemporaryFile(dir=place.path.parent):
        pass
    if place.old is not None and not _is_ours(place.path):
        raise BadInput(
            f"{METRICS_FILE} {clean(str(path))}: is not a file of metrics that ktui wrote, and "
            "would be replaced. Name another file"
        )


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(FIRST_BYTES)) in (FIRST_BYTES, b"")


metrics_file_option = add_option(
    f"{METRICS_FILE} FILE",
    "Keep the run's metrics in FILE, as text for Prometheus; replaced every 5 s. A file of "
    "its own for each run.",
    reads=_metrics_file,
)


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
