"""The options of `ktui pipeline run` that say what is played, and where insights go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from ktui.pipeline.outlook import Asked
from ktui.pipeline.what_if_grid import read_grid, usual_grid
from ktui.units import Seconds, read

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--grid",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="The limits and throttles under which recorded runs are played, as YAML; else 96 "
        "usual ones.",
    ),
    click.option(
        "--window",
        metavar="TIME",
        help="How long a run may take, as 4h: the gentlest limits that fit are advised; else the "
        "fastest that hold no more replicas at once than the run did.",
    ),
    click.option(
        "--no-insights",
        is_flag=True,
        help="Only what was seen: no forecasts held against it, nothing played, no insights.",
    ),
    click.option(
        "--keep-insights",
        is_flag=True,
        help="Leave insights in the lake: the live view's are not replaced.",
    ),
)


def outlook_options(function: F) -> F:
    """Add the options; `asked_of` reads what they give."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def asked_of(given: Mapping[str, Any]) -> Asked | None:
    """Read the options; None where nothing is to be played.

    Raises:
        FileProblem: the grid cannot be used; with the line.
    """
    if given["no_insights"]:
        return None
    cells = usual_grid() if given["grid"] is None else read_grid(given["grid"])
    chosen = given["grid"] is not None or given["window"] is not None
    return Asked(cells, _window_s(given["window"]), anew=chosen)


def _window_s(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds: Seconds = read(Seconds, text)
    except ValueError as error:
        raise click.UsageError(f"--window: {error}") from error
    if seconds <= 0:
        raise click.UsageError("--window: nothing fits into no time. Give one such as 4h.")
    return float(seconds)
