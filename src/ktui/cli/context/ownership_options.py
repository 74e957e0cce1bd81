"""The options that say what to do about the owner of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

NO_OWNERSHIP = "--no-ownership"
TAKE_OVER = "--take-over"

take_over_option = click.option(
    TAKE_OVER,
    is_flag=True,
    help="Take the cluster over from another state directory; its engines then send nothing more.",
)
no_ownership_option = click.option(
    NO_OWNERSHIP,
    is_flag=True,
    help="Do not check who owns the cluster, and do not keep others from it.",
)


def ownership_options(function: F) -> F:
    """Add --take-over and --no-ownership."""
    return take_over_option(no_ownership_option(function))
