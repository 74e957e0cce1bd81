"""`ktui pipeline`: turn recordings into tables, and tables into reports."""

from __future__ import annotations

import click

from ktui.cli.context.option import LazyGroup, add_option
from ktui.cli.context.terminal import FAILED, BadInput
from ktui.cluster.text import clean_lines
from ktui.execution.host.state_dir import StateDir
from ktui.pipeline.lake.manifest import PipelineProblem

VERBS = {
    "run": "ktui.cli.pipeline.run:command",
    "check": "ktui.cli.pipeline.sql:check_command",
    "report": "ktui.cli.pipeline.report:command",
    "sql": "ktui.cli.pipeline.sql:command",
    "package": "ktui.cli.pipeline.run:package_command",
}
HELP = {
    "run": "Bring the tables up to date with the recordings.",
    "check": "Count what the tables hold, and what is missing.",
    "report": "Write a one-page report on a run or a cluster.",
    "sql": "Query the tables with SQL.",
    "package": "Write the files for spark-submit, for a Spark cluster.",
}
"""The help is here because loading a verb needs libraries that may be missing."""
_EXTRA = ("pyspark", "pyarrow", "duckdb", "pandas", "plotly", "py4j", "jinja2", "markupsafe")


class PipelineVerbs(LazyGroup):
    """The group of pipeline verbs; it names what to install if a verb cannot be loaded."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(HELP.items()))

    def invoke(self, ctx: click.Context) -> object:
        """Run the verb; if a library of the extra is missing, name the command that installs it."""
        try:
            return super().invoke(ctx)
        except PipelineProblem as problem:
            click.echo(f"ktui: {clean_lines(str(problem))}", err=True)
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
    """Turn recordings into tables with Spark, and tables into reports.

    Needs the extra `pipeline` (pip install 'ktui[pipeline]'). `run` also needs Java 17; so does
    `check` of a lake at a URI.
    """


lake_option = add_option(
    "--lake DIR",
    "The folder of the tables, as a path or URI; by default `lake` in the state directory.",
)


def lake_of(given: str | None, state: StateDir) -> str:
    """Return the place of the lake: the option, or `lake` in the state directory."""
    return given or str(state.path / "lake")
