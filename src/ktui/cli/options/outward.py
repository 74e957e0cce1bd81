"""The options by which a run speaks to other programs: `--on-event` and `--metrics-file`."""

from __future__ import annotations

import click
import msgspec

from ktui.cli.context.errors import BadInput
from ktui.execution.host.event_command import CommandProblem, resolve_command
from ktui.execution.run.options import RunOptions

ON_EVENT, NONE = "--on-event", "none"


def _resolved(place: str, text: str) -> str:
    """Return a command with the whole path of its program; empty for none.

    Raises:
        BadInput: it cannot be run; names the place.
    """
    if text.strip() in ("", NONE):
        return ""
    try:
        return resolve_command(text)
    except CommandProblem as problem:
        raise BadInput(f"{place}: {problem}") from None


def _on_event(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    return None if text is None else _resolved(ON_EVENT, text)


on_event_option = click.option(
    ON_EVENT,
    metavar="CMD",
    callback=_on_event,
    help="Run CMD for each stall, failure, pause, gate, outage and end, with one JSON object on "
    "its standard input. No shell; killed after 10 s. none: no command. Default: the context's.",
)


def with_event_command(options: RunOptions, of_context: str | None) -> RunOptions:
    """Add the context's command to the options of a run that name none.

    Raises:
        BadInput: the command cannot be run.
    """
    if options.on_event is not None or of_context is None:
        return options
    command = _resolved("on_event of the context", of_context)
    return msgspec.structs.replace(options, on_event=command)
