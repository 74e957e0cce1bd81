"""`ktui pipeline`: recordings into tables, and what can be made of these."""

from __future__ import annotations

import click

from ktui.cli.context.errors import FAILED, BadInput
from ktui.cli.context.lazy_group import LazyGroup
from ktui.cluster.text import clean
from ktui.pipeline.errors import PipelineProblem

VERBS = {
    "run": "ktui.cli.pipeline.run:command",
    "check": "ktui.cli.pipeline.check:command",
    "report": "ktui.cli.pipeline.report:command",
    "package": "ktui.cli.pipeline.package:command",
}
HELP = {
    "run": "Bring the tables up to date with the recordings.",
    "check": "Count what the tables are made of, and what is missing.",
    "report": "Write one page that tells how a run went.",
    "package": "Write what spark-submit takes, for a Spark cluster.",
}
"""Known without loading any of them: each needs libraries that may be missing."""
_EXTRA = ("pyspark", "pyarrow", "pandas", "plotly", "py4j", "jinja2", "markupsafe")


class PipelineVerbs(LazyGroup):
    """Says what to install where a verb cannot be loaded."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Say what each verb does, without loading any."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(HELP.items()))

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


@click.group("pipeline", cls=PipelineVerbs, verbs=VERBS)
def command() -> None:
    """Make tables of recordings with Spark, and reports of the tables.

    Needs the extra `pipeline` (pip install 'ktui[pipeline]') and, but for reports, Java 17.
    """
