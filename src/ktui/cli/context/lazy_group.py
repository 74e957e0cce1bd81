"""Click groups that import a command only when it is called."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

from ktui.imports import import_to_stay
from ktui.planning.plan import closest_names

_COMMAND_LINE = click.core.ParameterSource.COMMANDLINE


def refuse_options_before_verb(context: click.Context) -> None:
    """Refuse options of a group that were given together with one of its verbs."""
    for parameter in context.command.params:
        if context.get_parameter_source(parameter.name or "") is _COMMAND_LINE:
            option, verb = parameter.opts[0], context.invoked_subcommand
            fix = f"ktui {context.info_name} {verb} ... {option}"
            raise click.UsageError(f"Put {option} after the verb: {fix}")


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
        command: click.Command = getattr(sys.modules.get(module) or import_to_stay(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; the error about an unknown one suggests that with the nearest name."""
        verb = args[0]
        if ctx.resilient_parsing or verb.startswith("-") or self.get_command(ctx, verb):
            return super().resolve_command(ctx, args)
        near = closest_names(verb, self.list_commands(ctx))
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise click.UsageError(f"No such command {verb!r}.{hint}", ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Return the verbs and options that begin so, without the import of any verb."""
        verbs = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*map(CompletionItem, verbs), *options]
