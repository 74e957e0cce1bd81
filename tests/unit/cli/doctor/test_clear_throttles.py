"""`ktui doctor --clear-throttles` removes the throttles that no move needs, and nothing else."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

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
    LONGEST_LIST,
)
from ktui.execution.host.ownership import own_run
from ktui.execution.run.events import AnyRunEvent, FoundSetting, SettingsFound
from support.cli.throttle_sandbox import BROKER_1, BROKER_3, BROKER_4, ORDERS, SET, ThrottleSandbox
from support.journals.journals import planned, started, written
from support.passing import PassingWriter


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ThrottleSandbox:
    return ThrottleSandbox(tmp_path, monkeypatch)


class WithoutControllers(PassingWriter):
    """A writer that reaches brokers only, as where controllers listen in a network of their own."""

    async def delete_broker_settings(self, *_: object, **__: object) -> WriteResult:
        raise Unreachable("deleting settings", where="10.0.0.9:9093", answer="no answer")


def parsed(result: Result, exit_code: int = 0) -> Any:
    assert result.exit_code == exit_code, result.output
    return json.loads(result.stdout)


def lines(result: Result) -> list[str]:
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


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
        monkeypatch.setattr("ktui.cli.doctor_throttles.SystemClock", lambda: self)

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

    monkeypatch.setattr("ktui.cli.doctor_throttles.can_ask", lambda: True)
    monkeypatch.setattr("click.confirm", confirm_with(yes=False))
    refused = sandbox.clear()
    assert refused.exit_code == 2
    assert sandbox.settings.keys() == {BROKER_4, ORDERS}

    monkeypatch.setattr("click.confirm", confirm_with(yes=True))
    sandbox.clear()
    assert sandbox.settings == {BROKER_4: {FOLLOWER_RATE: SET[0]}}  # which the move may need
    question = "A run that ktui cannot see may need these throttles. Remove them anyway?"
    assert asked == [question] * 2
