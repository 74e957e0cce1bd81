"""The file of insights: what a reader finds, whatever stands there."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.host.state_dir import StateDir
from ktui.fileproblem import FileProblem
from ktui.insights.file import (
    NAME,
    encode,
    insights_in,
    insights_of,
    publish_insights,
    read_insights,
)
from ktui.insights.insights import Insights
from support.pipeline.insights import insights, of_cluster


def test_what_is_written_is_read(tmp_path: Path) -> None:
    publish_insights(insights("prod", "test"), tmp_path / "state")
    assert read_insights(tmp_path / "state" / NAME) == insights("prod", "test")
    assert insights_of(tmp_path / "state", "test") == of_cluster("test")
    assert [each.name for each in (tmp_path / "state").iterdir()] == [NAME]


def test_where_nothing_was_made_yet_nothing_is_known(tmp_path: Path) -> None:
    assert insights_in(tmp_path) == Insights()
    assert insights_of(tmp_path, "prod") is None
    with pytest.raises(FileProblem, match="there is no such file; make a new one: ktui"):
        read_insights(tmp_path / NAME)


def test_insights_of_one_lake_leave_those_of_other_clusters(tmp_path: Path) -> None:
    publish_insights(insights("a", "b"), tmp_path)
    publish_insights(insights("b", "c"), tmp_path)
    assert [each.cluster_id for each in insights_in(tmp_path).clusters] == ["a", "b", "c"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"clusters": []}', '{"schema_version": "1"}'])
def test_a_file_that_holds_none_is_told_and_whoever_needs_none_goes_on(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(FileProblem, match="this is not an insights file"):
        insights_in(tmp_path)
    assert insights_of(tmp_path, "prod") is None
    publish_insights(insights("prod"), tmp_path)
    assert insights_of(tmp_path, "prod") is not None


@pytest.mark.parametrize(
    ("figure", "other"),
    [
        (b'"most_at_once": 8', b'"most_at_once": 0'),
        (b'"half_at": 0.25', b'"half_at": -8'),
        (b'"most_bytes_s": 50000000.0', b'"most_bytes_s": 0'),
        (b'"step_s": 2.0', b'"step_s": -1e308'),
        (b'"moves": 72', b'"moves": 1' + b"0" * 5_000),
        (b'"count": 70', b'"count": 1' + b"0" * 400),
        (b'"stalls": [', b'"stalls": ' + b"[" * 5_000),
        (b'"cluster_id": "prod"', b'"cluster_id": "\xff"'),
    ],
)
def test_figures_that_cannot_be_are_refused_so_that_no_run_goes_by_them(
    tmp_path: Path, figure: bytes, other: bytes
) -> None:
    text = encode(insights())
    assert figure in text
    (tmp_path / NAME).write_bytes(text.replace(figure, other, 1))

    with pytest.raises(FileProblem, match="this is not an insights file"):
        insights_in(tmp_path)
    assert insights_of(tmp_path, "prod") is None


def test_a_file_of_a_newer_ktui_is_told_to_be_one(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"schema_version": 2, "made_at": "tomorrow"}')
    with pytest.raises(FileProblem, match="written by a newer ktui"):
        insights_in(tmp_path)


def test_fields_that_this_ktui_does_not_know_are_passed_over(tmp_path: Path) -> None:
    text = encode(insights()).decode().replace('"runs": 3', '"colour": "red", "runs": 3', 1)
    (tmp_path / NAME).write_text(text)
    assert insights_in(tmp_path) == insights()


def test_a_run_learns_of_earlier_ones_in_its_own_state_directory(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    publish_insights(insights("prod"), tmp_path)
    assert EarlierRuns.beside(state.run("drain"))("prod") == of_cluster().prior
    assert EarlierRuns(state)("another") is None
