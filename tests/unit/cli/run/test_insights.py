"""`ktui insights`: what earlier runs tell, as a person and as a script read it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from ktui.cli.run.insights import insights_text
from ktui.insights.curve import RateCurve
from ktui.insights.file import NAME, encode
from ktui.insights.insights import ClusterInsights, Insights
from ktui.insights.prior import Prior
from ktui.insights.sections import NOTHING, sections
from support.cli.called import Done, called
from support.pipeline.insights import AT, RATE, insights, of_cluster


def ktui(*args: str, state: Path) -> Done:
    return called("insights", "--state-dir", str(state), *args)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / NAME).write_bytes(encode(insights("prod", "test")))
    return tmp_path


def test_without_any_it_is_told_how_they_are_made(tmp_path: Path) -> None:
    told = ktui(state=tmp_path / "nowhere")
    assert told.returncode == 0
    assert told.stdout.strip() == NOTHING


def test_it_is_told_that_a_throttle_held_every_copy_up() -> None:
    curve = RateCurve(most_bytes_s=50e6, half_at=0.0, most_at_once=1, known_to=5e6)
    prior = Prior(RATE, step_s=2.0, curve=curve, runs=3)
    first = next(sections(msgspec.structs.replace(of_cluster(), prior=prior)))
    assert "a throttle of at most 5.0 MB/s held every copy up" in first.title


def test_every_cluster_is_told_of(state: Path) -> None:
    told = ktui(state=state).stdout
    assert "cluster prod: 3 runs, 72 moves" in told
    assert "cluster test: " in told
    assert "a replica is copied at 40 MB/s (10 MB/s to 50 MB/s)" in told
    assert "100 MiB to 1.0 GiB" in told
    assert "target broker down      2  3m 10s" in told
    assert "--replicas 1 --partitions 4 --throttle 50MB" in told


def test_one_cluster_can_be_chosen(state: Path) -> None:
    told = ktui("--cluster", "test", state=state).stdout
    assert "cluster test: " in told
    assert "cluster prod" not in told
    unknown = ktui("--cluster", "other", state=state)
    assert unknown.returncode == 2
    assert "there are no insights for it. Known clusters: prod, test" in unknown.stderr


def test_scripts_get_the_file_as_it_is(state: Path) -> None:
    told = json.loads(ktui("--json", state=state).stdout)
    assert told == json.loads((state / NAME).read_text())
    none = json.loads(ktui("--json", state=state / "nowhere").stdout)
    assert none["schema_version"] == 1
    assert none["clusters"] == []


def test_those_of_a_lake_or_a_file_are_shown_on_demand(state: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    assert "cluster prod" in ktui("--lake", str(state), state=nowhere).stdout
    assert "cluster prod" in ktui(str(state / NAME), state=nowhere).stdout
    both = ktui("--lake", str(state), str(state / NAME), state=nowhere)
    assert both.returncode == 2
    missing = ktui(str(nowhere), state=nowhere)
    assert missing.returncode == 2
    assert "there is no such file" in missing.stderr


def test_a_cluster_of_which_little_is_known_has_no_empty_tables() -> None:
    one = ClusterInsights(cluster_id="new", runs=0, moves=0)
    told = insights_text(Insights(made_at=AT, version="0.1.0", clusters=(one,)))
    assert told.splitlines()[2:] == [
        "cluster new: 0 runs, 0 moves",
        "",
        "too little was copied to estimate a rate",
    ]


def test_it_needs_neither_java_nor_the_extra(state: Path) -> None:
    script = (
        "import sys; from ktui.cli.main import ktui; "
        f"ktui(['insights', '--state-dir', {str(state)!r}], standalone_mode=False); "
        "print(sorted({'pyspark', 'pyarrow', 'pandas'} & sys.modules.keys()))"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert told.stdout.splitlines()[-1] == "[]"
