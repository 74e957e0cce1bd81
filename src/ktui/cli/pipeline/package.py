"""`ktui pipeline package`: write the files for spark-submit."""

from __future__ import annotations

from pathlib import Path

import click

from ktui.cli.context.errors import BadInput
from ktui.pipeline.spark.cluster import package


@click.command("package")
@click.argument(
    "folder", type=click.Path(path_type=Path, file_okay=False), default=".", metavar="[DIR]"
)
def command(*, folder: Path) -> None:
    """Write the files for spark-submit: ktui.zip, the code, and ktui_job.py, the program.

    Use them on clusters without ktui. The program takes the options of `ktui pipeline run`.
    """
    try:
        code, program = package(folder)
    except OSError as error:
        raise BadInput(f"{folder}: {error.strerror or error}") from error
    click.echo(f"spark-submit --master URL --py-files {code} {program} --recordings URI --lake URI")
