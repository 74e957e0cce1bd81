"""Click groups that import a command only when it is called."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """A group in which no command pays for the imports of another.

    Args:
        verbs: the place of each command, as "module:name", in the order of the help.
        hidden: the verbs that the help leaves out.
        options: arguments of `click.Group`.
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
        """Import one command; return None for an unknown name."""
        del ctx
        if cmd_name not in self._verbs:
            return None
        module, _, name = self._verbs[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command
