"""Runs that an engine leaves before their end: when all is submitted, or what is over settled."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from ktui.cluster.settings import FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from ktui.execution.engine.gates import STUCK_S, LeaveSettled, LeaveSubmitted
from ktui.execution.host.catalog import RunState, run_state
from ktui.execution.journal.commands import CancelMoves, Command, Continue, Pause
from ktui.execution.run.events import (
    AnyRunEvent,
    CancelGate,
    Ended,
    EngineLeft,
    JournalEntry,
    OnConflict,
    Owned,
    PauseOrigin,
    StepBegun,
    StepGate,
)
from ktui.execution.run.states import CancelKind, State
from ktui.pacing.limits import Limits, Mode
from ktui.simulated.layout import Append, DeleteTopic, Kill, ScheduledEvent, Slow, Start
from support.runs.cancel_stories import AddingStory
from support.runs.pacing import WHOLE
from support.runs.stories import Story, refuses
from support.runs.throttled import ThrottledStory, broker, settings_in
from support.runs.witnessed import Killed
from support.simulated.moving_clusters import cancel, tp

RF3 = (1, 2, 3)
THREE = {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (5, 2, 3)), "orders-2": (RF3, (6, 2, 3))}
TWO = {name: THREE[name] for name in ("orders-0", "orders-1")}
COPIED_S = 10.0
"""Seconds in which a replica is copied in a story; a throttled one takes twice as long."""
SUBMITTED = "all of its partitions are submitted"
GOES_ON = "what is in flight goes on without it"
WAVES = replace(WHOLE, partitions=1, mode=Mode.WAVE)
ROLLING = replace(WHOLE, partitions=2)


def submits(story: Story) -> Story:
    story.leaving = LeaveSubmitted
    return story


def settled(story: Story, after_s: float, *commands: Command) -> Story:
    """Let another engine settle the run, after some seconds without one.

    It pauses the run after the commands that it finds, as `ktui engine --leave settled` does.
    """
    story.clock.pass_time(after_s)
    story.cluster.catch_up()
    story.leaving = LeaveSettled
    story.reopened(*commands, Pause(by=PauseOrigin.SIGNAL))
    return story


def in_flight(story: Story) -> list[str]:
    return [str(each) for each in story.folded.tracks_in_flight]


def is_owned(event: AnyRunEvent) -> bool:
    return isinstance(event, Owned)


def is_ended(event: AnyRunEvent) -> bool:
    return isinstance(event, Ended)


def left_at(story: Story) -> float:
    return story.seconds(lambda event: isinstance(event, EngineLeft))[-1]


def test_without_limits_the_run_is_left_as_soon_as_all_is_submitted(tmp_path: Path) -> None:
    story = submits(Story(tmp_path, THREE, WHOLE))

    run = story.played()

    assert (run_state(run, None), run.left) == (RunState.SUBMITTED, SUBMITTED)
    assert in_flight(story) == ["orders-0", "orders-1", "orders-2"]
    assert left_at(story) < COPIED_S
    assert [story.sent(name) for name in THREE] == [[(4, 2, 3)], [(5, 2, 3)], [(6, 2, 3)]]


def test_kafka_completes_alone_what_an_engine_has_submitted(tmp_path: Path) -> None:
    story = submits(Story(tmp_path, THREE, WHOLE))
    story.played()

    story.clock.pass_time(2 * COPIED_S)
    story.cluster.catch_up()

    assert story.at_target(*THREE)


def test_in_waves_the_last_one_is_not_waited_for(tmp_path: Path) -> None:
    story = submits(Story(tmp_path, THREE, WAVES))

    run = story.played()

    assert (run_state(run, None), run.left) == (RunState.SUBMITTED, SUBMITTED)
    assert [story.state(name) for name in ("orders-0", "orders-1")] == [State.DONE, State.DONE]
    assert in_flight(story) == ["orders-2"]
    assert 2 * COPIED_S <= left_at(story) < 3 * COPIED_S


def test_in_rolling_mode_the_run_is_left_when_the_last_partition_finds_a_place(
    tmp_path: Path,
) -> None:
    story = submits(Story(tmp_path, THREE, ROLLING))
    story.already(Slow(5, 0.1))

    story.played()

    assert story.folded.left == SUBMITTED
    assert in_flight(story) == ["orders-1", "orders-2"]
    assert COPIED_S <= left_at(story) < 2 * COPIED_S


@pytest.mark.parametrize("limits", [WHOLE, WAVES, ROLLING], ids=["no limits", "waves", "rolling"])
def test_a_partition_that_cannot_begin_is_waited_for_once_the_rest_is_submitted(
    limits: Limits, tmp_path: Path
) -> None:
    story = submits(Story(tmp_path, THREE, limits))
    story.already(Kill(5))

    run = story.played()

    assert run.left == "1 of its partitions cannot be submitted"
    assert run_state(run, None) is RunState.RESUMABLE
    assert story.state("orders-1") is State.BLOCKED
    assert story.reason("orders-1") == "broker 5 of its target is down"
    assert story.begun_at("orders-1") == []
    assert len(story.begun_at("orders-0")) == len(story.begun_at("orders-2")) == 1
    assert left_at(story) >= max(story.begun_at("orders-2")) + STUCK_S


def test_a_partition_that_can_begin_after_a_while_is_submitted(tmp_path: Path) -> None:
    story = submits(Story(tmp_path, THREE, WHOLE))
    story.already(Kill(5))
    story.schedule(3.0, Start(5))

    run = story.played()

    assert run.left == SUBMITTED
    assert len(story.begun_at("orders-1")) == 1


def test_an_operators_pause_between_two_batches_is_waited_for(tmp_path: Path) -> None:
    story = submits(Story(tmp_path, TWO, WAVES))
    story.asked(3.0, Pause())
    story.asked(5 * COPIED_S, Continue())

    run = story.played()

    assert run.left == SUBMITTED
    assert min(story.begun_at("orders-1")) >= 5 * COPIED_S


@pytest.mark.parametrize(
    "gate",
    [CancelGate(shut=True, reason="ada"), StepGate(shut=True, reason="2 partitions offline")],
    ids=["cancel gate", "health gate"],
)
def test_a_shut_gate_between_two_batches_is_waited_for(gate: AnyRunEvent, tmp_path: Path) -> None:
    story = Story(tmp_path, TWO, WAVES)
    run = story.played(until_s=COPIED_S / 2)
    leaving = LeaveSubmitted(story.clock)
    run.apply(JournalEntry(run.seq + 1, story.clock.now(), gate))
    run.tracks_in_flight.clear()  # the first batch is over

    for _ in range(3):
        assert leaving(run, story.seen) is None
        story.clock.pass_time(STUCK_S)


@pytest.mark.parametrize("limits", [WHOLE, WAVES], ids=["no limits", "waves"])
def test_settling_does_not_wait_for_the_interval_between_batches(
    limits: Limits, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, limits=limits, poll_s=60.0)
    submits(story).played()
    story.clock.pass_time(3 * COPIED_S)
    story.cluster.do(Kill(4))
    story.clock.pass_time(15.0)
    story.cluster.schedule(ScheduledEvent(story.clock.monotonic() + 2.0, Start(4)))

    settled(story, 0.0)

    story.assert_left_as_found()
    assert story.seconds(is_ended)[-1] - story.seconds(is_owned)[-1] < STUCK_S


def test_without_batches_the_interval_between_them_delays_nothing(tmp_path: Path) -> None:
    story = submits(Story(tmp_path, THREE, WHOLE, poll_s=60.0))
    story.already(Kill(5))
    story.schedule(3.0, Start(5))

    assert story.played().left == SUBMITTED
    assert left_at(story) < COPIED_S


def test_a_batch_is_polled_at_the_interval_that_was_asked_for(tmp_path: Path) -> None:
    story = submits(Story(tmp_path, TWO, WAVES, poll_s=6 * COPIED_S))

    story.played()

    assert min(story.begun_at("orders-1")) >= 6 * COPIED_S


def test_a_run_whose_partitions_are_at_their_targets_ends(tmp_path: Path) -> None:
    story = submits(Story(tmp_path, {"orders-0": (RF3, RF3)}, WHOLE))

    assert story.played().ended


def test_a_refused_request_fails_its_partition_at_once_in_kafkas_words(tmp_path: Path) -> None:
    story = submits(Story(tmp_path, TWO, WHOLE))
    refuses(story)

    run = story.played()

    assert run.ended
    assert story.reason("orders-0") == "refused: not today (POLICY_VIOLATION)"
    assert [len(story.begun_at(name)) for name in TWO] == [1, 1]
    assert story.state("orders-0") is story.state("orders-1") is State.FAILED


def refuses_alters(story: Story) -> None:
    refuses(story)


def cancels_it_elsewhere(story: Story) -> None:
    story.schedule(3.0, cancel("orders-0"))


def deletes_its_topic(story: Story) -> None:
    story.schedule(3.0, DeleteTopic("orders"))


@pytest.mark.parametrize("limits", [WAVES, ROLLING], ids=["waves", "rolling"])
@pytest.mark.parametrize(
    ("happens", "words"),
    [
        (refuses_alters, "has failed"),
        (cancels_it_elsewhere, "was changed by someone else"),
        (deletes_its_topic, "was deleted with its topic"),
    ],
)
def test_after_a_partition_of_a_batch_is_lost_the_rest_is_not_submitted(
    happens: Callable[[Story], None], words: str, limits: Limits, tmp_path: Path
) -> None:
    ways = {"orders-0": (RF3, (4, 2, 3)), **{f"users-{n}": (RF3, (5, 2, 3)) for n in range(3)}}
    story = submits(Story(tmp_path, ways, limits))
    happens(story)

    run = story.played()

    assert run.left == f"orders-0 {words}: the rest is not submitted"
    assert story.begun_at("users-2") == []
    assert left_at(story) < COPIED_S


def test_the_next_batch_waits_until_the_last_one_is_in_sync(tmp_path: Path) -> None:
    story = submits(Story(tmp_path, TWO, WAVES))
    a_replica_falls_behind(story, comes_back=True)

    story.played()

    assert story.at_target("orders-0")
    completed = 4 * COPIED_S
    assert min(story.begun_at("orders-1")) >= 2 * completed
    assert "the next batch waits for broker 3 to be in sync" in story.said("orders-0", State.ADDING)


def test_the_next_batch_does_not_wait_for_a_broker_that_is_down(tmp_path: Path) -> None:
    story = submits(Story(tmp_path, TWO, WAVES))
    a_replica_falls_behind(story, comes_back=False)

    story.played()

    assert story.folded.left == SUBMITTED
    assert story.sent("orders-1") == [(5, 2, 3)]


def a_replica_falls_behind(story: Story, *, comes_back: bool) -> None:
    """Let a replica of orders-0 that stays lack more than what is copied to the new one."""
    story.already(Kill(3))
    story.schedule(1.0, Append(tp("orders-0"), 30_000), Slow(3, 0.2))
    if comes_back:
        story.schedule(2.0, Start(3))


def test_a_refused_rollback_is_tried_again(tmp_path: Path) -> None:
    story = Story(tmp_path, TWO, WHOLE)
    assert story.played().ended
    refuses(story, for_s=5.0)

    run = story.reopened(CancelMoves(CancelKind.ROLLBACK, partitions=(tp("orders-0"),)))

    assert run.ended
    assert (story.replicas(tp("orders-0")), story.leader(tp("orders-0"))) == (RF3, 1)


def test_what_is_in_flight_stays_throttled_and_nothing_else(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO, limits=WAVES, throttle_leaders=True)
    submits(story)

    story.played()

    assert in_flight(story) == ["orders-1"]
    settings = settings_in(story.cluster)
    assert {b for b in range(1, 10) if LEADER_RATE in settings.get(broker(b), {})} == {*RF3}
    assert story.rates == {5: "500000"}
    assert story.lists == {LEADER_REPLICAS: "1:1,1:2,1:3", FOLLOWER_REPLICAS: "1:5"}


def test_settling_takes_in_what_is_over_and_puts_back_its_throttles(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO, "100kB,4=10MB", limits=WHOLE)
    submits(story).played()

    settled(story, 3 * COPIED_S)

    assert story.folded.left == GOES_ON
    assert story.state("orders-0") is State.DONE
    assert in_flight(story) == ["orders-1"]
    assert [*story.rates] == [5]
    assert set(story.lists.values()) == {"1:5"}


def test_settling_ends_a_run_that_kafka_has_completed(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO, limits=WHOLE)
    submits(story).played()

    settled(story, 6 * COPIED_S)

    assert [story.state(name) for name in TWO] == [State.DONE, State.DONE]
    story.assert_left_as_found()


def test_settling_waits_for_a_broker_that_still_has_a_rate_of_the_run(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, limits=WHOLE)
    submits(story).played()
    story.clock.pass_time(3 * COPIED_S)
    story.cluster.do(Kill(4))

    settled(story, 15.0)

    assert story.state("orders-0") is State.DONE
    assert story.folded.left == "its throttle is not put back yet"
    assert [*story.rates] == [4]

    story.cluster.do(Start(4))
    settled(story, 15.0)

    story.assert_left_as_found()


def test_settling_ends_a_run_whose_engine_was_killed_before_it_put_throttles_back(
    tmp_path: Path,
) -> None:
    story = ThrottledStory(tmp_path, limits=WHOLE)
    submits(story).played()
    story.killed("after writing StepOver")
    with pytest.raises(Killed):
        settled(story, 3 * COPIED_S)
    assert (story.folded.in_flight, [*story.rates]) == (0, [4])

    settled(story, 1.0)

    story.assert_left_as_found()


def test_settling_ends_a_run_of_which_nothing_could_be_submitted(tmp_path: Path) -> None:
    story = submits(Story(tmp_path, TWO, WHOLE))
    refuses(story, code="CLUSTER_AUTHORIZATION_FAILED")
    assert not story.played().ended

    settled(story, 1.0, CancelMoves(CancelKind.STOP))

    assert story.folded.ended
    assert [story.state(name) for name in TWO] == [State.STOPPED, State.STOPPED]


def test_settling_gives_up_while_the_cluster_does_not_answer(tmp_path: Path) -> None:
    story = submits(Story(tmp_path, TWO, WHOLE))
    story.played()
    for each in range(1, 10):
        story.cluster.do(Kill(each))

    settled(story, 1.0)

    assert story.folded.left == "not all outcomes are known yet"


def test_settling_leaves_moves_alone_that_go_on(tmp_path: Path) -> None:
    story = submits(Story(tmp_path, THREE, WHOLE))
    story.played()

    settled(story, 1.0)

    assert story.folded.left == GOES_ON
    assert in_flight(story) == [*THREE]
    assert [len(story.sent(name)) for name in THREE] == [1, 1, 1]


def test_settling_carries_out_a_cancel_that_was_asked_for_before(tmp_path: Path) -> None:
    story = submits(Story(tmp_path, TWO, WHOLE))
    story.played()

    stop = CancelMoves(CancelKind.STOP, partitions=(tp("orders-0"),))
    settled(story, 1.0, stop)

    assert story.folded.left == GOES_ON
    assert story.sent("orders-0") == [(4, 2, 3), None]
    assert {*story.replicas(tp("orders-0"))} == {*RF3}
    assert story.state("orders-0").ended
    assert in_flight(story) == ["orders-1"]


@pytest.mark.parametrize("after_s", [1.0, 3 * COPIED_S], ids=["in flight", "over"])
def test_settling_a_wave_that_was_left_begins_no_other(after_s: float, tmp_path: Path) -> None:
    story = Story(tmp_path, THREE, WAVES)
    story.played(until_s=5.0)
    assert in_flight(story) == ["orders-0"]

    settled(story, after_s)

    assert not story.folded.ended
    assert (story.state("orders-0") is State.DONE) == (after_s > COPIED_S)
    assert {event.tp for event in story.events if isinstance(event, StepBegun)} == {tp("orders-0")}


def test_a_new_target_replaces_the_move_in_flight_before_the_run_is_left(tmp_path: Path) -> None:
    story = AddingStory(tmp_path, TWO, WHOLE)
    submits(story).played()
    assert story.folded.left == SUBMITTED

    story.reopened(story.add({"orders-0": (7, 2, 3)}, OnConflict.RETARGET))

    assert story.folded.left == SUBMITTED
    assert story.sent("orders-0") == [(4, 2, 3), None, (7, 2, 3)]
    assert story.sent("orders-1") == [(5, 2, 3)]


def test_settling_cancels_a_retargeted_move_and_leaves_its_new_target_for_later(
    tmp_path: Path,
) -> None:
    story = AddingStory(tmp_path, TWO, WHOLE)
    submits(story).played()
    story.leaving = LeaveSettled

    story.reopened(
        story.add({"orders-0": (7, 2, 3)}, OnConflict.RETARGET), Pause(by=PauseOrigin.SIGNAL)
    )

    assert story.sent("orders-0") == [(4, 2, 3), None]
    assert not story.folded.additions.waiting
    assert in_flight(story) == ["orders-1"]

    submits(story).resumed()

    assert story.sent("orders-0") == [(4, 2, 3), None, (7, 2, 3)]


def test_cancels_of_others_do_not_keep_the_next_plan_from_being_submitted(tmp_path: Path) -> None:
    ways = {f"orders-{n}": (RF3, (4 + n, 2, 3)) for n in range(6)}
    story = AddingStory(tmp_path, ways, WHOLE, {"messages": 100_000})
    submits(story).played()
    story.cluster.do(cancel("orders-0", "orders-1", "orders-2"))
    settled(story, 2.0)
    assert story.folded.left == GOES_ON

    submits(story).reopened(story.add({"orders-0": (7, 2, 3)}, OnConflict.RETARGET))

    assert story.folded.left == SUBMITTED
    assert story.sent("orders-0") == [(4, 2, 3), (7, 2, 3)]
