"""`ktui status`: one run, for people and for scripts, in its present state and event by event."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from ktui.cli.main import ktui
from ktui.cli.run.status import status_text
from ktui.cluster.partition import TopicPartition
from ktui.execution.forecast.estimate import CopiedBytes
from ktui.execution.forecast.run_details import run_details
from ktui.execution.forecast.run_progress import run_progress
from ktui.execution.host.catalog import UnknownRun
from ktui.execution.host.client import RunClient
from ktui.execution.host.ownership import own_run, this_process
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.run.events import (
    AnyRunEvent,
    CancelAsked,
    CancelGate,
    EngineLeft,
    LimitsChanged,
    Outage,
    Owned,
    Paused,
    PauseOrigin,
    StateEntered,
    StepGate,
)
from ktui.execution.run.states import CancelKind, State
from ktui.execution.time_left.simulate_rest import LeastLeft
from ktui.pacing.limits import Limits
from ktui.speed.answer import Basis, Bottleneck, Bound, HowLong, Source, Span
from support.journals.journals import CLUSTER, a_start, accepted, ended, over, step, written


def a_run(folder: Path, *more: AnyRunEvent, partitions: int = 4) -> RunDir:
    run = StateDir(folder / "state").create_run("drain-b3")
    written(run.journal, [*a_start(partitions), *more]).close()
    return run


def status(run: RunDir, *arguments: str) -> Result:
    state = str(run.path.parent.parent)
    return CliRunner().invoke(ktui, ["status", run.name, "--state-dir", state, *arguments])


def text(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


def parsed(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def blocked_at(partition: int, reason: str = "broker 4 of its target is down") -> StateEntered:
    return StateEntered(topic="orders", partition=partition, state=State.BLOCKED, reason=reason)


NEW_LIMITS = LimitsChanged(
    old=Limits(replicas=1, partitions=2),
    new=Limits(replicas=2, partitions=2, per_broker=4),
    batch=1,
    in_flight=1,
)


def test_status_starts_with_the_run_and_its_owner(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    with own_run(run) as owned:
        lines = text(status(run))

    assert lines[0] == "run drain-b3: running"
    assert "plan drain.json, 4 partitions" in lines
    assert f"cluster {CLUSTER}" in lines
    assert f"owner {owned.holder}" in lines
    assert "limits R 1, P 2, gentle, rolling, by topic" in lines
    assert "options on stall wait (after 5m), on foreign change skip, a poll every 1 s" in lines


def test_status_of_a_run_without_an_engine_has_the_reason_and_the_resume_command(
    tmp_path: Path,
) -> None:
    lines = text(status(a_run(tmp_path, EngineLeft(reason="its process got SIGTERM"))))

    assert lines[0] == "run drain-b3: waiting for resume"
    assert "owner none (its process got SIGTERM); to resume it: ktui resume drain-b3" in lines


@pytest.mark.parametrize("off", [False, True])
def test_status_shows_that_a_run_does_not_own_its_cluster(tmp_path: Path, *, off: bool) -> None:
    run = a_run(tmp_path, Owned(pid=1, host="ops1", user="ada", ownership_off=off))

    (line,) = [line for line in text(status(run)) if line.startswith("cluster ")]

    note = ", not owned: others are not kept from it" if off else ""
    assert line == f"cluster {CLUSTER}{note}"
    assert parsed(status(run, "--json"))["ownership_off"] is off
    assert ("does not ask who owns" in status(run, "--events").stdout) is off


def test_status_counts_the_partitions_that_a_killed_run_leaves_with_an_extra_replica(
    tmp_path: Path,
) -> None:
    run = a_run(tmp_path, step(0), accepted(0), over(0))
    words = "1 partition has more replicas than before and after the run"

    assert f"replicas {words}, until it is resumed or rolled back" in text(status(run))
    assert parsed(status(run, "--json"))["extra_replicas"].startswith(words)


def test_status_shows_why_a_partition_waits(tmp_path: Path) -> None:
    step_begun = step(0, 4)
    run = a_run(
        tmp_path, step_begun, accepted(0), Paused(by=PauseOrigin.OPERATOR, topics=("orders",))
    )

    with own_run(run):
        lines, waiting = text(status(run)), parsed(status(run, "--json"))["waiting"]

    assert waiting == [
        {
            "topic": "orders", "partition": 1, "state": "queued", "since": waiting[0]["since"],
            "waits_for": "paused", "reason": "It is paused, or its topic, by the operator.",
        }
    ]  # fmt: skip
    assert "waiting for their next step" in lines
    assert any(line.startswith("orders-1 queued") and "It is paused" in line for line in lines)
    (unowned,) = parsed(status(run, "--json"))["waiting"]
    assert unowned["waits_for"] == "no engine"
    assert unowned["reason"] == "The run has no engine. ktui resume drain-b3 starts one."


def test_status_shows_pauses_and_the_health_gate_with_their_reasons(tmp_path: Path) -> None:
    run = a_run(
        tmp_path,
        Paused(by=PauseOrigin.OPERATOR),
        Paused(by=PauseOrigin.FAILURE, reason="orders-1 has failed"),
        Paused(
            by=PauseOrigin.OPERATOR, topics=("orders",), partitions=(TopicPartition("orders", 3),)
        ),
        StepGate(shut=True, reason="3 partitions are offline"),
    )
    with own_run(run):
        lines = text(status(run))

    assert lines[0] == "run drain-b3: paused"
    assert "paused by an operator" in lines
    assert "paused by a failure: orders-1 has failed" in lines
    assert "paused topic orders and orders-3" in lines
    assert "gate shut: 3 partitions are offline" in lines


def test_status_shows_a_lost_cluster_while_an_engine_polls(
    tmp_path: Path,
) -> None:
    run = a_run(tmp_path, Outage(lost=True, reason="no answer"))
    with own_run(run):
        lines = text(status(run))
        answer = parsed(status(run, "--json"))
    expected = parsed(status(run, "--json"))

    (line,) = [line for line in lines if line.startswith("cluster lost since 20")]
    assert line.endswith(", no answer")
    assert answer["outage"] == {"since": "2026-01-01T00:00:00.000Z", "reason": "no answer"}
    assert expected["outage"] is None
    assert not [line for line in text(status(run)) if "lost" in line]


def test_status_shows_each_step_in_flight_with_its_replicas_before_and_after(
    tmp_path: Path,
) -> None:
    run = a_run(tmp_path, step(0, 6), accepted(0), step(1, 7), NEW_LIMITS)

    lines = text(status(run))

    assert lines[0] == "run drain-b3: waiting for resume, batch 7"
    assert "limits R 2, P 2, B 4, gentle, rolling, by topic, since decision 2" in lines
    assert "in flight: 2 steps" in lines
    (row,) = [line for line in lines if line.startswith("orders-0")]
    assert row.startswith("orders-0 adding 6 1,2,3 1,2,3,4 - 1,2,4 20")


def test_status_names_the_broker_that_a_step_in_flight_is_held_up_by(tmp_path: Path) -> None:
    held_up = StateEntered(
        topic="orders", partition=1, state=State.ADDING, reason="broker 4 is down"
    )
    run = a_run(tmp_path, *(each for n in (0, 1) for each in (step(n), accepted(n))), held_up)

    lines = status(run).stdout.splitlines()

    (header,) = (line for line in lines if line.startswith("PARTITION") and "ELECT" in line)
    assert header.endswith("HELD UP")
    assert "0 of 4 done, 1 held up, 1 copying, 2 queued" in text(status(run))
    (waits,) = (line for line in lines if line.startswith("orders-1 ") and "adding" in line)
    assert waits.endswith("broker 4 is down")
    (goes_on,) = (line for line in lines if line.startswith("orders-0 ") and "adding" in line)
    assert goes_on.endswith(" -")
    assert "0 of 4 done, 1 held up, 1 copying, 2 queued" in lines


def test_status_counts_states_and_names_partitions_in_trouble_with_the_reason(
    tmp_path: Path,
) -> None:
    done = StateEntered(topic="orders", partition=0, state=State.DONE)
    changed = StateEntered(
        topic="orders", partition=1, state=State.CHANGED_ELSEWHERE, reason="it has 1,2,9 now"
    )

    lines = text(status(a_run(tmp_path, done, changed, blocked_at(2))))

    assert "1 of 4 done, 1 left out, 1 blocked, 1 queued" in lines
    assert {"queued 1", "blocked 1", "done 1", "changed elsewhere 1"} <= set(lines)
    assert "in trouble: 2 partitions" in lines
    rows = [line for line in lines if line.startswith("orders-")]
    assert rows[0].endswith("1,2,3 1,2,4 it has 1,2,9 now")
    assert rows[1].startswith("orders-2 blocked 20")
    assert rows[1].endswith("broker 4 of its target is down")


def test_status_shows_an_ended_run_as_ended(tmp_path: Path) -> None:
    lines = text(status(a_run(tmp_path, ended(4))))

    assert lines[0] == "run drain-b3: ended"
    assert any(line.startswith("ended 20") for line in lines)
    assert "nothing is in flight" in lines


def test_json_of_status_is_one_object_with_the_whole_run(tmp_path: Path) -> None:
    run = a_run(tmp_path, step(0, 6), NEW_LIMITS, blocked_at(2), StepGate(shut=True, reason="why"))
    with own_run(run) as owned:
        answer = parsed(status(run, "--json"))

    assert list(answer)[:3] == ["schema_version", "run", "state"]
    assert (answer["run"], answer["state"]) == ("drain-b3", "gated")
    assert answer["owner"]["pid"] == owned.holder.pid
    assert answer["limits"]["per_broker"] == 4
    assert answer["limits"]["extra_replicas"] is None
    assert answer["limits_since_batch"] == 2
    assert answer["options"]["on_stall"] == "wait"
    assert answer["gate"] == {"shut": True, "reason": "why", "until": None}
    assert answer["batch"] == 6
    assert answer["counts"]["adding"] == 1
    assert answer["counts"]["done"] == 0
    (moving,) = answer["in_flight"]
    assert moving == {
        "topic": "orders",
        "partition": 0,
        "state": "adding",
        "since": moving["since"],
        "batch": 6,
        "step": 1,
        "replicas": [1, 2, 3],
        "step_replicas": [1, 2, 3, 4],
        "adding": [4],
        "removing": [],
        "elect": None,
        "target": [1, 2, 4],
        "original": [1, 2, 3],
        "held_up_by": None,
    }
    (troubled,) = answer["troubled"]
    assert (troubled["partition"], troubled["state"]) == (2, "blocked")
    assert troubled["reason"] == "broker 4 of its target is down"
    assert answer["problem"] is None


def test_status_prints_every_event_as_a_readable_line(tmp_path: Path) -> None:
    lines = text(status(a_run(tmp_path, step(0, 6), accepted(0), over(0), NEW_LIMITS), "--events"))

    words = [line.split(" ", 3)[3] for line in lines]
    assert [line.split(" ")[0] for line in lines] == ["1", "2", "3", "4", "5", "6", "7"]
    assert words[1] == "4 partitions of the plan, orders-0 to orders-3"
    assert words[2] == "process 4711 of ada on ops1 runs the engine"
    assert words[3] == "orders-0: batch 6: 1,2,3 -> 1,2,3,4 (+4)"
    assert words[4] == "orders-0: Kafka accepted the alter"
    assert words[5] == "orders-0: step finished: 1,2,3,4, leader 1"
    assert words[6] == (
        "limits: R 1 -> 2, B none -> 4; from decision 2 on; 1 in flight stay as they are"
    )


def test_status_exports_every_event_as_one_json_object_per_line(tmp_path: Path) -> None:
    until = Owned(pid=1, host="h", user="u", until=datetime.fromisoformat("2026-11-21T15:00+02:00"))
    done = status(a_run(tmp_path, step(0, 6), until, NEW_LIMITS), "--events", "--json")

    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["seq"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert all(list(line)[:5] == ["schema_version", "at", "run", "seq", "event"] for line in lines)
    assert lines[3] == {
        "schema_version": 1,
        "at": "2026-01-01T00:00:00.000Z",
        "run": "drain-b3",
        "seq": 4,
        "event": "step",
        "topic": "orders",
        "partition": 0,
        "batch": 6,
        "replicas": [1, 2, 3, 4],
        "adding": [4],
        "removing": [],
        "elect": None,
        "before": [1, 2, 3],
        "leader": 1,
        "alters": True,
        "moves_leader": False,
        "cut": False,
        "urgent": False,
        "alone": False,
        "holds_place": True,
        "among_urgent": False,
    }
    assert lines[4]["until"] == "2026-11-21T13:00:00.000Z"
    assert lines[5]["old"]["replicas"] == 1
    assert lines[5]["new"]["replicas"] == 2


@pytest.mark.parametrize("arguments", [(), ("--json",), ("--events",), ("--events", "--json")])
def test_status_shows_a_damaged_journal_up_to_its_damage_and_fails(
    tmp_path: Path, arguments: Sequence[str]
) -> None:
    run = a_run(tmp_path, step(0), accepted(0))
    connection = sqlite3.connect(run.journal)
    connection.execute("DROP TRIGGER events_stay_as_they_are")
    connection.execute("UPDATE events SET body = '{}' WHERE seq = 5")
    connection.commit()
    connection.close()

    done = status(run, *arguments)

    assert done.exit_code == 1
    assert "event 5 is damaged" in done.stderr
    assert "orders" in done.stdout


def test_status_of_an_unknown_run_is_refused_with_a_similar_name(tmp_path: Path) -> None:
    run = a_run(tmp_path)

    result = CliRunner().invoke(ktui, ["status", "drain", "--state-dir", str(tmp_path / "state")])

    assert isinstance(result.exception, UnknownRun)
    assert f"did you mean {run.name!r}?" in str(result.exception)


def test_status_escapes_control_characters_of_events(tmp_path: Path) -> None:
    run = a_run(tmp_path, blocked_at(0, "\x1b[2Jgone"))

    for arguments in ((), ("--events",)):
        assert "\x1b" not in status(run, *arguments).stdout
    assert parsed(status(run, "--json"))["troubled"][0]["reason"] == "\x1b[2Jgone"


def test_json_of_status_has_times_in_utc_in_any_time_zone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    at = parsed(status(a_run(tmp_path), "--json"))["at"]

    assert datetime.fromisoformat(at) == datetime(2026, 1, 1, tzinfo=UTC)
    assert at.endswith("Z")


def test_status_lists_cancelled_partitions_with_current_and_original_replicas(
    tmp_path: Path,
) -> None:
    stop, back = (TopicPartition("orders", n) for n in (1, 0))
    run = a_run(
        tmp_path,
        step(0),
        over(0),
        CancelAsked(kind=CancelKind.STOP, partitions=(stop,)),
        CancelAsked(kind=CancelKind.ROLLBACK, partitions=(back,)),
    )

    lines, answer = text(status(run)), parsed(status(run, "--json"))

    assert "0 of 4 done, 2 called off (1 rolling back, 1 stopped), 2 queued" in lines
    assert "stopped 1" in lines
    at = lines.index("called off: 2 partitions")
    first, second = lines[at + 2 : at + 4]
    assert first.startswith("orders-0 roll back rolling back 20")
    assert first.endswith(" 1,2,3,4 1,2,3 1,2,4")
    assert second.startswith("orders-1 stop stopped 20")
    assert (answer["counts"]["stopped"], answer["counts"]["rolling_back"]) == (1, 1)
    one, two = answer["called_off"]
    assert (one["partition"], one["cancel"], one["state"]) == (0, "rollback", "rolling_back")
    assert (one["replicas"], one["original"]) == ([1, 2, 3, 4], [1, 2, 3])
    assert (two["partition"], two["cancel"], two["state"]) == (1, "stop", "stopped")


def test_status_shows_forty_cancelled_partitions_and_counts_the_rest(tmp_path: Path) -> None:
    every = tuple(TopicPartition("orders", n) for n in range(50))
    run = a_run(tmp_path, CancelAsked(kind=CancelKind.STOP, partitions=every), partitions=50)

    lines = text(status(run))

    assert sum(" stop stopped " in line for line in lines) == 40
    assert lines[-1] == "and 10 more"
    assert len(parsed(status(run, "--json"))["called_off"]) == 50


def test_a_live_run_under_a_shut_cancel_gate_is_gated(tmp_path: Path) -> None:
    run = a_run(tmp_path, CancelGate(shut=True, reason="ada@ops1 (1), to stop all of run drain"))
    with own_run(run):
        assert text(status(run))[0] == "run drain-b3: gated"


RUNNING_FOR_LONG = HowLong(
    time_s=Span(100.0, 200.0, 400.0),
    basis=Basis(Source.THIS_RUN),
    pacesetter=Bound(time_s=Span(90.0, 190.0, 390.0), bottleneck=Bottleneck.RECEIVER, broker=4),
)


def shown_text(folder: Path, **changes: Any) -> list[str]:
    run = RunClient(a_run(folder)).read().run
    progress = msgspec.structs.replace(run_progress(run, this_process()), **changes)
    return status_text(run_details(run, progress), StateDir(folder / "state")).splitlines()


def test_status_shows_how_long_the_rest_takes_on_what_grounds_and_what_sets_the_pace(
    tmp_path: Path,
) -> None:
    lines = shown_text(tmp_path, time_left=RUNNING_FOR_LONG)

    time_left = "about 3.3 min left (1.7 to 6.7), by this run; broker 4 receives the most"
    assert lines[lines.index("0 of 4 done, 4 queued") + 1] == time_left


def test_nobody_knows_how_long_a_run_takes_while_some_of_it_is_blocked(tmp_path: Path) -> None:
    copied = CopiedBytes(left_s=Span(100.0, 200.0, 400.0))
    run = RunClient(a_run(tmp_path, blocked_at(2), blocked_at(3))).read().run
    progress = run_progress(run, this_process(), copied=copied)
    shown = status_text(run_details(run, progress), StateDir(tmp_path / "state"))

    assert progress.time_left is None
    assert "\ntime left unknown: 2 blocked\n" in shown


def test_only_a_run_that_goes_on_has_a_time_left(tmp_path: Path) -> None:
    copied = CopiedBytes(left_s=Span(100.0, 200.0, 400.0))
    run = RunClient(a_run(tmp_path)).read().run

    assert run_progress(run, this_process(), copied=copied).time_left is not None
    assert run_progress(run, copied=copied).time_left is None


def test_status_shows_how_close_the_run_is_to_the_least_possible_time(tmp_path: Path) -> None:
    bound = Bound(
        time_s=Span(1_380.0, 1_380.0, 1_380.0),
        bottleneck=Bottleneck.RECEIVER,
        broker=4,
        bytes=2 * 2**30,
    )
    least = LeastLeft(bound, 1.06, Basis())

    assert (
        "at least 23 min, as broker 4 gets 2.0 GiB; the run takes 6% longer than that"
    ) in shown_text(tmp_path, least=least)


def test_the_commands_of_kafkas_tool_are_shown_with_the_cluster_and_the_rate(
    tmp_path: Path,
) -> None:
    run = a_run(tmp_path)

    shown = status(run, "--command").stdout.splitlines()
    refused = status(run, "--command", "--json")

    assert [line for line in shown if not line.startswith("#")] == [
        "kafka-reassign-partitions.sh --bootstrap-server BROKER:PORT --list",
        "ktui plan remaining drain-b3 -o drain-b3-left.json",
        *(
            f"kafka-reassign-partitions.sh --bootstrap-server BROKER:PORT --{action} "
            "--reassignment-json-file drain-b3-left.json"
            for action in ("execute", "verify", "cancel")
        ),
        "ktui plan rollback drain-b3 -o drain-b3-back.json",
        (
            "kafka-reassign-partitions.sh --bootstrap-server BROKER:PORT --execute "
            "--reassignment-json-file drain-b3-back.json --additional"
        ),
    ]
    assert "--command excludes --events and --json" in refused.stderr


def test_another_run_that_moves_a_partition_is_called_by_its_name(tmp_path: Path) -> None:
    foreign = StateEntered(
        topic="orders", partition=0, state=State.FOREIGN, reason="it is being reassigned"
    )
    run = a_run(tmp_path, foreign)
    assert any("it is being reassigned" in line for line in text(status(run)))
    other = StateDir(tmp_path / "state").create_run("night")
    written(other.journal, [*a_start(4), step(0), accepted(0)]).close()
    assert any("run night is reassigning it" in line for line in text(status(run)))
    [troubled] = parsed(status(run, "--json"))["troubled"]
    assert troubled["reason"] == "run night is reassigning it"
