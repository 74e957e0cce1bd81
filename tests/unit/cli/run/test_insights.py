"""`ktui insights`: what earlier runs teach, as a person and as a script read it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from ktui.cli.run.insights import insights_text
from ktui.insights.insights import NAME, NOTHING, ClusterInsights, Insights, encode, sections
from ktui.insights.prior import Prior, RateCurve
from support.cli.call_ktui import Done, call_ktui
from support.pipeline.insights import AT, RATE, insights, of_cluster


def ktui(*args: str, state: Path) -> Done:
    return call_ktui("insights", "--state-dir", str(state), *args)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / NAME).write_bytes(encode(insights("prod", "test")))
    return tmp_path


def test_a_cluster_without_insights_gets_the_way_to_make_them(tmp_path: Path) -> None:
    printed = ktui(state=tmp_path / "nowhere")
    assert printed.returncode == 0
    assert printed.stdout.strip() == NOTHING


def test_insights_report_that_a_throttle_held_every_copy_up() -> None:
    curve = RateCurve(most_bytes_s=50e6, half_at=0.0, most_at_once=1, known_to=5e6)
    prior = Prior(RATE, step_s=2.0, curve=curve, runs=3)
    first = next(sections(msgspec.structs.replace(of_cluster(), prior=prior)))
    assert "a throttle of at most 5.0 MB/s held every copy up" in first.title


def test_advice_names_the_promise_that_chose_the_rates_of_the_run() -> None:
    of = of_cluster()
    driven = msgspec.structs.replace(of.advice[0], driven_by="by")
    *_, table, _ = sections(msgspec.structs.replace(of, advice=(driven,)))
    assert "5m, as --by chose" in table.rows[0]


def test_advice_says_why_and_which_of_its_figures_are_assumed() -> None:
    of = of_cluster()
    assumed = msgspec.structs.replace(of.advice[0], assumed=("no time beside copying",))
    printed = insights_text(
        Insights(clusters=(msgspec.structs.replace(of, advice=(assumed, of.advice[0])),))
    )
    assert printed.count("assumed, for no recording shows it: no time beside copying") == 1
    assert "the fewest at once of the 12 that fit 5m" in printed
    assert "assumed" not in insights_text(Insights(clusters=(of,)))


def test_insights_are_printed_for_every_cluster(state: Path) -> None:
    printed = ktui(state=state).stdout
    assert "cluster prod: 3 runs, 72 moves" in printed
    assert "cluster test: " in printed
    assert "a replica is copied at 40 MB/s (10 MB/s to 50 MB/s)" in printed
    assert "100 MiB to 1.0 GiB" in printed
    assert "target broker down      2  3m 10s" in printed
    assert "--replicas 1 --partitions 4 --throttle 50MB" in printed


def test_insights_can_be_printed_for_one_cluster(state: Path) -> None:
    printed = ktui("--cluster", "test", state=state).stdout
    assert "cluster test: " in printed
    assert "cluster prod" not in printed
    unknown = ktui("--cluster", "other", state=state)
    assert unknown.returncode == 2
    assert "there are no insights for it. Known clusters: prod, test" in unknown.stderr


def test_json_of_insights_is_the_file_itself(state: Path) -> None:
    printed = json.loads(ktui("--json", state=state).stdout)
    assert printed == json.loads((state / NAME).read_text())
    none = json.loads(ktui("--json", state=state / "nowhere").stdout)
    assert none["schema_version"] == 1
    assert none["clusters"] == []


def test_insights_of_a_lake_or_a_file_are_printed_on_request(state: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    assert "cluster prod" in ktui("--lake", str(state), state=nowhere).stdout
    assert "cluster prod" in ktui(str(state / NAME), state=nowhere).stdout
    both = ktui("--lake", str(state), str(state / NAME), state=nowhere)
    assert both.returncode == 2
    missing = ktui(str(nowhere), state=nowhere)
    assert missing.returncode == 2
    assert "there is no such file" in missing.stderr


def test_insights_of_a_new_cluster_have_no_empty_tables() -> None:
    one = ClusterInsights(cluster_id="new", runs=0, moves=0)
    printed = insights_text(Insights(made_at=AT, version="0.1.0", clusters=(one,)))
    assert printed.splitlines()[2:] == [
        "cluster new: 0 runs, 0 moves",
        "",
        "too little was copied to estimate a rate",
    ]


def test_ktui_insights_loads_no_library_of_the_pipeline(state: Path) -> None:
    script = (
        "import sys; from ktui.cli.main import ktui; "
        f"ktui(['insights', '--state-dir', {str(state)!r}], standalone_mode=False); "
        "print(sorted({'pyspark', 'pyarrow', 'pandas'} & sys.modules.keys()))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert printed.stdout.splitlines()[-1] == "[]"
