"""`ktui rehearse`: its exit codes, its refusals, its JSON, and its recording."""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ktui.cli.rehearse.live import LivePlan
from ktui.recording.reading import find_sessions
from support.cli.call_ktui import call_ktui

TWIN = """\
title: A twin
cluster: {name: prod-id, brokers: 4, disk: 10GiB}
topics:
  orders: {replicas: [[1, 2, 3], [2, 3, 1]], size: 200MB, inbound: 1kB/s}
"""


def plan(*targets: tuple[int, list[int]], topic: str = "orders") -> str:
    partitions = [{"topic": topic, "partition": n, "replicas": each} for n, each in targets]
    return json.dumps({"version": 1, "partitions": partitions})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "twin.yaml").write_text(TWIN, encoding="utf-8")
    (tmp_path / "plan.json").write_text(plan((0, [1, 2, 4])), encoding="utf-8")
    return tmp_path


def rehearse(*options: str) -> Any:
    return call_ktui("rehearse", "plan.json", "--on", "twin.yaml", *options)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), 0),
        (("--max-time", "1m", "--max-inflow", "100MB", "--min-room", "10%"), 0),
        (("--max-time", "2s"), 3),
        (("--max-inflow", "99MB"), 3),
        (("--min-room", "10GiB"), 3),
        (("--min-room", "99.5%"), 3),
        (("--rate", "20MB/s", "--event", "delete orders at 30%"), 3),
    ],
)
def test_the_exit_code_is_0_if_all_holds_on_each_twin_else_3(
    here: Path, options: tuple[str, ...], code: int
) -> None:
    del here

    assert rehearse(*options).returncode == code


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--event", "kil 4 at 10%"), "Did you mean `kill`?"),
        (("--max-time", "soon"), "--max-time"),
        (("--min-room", "110%"), "--min-room"),
        (("--while", "true"), "--while"),
        (("--slo", "p99<150ms", "--sli-command", "true"), "--canary"),
        (("--replicas", "0"), "--replicas"),
        (("--throttle", "fast"), "--throttle"),
        (("--speed", "20", "--max-time", "1h"), "--speed"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(
    here: Path, options: tuple[str, ...], named: str
) -> None:
    del here

    done = rehearse(*options)

    assert (done.returncode, done.stdout) == (2, "")
    assert named in done.stderr


def test_what_a_start_would_refuse_is_refused_by_the_same_words(here: Path) -> None:
    (here / "plan.json").write_text(plan((0, [1, 2, 9]), (1, [2, 3])), encoding="utf-8")

    done = rehearse()

    assert (done.returncode, done.stdout) == (2, "")
    assert "problem: the cluster has no broker 9" in done.stderr
    assert "--allow-replication-factor-change allows it" in done.stderr


def test_a_plan_at_its_target_has_nothing_to_rehearse(here: Path) -> None:
    (here / "plan.json").write_text(plan((0, [1, 2, 3])), encoding="utf-8")

    done = rehearse()

    assert (done.returncode, done.stdout) == (0, "")
    assert "nothing to do" in done.stderr


def test_the_json_names_the_twins_their_rates_and_each_threshold(here: Path) -> None:
    del here

    done = rehearse("--json", "--max-time", "2s", "--event", "load x2 at 50%")

    found = json.loads(done.stdout)
    assert (done.returncode, found["schema_version"], found["simulated"]) == (3, 1, True)
    assert (found["plan"], found["twin"]) == ("plan.json", "twin.yaml")
    assert found["cluster_id"] == "simulated-prod-id"
    assert found["rates"] == {"slow": 40e6, "usual": 100e6, "fast": 200e6, "from": "assumed"}
    assert [twin["pace"] for twin in found["twins"]] == ["slow", "usual", "fast"]
    assert [(each["threshold"], each["holds"]) for each in found["checks"]] == [
        ("to the end", True),
        ("--max-time", False),
    ]
    times = [twin["summary"]["time_s"] for twin in found["twins"]]
    assert times == sorted(times, reverse=True)
    usual = found["twins"][1]["summary"]
    assert (usual["done"], usual["bytes_copied"], usual["ended_by"]) == (1, 200_000_000, "run")
    assert [len(usual[key]) for key in ("stops", "faults", "missed")] == [9, 1, 0]
    assert usual["faults"][0]["stop"]["in_flight"] == 200_000_000


def test_a_given_rate_is_exact_and_needs_one_twin(here: Path) -> None:
    del here

    done = rehearse("--json", "--rate", "40MB/s")

    found = json.loads(done.stdout)
    assert found["rates"] == {"slow": 40e6, "usual": 40e6, "fast": 40e6, "from": "given"}
    assert [twin["pace"] for twin in found["twins"]] == ["usual"]


def test_the_report_says_that_it_is_simulated_and_ends_with_the_verdict_and_the_start(
    here: Path,
) -> None:
    del here

    done = rehearse("--max-inflow", "1GB", "--event", "kill 3 at 50%")

    lines = done.stdout.splitlines()
    verdict, start = done.stdout.rstrip().split("\n\n")[-2:]
    assert lines[0] == "plan.json on a simulated twin, twin.yaml. Nothing was sent."
    assert lines[2].startswith("Limits: R 1, ")
    assert lines[3] == "Throttle: none"
    killed = next(line for line in lines if line.startswith("kill 3 at 50%: after "))
    assert killed.endswith(". In the 1m 30s that followed:")
    assert [line.split(" (")[0] for line in verdict.splitlines()] == [
        "to the end: holds",
        "--max-inflow: holds",
    ]
    assert start.splitlines()[1:] == ["  ktui start plan.json"]


def test_a_rehearsal_that_ends_before_its_plan_says_so_and_its_start_has_the_same_options(
    here: Path,
) -> None:
    del here
    soon = (datetime.now(UTC) + timedelta(minutes=1)).isoformat(timespec="seconds")

    done = rehearse(
        *("--json", "--rate", "1MB/s", "--until", soon, "--throttle", "900kB/s"),
        *("--on-stall", "cancel", "--no-urgent-first", "--allow-below-min-isr"),
    )

    found = json.loads(done.stdout)
    summary = found["twins"][0]["summary"]
    assert (done.returncode, summary["ended_by"], summary["done"]) == (3, "left", 0)
    assert summary["settings"]["throttle"] == "900kB"
    assert summary["settings"]["limits"]["replicas"] == 1
    (start,) = found["start"]
    assert shlex.split(start)[:3] == ["ktui", "start", "plan.json"]
    for words in (f"--until {soon}", "--throttle 900kB", "--on-stall cancel", "--no-urgent-first"):
        assert words in start
    assert "--rate" not in start


def test_a_recording_bears_no_id_of_a_real_cluster_so_no_forecast_of_one_takes_it(
    here: Path,
) -> None:
    done = rehearse("--record", "kept", "--rate", "100MB/s")

    (session,) = find_sessions(here / "kept")
    assert done.returncode == 0
    assert session.head.cluster_id == "simulated-prod-id"
    assert session.head.cluster == "twin.yaml (simulated)"
    assert "recorded, as a simulated cluster: kept/simulated-prod-id/" in done.stdout


@pytest.mark.parametrize(
    ("options", "speed"),
    [
        ((), 10.0),
        (("--speed", "50", "--record", "kept"), 50.0),
        (("--headless",), None),
        (("--max-time", "1h"), None),
    ],
)
def test_on_a_terminal_the_view_shows_it_unless_a_report_is_asked_for(
    here: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], speed: float | None
) -> None:
    del here
    shown: list[float] = []
    monkeypatch.setattr("ktui.cli.rehearse.command.has_terminal", lambda: True)

    def show(live: LivePlan, at_speed: float) -> str:
        shown.append(at_speed)
        return f"the report of {live.plan}"

    monkeypatch.setattr("ktui.cli.rehearse.live.show_rehearsal", show)

    done = rehearse("--rate", "100MB/s", *options)

    assert done.returncode == 0
    assert shown == ([] if speed is None else [speed])
    assert (done.stdout == "the report of plan.json\n") is (speed is not None)
