"""`ktui doctor --clear-throttles` removes the throttles that no move needs, and nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ktui.cli.context.errors import BadInput
from ktui.cli.main import ktui
from ktui.cluster.errors import Unreachable
from ktui.cluster.ports import (
    ConfigChange,
    ConfigResource,
    ConfigSource,
    Setting,
    Verdict,
    WriteResult,
)
from ktui.cluster.settings import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIR_RATE,
    LONGEST_LIST,
)
from ktui.execution.host.ownership import own_run
from ktui.execution.run.events import AnyRunEvent, FoundSetting, SettingsFound
from support.cli.throttle_sandbox import (
    BROKER_1,
    BROKER_3,
    BROKER_4,
    BROKER_5,
    ORDERS,
    SET,
    ThrottleSandbox,
)
from support.journals.journals import planned, started, written
from support.passing import PassingWriter


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ThrottleSandbox:
    return ThrottleSandbox(tmp_path, monkeypatch)


CONFIRMED_LATER = "Only the broker itself can confirm that, once it is back"


class WithoutControllers(PassingWriter):
    """A writer that reaches brokers only, as where controllers listen in a network of their own."""

    async def delete_broker_settings(self, *_: object, **__: object) -> WriteResult:
        raise Unreachable("deleting settings", where="10.0.0.9:9093", answer="no answer")


def parsed(result: Result, exit_code: int = 0) -> Any:
    assert result.exit_code == exit_code, result.output
    return json.loads(result.stdout)


def lines(result: Result) -> list[str]:
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


def test_throttles_left_behind_are_shown_removed_and_read_back(sandbox: ThrottleSandbox) -> None:
    sandbox.left_behind()

    result = sandbox.clear()

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
    assert sandbox.settings == {}


def test_a_dry_run_of_clearing_shows_the_throttles_and_changes_nothing(
    sandbox: ThrottleSandbox,
) -> None:
    sandbox.left_behind()
    before = {r: dict(values) for r, values in sandbox.settings.items()}

    result = sandbox.clear("--dry-run")

    assert result.exit_code == 0
    assert f"broker 4 {FOLLOWER_RATE} 50000000" in lines(result)
    assert lines(result)[-1] == "nothing was changed"
    assert sandbox.settings == before


def test_json_lists_the_throttles_removed_and_those_kept(sandbox: ThrottleSandbox) -> None:
    sandbox.left_behind()
    sandbox.given(BROKER_5, LOG_DIR_RATE, "1000")

    answer = parsed(sandbox.clear("--json"))

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
    assert sandbox.settings == {BROKER_5: {LOG_DIR_RATE: "1000"}}


def test_only_the_entries_of_a_list_that_no_move_needs_are_removed(
    sandbox: ThrottleSandbox,
) -> None:
    sandbox.moves("orders", 0, 4, 2, 3)
    sandbox.given(BROKER_4, FOLLOWER_RATE, SET[0])
    sandbox.given(ORDERS, FOLLOWER_REPLICAS, "0:4,1:4,0:2")

    answer = parsed(sandbox.clear("--json", "--yes"))

    assert [each["values"] for each in answer["taken_off"]] == [["0:2", "1:4"]]
    assert {each["why"] for each in answer["kept"]} == {"a move in flight may need it"}
    assert sandbox.settings == {
        BROKER_4: {FOLLOWER_RATE: SET[0]},
        ORDERS: {FOLLOWER_REPLICAS: "0:4"},
    }


@pytest.mark.parametrize("value", ["*", "0:4, 1:4", "0:4 , 1:4", "x"])
def test_any_value_of_a_list_that_no_move_needs_is_removed(
    sandbox: ThrottleSandbox, value: str
) -> None:
    sandbox.patient.controller.configs._dynamic[ORDERS] = {FOLLOWER_REPLICAS: value}

    parsed(sandbox.clear("--json"))

    assert sandbox.settings == {}


def test_a_list_entry_with_a_blank_is_removed_and_one_that_a_move_needs_stays(
    sandbox: ThrottleSandbox,
) -> None:
    sandbox.moves("orders", 0, 4, 2, 3)
    sandbox.patient.controller.configs._dynamic[ORDERS] = {FOLLOWER_REPLICAS: "0:4, 1:4"}

    parsed(sandbox.clear("--json", "--yes"))

    assert sandbox.settings == {ORDERS: {FOLLOWER_REPLICAS: "0:4"}}


def test_a_full_list_is_removed_by_changes_that_brokers_can_read(sandbox: ThrottleSandbox) -> None:
    full = ",".join(f"{partition}:4" for partition in range(4_600))
    sandbox.patient.controller.configs._dynamic[ORDERS] = {FOLLOWER_REPLICAS: full}
    sandbox.given(BROKER_4, FOLLOWER_RATE, SET[0])
    longest: list[int] = []

    class Measuring(PassingWriter):
        async def alter_configs(
            self, changes: Sequence[ConfigChange], *, leaves_within_s: float | None = None
        ) -> Mapping[ConfigResource, WriteResult]:
            longest.append(max(len(change.value or "") for change in changes))
            return await super().alter_configs(changes, leaves_within_s=leaves_within_s)

        async def aclose(self) -> None:
            pass

    sandbox.writer = lambda: Measuring(sandbox.patient.writer())

    parsed(sandbox.clear("--json"))

    assert sandbox.settings == {}
    assert 0 < max(longest) <= LONGEST_LIST


def test_clearing_a_live_runs_throttle_is_refused_with_the_command_that_lifts_it(
    sandbox: ThrottleSandbox,
) -> None:
    run = sandbox.a_run()
    sandbox.given(BROKER_4, FOLLOWER_RATE, SET[0])
    sandbox.given(ORDERS, FOLLOWER_REPLICAS, "0:4")

    with own_run(run):
        result = sandbox.clear()

    assert result.exit_code == 2
    assert "live run drain-b3 uses it. To lift it: ktui throttle drain-b3 none" in result.stdout
    assert lines(result)[-1] == "nothing was left behind, so nothing was changed"
    assert sandbox.settings.keys() == {BROKER_4, ORDERS}


@pytest.mark.parametrize("theirs", ["1:4", "*"])
def test_a_list_that_a_live_run_found_and_relies_on_is_kept(
    sandbox: ThrottleSandbox, theirs: str
) -> None:
    found = FoundSetting(ORDERS, FOLLOWER_REPLICAS, Setting(theirs, ConfigSource.OWN))
    events: list[AnyRunEvent] = [started(2, sandbox.patient.spec.name), planned(2)]
    run = sandbox.state.create_run("drain-b3")
    written(run.journal, [*events, SettingsFound(found=(found,))]).close()
    sandbox.given(ORDERS, FOLLOWER_REPLICAS, theirs)

    with own_run(run):
        assert sandbox.clear().exit_code == 2
    assert sandbox.settings == {ORDERS: {FOLLOWER_REPLICAS: theirs}}

    assert sandbox.clear().exit_code == 0
    assert not sandbox.settings


def test_throttles_of_a_run_that_waits_for_resume_are_kept_for_it(sandbox: ThrottleSandbox) -> None:
    sandbox.a_run()
    sandbox.given(BROKER_4, FOLLOWER_RATE, SET[0])
    sandbox.given(ORDERS, FOLLOWER_REPLICAS, "0:4,1:4")

    answer = parsed(sandbox.clear("--json"))

    assert [each["values"] for each in answer["taken_off"]] == [["1:4"]]
    assert {each["why"] for each in answer["kept"]} == {
        "run drain-b3 has set it. To restore it: ktui resume drain-b3"
    }
    assert sandbox.settings[ORDERS] == {FOLLOWER_REPLICAS: "0:4"}


def test_clearing_a_throttle_that_a_move_in_flight_uses_is_refused(
    sandbox: ThrottleSandbox,
) -> None:
    sandbox.moves("orders", 0, 4, 2, 3)
    sandbox.given(BROKER_4, FOLLOWER_RATE, SET[0])

    result = sandbox.clear()

    assert result.exit_code == 2
    assert "a move in flight may need it" in result.stdout
    assert sandbox.settings == {BROKER_4: {FOLLOWER_RATE: SET[0]}}


@pytest.mark.parametrize(
    ("key", "listed"),
    [(FOLLOWER_REPLICAS, "*"), (FOLLOWER_REPLICAS, "0:3"), (LEADER_REPLICAS, "0:1")],
)
def test_throttles_that_protect_a_recovering_broker_stay_until_it_is_in_sync(
    sandbox: ThrottleSandbox, key: str, listed: str
) -> None:
    sandbox.comes_back_behind(3)
    rated = (BROKER_1, LEADER_RATE) if key == LEADER_REPLICAS else (BROKER_3, FOLLOWER_RATE)
    sandbox.given(*rated, SET[0])
    sandbox.given(ORDERS, key, listed)
    before = {r: dict(values) for r, values in sandbox.settings.items()}

    answer = parsed(sandbox.clear("--json", "--yes"), 2)

    assert (answer["taken_off"], sandbox.settings) == ([], before)
    assert len(answer["kept"]) == 2
    assert all(kept["why"].startswith("broker 3 is catching up on") for kept in answer["kept"])

    sandbox.seconds_pass(3_000)
    assert len(parsed(sandbox.clear("--json"))["taken_off"]) == 2
    assert sandbox.settings == {}


def test_rates_of_a_broker_that_is_down_are_deleted_through_a_controller(
    sandbox: ThrottleSandbox,
) -> None:
    sandbox.left_behind()
    sandbox.given(BROKER_3, FOLLOWER_RATE, "1000")
    sandbox.goes_down(3)

    result = sandbox.clear()

    assert result.exit_code == 0, result.output
    assert lines(result)[0] == "could not read: the throttles of broker 3, which is down"
    assert lines(result)[-2:] == [
        "removed. A read of the settings confirms that none is left on what could be read",
        f"broker 3 is down: a controller has deleted its rates. {CONFIRMED_LATER}",
    ]
    assert sandbox.settings == {}


def test_a_broker_that_is_down_is_named_where_no_controller_is_reached(
    sandbox: ThrottleSandbox,
) -> None:
    sandbox.given(BROKER_3, FOLLOWER_RATE, "1000")
    sandbox.goes_down(3)
    sandbox.writer = lambda: WithoutControllers(sandbox.patient.writer())

    result = sandbox.clear()

    assert result.exit_code == 3, result.output
    assert "confirms that none is left" not in result.output
    assert "broker 3 is down, and its rates could not be deleted" in result.output
    assert "--bootstrap-controller HOST:PORT" in result.output
    answer = parsed(sandbox.clear("--json"), 3)
    assert answer["unread"] == ["the throttles of broker 3, which is down"]
    assert {(left["name"], left["key"]) for left in answer["left"]} == {
        ("3", FOLLOWER_RATE),
        ("3", LEADER_RATE),
    }


def test_rates_of_a_broker_that_is_down_stay_for_the_replicas_that_it_has_to_catch_up(
    sandbox: ThrottleSandbox,
) -> None:
    sandbox.given(BROKER_3, FOLLOWER_RATE, "1000")
    sandbox.given(ORDERS, FOLLOWER_REPLICAS, "0:3")
    sandbox.goes_down(3)

    answer = parsed(sandbox.clear("--json"), 3)

    assert sandbox.settings[BROKER_3] == {FOLLOWER_RATE: "1000"}
    assert {(kept["name"], kept["why"]) for kept in answer["kept"]} == {
        ("3", "broker 3 is down and behind in 1 partition"),
        ("orders", "broker 3 is down and behind in 1 partition"),
    }


def test_a_cluster_without_throttles_has_nothing_to_clear(sandbox: ThrottleSandbox) -> None:
    result = sandbox.clear()

    assert (result.exit_code, lines(result)[0]) == (0, "no replication throttle is set")


def test_a_throttle_that_kafka_refuses_to_remove_is_shown_with_kafkas_reason(
    sandbox: ThrottleSandbox,
) -> None:
    sandbox.left_behind()
    writer = sandbox.patient.writer()

    class Refusing:
        async def alter_configs(self, changes: Any) -> Mapping[ConfigResource, WriteResult]:
            refusal = WriteResult(Verdict.REFUSED, "POLICY_VIOLATION", "not on a Sunday")
            kept = {c.resource for c in changes if c.resource == BROKER_4}
            done = await writer.alter_configs([c for c in changes if c.resource not in kept])
            return {**done, **dict.fromkeys(kept, refusal)}

        async def aclose(self) -> None:
            await writer.aclose()

    sandbox.writer = Refusing  # type: ignore[assignment] # half a writer is enough

    result = sandbox.clear()

    assert result.exit_code == 1
    assert lines(result)[-2:] == [
        "still set:",
        f"broker 4 {FOLLOWER_RATE}: POLICY_VIOLATION: not on a Sunday",
    ]


@pytest.mark.parametrize("option", ["--dry-run", "--yes"])
def test_what_only_clears_is_refused_without_clear_throttles(
    sandbox: ThrottleSandbox, option: str
) -> None:
    result = CliRunner().invoke(ktui, ["doctor", option])

    assert isinstance(result.exception, BadInput)
    assert f"{option} needs --clear-throttles" in str(result.exception)
    assert sandbox.settings == {}


def test_a_read_only_context_refuses_clearing_and_allows_a_dry_run(
    sandbox: ThrottleSandbox,
) -> None:
    sandbox.left_behind()
    sandbox.read_only = True

    refused = sandbox.clear()

    assert isinstance(refused.exception, BadInput)
    assert "read_only" in str(refused.exception)
    assert sandbox.settings.keys() == {BROKER_4, ORDERS}
    assert sandbox.clear("--dry-run").exit_code == 0


def test_a_throttle_that_changes_between_the_poll_and_the_removal_is_kept(
    sandbox: ThrottleSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.left_behind()

    async def change_the_rate(*_: object) -> tuple[str, ...]:
        sandbox.given(BROKER_4, FOLLOWER_RATE, "1000")
        return ()

    monkeypatch.setattr("ktui.ops.leftovers.Leftovers.watch", change_the_rate)

    result = sandbox.clear()

    assert result.exit_code == 1
    assert lines(result)[-1] == (
        f"broker 4 {FOLLOWER_RATE}: somebody has changed it meanwhile, or it is needed now. ktui "
        "leaves it alone"
    )
    assert sandbox.settings == {BROKER_4: {FOLLOWER_RATE: "1000"}}


class RunElsewhere:
    """A live run of another state directory, which acts once while the doctor watches."""

    def __init__(
        self, sandbox: ThrottleSandbox, monkeypatch: pytest.MonkeyPatch, after_s: float
    ) -> None:
        self._ward, self._due_s = sandbox, sandbox.patient.clock.monotonic() + after_s
        self.does: Callable[[], None] = lambda: None
        monkeypatch.setattr("ktui.cli.doctor.throttles.SystemClock", lambda: self)

    def monotonic(self) -> float:
        return self._ward.patient.clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._ward.patient.clock.sleep(seconds)
        if self.monotonic() >= self._due_s:
            self._due_s = math.inf
            self.does()


@pytest.mark.parametrize("after_s", [1.0, 9.0])
def test_nothing_is_removed_when_a_run_elsewhere_starts_its_next_step(
    sandbox: ThrottleSandbox, monkeypatch: pytest.MonkeyPatch, after_s: float
) -> None:
    sandbox.left_behind()
    elsewhere = RunElsewhere(sandbox, monkeypatch, after_s)
    elsewhere.does = lambda: sandbox.moves("orders", 0, 4, 2, 3)
    before = {r: dict(values) for r, values in sandbox.settings.items()}

    result = sandbox.clear()

    assert result.exit_code == 2
    assert "1 partition is being reassigned: orders-0" in lines(result)
    assert "ktui cannot see runs of other hosts, users and state directories" in result.stdout
    assert lines(result)[-1].startswith("nothing was changed: a run that ktui cannot see from here")
    assert sandbox.settings == before


def test_nothing_is_removed_when_a_run_elsewhere_changes_its_throttle(
    sandbox: ThrottleSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.left_behind()
    elsewhere = RunElsewhere(sandbox, monkeypatch, 5.0)
    elsewhere.does = lambda: sandbox.given(ORDERS, FOLLOWER_REPLICAS, "1:4")

    answer = parsed(sandbox.clear("--json"), exit_code=2)

    assert answer["not_at_rest"] == [f"{FOLLOWER_REPLICAS} of topic orders changed: 0:4,1:4 -> 1:4"]
    assert answer["taken_off"] == []
    assert [each["name"] for each in answer["left"]] == ["4", "orders"]
    assert sandbox.settings == {
        BROKER_4: {FOLLOWER_RATE: SET[0]},
        ORDERS: {FOLLOWER_REPLICAS: "1:4"},
    }


def test_clearing_while_something_moves_asks_the_operator(
    sandbox: ThrottleSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.left_behind()
    sandbox.moves("payments", 0, 5, 2, 3)
    asked: list[str] = []

    def confirm_with(*, yes: bool) -> Callable[[str], bool]:
        def answer(question: str) -> bool:
            asked.append(question)
            return yes

        return answer

    monkeypatch.setattr("ktui.cli.doctor.throttles.can_ask", lambda: True)
    monkeypatch.setattr("click.confirm", confirm_with(yes=False))
    refused = sandbox.clear()
    assert refused.exit_code == 2
    assert sandbox.settings.keys() == {BROKER_4, ORDERS}

    monkeypatch.setattr("click.confirm", confirm_with(yes=True))
    sandbox.clear()
    assert sandbox.settings == {BROKER_4: {FOLLOWER_RATE: SET[0]}}  # which the move may need
    question = "A run that ktui cannot see may need these throttles. Remove them anyway?"
    assert asked == [question] * 2


def test_a_dry_run_shows_that_clearing_would_be_refused(sandbox: ThrottleSandbox) -> None:
    sandbox.left_behind()
    sandbox.moves("orders", 0, 4, 2, 3)

    result = sandbox.clear("--dry-run")

    assert result.exit_code == 2
    assert "1 partition is being reassigned: orders-0" in lines(result)
