"""The rate of moves between log dirs: noted before it is sent, put back while it is ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.cli.reassign.log_dirs import LogDirThrottle
from ktui.cli.reassign.printed import ReassignProblem
from ktui.cluster.ports import ConfigOp, ConfigScope
from ktui.cluster.settings import LOG_DIR_RATE
from ktui.execution.errors import RunProblem
from ktui.execution.host.state_dir import StateDir
from ktui.simulated import layout
from ktui.simulated.cluster import SimulatedCluster
from support.contract.world import setting
from support.runs.throttle_rules import settings_in
from support.simulated.clusters import a_cluster, wait

CLUSTER_ID = "cFlPp/HqxRmOaCrPxQZu1bA"


class Throttled:
    """A cluster, and the notes about its rates."""

    def __init__(self, folder: Path) -> None:
        self.cluster: SimulatedCluster = a_cluster()
        self.state = StateDir(folder / "state")
        self.throttle = LogDirThrottle(self.state, CLUSTER_ID)

    @property
    def note(self) -> Path:
        (note,) = (self.state.path / "log-dir-rates").iterdir()
        return note

    @property
    def noted(self) -> set[int]:
        """The brokers that another process would find in the notes."""
        return {*LogDirThrottle(self.state, CLUSTER_ID).set_on}

    @property
    def rates(self) -> dict[int, str]:
        """The rate of each broker that has one of its own."""
        return {
            int(resource.name): values[LOG_DIR_RATE]
            for resource, values in settings_in(self.cluster).items()
            if LOG_DIR_RATE in values
        }

    def somebody_sets(self, broker: int, rate: str | None) -> None:
        op = ConfigOp.DELETE if rate is None else ConfigOp.SET
        change = setting(ConfigScope.BROKER, str(broker), LOG_DIR_RATE, op, rate)
        self.cluster.do(layout.AlterConfigs((change,)))

    async def set(self, rate: int, *brokers: int) -> None:
        await self.throttle.set(self.cluster.reader(), self.cluster.writer(), brokers, rate)

    async def put_back(self) -> list[int]:
        return await self.throttle.put_back(self.cluster.reader(), self.cluster.writer())


@pytest.fixture
def throttled(tmp_path: Path) -> Throttled:
    return Throttled(tmp_path)


async def test_rates_are_set_and_put_back_as_they_were(throttled: Throttled) -> None:
    throttled.somebody_sets(2, "700")

    await throttled.set(5_000, 1, 2)
    assert throttled.rates == {1: "5000", 2: "5000"}
    assert throttled.noted == {1, 2}

    assert await throttled.put_back() == [1, 2]
    assert throttled.rates == {2: "700"}
    assert throttled.noted == set()


async def test_a_rate_that_is_changed_twice_goes_back_to_the_first_one(
    throttled: Throttled,
) -> None:
    throttled.somebody_sets(1, "700")

    await throttled.set(5_000, 1)
    await throttled.set(9_000, 1, 2)
    await throttled.put_back()

    assert throttled.rates == {1: "700"}


async def test_a_rate_that_somebody_else_has_changed_since_is_left_alone(
    throttled: Throttled,
) -> None:
    await throttled.set(5_000, 1, 2, 3)
    throttled.somebody_sets(1, "4000")
    throttled.somebody_sets(2, None)

    assert await throttled.put_back() == [3]
    assert throttled.rates == {1: "4000"}
    assert throttled.noted == set()


async def test_a_rate_of_somebody_else_that_replaced_ours_comes_back(throttled: Throttled) -> None:
    await throttled.set(5_000, 1)
    throttled.somebody_sets(1, "4000")

    await throttled.set(9_000, 1)
    await throttled.put_back()

    assert throttled.rates == {1: "4000"}


async def test_nothing_is_put_back_where_nothing_was_set(throttled: Throttled) -> None:
    throttled.somebody_sets(1, "700")

    assert await throttled.put_back() == []
    assert throttled.rates == {1: "700"}


async def test_a_broker_that_is_down_keeps_its_note_until_it_is_back(throttled: Throttled) -> None:
    await throttled.set(5_000, 1, 2)
    throttled.cluster.do(layout.Kill(2))

    assert await throttled.put_back() == [1]
    assert throttled.noted == {2}

    throttled.cluster.do(layout.Start(2))
    wait(throttled.cluster, 15.0)
    assert await throttled.put_back() == [2]
    assert throttled.rates == {}


async def test_a_broker_that_does_not_answer_is_named_and_nothing_is_sent(
    throttled: Throttled,
) -> None:
    throttled.cluster.do(layout.Kill(2))

    with pytest.raises(ReassignProblem, match=r"^broker 2: "):
        await throttled.set(5_000, 1, 2)

    assert (throttled.rates, throttled.noted) == ({}, set())


async def test_rates_are_noted_before_they_are_sent(throttled: Throttled) -> None:
    throttled.cluster.do(layout.LoseAnswer())

    with pytest.raises(ReassignProblem, match=r"^broker 1: "):
        await throttled.set(5_000, 1)

    assert throttled.rates == {1: "5000"}
    assert await throttled.put_back() == [1]
    assert throttled.rates == {}


async def test_a_refused_rate_leaves_nothing_to_put_back(throttled: Throttled) -> None:
    throttled.cluster.do(layout.Deny("alter_configs"))
    with pytest.raises(ReassignProblem, match=r"^broker 1: "):
        await throttled.set(5_000, 1)
    throttled.cluster.do(layout.Allow("alter_configs"))

    assert await throttled.put_back() == []
    assert throttled.noted == set()


async def test_a_rate_whose_change_was_refused_is_still_put_back(throttled: Throttled) -> None:
    throttled.somebody_sets(1, "700")
    await throttled.set(5_000, 1)
    throttled.cluster.do(layout.Deny("alter_configs"))
    with pytest.raises(ReassignProblem):
        await throttled.set(9_000, 1)
    throttled.cluster.do(layout.Allow("alter_configs"))

    assert await throttled.put_back() == [1]
    assert throttled.rates == {1: "700"}


async def test_a_rate_that_cannot_be_put_back_stays_noted(throttled: Throttled) -> None:
    await throttled.set(5_000, 1)
    throttled.cluster.do(layout.Deny("alter_configs"))

    with pytest.raises(ReassignProblem, match=r"^broker 1: "):
        await throttled.put_back()

    assert throttled.noted == {1}


async def test_notes_that_cannot_be_written_stop_the_change(throttled: Throttled) -> None:
    throttled.state.path.mkdir()
    (throttled.state.path / "log-dir-rates").write_text("", encoding="utf-8")

    with pytest.raises(RunProblem):
        await throttled.set(5_000, 1)

    assert throttled.rates == {}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"one": {}}', '{"1": {"value": 5}}'])
async def test_damaged_notes_are_named_with_the_way_out(throttled: Throttled, text: str) -> None:
    await throttled.set(5_000, 1)
    throttled.note.write_text(text, encoding="utf-8")

    for act in (throttled.put_back(), throttled.set(9_000, 2)):
        with pytest.raises(RunProblem) as problem:
            await act
        assert str(problem.value) == (
            f"{throttled.note}: is damaged. Remove it, and the rates that it should name: "
            "ktui doctor --clear-throttles"
        )
    assert throttled.rates == {1: "5000"}


async def test_notes_that_cannot_be_read_are_named(throttled: Throttled) -> None:
    await throttled.set(5_000, 1)
    note = throttled.note
    note.unlink()
    note.mkdir()

    with pytest.raises(RunProblem) as problem:
        await throttled.put_back()

    assert str(problem.value).startswith(f"{note}: cannot be read: ")


def test_the_notes_of_a_cluster_stay_in_their_folder(tmp_path: Path) -> None:
    for hostile in ("../../elsewhere", "/etc/passwd", "a/b\x00c"):
        throttle = LogDirThrottle(StateDir(tmp_path), hostile)
        assert throttle.set_on == {}
        assert throttle._path.parent == tmp_path / "log-dir-rates"
