"""An extra plan joins a live run, whatever stage the partitions in both plans are at."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from ktui.execution.engine.add_plan import CheckedExtraPlan, JoinEffect
from ktui.execution.journal.commands import CancelMoves, Continue, Pause
from ktui.execution.run.events import Added, OnConflict, StateEntered
from ktui.execution.run.states import CancelKind, State
from ktui.pacing.limits import Limits, Order, Shape
from ktui.planning.check.findings import Allowances
from ktui.preview.facts import ClusterFacts
from support.runs.cancel_stories import AddingStory, altered, begun, done, nth, step_over
from support.runs.engine_runs import Replicas, plan_of, snapshot_of
from support.runs.stories import Such
from support.simulated.moving_clusters import cordon, move, tp, uncordon

THREE, FAR, FARTHER = (1, 2, 3), (4, 5, 6), (7, 8, 9)
WAYS: dict[str, tuple[Replicas, Replicas]] = {
    "orders-0": (THREE, FAR),
    "orders-1": ((2, 3, 1), (5, 6, 4)),
}
GENTLE = Limits(replicas=1, partitions=1)
KIP_435 = Limits(replicas=1, partitions=1, shape=Shape.KIP_435)
TOGETHER = Limits(replicas=1, partitions=2)
SHAPES = [GENTLE, KIP_435]


def ready(name: str) -> Such:
    return lambda event: (
        isinstance(event, StateEntered) and event.state is State.READY and event.tp == tp(name)
    )


STAGES: dict[str, Callable[[], Such]] = {
    "queued": lambda: begun("orders-1"),
    "adding": lambda: altered("orders-0"),
    "adding its second replica": lambda: nth(2, altered("orders-0")),
    "between steps": lambda: step_over("orders-0"),
    "before its last step": lambda: nth(3, step_over("orders-0")),
    "done": lambda: done("orders-0"),
}


def a_story(folder: Path, stage: str, limits: Limits) -> AddingStory:
    """Build a story in which orders-0 is at a stage while the other partition is not done."""
    first = "orders-1" if stage == "queued" else "orders-0"
    order = Order.PLAN
    ways = {name: WAYS[name] for name in sorted(WAYS, key=lambda name: name != first)}
    changed = Limits(
        replicas=limits.replicas, partitions=limits.partitions, shape=limits.shape, order=order
    )
    return AddingStory(folder, ways, changed)


def move_once_done(story: AddingStory, name: str, replicas: Replicas) -> None:
    """Let somebody else move a partition that the run has brought to its target, before the add."""
    if not story.all_came and story.state(name) is State.DONE and story.came_to(name, FAR):
        story.cluster.do(move(name, *replicas))


@pytest.mark.parametrize("limits", SHAPES)
def test_partitions_new_to_the_run_join_its_queue(tmp_path: Path, limits: Limits) -> None:
    story = AddingStory(tmp_path, WAYS, limits, {"resting": ["audit-0", "audit-1"]})
    story.adds(altered("orders-0"), {"audit-0": FAR, "audit-1": (4, 2, 3)})

    run = story.played()

    assert run.ended
    assert run.counts[State.DONE] == 4
    assert story.came_to("audit-0", FAR)
    assert story.came_to("audit-1", (4, 2, 3))
    assert run.tracks[tp("audit-0")].original == THREE
    assert story.words == ["2 join the queue"]
    assert max(story.begun_at("orders-0")) <= min(story.begun_at("audit-0"))  # P is 1


@pytest.mark.parametrize("limits", SHAPES)
def test_a_new_target_on_a_cordoned_broker_waits_for_the_end_of_the_cordon(
    tmp_path: Path, limits: Limits
) -> None:
    story = AddingStory(tmp_path, WAYS, limits, {"version": "4.4", "resting": ["audit-0"]})
    story.already(cordon(7))
    story.adds(altered("orders-0"), {"audit-0": FARTHER, "orders-0": (7, 2, 3)})

    story.played(until_s=200.0)

    assert story.came_to("orders-1", WAYS["orders-1"][1])
    for name in ("audit-0", "orders-0"):
        assert story.state(name) is State.BLOCKED
        assert story.reason(name).endswith("`ktui broker uncordon 7`")

    story.schedule(300.0, uncordon(7))
    assert story.resumed().ended
    assert story.came_to("audit-0", FARTHER)
    assert story.came_to("orders-0", (7, 2, 3))


@pytest.mark.parametrize("limits", SHAPES)
@pytest.mark.parametrize("stage", STAGES)
def test_a_partition_on_its_way_elsewhere_is_rolled_back_then_moved_to_its_new_target(
    tmp_path: Path, stage: str, limits: Limits
) -> None:
    story = a_story(tmp_path, stage, limits)
    story.adds(STAGES[stage](), {"orders-0": FARTHER})

    run = story.played()

    assert story.all_came
    assert run.ended
    assert run.counts[State.DONE] == 2
    assert story.came_to("orders-0", FARTHER)
    assert story.came_to("orders-1", WAYS["orders-1"][1])
    assert run.tracks[tp("orders-0")].original == THREE
    rolled_back = State.ROLLED_BACK in story.states("orders-0")
    assert rolled_back == (stage not in ("queued", "done"))


@pytest.mark.parametrize("limits", SHAPES)
@pytest.mark.parametrize("stage", STAGES)
def test_with_keep_a_partition_keeps_its_target_and_the_answer_reports_it(
    tmp_path: Path, stage: str, limits: Limits
) -> None:
    story = a_story(tmp_path, stage, limits)
    story.adds(STAGES[stage](), {"orders-0": FARTHER}, OnConflict.KEEP)

    run = story.played()

    assert run.counts[State.DONE] == 2
    assert story.came_to("orders-0", FARTHER if stage == "done" else FAR)
    if stage != "done":
        assert story.words == ["nothing is added: 1 keeps the run's own target"]
        assert not [event for event in story.events if isinstance(event, Added)]


@pytest.mark.parametrize("limits", SHAPES)
@pytest.mark.parametrize("stage", STAGES)
def test_with_retarget_a_partition_goes_straight_to_its_new_target(
    tmp_path: Path, stage: str, limits: Limits
) -> None:
    story = a_story(tmp_path, stage, limits)
    story.adds(STAGES[stage](), {"orders-0": FARTHER}, OnConflict.RETARGET)

    run = story.played()

    assert run.ended
    assert run.counts[State.DONE] == 2
    assert story.came_to("orders-0", FARTHER)
    assert State.ROLLED_BACK not in story.states("orders-0")
    assert run.tracks[tp("orders-0")].original == THREE


def test_a_retarget_drops_unwanted_replicas_before_adding_any(tmp_path: Path) -> None:
    story = AddingStory(tmp_path, {"orders-0": (THREE, FAR)}, GENTLE)
    story.adds(nth(2, step_over("orders-0")), {"orders-0": FARTHER}, OnConflict.RETARGET)

    story.played()

    first, second = story.steps_since_added("orders-0")[:2]
    assert (first.before, first.replicas, first.adding) == ((1, 2, 3, 4, 5), THREE, ())
    assert second.replicas == (1, 2, 3, 7)


@pytest.mark.parametrize("limits", SHAPES)
def test_a_retargeted_partition_goes_before_those_that_have_not_begun(
    tmp_path: Path, limits: Limits
) -> None:
    story = AddingStory(tmp_path, WAYS, limits)
    story.adds(altered("orders-0"), {"orders-0": FARTHER}, OnConflict.RETARGET)

    story.played()

    assert max(story.begun_at("orders-0")) <= min(story.begun_at("orders-1"))


def test_a_partition_rolled_back_for_a_new_target_queues_with_those_not_begun(
    tmp_path: Path,
) -> None:
    limits = Limits(replicas=1, partitions=1, order=Order.PLAN)
    story = AddingStory(tmp_path, WAYS, limits)
    story.adds(nth(2, altered("orders-0")), {"orders-0": FARTHER})

    story.played()

    to_its_new_target = story.steps_since_added("orders-0")[-4:]
    assert to_its_new_target[0].adding == (7,)
    assert max(story.begun_at("orders-1")) <= story.begun_at("orders-0")[-4]


def test_a_leader_unwanted_by_the_new_target_stays_until_another_leads(tmp_path: Path) -> None:
    story = AddingStory(tmp_path, {"orders-0": (THREE, FAR)}, KIP_435)
    story.adds(step_over("orders-0"), {"orders-0": FARTHER}, OnConflict.RETARGET)

    story.played()

    steps = story.steps_since_added("orders-0")
    assert steps[0].before == (4, 1, 2, 3)  # led by 4, which may not be dropped
    assert steps[0].replicas == (7, 4, 1, 2, 3)
    assert steps[1].removing == (4,)
    assert story.came_to("orders-0", FARTHER)


@pytest.mark.parametrize("on_conflict", [OnConflict.ROLLBACK, OnConflict.RETARGET])
def test_a_partition_ready_to_be_cut_can_still_get_a_new_target(
    tmp_path: Path, on_conflict: OnConflict
) -> None:
    ways = {"orders-0": (THREE, (1, 2, 4)), "orders-1": ((2, 3, 1), (5, 6, 4))}
    story = AddingStory(tmp_path, ways, TOGETHER)
    story.adds(ready("orders-0"), {"orders-0": FARTHER}, on_conflict)

    run = story.played()

    assert story.all_came
    assert run.counts[State.DONE] == 2
    assert story.came_to("orders-0", FARTHER)


def test_partitions_already_at_or_on_the_way_to_their_target_are_left_alone(tmp_path: Path) -> None:
    story = AddingStory(tmp_path, WAYS, GENTLE)
    story.adds(done("orders-0"), {name: target for name, (_, target) in WAYS.items()})

    story.played()

    assert story.words == ["nothing is added: 2 are at that target or on the way there already"]


def test_a_stopped_partition_is_queued_again_when_it_is_added_again(tmp_path: Path) -> None:
    story = AddingStory(tmp_path, WAYS, GENTLE)
    story.asks(
        nth(2, altered("orders-0")), CancelMoves(CancelKind.STOP, partitions=(tp("orders-0"),))
    )
    story.adds(begun("orders-1"), {"orders-0": FAR})

    run = story.played()

    assert story.words[1] == "1 that had ended is queued again"
    assert run.counts[State.DONE] == 2
    assert story.came_to("orders-0", FAR)


@pytest.mark.parametrize("on_conflict", OnConflict)
@pytest.mark.parametrize("target", [FAR, FARTHER], ids=["the same target", "another target"])
def test_a_partition_that_somebody_else_moved_away_is_queued_again_when_it_is_added_again(
    tmp_path: Path, target: Replicas, on_conflict: OnConflict
) -> None:
    story = AddingStory(tmp_path, WAYS, GENTLE)
    story.adds(nth(3, begun("orders-1")), {"orders-0": target}, on_conflict)
    story.checks.append(lambda _: move_once_done(story, "orders-0", (7, 2, 3)))

    run = story.played()

    assert story.words == ["1 that had ended is queued again"]
    assert run.counts[State.DONE] == 2
    assert story.came_to("orders-0", target)
    assert run.tracks[tp("orders-0")].original == THREE


def test_what_a_plan_comes_to_counts_partitions_that_somebody_else_moved_away(
    tmp_path: Path,
) -> None:
    story = AddingStory(tmp_path, WAYS, GENTLE)
    story.played(until_s=60.0)
    assert story.state("orders-0") is State.DONE
    story.cluster.do(move("orders-0", 7, 2, 3))
    story.clock.pass_time(30.0)
    story.cluster.catch_up()
    plan = plan_of({tp("orders-0"): FAR})
    seen = asyncio.run(snapshot_of(story.reader, plan))

    extra = CheckedExtraPlan(
        plan, "more.json", story.folded, ClusterFacts(seen=seen), OnConflict.KEEP, Allowances()
    )

    assert (extra.effects, extra.idle) == ([JoinEffect.AGAIN], False)


@pytest.mark.parametrize("on_conflict", OnConflict)
def test_added_partitions_are_rolled_back_to_their_replicas_before_the_run(
    tmp_path: Path, on_conflict: OnConflict
) -> None:
    story = AddingStory(tmp_path, WAYS, GENTLE, {"resting": ["audit-0"]})
    story.adds(altered("orders-0"), {"orders-0": FARTHER, "audit-0": FAR}, on_conflict)
    story.played()

    run = story.reopened(CancelMoves(CancelKind.ROLLBACK))

    assert run.counts[State.ROLLED_BACK] == 3
    assert story.came_to("orders-0", THREE)
    assert story.came_to("orders-1", (2, 3, 1))
    assert story.came_to("audit-0", THREE)


def test_an_operators_rollback_overrides_the_target_due_after_it(tmp_path: Path) -> None:
    story = AddingStory(tmp_path, {"orders-0": (THREE, FAR)}, GENTLE)
    story.adds(nth(2, altered("orders-0")), {"orders-0": FARTHER})
    story.asks(
        lambda event: isinstance(event, Added),
        CancelMoves(CancelKind.ROLLBACK, partitions=(tp("orders-0"),)),
    )

    story.played()

    assert story.state("orders-0") is State.ROLLED_BACK
    assert story.came_to("orders-0", THREE)


def test_a_paused_run_accepts_an_extra_plan_and_begins_it_when_continued(tmp_path: Path) -> None:
    story = AddingStory(tmp_path, WAYS, GENTLE, {"resting": ["audit-0"]})
    story.asked(3.0, Pause())
    story.adds(step_over("orders-0"), {"audit-0": FAR, "orders-1": FARTHER})
    story.asked(60.0, Continue())

    run = story.played()

    assert run.counts[State.DONE] == 3
    assert story.came_to("orders-1", FARTHER)
    assert min(story.begun_at("audit-0")) > 60.0


def test_a_paused_topic_holds_partitions_added_to_it(tmp_path: Path) -> None:
    story = AddingStory(tmp_path, WAYS, GENTLE, {"resting": ["audit-0"]})
    story.asked(1.0, Pause(topics=("orders",)))
    story.adds(altered("orders-0"), {"audit-0": FAR, "orders-0": FARTHER})

    story.played(200.0)

    assert story.state("audit-0") is State.DONE
    assert story.state("orders-0") is State.QUEUED
    assert story.came_to("orders-0", THREE)


def test_a_shut_cancel_gate_refuses_an_added_plan(tmp_path: Path) -> None:
    story = AddingStory(tmp_path, WAYS, GENTLE, {"resting": ["audit-0"]})
    story.gate_shut = "ada@ops1 (7), to roll back run drain"
    story.asked(10.0, story.add({"audit-0": FAR}))

    story.played(30.0)

    assert story.words[0].startswith("the cluster's cancel gate is shut by ada@ops1 (7)")
    assert "ktui cancel run --remove-cancel" in story.words[0]
    assert tp("audit-0") not in story.folded.tracks


def test_an_ended_run_refuses_an_extra_plan(tmp_path: Path) -> None:
    story = AddingStory(tmp_path, WAYS, GENTLE, {"resting": ["audit-0"]})
    story.played()

    story.reopened(story.add({"audit-0": FAR}))

    assert story.words == ["the run has ended. Start more.json as a run of its own: ktui start"]


def test_the_later_of_two_extra_plans_for_a_partition_wins(tmp_path: Path) -> None:
    story = AddingStory(tmp_path, WAYS, GENTLE)
    story.adds(nth(2, altered("orders-0")), {"orders-0": FARTHER})
    story.adds(lambda event: isinstance(event, Added), {"orders-0": (4, 8, 2)})

    run = story.played()

    assert run.counts[State.DONE] == 2
    assert story.came_to("orders-0", (4, 8, 2))
    assert State.ROLLED_BACK in story.states("orders-0")


@pytest.mark.parametrize("on_conflict", OnConflict)
def test_copied_and_remaining_bytes_stay_correct_with_an_extra_plan(
    tmp_path: Path, on_conflict: OnConflict
) -> None:
    story = AddingStory(tmp_path, WAYS, GENTLE, {"resting": ["audit-0"], "messages": 1_000})
    story.adds(nth(2, altered("orders-0")), {"orders-0": FARTHER, "audit-0": FAR}, on_conflict)
    done_bytes = [0]
    story.checks.append(lambda _: done_bytes.append(story.folded.copies.done))

    run = story.played()

    assert done_bytes == sorted(done_bytes)
    assert run.copies.done == run.copies.whole
    copied = sum(len(step.adding) for step in story.steps)
    dropped = 1  # the copy that was cancelled
    wanted = 3 + 3 + 3 + (0 if on_conflict is OnConflict.KEEP else 1)
    assert run.copies.whole == wanted * 1_000_000
    assert copied - wanted in (0, dropped)
    assert not run.copies.onto.total()
