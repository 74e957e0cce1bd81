"""Where the lake is, as verbs with and without Spark take it."""

from __future__ import annotations

import click

from ktui.execution.host.state_dir import StateDir

lake_option = click.option(
    "--lake",
    metavar="DIR",
    help="The folder of the tables, by path or URI; else `lake` in the state directory.",
)


def lake_of(given: str | None, state: StateDir) -> str:
    """Give the place of the lake."""
    return given or str(state.path / "lake")
