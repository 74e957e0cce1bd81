"""`ktui doctor --clear-throttles` takes off what nobody needs, and touches nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ktui.cli.context.errors import BadInput
from ktui.cli.main import ktui
from ktui.cluster.ports import ConfigResource, ConfigSource, Setting, Verdict, WriteResult
from ktui.cluster.throttle_settings import FOLLOWER_RATE, FOLLOWER_REPLICAS, LOG_DIR_RATE
from ktui.execution.host.ownership import own_run
from ktui.execution.run.events import AnyRunEvent, FoundSetting, SettingsFound
from support.cli.throttle_ward import BROKER_4, BROKER_5, ORDERS, SET, Ward
from support.journals.journals import planned, started, written


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ward:
    return Ward(tmp_path, monkeypatch)


def told(result: Result, exit_code: int = 0) -> Any:
    assert result.exit_code == exit_code, result.output
    return json.loads(result.stdout)


def lines(result: Result) -> list[str]:
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


def test_what_was_left_behind_is_shown_taken_off_and_read_back(ward: Ward) -> None:
    ward.left_behind()

    result = ward.clear()

    assert result.exit_code == 0, result.output
    assert lines(result) == [
        "left behind:",
        "ON SETTING VALUE",
        f"broker 4 {FOLLOWER_RATE} 50000000",
        f"topic orders {FOLLOWER_REPLICAS} 0:4,1:4",
        "",
        "ktui cannot see runs of other hosts, users and state directories. Check those, too.",
        "Watching for 10 s for moves and changes ...",
        "",
        "removed. A read of the settings confirms that none is left",
    ]
    assert ward.settings == {}


def test_a_dry_run_shows_the_same_and_changes_nothing(ward: Ward) -> None:
    ward.left_behind()
    before = {r: dict(values) for r, values in ward.settings.items()}

    result = ward.clear("--dry-run")

    assert result.exit_code == 0
    assert f"broker 4 {FOLLOWER_RATE} 50000000" in lines(result)
    assert lines(result)[-1] == "nothing was changed"
    assert ward.settings == before


def test_scripts_are_told_what_was_taken_off_and_what_is_kept(ward: Ward) -> None:
    ward.left_behind()
    ward.given(BROKER_5, LOG_DIR_RATE, "1000")

    answer = told(ward.clear("--json"))

    assert list(answer) == [
        "schema_version", "cluster", "dry_run", "taken_off", "kept", "left", "unread",
        "not_at_rest",
    ]  # fmt: skip
    rate, listed = answer["taken_off"]
    assert rate == {
        "scope": "broker",
        "name": "4",
        "key": FOLLOWER_RATE,
        "values": ["50000000"],
        "why": None,
    }
    assert (listed["name"], listed["values"]) == ("orders", ["0:4", "1:4"])
    (kept,) = answer["kept"]
    assert (kept["key"], kept["why"]) == (
        LOG_DIR_RATE,
        "it limits moves between log dirs, which ktui cannot see",
    )
    assert answer["left"] == []
    assert ward.settings == {BROKER_5: {LOG_DIR_RATE: "1000"}}


def test_of_a_list_only_what_nobody_needs_is_taken_off(ward: Ward) -> None:
    ward.moves("orders", 0, 4, 2, 3)
    ward.given(BROKER_4, FOLLOWER_RATE, SET[0])
    ward.given(ORDERS, FOLLOWER_REPLICAS, "0:4,1:4,0:2")

    answer = told(ward.clear("--json", "--yes"))

    assert [each["values"] for each in answer["taken_off"]] == [["0:2", "1:4"]]
    assert {each["why"] for each in answer["kept"]} == {"a move in flight may need it"}
    assert ward.settings == {
        BROKER_4: {FOLLOWER_RATE: SET[0]},
        ORDERS: {FOLLOWER_REPLICAS: "0:4"},
    }


@pytest.mark.parametrize("value", ["*", "0:4, 1:4", "0:4 , 1:4", "x"])
def test_whatever_stands_in_a_list_that_nobody_needs_goes(ward: Ward, value: str) -> None:
    ward.patient.controller.configs._dynamic[ORDERS] = {FOLLOWER_REPLICAS: value}

    told(ward.clear("--json"))

    assert ward.settings == {}


def test_an_entry_with_a_blank_goes_and_what_a_move_needs_stays(ward: Ward) -> None:
    ward.moves("orders", 0, 4, 2, 3)
    ward.patient.controller.configs._dynamic[ORDERS] = {FOLLOWER_REPLICAS: "0:4, 1:4"}

    told(ward.clear("--json", "--yes"))

    assert ward.settings == {ORDERS: {FOLLOWER_REPLICAS: "0:4"}}


def test_what_a_live_run_uses_is_refused_and_the_way_to_lift_it_is_told(ward: Ward) -> None:
    run = ward.a_run()
    ward.given(BROKER_4, FOLLOWER_RATE, SET[0])
    ward.given(ORDERS, FOLLOWER_REPLICAS, "0:4")

    with own_run(run):
        result = ward.clear()

    assert result.exit_code == 2
    assert "live run drain-b3 uses it. To lift it: ktui throttle drain-b3 none" in result.stdout
    assert lines(result)[-1] == "nothing was left behind, so nothing was changed"
    assert ward.settings.keys() == {BROKER_4, ORDERS}


@pytest.mark.parametrize("theirs", ["1:4", "*"])
def test_a_list_that_a_live_run_found_and_counts_on_is_kept(ward: Ward, theirs: str) -> None:
    found = FoundSetting(ORDERS, FOLLOWER_REPLICAS, Setting(theirs, ConfigSource.OWN))
    events: list[AnyRunEvent] = [started(2, ward.patient.spec.name), planned(2)]
    run = ward.state.create_run("drain-b3")
    written(run.journal, [*events, SettingsFound(found=(found,))]).close()
    ward.given(ORDERS, FOLLOWER_REPLICAS, theirs)

    with own_run(run):
        assert ward.clear().exit_code == 2
    assert ward.settings == {ORDERS: {FOLLOWER_REPLICAS: theirs}}

    assert ward.clear().exit_code == 0
    assert not ward.settings


def test_what_a_run_has_set_that_waits_for_resume_is_left_to_it(ward: Ward) -> None:
    ward.a_run()
    ward.given(BROKER_4, FOLLOWER_RATE, SET[0])
    ward.given(ORDERS, FOLLOWER_REPLICAS, "0:4,1:4")

    answer = told(ward.clear("--json"))

    assert [each["values"] for each in answer["taken_off"]] == [["1:4"]]
    assert {each["why"] for each in answer["kept"]} == {
        "run drain-b3 has set it. To restore it: ktui resume drain-b3"
    }
    assert ward.settings[ORDERS] == {FOLLOWER_REPLICAS: "0:4"}


def test_what_a_move_in_flight_uses_is_refused(ward: Ward) -> None:
    ward.moves("orders", 0, 4, 2, 3)
    ward.given(BROKER_4, FOLLOWER_RATE, SET[0])

    result = ward.clear()

    assert result.exit_code == 2
    assert "a move in flight may need it" in result.stdout
    assert ward.settings == {BROKER_4: {FOLLOWER_RATE: SET[0]}}


def test_a_cluster_without_throttles_has_nothing_to_clear(ward: Ward) -> None:
    result = ward.clear()

    assert (result.exit_code, lines(result)[0]) == (0, "no replication throttle is set")


def test_what_kafka_refuses_to_take_off_is_told_in_its_words(ward: Ward) -> None:
    ward.left_behind()
    writer = ward.patient.writer()

    class Refusing:
        async def alter_configs(self, changes: Any) -> Mapping[ConfigResource, WriteResult]:
            refusal = WriteResult(Verdict.REFUSED, "POLICY_VIOLATION", "not on a Sunday")
            kept = {c.resource for c in changes if c.resource == BROKER_4}
            done = await writer.alter_configs([c for c in changes if c.resource not in kept])
            return {**done, **dict.fromkeys(kept, refusal)}

        async def aclose(self) -> None:
            await writer.aclose()

    ward.writer = Refusing  # type: ignore[assignment] # half a writer is enough

    result = ward.clear()

    assert result.exit_code == 1
    assert lines(result)[-2:] == [
        "still set:",
        f"broker 4 {FOLLOWER_RATE}: POLICY_VIOLATION: not on a Sunday",
    ]


def test_a_dry_run_goes_with_clearing_only(ward: Ward) -> None:
    result = CliRunner().invoke(ktui, ["doctor", "--dry-run"])

    assert isinstance(result.exception, BadInput)
    assert "--dry-run needs --clear-throttles" in str(result.exception)
    assert ward.settings == {}


def test_nothing_is_cleared_where_the_context_may_not_be_changed_but_shown(ward: Ward) -> None:
    ward.left_behind()
    ward.read_only = True

    refused = ward.clear()

    assert isinstance(refused.exception, BadInput)
    assert "read_only" in str(refused.exception)
    assert ward.settings.keys() == {BROKER_4, ORDERS}
    assert ward.clear("--dry-run").exit_code == 0


def test_what_is_changed_between_the_look_and_the_act_is_left(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    ward.left_behind()

    async def at_rest(*_: object) -> tuple[str, ...]:
        ward.given(BROKER_4, FOLLOWER_RATE, "1000")
        return ()

    monkeypatch.setattr("ktui.cli.doctor.clear_throttles.watch_for_changes", at_rest)

    result = ward.clear()

    assert result.exit_code == 1
    assert lines(result)[-1] == (
        f"broker 4 {FOLLOWER_RATE}: somebody has changed it meanwhile, or it is needed now. ktui "
        "leaves it alone"
    )
    assert ward.settings == {BROKER_4: {FOLLOWER_RATE: "1000"}}


class Elsewhere:
    """A live run of another state directory, which does its next thing while we watch."""

    def __init__(self, ward: Ward, monkeypatch: pytest.MonkeyPatch, after_s: float) -> None:
        self._ward, self._due_s = ward, ward.patient.clock.monotonic() + after_s
        self.does: Callable[[], None] = lambda: None
        monkeypatch.setattr("ktui.cli.doctor.clear_throttles.SystemClock", lambda: self)

    def monotonic(self) -> float:
        return self._ward.patient.clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._ward.patient.clock.sleep(seconds)
        if self.monotonic() >= self._due_s:
            self._due_s = math.inf
            self.does()


@pytest.mark.parametrize("after_s", [1.0, 9.0])
def test_the_throttle_of_a_run_elsewhere_that_takes_its_next_step_is_not_taken_off(
    ward: Ward, monkeypatch: pytest.MonkeyPatch, after_s: float
) -> None:
    ward.left_behind()
    elsewhere = Elsewhere(ward, monkeypatch, after_s)
    elsewhere.does = lambda: ward.moves("orders", 0, 4, 2, 3)
    before = {r: dict(values) for r, values in ward.settings.items()}

    result = ward.clear()

    assert result.exit_code == 2
    assert "1 partition is being reassigned: orders-0" in lines(result)
    assert "ktui cannot see runs of other hosts, users and state directories" in result.stdout
    assert lines(result)[-1].startswith("nothing was changed: a run that ktui cannot see from here")
    assert ward.settings == before


def test_a_throttle_that_is_changed_by_another_run_meanwhile_is_not_taken_off(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    ward.left_behind()
    elsewhere = Elsewhere(ward, monkeypatch, 5.0)
    elsewhere.does = lambda: ward.given(ORDERS, FOLLOWER_REPLICAS, "1:4")

    answer = told(ward.clear("--json"), exit_code=2)

    assert answer["not_at_rest"] == [f"{FOLLOWER_REPLICAS} of topic orders changed: 0:4,1:4 -> 1:4"]
    assert answer["taken_off"] == []
    assert [each["name"] for each in answer["left"]] == ["4", "orders"]
    assert ward.settings == {
        BROKER_4: {FOLLOWER_RATE: SET[0]},
        ORDERS: {FOLLOWER_REPLICAS: "1:4"},
    }


def test_while_something_moves_it_is_for_the_operator_to_say(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    ward.left_behind()
    ward.moves("payments", 0, 5, 2, 3)
    asked: list[str] = []

    def answered(*, yes: bool) -> Callable[[str], bool]:
        def answer(question: str) -> bool:
            asked.append(question)
            return yes

        return answer

    monkeypatch.setattr(
        "ktui.cli.doctor.clear_throttles.sys", SimpleNamespace(stdin=TTY, stdout=TTY)
    )
    monkeypatch.setattr("click.confirm", answered(yes=False))
    refused = ward.clear()
    assert refused.exit_code == 2
    assert ward.settings.keys() == {BROKER_4, ORDERS}

    monkeypatch.setattr("click.confirm", answered(yes=True))
    ward.clear()
    assert ward.settings == {BROKER_4: {FOLLOWER_RATE: SET[0]}}  # which the move may need
    question = "A run that ktui cannot see may need these throttles. Remove them anyway?"
    assert asked == [question] * 2


TTY = SimpleNamespace(isatty=lambda: True)


def test_a_dry_run_says_too_that_it_would_be_refused(ward: Ward) -> None:
    ward.left_behind()
    ward.moves("orders", 0, 4, 2, 3)

    result = ward.clear("--dry-run")

    assert result.exit_code == 2
    assert "1 partition is being reassigned: orders-0" in lines(result)


def test_yes_goes_with_clearing_only(ward: Ward) -> None:
    result = CliRunner().invoke(ktui, ["doctor", "--yes"])

    assert isinstance(result.exception, BadInput)
    assert "--yes needs --clear-throttles" in str(result.exception)
    assert ward.settings == {}
