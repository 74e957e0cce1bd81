"""The `ktui` command: find the verb, run it, and report a failure in plain words."""

from __future__ import annotations

import os
import sys
import traceback
from itertools import pairwise
from typing import cast

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

from ktui import __version__
from ktui.cli.context.option import LazyGroup
from ktui.cli.context.terminal import BAD_INPUT, FAILED, INTERRUPTED, BadInput, clean_output
from ktui.cluster.errors import ClusterError
from ktui.execution import RunProblem, RunRefused
from ktui.inputfile import FileProblem

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


DEBUG = "KTUI_DEBUG"
"""The environment variable that, set to anything, shows the traceback of a defect in ktui."""

VERBS = {
    "watch": "ktui.cli.watch.command:command",
    "record": "ktui.cli.record:command",
    "replay": "ktui.cli.replay:command",
    "list": "ktui.cli.run.list:command",
    "plan": "ktui.cli.plan.make:command",
    "progress": "ktui.cli.plan.progress:command",
    "verify": "ktui.cli.reassign.changes:command",
    "rehearse": "ktui.cli.rehearse:command",
    "start": "ktui.cli.start:command",
    "resume": "ktui.cli.follow:command",
    "runs": "ktui.cli.run.runs:command",
    "status": "ktui.cli.run.status:command",
    "limits": "ktui.cli.run.change:limits_command",
    "throttle": "ktui.cli.run.throttle:command",
    "schedule": "ktui.cli.run.change:schedule_command",
    "pause": "ktui.cli.run.change:pause",
    "continue": "ktui.cli.run.change:continue_",
    "note": "ktui.cli.run.change:note_command",
    "cancel": "ktui.cli.cancel:command",
    "add": "ktui.cli.run.add:command",
    "alter-topic": "ktui.cli.alter:command",
    "broker": "ktui.cli.broker:command",
    "snapshot": "ktui.cli.snapshot:command",
    "reassign": "ktui.cli.reassign.command:command",
    "pipeline": "ktui.cli.pipeline.group:command",
    "insights": "ktui.cli.run.runs:insights_command",
    "doctor": "ktui.cli.doctor:command",
    "demo": "ktui.cli.watch.demo:command",
    "lab": "ktui.cli.lab:command",
    "completion": "ktui.cli.main:command",
    "engine": "ktui.cli.engine:command",
}
"""The module and name of each verb's command, in the order of the help."""
GROUPS = {
    "See what moves": {
        "watch": "Watch reassignments live, and the run that moves them.",
        "list": "List reassignments under way, with the lag of each replica.",
        "progress": "Show how far behind its leader each replica of PLAN is.",
        "verify": "Show which partitions of PLAN are where it wants them.",
        "replay": "Play a recording in the live view.",
        "demo": "Show the live view on a simulated cluster.",
    },
    "Plan and rehearse": {
        "plan": "Check plans, or make them from what you want or from runs.",
        "rehearse": "Carry out PLAN on a simulated twin of its cluster.",
        "snapshot": "Save the twin of a cluster, on which plans can be tried.",
    },
    "Carry out a plan, and steer it": {
        "start": "Carry out PLAN in paced steps, under limits you can change.",
        "resume": "Resume RUN after a crash, an interrupt or a failure.",
        "runs": "List the runs of the state directory, newest first.",
        "status": "Show how far RUN is, and what holds it up.",
        "limits": "Show or change the limits of RUN.",
        "throttle": "Show the throttle of RUN, or change its rate.",
        "schedule": "Show or change when steps of RUN begin, and its deadline.",
        "pause": "Pause RUN: steps in flight finish, and no new ones begin.",
        "continue": "Lift pauses of RUN.",
        "note": "Write TEXT among the events of RUN.",
        "cancel": "Stop, roll back or trim partitions of RUN.",
        "add": "Add PLAN to RUN.",
    },
    "Look after a cluster": {
        "broker": "See what a broker holds, and take it out of the cluster.",
        "alter-topic": "Add partitions to TOPIC, or change its replicas.",
        "doctor": "Check the connection, and what matters to reassignments.",
        "reassign": "Move partitions, with the options of Kafka's own tool.",
    },
    "Record, learn and try out": {
        "record": "Record the reassignments of a cluster to files.",
        "pipeline": "Turn recordings into tables and reports, with Spark.",
        "insights": "Show rates, stalls and advice from recordings of runs.",
        "lab": "Run a real, throwaway Kafka cluster on this machine.",
        "completion": "Print the script that completes verbs and runs in a shell.",
    },
}
"""The headings of the help, each with its verbs in a line: none is cut at 80 columns.

These are here because the help would import every verb, only to show them.
"""
NOT_FOR_PEOPLE = ("engine",)  # verbs that only other verbs start
DEFAULT_VERB = "watch"


class Verbs(LazyGroup):
    """The group of all verbs; bare `ktui` is `ktui watch`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read bare `ktui [options]` as `ktui watch [options]`."""
        own = {option for parameter in self.get_params(ctx) for option in parameter.opts}
        is_bare = not args and not ctx.resilient_parsing  # a shell that completes a verb
        if is_bare or (args and args[0].startswith("-") and args[0] not in own):
            if not ctx.resilient_parsing:
                self._refuse_verb_behind_options(ctx, args)
            args = [DEFAULT_VERB, *args]
        return super().parse_args(ctx, args)

    def _refuse_verb_behind_options(self, ctx: click.Context, args: list[str]) -> None:
        watch = self.get_command(ctx, DEFAULT_VERB)
        options = [] if watch is None else watch.params
        with_value = {
            name for each in options if not getattr(each, "is_flag", False) for name in each.opts
        }
        for before, verb in pairwise(args):
            if verb in VERBS and before not in with_value:  # not the name in `--context list`
                fix = f"Put the verb first, then its options: ktui {verb} --option ..."
                raise click.UsageError(fix, ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        for heading, verbs in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([*verbs.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Return the verbs and options that begin so, among them the options of bare `ktui`."""
        found = {item.value: item for item in super().shell_complete(ctx, incomplete)}
        if incomplete.startswith("-") and (default := self.get_command(ctx, DEFAULT_VERB)):
            found |= {item.value: item for item in default.shell_complete(ctx, incomplete)}
        return list(found.values())


@click.command(
    cls=Verbs,
    verbs=VERBS,
    hidden=NOT_FOR_PEOPLE,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="ktui")
def ktui() -> None:
    """Live management of Kafka partition reassignments.

    Without a verb, ktui opens the live view, as `ktui watch` does.
    """


def main() -> None:
    """Run the command line. It ends with an exit code and, on failure, one plain sentence."""
    with clean_output():
        request = os.environ.get(REQUEST)
        if request is None:
            _run()
        else:
            complete(ktui, request)


def reassign() -> None:
    """Run `ktui reassign`, installed as ktui-reassign-partitions, too."""
    sys.argv[:1] = ["ktui", "reassign"]
    main()


def _run() -> None:
    try:
        code = ktui(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(BAD_INPUT)
    except (BadInput, FileProblem, RunRefused) as problem:
        _stop(str(problem), BAD_INPUT)
    except (ClusterError, RunProblem) as error:
        _stop(str(error), FAILED)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(INTERRUPTED)
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        _stop(f"{error.strerror or error}{place}", FAILED)
    except Exception as error:  # noqa: BLE001 - people get a traceback only on request
        if os.environ.get(DEBUG):
            click.echo(traceback.format_exc(), err=True)
            sys.exit(FAILED)
        defect = f"this is a defect in ktui: {type(error).__name__}: {error}"
        _stop(f"{defect}. Please report it with its traceback, which {DEBUG}=1 shows.", FAILED)
    else:
        sys.exit(code)


def _stop(message: str, code: int) -> None:
    click.echo(f"ktui: {message}", err=True)
    sys.exit(code)
