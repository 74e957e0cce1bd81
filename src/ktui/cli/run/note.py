"""`ktui note`: write a note among the events of a run, for whoever has it next."""

from __future__ import annotations

import click

from ktui.cli.options import common
from ktui.execution.host.client import RunClient, write_note
from ktui.execution.host.state_dir import StateDir


@click.command("note")
@common.run_argument
@click.argument("text", metavar="TEXT", nargs=-1, required=True)
@common.state_dir_option
def command(name: str, text: tuple[str, ...], *, state: StateDir) -> None:
    """Write TEXT among the events of RUN, with your name and the time.

    `ktui status` and `ktui runs` show notes, and so does `e` in the view. The run may be live, wait
    for resume or have ended. Nothing is sent to the cluster.
    """
    write_note(RunClient.find(state, name), " ".join(text))
    click.echo(f"run {name}: noted")
