"""What holds a run: pauses, the end of its time, the health of others, leaving."""

from collections.abc import Collection
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from ktui.cluster.ports import ClusterDescription, ClusterReader, TopicConfigsAnswer
from ktui.execution import RunProblem
from ktui.execution.journal.commands import Command, Continue, Pause, StopEngine
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import (
    EngineLeft,
    Owned,
    Paused,
    PauseOrigin,
    StepBegun,
    StepGate,
    StepOver,
)
from ktui.execution.run.states import State
from ktui.pacing.limits import Limits
from ktui.simulated import layout
from ktui.simulated.clock import FIRST_MOMENT
from ktui.speed.capacity import ASSUMED
from support.runs.engine_runs import OWNER, Replicas
from support.runs.stories import LEFT, Story
from support.simulated.moving_clusters import tp

RF3 = (1, 2, 3)


def _many(count: int, *targets: Replicas) -> dict[str, tuple[Replicas, Replicas]]:
    targets = targets or ((4, 2, 3), (5, 2, 3), (6, 2, 3))
    return {f"orders-{n}": (RF3, targets[n % len(targets)]) for n in range(count)}


def test_a_paused_partition_waits_and_the_others_go_on(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(3))
    story.asked(2.0, Pause(partitions=(tp("orders-1"),)))
    story.asked(100.0, Continue(partitions=(tp("orders-1"),)))

    assert story.played().ended

    assert story.begun_at("orders-1")[0] >= 100.0
    assert story.begun_at("orders-2")[-1] < 60.0


def test_a_paused_process_notices_that_it_no_longer_owns_the_run(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(1))
    story.asked(0.5, Pause(topics=("orders",)))
    story.lost = lambda: "its lock was removed" if story.clock.monotonic() > 50.0 else None

    with pytest.raises(RunProblem, match="its lock was removed"):
        story.played(until_s=300.0)

    assert story.clock.monotonic() < 60.0


def test_a_paused_topic_waits_and_the_others_go_on(tmp_path: Path) -> None:
    ways = {**_many(2), "zebra-0": (RF3, (4, 2, 3))}
    story = Story(tmp_path, ways)
    story.asked(2.0, Pause(topics=("orders",)))
    story.asked(100.0, Continue(topics=("orders",)))

    assert story.played().ended

    assert story.begun_at("zebra-0")[-1] < 60.0
    assert story.begun_at("orders-1")[0] >= 100.0
    assert story.begun_at("orders-0")[1] >= 100.0


def test_a_paused_run_begins_nothing_and_finishes_steps_in_flight(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(3))
    story.asked(2.0, Pause())
    story.asked(100.0, Continue())

    assert story.played().ended

    begun = [at for name in _many(3) for at in story.begun_at(name)]
    assert [at for at in begun if 3.0 < at < 100.0] == []
    (words,) = [asked.answer.words for asked in story.answers[:1] if asked.answer]
    assert words == "paused: nothing new is submitted; 1 in flight will finish"
    assert State.READY in story.states("orders-0")


def test_an_operators_pause_outlasts_the_process_but_a_signals_does_not(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(2))
    story.asked(2.0, Pause(by=PauseOrigin.SIGNAL))

    run = story.played()

    assert not run.ended
    assert run.left == "paused by an interrupt (Ctrl-C)"
    assert story.state("orders-0") is State.READY
    story.asked(story.clock.monotonic() + 1.0, Pause())
    story.resumed(until_s=story.clock.monotonic() + 60.0)
    assert set(story.folded.pauses.whole) == {PauseOrigin.OPERATOR}
    sent = len(story.witness.alters)
    story.resumed(until_s=story.clock.monotonic() + 60.0)
    assert len(story.witness.alters) == sent
    story.asked(story.clock.monotonic() + 1.0, Continue())
    assert story.resumed(until_s=story.clock.monotonic() + 600.0).ended


def test_a_run_asked_to_leave_leaves_at_once_and_sends_nothing_more(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(2))
    story.played(until_s=3.0)
    story.clock.pass_time(30.0)
    with Journal.open(story.path, story.clock) as journal:
        journal.ask(StopEngine(), "somebody@here (2)")

    run = story.resumed()

    assert run.left == "somebody@here (2) asked for it"
    assert story.sent("orders-0") == [(1, 2, 3, 4)]
    assert story.resumed().ended
    assert story.at_target(*_many(2))


def test_a_topic_or_partition_outside_the_run_cannot_be_paused(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(1))
    story.asked(2.0, Pause(topics=("payments",)), Pause(partitions=(tp("orders-9"),)))

    story.played()

    assert [asked.answer.words for asked in story.answers if asked.answer] == [
        "topic payments is not in the run",
        "partition orders-9 is not in the run",
    ]


def test_a_run_with_an_until_time_begins_only_what_fits_and_is_then_left(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(6))
    until = FIRST_MOMENT + timedelta(seconds=60)

    run = story.played_by(msgspec.structs.replace(OWNER, until=until))

    assert not run.ended
    assert run.left == run.pauses.whole[PauseOrigin.UNTIL]
    last = story.seconds(lambda e: isinstance(e, StepBegun) and not e.cut)[-1]
    assert 30.0 < last < 50.0
    done = [name for name in _many(6) if story.state(name) is State.DONE]
    assert 3 <= len(done) < 6
    assert len(done) == len([n for n in _many(6) if story.begun_at(n)])
    assert all(story.at_target(name) for name in done)
    assert story.resumed().ended


def test_a_partition_held_as_too_late_begins_once_the_run_proves_faster(tmp_path: Path) -> None:
    fast = {"messages": 5_000_000, "copied_s": 1_000_000.0}
    ways = {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (4, 5, 3))}
    story = Story(tmp_path, ways, Limits(replicas=1, partitions=2), fast)
    one_replica_s = 5e9 / ASSUMED.middle
    until = FIRST_MOMENT + timedelta(seconds=1.9 * one_replica_s)

    run = story.played_by(msgspec.structs.replace(OWNER, until=until))

    assert run.ended
    assert story.begun_at("orders-1")[0] > story.begun_at("orders-0")[0] + 1.0
    assert story.at_target("orders-0", "orders-1")


def test_after_the_until_time_no_next_step_is_submitted_and_steps_in_flight_finish(
    tmp_path: Path,
) -> None:
    slow = {"copied_s": 100.0}
    story = Story(tmp_path, _many(2, (4, 5, 3)), Limits(replicas=1), slow)
    until = FIRST_MOMENT + timedelta(seconds=50)

    run = story.played_by(msgspec.structs.replace(OWNER, until=until))

    finished_s = story.seconds(lambda e: isinstance(e, StepOver))
    assert min(finished_s) > 50.0
    assert max(story.seconds(lambda e: isinstance(e, StepBegun))) < 50.0
    assert 50.0 <= story.seconds(lambda e: isinstance(e, Paused))[0] < 55.0
    assert run.left == "the time given with --until has come, with 2 partitions left"
    assert story.seconds(lambda e: isinstance(e, EngineLeft))[0] >= max(finished_s)


def test_a_next_step_that_is_not_expected_to_end_in_time_is_held_back(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(1, (4, 5, 6)))
    story.played()
    one_step_s = story.begun_at("orders-0")[1] - story.begun_at("orders-0")[0]
    until = FIRST_MOMENT + timedelta(seconds=2.5 * one_step_s)
    (tmp_path / "in-time").mkdir()
    again = Story(tmp_path / "in-time", _many(1, (4, 5, 6)))

    run = again.played_by(msgspec.structs.replace(OWNER, until=until))

    assert len(again.begun_at("orders-0")) == 2
    assert run.left == "none of the 1 left is expected to end by the time given with --until"
    assert again.seconds(lambda e: isinstance(e, EngineLeft))[0] < 2.5 * one_step_s
    assert again.resumed().ended


def test_a_run_whose_time_is_up_is_left_even_if_all_that_remains_is_blocked(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(1, (4, 2, 3)))
    story.already(layout.Kill(4))
    until = story.clock.now() + timedelta(seconds=60)

    run = story.played_by(msgspec.structs.replace(OWNER, until=until), until_s=500.0)

    assert run.left == "the time given with --until has come, with 1 partition left"
    assert 60.0 <= story.seconds(lambda e: isinstance(e, EngineLeft))[-1] < 65.0


def test_a_run_whose_time_is_up_is_left_even_if_the_gate_is_shut(tmp_path: Path) -> None:
    story = Story(tmp_path, {**_many(1), "zebra-0": ((9,), (9,))}, most_offline=0)
    del story.targets[tp("zebra-0")]
    story.already(layout.Kill(9))
    until = story.clock.now() + timedelta(seconds=60)

    run = story.played_by(msgspec.structs.replace(OWNER, until=until), until_s=500.0)

    assert run.gate.shut
    assert set(run.pauses.whole) == {PauseOrigin.UNTIL}
    assert story.sent("orders-0") == []


def test_a_process_asked_to_leave_during_a_poll_sends_nothing_more(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(1))
    reader = story.reader
    leave_reason = "its process got SIGTERM"

    class LeavesMeanwhile:
        def __getattr__(self, name: str) -> Any:
            return getattr(reader, name)

        async def describe_cluster(self) -> ClusterDescription:
            assert story.engine is not None
            story.engine.leave(leave_reason)
            return await reader.describe_cluster()

    story.reader = cast("ClusterReader", LeavesMeanwhile())

    assert story.played().left == leave_reason
    assert story.sent("orders-0") == []
    assert story.steps == []


@pytest.mark.parametrize("command", [Pause(by=PauseOrigin.SIGNAL), StopEngine()])
def test_a_command_during_a_poll_holds_back_the_decision_of_that_poll(
    tmp_path: Path, command: Command
) -> None:
    story = Story(tmp_path, _many(1))
    reader = story.reader

    class AskedMeanwhile:
        def __getattr__(self, name: str) -> Any:
            return getattr(reader, name)

        async def describe_cluster(self) -> ClusterDescription:
            with Journal.open(story.path, story.clock) as journal:
                journal.ask(command, "somebody@here (2)")
            return await reader.describe_cluster()

    story.reader = cast("ClusterReader", AskedMeanwhile())

    run = story.played()

    assert run.left in {"paused by an interrupt (Ctrl-C)", "somebody@here (2) asked for it"}
    assert story.sent("orders-0") == []
    assert story.steps == []


def test_the_answer_to_a_continue_names_the_wider_pause_that_is_left(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(2))
    story.asked(2.0, Pause(topics=("orders",)), Pause())
    story.asked(10.0, Continue(partitions=(tp("orders-1"),)))
    story.asked(20.0, Continue())
    story.asked(25.0, Pause(topics=("orders",)))
    story.asked(30.0, Continue(partitions=(tp("orders-1"),)), Continue(topics=("orders",)))

    assert story.played().ended

    answers = [asked.answer.words for asked in story.answers if asked.answer]
    assert [words for words in answers if not words.startswith("paused")] == [
        "lifted; the whole run is paused still: by the operator",
        "it goes on",
        "lifted; topic orders is paused still",
        "it goes on",
    ]


def test_the_health_gate_shuts_while_others_are_unhealthy_and_opens_by_itself(
    tmp_path: Path,
) -> None:
    ways = {**_many(3), "zebra-0": ((9,), (9,))}
    story = Story(tmp_path, ways, most_offline=0)
    del story.targets[tp("zebra-0")]
    story.schedule(5.0, layout.Kill(9))
    story.schedule(120.0, layout.Start(9))

    assert story.played().ended

    gates = [(e.shut, e.reason) for e in story.events if isinstance(e, StepGate)]
    assert (True, "1 partition outside the run is offline, more than the 0 allowed") in gates
    assert gates[-1] == (False, "")
    begun = [at for name in _many(3) for at in story.begun_at(name)]
    assert [at for at in begun if 20.0 < at < 120.0] == []
    assert story.at_target(*_many(3))


def test_the_health_gate_waits_for_the_settings_it_judges_by(tmp_path: Path) -> None:
    ways = {**_many(1), "zebra-0": ((5, 9), (5, 9))}
    two = {"configs": {"min.insync.replicas": "2"}}
    story = Story(tmp_path, ways, cluster=two, most_under_min_isr=0)
    del story.targets[tp("zebra-0")]
    story.already(layout.Kill(9))
    reader = story.reader

    class SlowWithSettings:
        def __getattr__(self, name: str) -> Any:
            return getattr(reader, name)

        async def topic_configs(self, names: Collection[str]) -> TopicConfigsAnswer:
            await story.clock.sleep(5.0 if "zebra" in names else 0.0)
            return await reader.topic_configs(names)

    story.reader = cast("ClusterReader", SlowWithSettings())

    assert story.played(until_s=100.0).gate.shut

    gates = [e.reason for e in story.events if isinstance(e, StepGate)]
    assert "min.insync.replicas of topic zebra is not known yet" in gates
    assert story.sent("orders-0") == []


def test_a_run_left_by_its_story_reports_that(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(1))

    assert story.played(until_s=3.0).left == LEFT
    assert [type(event) for event in story.events].count(Owned) == 1
    assert not [event for event in story.events if isinstance(event, Paused)]
