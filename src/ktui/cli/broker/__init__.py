"""`ktui broker`: the verbs about one broker."""

from __future__ import annotations

import click

from ktui.cli.context.option import LazyGroup

VERBS = {
    "remove": "ktui.cli.broker.remove:command",
    "status": "ktui.cli.broker.status:command",
    "empty": "ktui.cli.broker.status:empty",
    "cordon": "ktui.cli.broker.status:cordon",
    "uncordon": "ktui.cli.broker.status:uncordon",
    "demote": "ktui.cli.broker.runs:command",
    "undo": "ktui.cli.broker.runs:undo",
    "unregister": "ktui.cli.broker.status:unregister",
}


@click.command("broker", cls=LazyGroup, verbs=VERBS)
def command() -> None:
    """See what a broker holds, and take it out of the cluster."""
