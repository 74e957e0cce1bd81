"""`ktui completion`: Tab completion in bash, zsh and fish."""

from __future__ import annotations

from typing import cast

import click
from click.shell_completion import ShellComplete, get_completion_class

REQUEST = "_KTUI_COMPLETE"
"""The environment variable by which a shell's script asks for completions, as `bash_complete`."""
SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS), metavar="|".join(SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script by which a shell completes verbs, options and runs.

    Put it where the shell finds it, and open a new shell. Make the folder first:

    ktui completion bash > ~/.local/share/bash-completion/completions/ktui

    ktui completion zsh > ~/.zfunc/_ktui

    ktui completion fish > ~/.config/fish/completions/ktui.fish

    bash needs the package bash-completion. For zsh, ~/.zshrc needs `fpath+=~/.zfunc` before
    `compinit`.
    """
    click.echo(_shell(shell, context.find_root().command).source(), nl=False)


def complete(program: click.Command, request: str) -> None:
    """Print completions, or nothing: an error would land in the line that is being typed."""
    try:
        answer = _shell(request.removesuffix("_complete"), program).complete()
    except Exception:  # noqa: BLE001 - whatever the reason
        return
    click.echo(answer)


def _shell(name: str, program: click.Command) -> ShellComplete:
    kind = cast("type[ShellComplete]", get_completion_class(name))
    return kind(program, {}, "ktui", REQUEST)
