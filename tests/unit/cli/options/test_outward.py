"""A command or a file of metrics that cannot work is refused before anything is sent."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ktui.cli.context.errors import BadInput
from ktui.cli.options.outward import (
    metrics_file_option,
    on_event_option,
    with_event_command,
)
from ktui.execution.run.options import RunOptions


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
