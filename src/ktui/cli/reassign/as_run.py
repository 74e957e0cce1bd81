"""`ktui reassign --execute --as-run`: the same file as a paced run, by `ktui start`."""

from __future__ import annotations

import click

from ktui.cli.context.errors import FAILED, BadInput
from ktui.cli.reassign.command_line.arguments import Arguments
from ktui.cli.start.command import command as start
from ktui.planning.check.findings import Option

_SAME = ("bootstrap-server", "command-config", "context", "state-dir")
_FLAGS = ("take-over", "no-ownership")


def start_as_run(arguments: Arguments) -> None:
    """Start a run of the file, with the limits of the context, and follow it to its end.

    The exit code is 1 where `ktui start` has another one than 0; it has said why.
    """
    try:
        start.main(start_words(arguments), "ktui start", standalone_mode=False)
    except SystemExit as ended:
        raise click.exceptions.Exit(FAILED if ended.code else 0) from None
    except click.UsageError as wrong:  # such as a file that is a name of an option
        raise BadInput(wrong.format_message()) from None


def start_words(arguments: Arguments) -> list[str]:
    """Return the words of the `ktui start` that does the same."""
    words = [arguments.text("reassignment-json-file") or ""]
    for name in _SAME:
        value = arguments.text(name)
        words += [] if value is None else [f"--{name}", value]
    words += [f"--{name}" for name in _FLAGS if arguments.has(name)]
    if not arguments.has("disallow-replication-factor-change"):
        words.append("--allow-replication-factor-change")
    if (rate := arguments.number("throttle")) > 0:
        words += ["--throttle", str(rate), Option.SLOW]
    if size := arguments.number("reassignment-batch-size"):
        mode = "rolling" if arguments.has("incremental") else "wave"
        words += ["--partitions", str(size), "--mode", mode]
    if arguments.has("additional"):
        words.append("--concurrent")
    return words
