"""Options in groups, and who they are shown to."""

import shlex
import sys
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner

from ktui.cli.context.cluster import ClusterChoice, cluster_options
from ktui.cli.context.option import Grouped, add_option
from ktui.cli.context.terminal import BadInput
from ktui.cli.options.common import parse_amount
from ktui.cli.options.outward import metrics_file_option, on_event_option, with_event_command
from ktui.execution.run.options import RunOptions
from ktui.quantities import Rate, Seconds, Share, Size


def _area(*, width: int, height: int) -> int:
    return width * height


@click.command("draw")
@click.option("--before", is_flag=True, help="First.")
@Grouped(
    "area",
    _area,
    add_option("--width N", "Second.", type=int, default=1),
    add_option("--height N", "Third.", type=int, default=1),
)
@click.option("--after", is_flag=True, help="Fourth.")
def draw(*, before: bool, area: int, after: bool) -> None:
    """Draw."""
    click.echo(f"{before} {area} {after}")


def test_a_verb_gets_one_value_made_from_grouped_options() -> None:
    assert CliRunner().invoke(draw, ["--width", "3", "--after", "--height", "4"]).output == (
        "False 12 True\n"
    )


def test_a_group_names_its_options_and_leaves_some_out_also_in_groups_within() -> None:
    one, two, three = (add_option(f"--{name}", "") for name in ("one", "two", "three"))
    outer = Grouped("outer", dict, Grouped("inner", dict, one, two), three)

    assert outer.names == {"one", "two", "three"}
    assert outer.without("two", "three").names == {"one"}


def test_the_help_lists_grouped_options_in_their_order() -> None:
    words = CliRunner().invoke(draw, ["--help"]).output.split()

    assert [word for word in words if word in {"First.", "Second.", "Third.", "Fourth."}] == [
        "First.", "Second.", "Third.", "Fourth."
    ]  # fmt: skip
    assert "Draw." in words


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


def given(*words: str) -> tuple[str | None, str | None]:
    """Return the options of a command line, as a verb gets them."""
    got: list[tuple[str | None, str | None]] = []

    @click.command()
    @on_event_option
    @metrics_file_option
    def verb(on_event: str | None, metrics_file: str | None) -> None:
        got.append((on_event, metrics_file))

    CliRunner().invoke(verb, words, catch_exceptions=False)
    return got[0]


def test_without_an_option_the_run_or_its_context_decides_and_none_is_none() -> None:
    assert given() == (None, None)
    assert given("--on-event", "none", "--metrics-file", "none") == ("", "")
    assert with_event_command(RunOptions(), sys.executable).on_event == sys.executable
    assert with_event_command(RunOptions(on_event=""), sys.executable).on_event == ""
    with pytest.raises(BadInput, match="on_event of the context: no-such-page: no such program"):
        with_event_command(RunOptions(), "no-such-page")


def test_the_program_and_the_file_are_kept_by_whole_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page").write_text("#!/bin/sh\n")
    (tmp_path / "page").chmod(0o755)

    assert given("--on-event", "./page 'a b'", "--metrics-file", "m.prom") == (
        shlex.join([str(tmp_path / "page"), "a b"]),
        str(tmp_path / "m.prom"),
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page"]


def test_a_file_of_metrics_in_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be written: there is no folder"):
        given("--metrics-file", str(tmp_path / "none" / "m.prom"))


def test_metrics_replace_earlier_metrics_and_nothing_else(tmp_path: Path) -> None:
    ours, notes, link = tmp_path / "m.prom", tmp_path / "notes.txt", tmp_path / "link"
    ours.write_text("# HELP ktui_engine_up Whether the run has an engine.\n")
    notes.write_text("do not lose this\n")
    link.symlink_to(ours)
    to_notes = tmp_path / "to-notes"
    to_notes.symlink_to(notes)

    for mine in (ours, link):
        assert given("--metrics-file", str(mine)) == (None, str(mine))
    for other in (notes, to_notes):
        with pytest.raises(BadInput, match="is not a file of metrics that ktui wrote"):
            given("--metrics-file", str(other))
    with pytest.raises(BadInput, match="cannot be written: it is a folder"):
        given("--metrics-file", str(tmp_path))


@pytest.mark.parametrize(
    ("kind", "text", "amount"),
    [(Seconds, "500ms", 0.5), (Size, "2KiB", 2048), (Rate, "1KB/s", 1000.0), (Share, "5%", 0.05)],
)
def test_an_amount_of_an_option_is_a_number_that_a_journal_can_encode(
    kind: type[float], text: str, amount: float
) -> None:
    assert msgspec.json.decode(msgspec.json.encode(parse_amount("--some", kind, text))) == amount
