"""The option for the place of the lake, for verbs with and without Spark."""

from __future__ import annotations

import click

from ktui.execution.host.state_dir import StateDir

lake_option = click.option(
    "--lake",
    metavar="DIR",
    help="The folder of the tables, as a path or URI; by default `lake` in the state directory.",
)


def lake_of(given: str | None, state: StateDir) -> str:
    """Return the place of the lake: the option, or `lake` in the state directory."""
    return given or str(state.path / "lake")
