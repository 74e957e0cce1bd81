"""`ktui status`: one run, for people and for scripts, in its present state and event by event."""

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
from ktui.execution.forecast.estimate import CopiedBytes
from ktui.execution.forecast.run_details import run_details
from ktui.execution.forecast.run_progress import run_progress
from ktui.execution.host.client import RunClient
from ktui.execution.host.ownership import this_process
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.run.events import AnyRunEvent, StateEntered
from ktui.execution.run.states import State
from ktui.execution.time_left.rest import LeastLeft
from ktui.speed.answer import Basis, Bottleneck, Bound, HowLong, Source, Span
from support.journals.journals import a_start, accepted, step, written


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


def test_json_of_status_has_times_in_utc_in_any_time_zone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    at = parsed(status(a_run(tmp_path), "--json"))["at"]

    assert datetime.fromisoformat(at) == datetime(2026, 1, 1, tzinfo=UTC)
    assert at.endswith("Z")


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

    time_left = "about 3.3 min left (1.7 to 6.7), as measured; broker 4 receives the most"
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
        "at best 23 min left, as broker 4 gets 2.0 GiB: this run takes 6% longer"
    ) in shown_text(tmp_path, least=least)
