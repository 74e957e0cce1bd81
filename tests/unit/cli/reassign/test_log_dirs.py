"""Moves between log dirs: sent, throttled and counted."""

from pathlib import Path

import pytest

from ktui.cluster.errors import ClusterError
from ktui.cluster.partition import Replica, TopicPartition
from ktui.cluster.ports import ClusterPorts, ConfigOp, ConfigScope
from ktui.cluster.settings import LOG_DIR_RATE
from ktui.execution import RunProblem
from ktui.execution.host.state_dir import StateDir
from ktui.ops.reassign.log_dirs import (
    LogDirThrottle,
    ReplicaDirs,
    begin_moves,
    known_dirs,
    read_dirs,
)
from ktui.ops.reassign.tool import ActionFailed, ReassignProblem
from ktui.simulated import layout
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import MIB, BrokerSpec, TopicSpec
from support.contract.world import setting
from support.runs.throttled import settings_in
from support.simulated.clusters import a_cluster, wait

FIRST, SECOND = BrokerSpec(id=1, log_dirs=2).log_dir_paths
T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
ON_1, ON_2, ON_3 = (Replica(T0, broker) for broker in (1, 2, 3))


def two_log_dirs() -> SimulatedCluster:
    """Return five brokers with two partitions on 1 and 2: 0 in the first log dir, 1 in the other.

    Partitions are large enough for moves to stay in flight.
    """
    return a_cluster(
        brokers=tuple(BrokerSpec(id=b, log_dirs=2) for b in range(1, 6)),
        topics=(TopicSpec(name="orders", replicas=((1, 2), (1, 2)), bytes_each=10_000 * MIB),),
    )


async def begin(
    cluster: SimulatedCluster,
    wanted: dict[Replica, str],
    timeout_s: float = 10.0,
    printed: list[str] | None = None,
) -> list[str]:
    """Begin moves, and return what is printed; `printed` has it also after a failure."""
    lines = [] if printed is None else printed
    async for line in begin_moves(cluster.writer(), cluster.clock, wanted, timeout_s):
        lines.append(line)
    return lines


def started(path: str, replica: Replica) -> str:
    return (
        f"Successfully started moving log directory to {path} for replica {replica.tp} "
        f"with broker {replica.broker} "
    )


async def test_moves_begin_on_each_broker_and_are_printed_together() -> None:
    cluster = two_log_dirs()

    printed = await begin(cluster, {ON_2: SECOND, ON_1: SECOND})

    assert printed == [f"{started(SECOND, ON_1)}\n{started(SECOND, ON_2)}"]
    assert await read_dirs(cluster.reader(), [ON_1, ON_2], {1, 2}) == ReplicaDirs(
        current={ON_1: FIRST, ON_2: FIRST}, future={ON_1: SECOND, ON_2: SECOND}
    )


async def test_a_replica_in_its_log_dir_already_counts_as_begun() -> None:
    cluster = two_log_dirs()

    assert await begin(cluster, {ON_1: FIRST}) == [started(FIRST, ON_1)]
    assert not (await read_dirs(cluster.reader(), [ON_1], {1})).future


async def test_a_move_is_asked_for_again_until_the_broker_hosts_the_replica() -> None:
    cluster = two_log_dirs()
    cluster.schedule(layout.ScheduledEvent(3.0, layout.Alter({T0: (1, 2, 3)})))

    printed = await begin(cluster, {ON_3: SECOND, ON_1: SECOND})

    assert printed == [started(SECOND, ON_1), started(SECOND, ON_3)]
    assert 3.0 <= cluster.clock.monotonic() < 10.0
    dirs = await read_dirs(cluster.reader(), [ON_3], {3})
    assert (dirs.current, dirs.future) == ({ON_3: SECOND}, {})


async def test_a_lost_answer_is_asked_for_again() -> None:
    cluster = two_log_dirs()
    cluster.do(layout.LoseAnswer())

    assert await begin(cluster, {ON_1: SECOND}, timeout_s=120.0) == [started(SECOND, ON_1)]


async def test_replicas_that_never_come_are_named_after_those_that_have_begun() -> None:
    cluster = two_log_dirs()
    missing = {ON_3: SECOND, Replica(T1, 3): FIRST}

    printed: list[str] = []
    with pytest.raises(ActionFailed) as failed:
        await begin(cluster, {ON_1: SECOND, **missing}, printed=printed)

    assert printed == [started(SECOND, ON_1)]
    assert str(failed.value) == (
        "Timed out before log directory moves could be started for: orders-0-3,orders-1-3"
    )
    assert 10.0 <= cluster.clock.monotonic() < 11.0


@pytest.mark.parametrize("timeout_s", [0.0, -1.0])
async def test_without_time_each_move_is_tried_once(timeout_s: float) -> None:
    cluster = two_log_dirs()

    assert await begin(cluster, {ON_1: SECOND}, timeout_s) == [started(SECOND, ON_1)]
    with pytest.raises(ActionFailed) as failed:
        await begin(cluster, {ON_3: SECOND}, timeout_s)

    expected = "Timed out before log directory move could be started for: orders-0-3"
    assert str(failed.value) == expected


async def test_an_unknown_log_dir_is_refused_in_kafkas_words() -> None:
    with pytest.raises(ReassignProblem) as refused:
        await begin(two_log_dirs(), {ON_1: "/elsewhere"})

    assert str(refused.value) == "Failed to alter dir for orders-0-1: LOG_DIR_NOT_FOUND"


async def test_a_move_without_permission_is_refused() -> None:
    cluster = two_log_dirs()
    cluster.do(layout.Deny("alter_log_dirs"))

    with pytest.raises(ReassignProblem, match=r"^Failed to alter dir for orders-0-1: .+"):
        await begin(cluster, {ON_1: SECOND})


async def test_a_broker_that_is_down_ends_the_attempt() -> None:
    cluster = two_log_dirs()
    cluster.do(layout.Kill(1))

    with pytest.raises(ClusterError):
        await begin(cluster, {ON_1: SECOND})


async def test_a_replica_that_is_in_no_live_log_dir_has_none() -> None:
    cluster = two_log_dirs()
    cluster.do(layout.FailLogDir(1, SECOND))
    every = [ON_1, Replica(T1, 1), ON_3]

    dirs = await read_dirs(cluster.reader(), every, {1, 2, 3})

    assert dirs.current == {ON_1: FIRST, Replica(T1, 1): None, ON_3: None}
    assert await known_dirs(cluster.reader(), {T0: (1, 3), T1: (1,)}, {1, 2, 3}) == {ON_1: FIRST}


@pytest.mark.parametrize("online", [{1}, {1, 2}], ids=["known to be down", "not known yet"])
async def test_replicas_on_a_broker_that_does_not_answer_are_left_out(online: set[int]) -> None:
    cluster = two_log_dirs()
    cluster.do(layout.Kill(2))
    wait(cluster, 1.0)

    assert (await read_dirs(cluster.reader(), [ON_1, ON_2], online)).current == {ON_1: FIRST}


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

    @property
    def _ports(self) -> ClusterPorts:
        return ClusterPorts(self.cluster.reader(), self.cluster.writer())

    async def set(self, rate: int, *brokers: int) -> None:
        await self.throttle.set(self._ports, brokers, rate)

    async def put_back(self) -> list[int]:
        return await self.throttle.put_back(self._ports)


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
