"""Groups of commands that are imported only when they are called."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """A group of which no command pays for the imports of another.

    Args:
        verbs: where each command is, as "module:name", in the order of the help.
        hidden: those that the help leaves out.
        options: as `click.Group` takes them.
    """

    def __init__(
        self, *, verbs: Mapping[str, str], hidden: Collection[str] = (), **options: Any
    ) -> None:
        super().__init__(**options)
        self._verbs = verbs
        self._hidden = hidden

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names that the help shows."""
        del ctx
        return [name for name in self._verbs if name not in self._hidden]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; None when there is no such command."""
        del ctx
        if cmd_name not in self._verbs:
            return None
        module, _, name = self._verbs[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command
