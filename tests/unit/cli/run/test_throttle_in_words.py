"""What each verb shows of the throttle of a run: rates, settings, and what stays and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ktui.cli.main import ktui
from ktui.cluster.ports import (
    ConfigChange,
    ConfigOp,
    Verdict,
)
from ktui.cluster.settings import FOLLOWER_RATE, FOLLOWER_REPLICAS
from ktui.execution.forecast.progress_text import end_lines, progress_line
from ktui.execution.forecast.run_progress import run_progress
from ktui.execution.host.ownership import own_run, this_process
from ktui.execution.run.events import (
    Configure,
    Configured,
    EngineLeft,
    HeldBroker,
    RateCause,
    RateHeld,
    RateReason,
    SettingChanged,
    SettingsGivenUp,
    ThrottleChanged,
)
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from support.cli.throttle_sandbox import (
    BROKER_4,
    RATE,
    a_run,
    all_over,
    call,
    json_of,
    lines,
    run_of,
    throttled,
)


def test_status_shows_why_the_rates_of_an_objective_moved_last_in_words_and_in_json(
    tmp_path: Path,
) -> None:
    why = RateReason(RateCause.OVER, 212.0, of=1, used=0.95)
    brokers = (HeldBroker(1, figure=212.0), HeldBroker(4, 4_000_000, 95.0, why))
    held = RateHeld(rate=4_000_000, figure=212.0, windows=20, kept=19, why=why, brokers=brokers)
    objective = ThrottleChanged(old=NO_THROTTLE, new=parse_throttle_rates("slo=p99<150ms"))
    run = a_run(tmp_path, objective, held)

    reason = {"cause": "over", "figure": 212.0, "of": 1, "used": 0.95, "aim": 1.0}
    assert json_of(call(run, "--json"))["throttle"]["held"] == {
        "rate": 4_000_000,
        "figure": 212.0,
        "reason": "",
        "windows": 20,
        "kept": 19,
        "why": reason,
        "brokers": [
            {"broker": 1, "rate": None, "figure": 212.0, "why": None},
            {"broker": 4, "rate": 4_000_000, "figure": 95.0, "why": reason},
        ],
    }
    printed = lines(call(run, verb="status"))
    down = "down: p99 of broker 1 was 212ms"
    into = f"4.0 MB/s into 1 broker: p99 is 212ms, 19 of 20 windows kept; {down}"
    assert f"objective p99<150ms: {into}" in printed
    assert f"broker 4 4.0 MB/s, p99 95ms; {down}" in printed


def test_ktui_throttle_shows_what_is_set_with_the_values_before(tmp_path: Path) -> None:
    run = a_run(tmp_path, *throttled())
    with own_run(run):
        printed_lines = lines(call(run))

    assert printed_lines == [
        "throttle of drain-b3: 50 MB/s into each broker",
        "",
        "ON SETTING OURS BEFORE",
        f"broker 4 {FOLLOWER_RATE} 50000000 (50 MB/s) 1000 (1.0 kB/s)",
        f"topic orders {FOLLOWER_REPLICAS} 0:4 unset",
    ]


def test_json_of_throttle_and_status_has_the_settings(tmp_path: Path) -> None:
    run = a_run(tmp_path, *throttled())
    with own_run(run):
        answer = json_of(call(run, "--json"))
        status = json_of(call(run, "--json", verb="status"))

    assert answer == {"schema_version": 1, "run": "drain-b3", "throttle": status["throttle"]}
    throttle = answer["throttle"]
    assert throttle["rates"] == {
        "every": 50_000_000,
        "brokers": [],
        "budget": None,
        "objective": None,
    }
    assert (throttle["leaders"], throttle["refusal"], throttle["waits"]) == (False, None, None)
    assert throttle["stays"] is None
    assert throttle["settings"] == [
        {
            "scope": "broker",
            "name": "4",
            "key": FOLLOWER_RATE,
            "ours": [RATE],
            "sure": True,
            "theirs": None,
            "before": {"value": "1000", "source": "own"},
        },
        {
            "scope": "topic",
            "name": "orders",
            "key": FOLLOWER_REPLICAS,
            "ours": ["0:4"],
            "sure": True,
            "theirs": None,
            "before": {"value": "", "source": "default"},
        },
    ]


def test_ktui_throttle_shows_the_rate_that_somebody_else_has_set(tmp_path: Path) -> None:
    theirs = SettingChanged(resource=BROKER_4, key=FOLLOWER_RATE, found="300000")
    run = a_run(tmp_path, *throttled(), theirs)

    set_by_others = "none: somebody else set 300000 (300 kB/s) 300000 (300 kB/s)"
    assert f"broker 4 {FOLLOWER_RATE} {set_by_others}" in lines(call(run))
    (rate, _) = json_of(call(run, "--json"))["throttle"]["settings"]
    assert rate["theirs"] == "300000"


def test_throttle_and_status_show_a_refused_setting(tmp_path: Path) -> None:
    other = ConfigChange(BROKER_4, FOLLOWER_RATE, ConfigOp.SET, "7")
    refused = Configured(
        resource=BROKER_4, verdict=Verdict.REFUSED, code="POLICY_VIOLATION", message="not so low"
    )
    run = a_run(tmp_path, *throttled(), Configure(changes=(other,)), refused)

    assert "refused: not so low" in lines(call(run))
    assert "throttle refused: not so low" in lines(call(run, verb="status"))


def test_an_unanswered_change_is_shown_as_not_confirmed(tmp_path: Path) -> None:
    other = ConfigChange(BROKER_4, FOLLOWER_RATE, ConfigOp.SET, "7000000")
    run = a_run(tmp_path, *throttled(), Configure(changes=(other,)))

    (rate,) = [line for line in lines(call(run)) if FOLLOWER_RATE in line]
    assert "50000000 (50 MB/s) or 7000000 (7.0 MB/s) (not confirmed)" in rate


def test_status_shows_the_throttle_of_a_run(tmp_path: Path) -> None:
    run = a_run(tmp_path, *throttled())
    with own_run(run):
        assert "throttle 50 MB/s into each broker" in lines(call(run, verb="status"))


def test_a_killed_run_is_shown_with_its_left_over_throttle_and_the_resume_command(
    tmp_path: Path,
) -> None:
    run = a_run(tmp_path, *throttled())

    where = "its throttle may stay on broker 4 and topic orders until it is resumed"
    stays = f"{where}: its engine noted no removal"
    assert f"{stays}; to resume it: ktui resume drain-b3" in lines(call(run))
    assert f"throttle {stays}; see: ktui throttle drain-b3" in lines(call(run, verb="status"))
    assert json_of(call(run, "--json"))["throttle"]["stays"] == stays


def test_an_abandoned_run_is_shown_with_a_throttle_that_its_step_in_flight_needs(
    tmp_path: Path,
) -> None:
    run = a_run(tmp_path, *throttled(), EngineLeft(reason="its process got SIGTERM"))

    stays = json_of(call(run, "--json"))["throttle"]["stays"]
    assert stays.endswith("until it is resumed: 1 step in flight needs it")


def test_following_a_run_ends_with_the_throttles_that_stay(
    tmp_path: Path,
) -> None:
    run = a_run(tmp_path, *throttled(), EngineLeft(reason="its process got SIGTERM"))

    left, stays = end_lines(run_of(run))

    assert left.startswith("run drain-b3 was left (its process got SIGTERM)")
    assert stays.startswith("its throttle stays on broker 4 and topic orders until it is resumed")


def test_the_progress_line_of_a_run_has_its_throttle(tmp_path: Path) -> None:
    run = run_of(a_run(tmp_path, *throttled()))

    assert progress_line(run_progress(run, this_process())) == (
        "drain-b3: 0 of 2 done, 1 copying, 1 queued, batch 1, throttle 50 MB/s into each broker"
    )


def test_ktui_runs_shows_where_a_throttle_is_left(tmp_path: Path) -> None:
    run = a_run(tmp_path, *throttled())
    arguments = ["runs", "--state-dir", str(run.path.parent.parent)]

    listed = lines(CliRunner().invoke(ktui, arguments))
    (parsed_run,) = json_of(CliRunner().invoke(ktui, [*arguments, "--json"]))["runs"]

    assert listed[1].startswith("drain-b3 waiting for resume, throttle left")
    assert parsed_run["throttle"]["bounded"] == {
        "every": 50_000_000,
        "brokers": [],
        "budget": None,
        "objective": None,
    }
    assert parsed_run["throttle"]["stays"].startswith("its throttle may stay on broker 4")


def test_a_run_that_waits_only_for_a_broker_is_shown_with_that_broker_and_the_way_out(
    tmp_path: Path,
) -> None:
    run = a_run(tmp_path, *throttled(), *all_over())
    waits = (
        "all partitions have ended; its throttle is still set on broker 4, which is down or "
        "refuses the change"
    )
    with own_run(run):
        way_out = "If that never changes: ktui throttle drain-b3 --leave-behind"
        assert f"{waits}. {way_out}" in lines(call(run))
        assert f"throttle {waits}; see: ktui throttle drain-b3" in lines(call(run, verb="status"))
        assert json_of(call(run, "--json"))["throttle"]["waits"] == waits


def test_each_event_about_throttles_has_every_field_of_the_contract(tmp_path: Path) -> None:
    left = SettingsGivenUp(
        resource=BROKER_4, keys=(FOLLOWER_RATE,), reason="someone else set it to 7"
    )
    run = a_run(tmp_path, *throttled(), left)

    printed = call(run, "--events", "--json", verb="status").stdout.splitlines()

    about = ("throttle", "settings_found", "configure", "configured", "settings_left")
    head = ("schema_version", "at", "run", "seq", "event")
    events = [event for line in printed if (event := json.loads(line))["event"] in about]
    own = [{key: value for key, value in event.items() if key not in head} for event in events]
    broker_4 = {"scope": "broker", "name": "4"}
    orders = {"scope": "topic", "name": "orders"}
    assert [event["event"] for event in events] == [*about[:4], "configured", "settings_left"]
    assert own[0] == {
        "old": {"every": None, "brokers": [], "budget": None, "objective": None},
        "new": {"every": 50_000_000, "brokers": [], "budget": None, "objective": None},
        "command": None,
        "who": "",
    }
    assert own[1]["found"][0] == {
        "resource": broker_4,
        "key": FOLLOWER_RATE,
        "before": {"value": "1000", "source": "own"},
    }
    assert own[2]["changes"][1] == {
        "resource": orders,
        "key": FOLLOWER_REPLICAS,
        "op": "append",
        "value": "0:4",
    }
    assert own[2]["puts_back"] is False
    assert own[3] == {
        "resource": broker_4,
        "verdict": "accepted",
        "code": None,
        "message": "",
        "node": None,
    }
    assert own[5] == {
        "resource": broker_4,
        "keys": [FOLLOWER_RATE],
        "reason": "someone else set it to 7",
    }


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ("none", "none"),
        ("50MB", "50 MB/s into each broker, leaders too"),
        ("50MB,3=20MB", "50 MB/s into each broker, 20 MB/s into broker 3, leaders too"),
        ("50MB,3=none", "50 MB/s into each broker, none into broker 3, leaders too"),
        ("3=2MB,4=2MB,5=none", "2.0 MB/s into brokers 3 and 4, leaders too"),
    ],
)
def test_rates_are_worded_with_the_brokers_that_they_bind(rates: str, words: str) -> None:
    assert parse_throttle_rates(rates).with_leaders(throttled=True) == words
