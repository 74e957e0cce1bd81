"""The insights file: what a reader gets from it, valid or not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.host.state_dir import StateDir
from ktui.inputfile import FileProblem
from ktui.insights import (
    NAME,
    Insights,
    encode,
    insights_in,
    insights_of,
    publish_insights,
    read_insights,
)
from support.pipeline.report_facts import insights, of_cluster


def test_published_insights_are_read_back(tmp_path: Path) -> None:
    publish_insights(insights("prod", "test"), tmp_path / "state")
    assert read_insights(tmp_path / "state" / NAME) == insights("prod", "test")
    assert insights_of(tmp_path / "state", "test") == of_cluster("test")
    assert [each.name for each in (tmp_path / "state").iterdir()] == [NAME]


def test_a_state_directory_without_a_file_has_no_insights(tmp_path: Path) -> None:
    assert insights_in(tmp_path) == Insights()
    assert insights_of(tmp_path, "prod") is None
    with pytest.raises(FileProblem, match="there is no such file; make a new one: ktui"):
        read_insights(tmp_path / NAME)


def test_publishing_insights_keeps_those_of_other_clusters(tmp_path: Path) -> None:
    publish_insights(insights("a", "b"), tmp_path)
    publish_insights(insights("b", "c"), tmp_path)
    assert [each.cluster_id for each in insights_in(tmp_path).clusters] == ["a", "b", "c"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"clusters": []}', '{"schema_version": "1"}'])
def test_a_malformed_file_is_refused_and_treated_as_no_insights_by_a_run(
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
def test_impossible_figures_are_refused_and_not_used_by_a_run(
    tmp_path: Path, figure: bytes, other: bytes
) -> None:
    text = encode(insights())
    assert figure in text
    (tmp_path / NAME).write_bytes(text.replace(figure, other, 1))

    with pytest.raises(FileProblem, match="this is not an insights file"):
        insights_in(tmp_path)
    assert insights_of(tmp_path, "prod") is None


def test_a_named_pipe_in_the_place_of_the_insights_is_refused_and_not_waited_for(
    tmp_path: Path,
) -> None:
    os.mkfifo(tmp_path / NAME)

    with pytest.raises(FileProblem, match="it is a named pipe"):
        insights_in(tmp_path)


def test_a_file_of_a_newer_ktui_is_refused_as_such(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"schema_version": 2, "made_at": "tomorrow"}')
    with pytest.raises(FileProblem, match="written by a newer ktui"):
        insights_in(tmp_path)


def test_unknown_fields_of_an_insights_file_are_ignored(tmp_path: Path) -> None:
    text = encode(insights()).decode().replace('"runs": 3', '"colour": "red", "runs": 3', 1)
    (tmp_path / NAME).write_text(text)
    assert insights_in(tmp_path) == insights()


def test_a_run_uses_insights_of_its_own_state_directory(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    publish_insights(insights("prod"), tmp_path)
    assert EarlierRuns.beside(state.run("drain"))("prod") == of_cluster().prior
    assert EarlierRuns(state)("another") is None
