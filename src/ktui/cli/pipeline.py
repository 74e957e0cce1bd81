"""`ktui pipeline`: recordings into tables, and what can be made of these."""

from __future__ import annotations

from importlib import import_module

import click

from ktui.cli.errors import BadInput
from ktui.cluster.text import clean
from ktui.pipeline.problem import PipelineProblem

FAILED = 1
VERBS = {
    "run": "Bring the tables up to date with the recordings.",
    "check": "Count what the tables are made of, and what is missing.",
    "report": "Write one page that tells how a run went.",
    "package": "Write what spark-submit takes, for a Spark cluster.",
}
_EXTRA = ("pyspark", "pyarrow", "pandas", "plotly", "py4j", "jinja2", "markupsafe")


class PipelineVerbs(click.Group):
    """Loads a verb only when it is called, and says what to install where it cannot."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the verbs, in the order of the help."""
        del ctx
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Give one verb's command, or None when there is no such verb."""
        del ctx
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(f"ktui.cli.pipeline_{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Say what each verb does, without loading any."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))

    def invoke(self, ctx: click.Context) -> object:
        """Run the verb; a library that is missing is told with the command that installs it."""
        try:
            return super().invoke(ctx)
        except PipelineProblem as problem:
            click.echo(f"ktui: {clean(str(problem))}", err=True)
            ctx.exit(FAILED)
        except ModuleNotFoundError as error:
            library = (error.name or "").partition(".")[0]
            if library not in _EXTRA:
                raise
            raise BadInput(
                f"the pipeline needs {library}, which is not installed. "
                "Install it: pip install 'ktui[pipeline]'"
            ) from None


@click.group("pipeline", cls=PipelineVerbs)
def command() -> None:
    """Make tables of recordings with Spark, and reports of the tables.

    Needs the extra `pipeline` (pip install 'ktui[pipeline]') and, but for reports, Java 17.
    """
