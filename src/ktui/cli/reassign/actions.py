"""The actions of `ktui reassign`."""

from __future__ import annotations

from ktui.cli.reassign.arguments import Arguments


def act(arguments: Arguments) -> int:
    """Perform the action of checked arguments.

    Returns:
        The exit code.

    Raises:
        BadArguments: the value of an option cannot be used.
    """
    raise NotImplementedError(arguments.action)
