"""The gate: a cancel is sent only while the cluster is as it was shown."""

import asyncio
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ktui.execution import RunRefused
from ktui.execution.host.ownership import CancelGateFile
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.commands import CancelMoves, Continue, Pause
from ktui.execution.run.events import CancelGate, Elect, StepOver
from ktui.execution.run.states import CancelKind, State
from ktui.pacing.limits import Limits, Mode, Shape
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from support.runs.cancel_stories import CalledOffStory, CancelRules, altered, nth, step_over
from support.runs.witnessed import WitnessedRun
from support.simulated.moving_clusters import a_cluster, tp

AT = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


def a_gate(state: StateDir, cluster_id: str = "cFlPpHqxRmOaCrPxQZu1bA") -> CancelGateFile:
    return CancelGateFile(state, cluster_id)


def test_a_gate_is_open_until_it_is_shut_and_leaves_no_trace(state: StateDir) -> None:
    gate = a_gate(state)

    assert (gate.state(), gate.words(), gate.open()) == (None, None, None)
    assert not state.path.exists()


def test_a_shut_gate_reports_who_shut_it_when_and_why(state: StateDir) -> None:
    a_gate(state).shut(AT, "ada@ops1 (4711)", "roll back all of run drain")

    shut = a_gate(state).state()

    assert shut is not None
    assert (shut.at, shut.who, shut.reason) == (
        AT, "ada@ops1 (4711)", "roll back all of run drain"
    )  # fmt: skip
    moment = AT.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    words = f"ada@ops1 (4711) at {moment}, to roll back all of run drain"
    assert a_gate(state).words() == words


def test_many_may_shut_a_gate_at_once_and_one_of_them_is_reported(state: StateDir) -> None:
    failed: list[RunRefused] = []

    def shut(who: str) -> None:
        for _ in range(40):
            try:
                a_gate(state).shut(AT, who, "stop")
            except RunRefused as refused:
                failed.append(refused)

    names = ["ada@ops1 (1)", "bob@ops2 (2)", "cy@ops3 (3)", "di@ops4 (4)"]
    threads = [threading.Thread(target=shut, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shut_by = a_gate(state).state()

    assert failed == []
    assert shut_by is not None
    assert shut_by.who in names
    assert [path.name for path in a_gate(state).path.parent.iterdir()] == [a_gate(state).path.name]


def test_each_cluster_has_its_own_gate(state: StateDir) -> None:
    a_gate(state).shut(AT, "ada@ops1 (1)", "stop")

    assert a_gate(state, "another").state() is None
    assert a_gate(state, "../../another").path.parent == a_gate(state).path.parent


def test_opening_a_gate_returns_who_shut_it_last_and_opens_it_for_all(state: StateDir) -> None:
    a_gate(state).shut(AT, "ada@ops1 (1)", "stop")
    a_gate(state).shut(AT, "bob@ops2 (2)", "roll back")

    had = a_gate(state).open()

    assert had is not None
    assert had.who == "bob@ops2 (2)"
    assert a_gate(state).state() is None


def test_a_pipe_in_place_of_the_gate_file_is_reported_without_waiting(state: StateDir) -> None:
    gate = a_gate(state)
    gate.shut(AT, "ada@ops1 (1)", "stop")
    gate.path.unlink()
    os.mkfifo(gate.path)

    with pytest.raises(RunRefused, match="cancel gate cannot be read: it is not a regular file"):
        gate.state()
    assert "it is not a regular file" in str(gate.words())


def test_a_malformed_gate_file_keeps_the_gate_shut(state: StateDir) -> None:
    a_gate(state).shut(AT, "ada@ops1 (1)", "stop")
    a_gate(state).path.write_text("{", encoding="utf-8")

    words = a_gate(state).words()

    assert words is not None
    assert words.startswith("someone at ")
    assert str(a_gate(state).path) in words


def test_an_unreadable_gate_file_keeps_an_engine_from_submitting(state: StateDir) -> None:
    a_gate(state).path.mkdir(parents=True)

    with pytest.raises(RunRefused, match="the cancel gate cannot be read"):
        a_gate(state).state()
    words = a_gate(state).words()
    assert words is not None
    assert "the cancel gate cannot be read" in words


def test_a_state_directory_that_cannot_be_written_to_is_named(state: StateDir) -> None:
    state.path.write_text("a file", encoding="utf-8")

    with pytest.raises(RunRefused, match=str(state.path)):
        a_gate(state).shut(AT, "ada@ops1 (1)", "stop")


THREE = (1, 2, 3)
TWO = {"orders-0": (THREE, (4, 5, 6)), "orders-1": ((2, 3, 1), (5, 6, 4))}
SEVERAL = {**TWO, "orders-2": ((3, 1, 2), (6, 4, 5))}
GENTLE = Limits(replicas=1, partitions=1)
KIP_435 = Limits(replicas=1, partitions=1, shape=Shape.KIP_435)
WAVES = Limits(replicas=1, partitions=2, mode=Mode.WAVE)


def back(*names: str) -> CancelMoves:
    return CancelMoves(CancelKind.ROLLBACK, partitions=tuple(map(tp, names)))


def shut(story: CalledOffStory, at_s: float, until_s: float) -> None:
    """Shut the gate for a while."""

    def by(who: str | None) -> None:
        story.gate_shut = who

    story.cluster.at(at_s, lambda: by("somebody@here, to stop everything"))
    story.cluster.at(until_s, lambda: by(None))


def test_a_continue_under_a_shut_gate_is_not_answered_as_if_the_run_went_on(tmp_path: Path) -> None:
    story = CalledOffStory(tmp_path, TWO, GENTLE)
    shut(story, 14.0, 100.0)
    story.asked(20.0, Pause())
    story.asked(30.0, Continue())

    assert story.played().ended

    words = [asked.answer.words for asked in story.answers if asked.answer]
    assert words[-1] == (
        "lifted; the cluster's cancel gate is still shut by somebody@here, to stop everything. "
        f"Open it: ktui cancel {story.run.name} --remove-cancel"
    )


@pytest.mark.parametrize("limits", [GENTLE, KIP_435, WAVES])
def test_a_run_halts_while_the_gate_is_shut_and_resumes_when_it_opens(
    tmp_path: Path, limits: Limits
) -> None:
    story = CalledOffStory(tmp_path, TWO, limits)
    shut(story, 14.0, 100.0)

    assert story.played().ended

    begun = [*story.begun_at("orders-0"), *story.begun_at("orders-1")]
    assert not [at_s for at_s in begun if 14.5 < at_s < 99.5]
    assert story.at_target("orders-0", "orders-1")
    recorded = [
        (event.shut, event.reason) for event in story.events if isinstance(event, CancelGate)
    ]
    assert recorded == [(True, "somebody@here, to stop everything"), (False, "")]


@pytest.mark.parametrize("limits", [GENTLE, KIP_435, WAVES])
def test_a_rollback_proceeds_while_the_gate_is_shut(tmp_path: Path, limits: Limits) -> None:
    story = CalledOffStory(tmp_path, SEVERAL, limits)
    story.called_off(nth(2, altered("orders-0")), back("orders-0"))
    shut(story, 12.0, 150.0)

    story.played(until_s=100.0)

    assert story.state("orders-0") is State.ROLLED_BACK
    assert story.now(tp("orders-0")) == story.before[tp("orders-0")]
    assert story.resumed().ended
    assert story.at_target("orders-1", "orders-2")


@pytest.mark.parametrize("limits", [GENTLE, KIP_435, WAVES])
@pytest.mark.parametrize("why", ["shut", "paused"])
def test_a_done_partition_is_rolled_back_while_halted_ones_hold_all_places(
    tmp_path: Path, limits: Limits, why: str
) -> None:
    story = CalledOffStory(tmp_path, SEVERAL, limits, {"messages": 2_000})

    def halt() -> None:
        if why == "paused":
            story.ask(Pause())
        else:
            story.gate_shut = "somebody@here"

    story.then(nth(2, altered("orders-2")), halt)
    story.called_off(nth(2, step_over("orders-2")), back("orders-0"))

    story.played(until_s=60.0)
    assert story.all_came
    assert story.state("orders-0") is State.ROLLED_BACK
    assert story.now(tp("orders-0")) == story.before[tp("orders-0")]
    assert not story.at_target("orders-2")

    story.gate_shut = None
    story.ask(Continue())
    assert story.resumed().ended
    assert story.at_target("orders-1", "orders-2")


def test_no_leader_is_elected_while_the_gate_is_shut_and_no_step_is_given_up(
    tmp_path: Path,
) -> None:
    story = CalledOffStory(tmp_path, {"orders-0": TWO["orders-0"]}, KIP_435)
    shut(story, 5.0, 100.0)

    assert story.played().ended

    elected = story.seconds(lambda event: isinstance(event, Elect))
    assert min(elected) > 99.5
    assert all(event.reached for event in story.events if isinstance(event, StepOver))
    assert story.at_target("orders-0")


def test_a_run_started_while_the_gate_is_shut_begins_when_it_opens(tmp_path: Path) -> None:
    story = CalledOffStory(tmp_path, TWO)
    shut(story, 0.0, 50.0)

    assert story.played().ended

    assert min(story.begun_at("orders-0")) > 49.5
    assert story.at_target("orders-0", "orders-1")


def test_the_gate_binds_every_run_of_the_cluster_but_not_rollbacks(tmp_path: Path) -> None:
    spec = a_cluster({"orders": [THREE, THREE, THREE]}, messages=10_000).spec
    cluster = SimulatedCluster(spec, VirtualClock(leaping=True))
    runs = []
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        target = {tp(f"orders-{number}"): (4, 5, 6)}
        runs.append(WitnessedRun(cluster, folder, target, GENTLE))
        CancelRules(runs[-1])

    def gate(who: str | None) -> None:
        for run in runs:
            run.gate_shut = who

    def ask_back() -> None:
        with runs[0].opened() as journal:
            journal.ask(back("orders-0"), "somebody@here (2)")

    cluster.at(14.0, lambda: gate("somebody@here"))
    cluster.at(15.0, ask_back)
    cluster.at(100.0, lambda: gate(None))

    async def all_of_them() -> None:
        await asyncio.gather(*(run.to_its_end() for run in runs))

    asyncio.run(all_of_them())

    assert runs[0].replicas(tp("orders-0")) == THREE
    for number, run in enumerate(runs[1:], start=1):
        run.check_requests()
        assert run.replicas(tp(f"orders-{number}")) == (4, 5, 6)
        arrived = [each.at_s for each in run.witness.alters]
        assert not [at_s for at_s in arrived if 14.0 < at_s < 100.0]
    assert max(each.at_s for each in runs[0].witness.alters) < 40.0
