"""Options that belong together reach a verb as one argument."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from ktui.cli.context.cluster import ClusterChoice
from ktui.cli.options.cluster import cluster_options
from ktui.cli.options.common import grouped


def _area(*, width: int, height: int) -> int:
    return width * height


@click.command("draw")
@click.option("--before", is_flag=True, help="First.")
@grouped(
    "area",
    _area,
    {
        "width": click.option("--width", type=int, default=1, help="Second."),
        "height": click.option("--height", type=int, default=1, help="Third."),
    },
)
@click.option("--after", is_flag=True, help="Fourth.")
def draw(*, before: bool, area: int, after: bool) -> None:
    """Draw it."""
    click.echo(f"{before} {area} {after}")


def test_a_verb_gets_one_value_made_from_grouped_options() -> None:
    assert CliRunner().invoke(draw, ["--width", "3", "--after", "--height", "4"]).output == (
        "False 12 True\n"
    )


def test_the_help_lists_grouped_options_in_their_order() -> None:
    words = CliRunner().invoke(draw, ["--help"]).output.split()

    assert [word for word in words if word in {"First.", "Second.", "Third.", "Fourth."}] == [
        "First.", "Second.", "Third.", "Fourth."
    ]  # fmt: skip
    assert "Draw" in words


@pytest.mark.parametrize(
    ("arguments", "chosen"),
    [
        ([], ClusterChoice()),
        (["--context", "prod"], ClusterChoice(context="prod")),
        (["--bootstrap-server", "a:9092"], ClusterChoice(bootstrap_server="a:9092")),
    ],
)
def test_the_options_that_name_a_cluster_reach_a_verb_as_one_choice(
    arguments: list[str], chosen: ClusterChoice
) -> None:
    choices = []

    @click.command("verb")
    @cluster_options
    def verb(choice: ClusterChoice) -> None:
        choices.append(choice)

    CliRunner().invoke(verb, arguments)

    assert choices == [chosen]
