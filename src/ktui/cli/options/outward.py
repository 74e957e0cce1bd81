"""The options by which a run speaks to other programs: `--on-event` and `--metrics-file`."""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path

import msgspec

from ktui.cli.context.errors import BadInput
from ktui.cli.context.option import add_option
from ktui.cluster.text import clean
from ktui.durable import find_place
from ktui.execution.forecast.progress_text import FIRST_BYTES
from ktui.execution.host.operator_command import CommandProblem, resolve_command
from ktui.execution.run.options import RunOptions

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
