"""Other people's changes to the partitions of a run are left to them, and reported."""

from pathlib import Path

import pytest

from ktui.execution.journal.commands import CancelMoves, Continue
from ktui.execution.run.events import Paused, PauseOrigin, Replanned
from ktui.execution.run.states import CancelKind, State
from ktui.pacing.limits import Limits, Shape
from ktui.simulated import layout
from ktui.simulated.layout import TopicSpec
from support.runs.stories import Story
from support.simulated.moving_clusters import cancel, move, tp

TWO = {"orders-0": ((1, 2, 3), (4, 2, 3)), "orders-1": ((1, 2, 3), (5, 2, 3))}


def test_a_queued_partition_that_someone_else_brings_to_its_target_is_done(tmp_path: Path) -> None:
    story = Story(tmp_path, TWO)
    story.schedule(2.5, move("orders-1", 5, 2, 3))

    assert story.played().ended

    assert story.at_target("orders-0", "orders-1")
    assert story.sent("orders-1") == []
    assert story.states("orders-1") == [State.QUEUED, State.FOREIGN, State.DONE]
    assert story.folded.tracks[tp("orders-1")].replicas == (5, 2, 3)


def test_a_queued_partition_that_someone_else_is_moving_waits_and_is_then_left_to_them(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path, TWO)
    story.schedule(2.5, move("orders-1", 7, 8, 9))

    assert story.played().ended

    assert story.sent("orders-1") == []
    assert story.states("orders-1") == [State.QUEUED, State.FOREIGN, State.CHANGED_ELSEWHERE]
    assert story.reason("orders-1") == "its replicas are 7,8,9 rather than 1,2,3"
    assert story.at_target("orders-0")


def test_a_queued_partition_changed_by_someone_else_is_replanned_if_configured(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path, TWO, on_foreign_change="replan")
    story.schedule(2.5, move("orders-1", 7, 8, 9))

    assert story.played().ended

    assert story.at_target("orders-0", "orders-1")
    replanned = [event for event in story.events if isinstance(event, Replanned)]
    assert [(event.before, event.replicas) for event in replanned] == [((1, 2, 3), (7, 8, 9))]
    assert story.folded.tracks[tp("orders-1")].original == (7, 8, 9)


def test_a_step_that_someone_else_cancels_is_never_sent_again(tmp_path: Path) -> None:
    story = Story(tmp_path, TWO)
    story.schedule(5.5, cancel("orders-0"))
    story.asked(30.0, Continue())

    assert story.played().ended

    assert story.sent("orders-0") == [(1, 2, 3, 4)]
    assert story.state("orders-0") is State.CHANGED_ELSEWHERE
    assert story.reason("orders-0") == "someone else cancelled its step"
    assert story.folded.tracks[tp("orders-0")].replicas == story.replicas(tp("orders-0"))
    assert story.at_target("orders-1")


def test_a_foreign_cancel_is_recognized_even_if_the_steps_answer_was_lost(tmp_path: Path) -> None:
    story = Story(tmp_path, TWO, cluster={"messages": 60_000})
    story.schedule(0.0, layout.LoseAnswer())
    story.schedule(20.5, cancel("orders-0"))
    story.asked(60.0, Continue())

    assert story.played().ended

    assert story.sent("orders-0") == [(1, 2, 3, 4)]
    assert story.reason("orders-0") == "someone else cancelled its step"


def test_a_step_retargeted_by_someone_else_is_left_to_them(tmp_path: Path) -> None:
    story = Story(tmp_path, TWO)
    story.schedule(5.5, move("orders-0", 7, 8, 3))

    assert story.played().ended

    assert story.sent("orders-0") == [(1, 2, 3, 4)]
    assert story.state("orders-0") is State.CHANGED_ELSEWHERE
    assert story.reason("orders-0") == "someone else reassigned it to brokers 7, 8, 3"
    assert story.at_target("orders-1")


def test_an_election_by_someone_else_does_not_change_where_a_run_ends(tmp_path: Path) -> None:
    limits = Limits(replicas=1, partitions=2, shape=Shape.KIP_435)
    story = Story(tmp_path, {"orders-0": ((1, 2, 3), (2, 3, 4))}, limits)
    story.schedule(8.0, layout.ElectLeaders((tp("orders-0"),)))
    story.schedule(12.0, layout.Shutdown(1), layout.Start(1))

    assert story.played().ended

    assert story.at_target("orders-0")


def test_a_partition_whose_topic_is_deleted_is_gone_and_the_rest_continues(tmp_path: Path) -> None:
    story = Story(tmp_path, {**TWO, "audit-0": ((1, 2, 3), (4, 2, 3))})
    story.schedule(5.5, layout.DeleteTopic("audit"))

    assert story.played().ended

    assert story.states("audit-0")[-2:] == [State.ADDING, State.TOPIC_GONE]
    assert story.reason("audit-0") == "its topic was deleted"
    assert story.at_target("orders-0", "orders-1")


@pytest.mark.parametrize("topic", ["audit", "zebra"], ids=["in flight", "queued"])
def test_a_topic_recreated_under_its_name_is_not_touched(tmp_path: Path, topic: str) -> None:
    story = Story(tmp_path, {**TWO, f"{topic}-0": ((1, 2, 3), (4, 2, 3))})
    again = TopicSpec(name=topic, replicas=((1, 2, 3),))
    story.schedule(5.5, layout.DeleteTopic(topic), layout.CreateTopic(again))

    assert story.played().ended

    assert story.state(f"{topic}-0") is State.TOPIC_GONE
    assert "created again" in story.reason(f"{topic}-0")
    assert story.replicas(tp(f"{topic}-0")) == (1, 2, 3)
    assert story.at_target("orders-0", "orders-1")


def test_late_metadata_is_never_taken_for_a_change_by_someone_else(tmp_path: Path) -> None:
    limits = Limits(replicas=1, partitions=2, shape=Shape.KIP_435)
    late = {"metadata_lag_s": 1.4}
    story = Story(tmp_path, TWO, limits, late, poll_s=0.3)
    story.schedule(0.0, layout.Deny("describe_quorum"))

    assert story.played().ended

    assert story.seen is not None
    assert not story.seen.fresh
    assert story.at_target("orders-0", "orders-1")


def test_replicas_of_a_step_in_metadata_that_is_far_behind_are_no_change_by_someone_else(
    tmp_path: Path,
) -> None:
    limits, late = Limits(replicas=1, shape=Shape.KIP_435), {"metadata_lag_s": 8.0}
    story = Story(tmp_path, {"orders-0": ((1, 2, 3), (4, 5, 3))}, limits, late)
    story.schedule(0.0, layout.Deny("describe_quorum"))

    assert story.played().ended

    assert story.at_target("orders-0")


def test_late_metadata_does_not_make_a_cancelled_step_look_complete(tmp_path: Path) -> None:
    late = {"metadata_lag_s": 1.4, "version": "4.2"}
    story = Story(tmp_path, {"orders-0": ((1, 2, 3), (4, 1, 2, 3))}, cluster=late, poll_s=0.3)
    story.schedule(0.0, layout.Deny("describe_quorum"), layout.Kill(3))
    story.schedule(20.5, cancel("orders-0"))

    assert story.played().ended

    assert story.reason("orders-0") == "someone else cancelled its step"
    assert story.replicas(tp("orders-0")) == (1, 2, 3)


def test_a_foreign_change_is_accepted_without_fresh_metadata_once_it_has_lasted(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path, TWO)
    story.schedule(0.0, layout.Deny("describe_quorum"))
    story.schedule(5.5, cancel("orders-0"))
    story.asked(30.0, Continue())

    assert story.played().ended

    assert story.reason("orders-0") == "someone else cancelled its step"
    (given_up,) = story.seconds(lambda e: getattr(e, "state", None) is State.CHANGED_ELSEWHERE)
    assert 7.5 <= given_up <= 9.5


SIX = {f"orders-{n}": ((1, 2, 3), (4 + n % 3, 2, 3)) for n in range(6)}
NINE = SIX | {f"orders-{n}": ((1, 2, 3), (4 + n % 3, 2, 3)) for n in range(6, 9)}


def paused_by_others(story: Story) -> list[str]:
    return [
        event.reason
        for event in story.events
        if isinstance(event, Paused) and event.by is PauseOrigin.OTHERS
    ]


@pytest.mark.parametrize("others", ["skip", "replan"])
def test_a_run_all_of_whose_steps_others_cancel_pauses_and_begins_nothing_until_continue(
    tmp_path: Path, others: str
) -> None:
    story = Story(tmp_path, NINE, Limits(partitions=6), on_foreign_change=others)
    story.schedule(5.5, *(cancel(name) for name in SIX))

    story.played(until_s=60.0)

    (reason,) = paused_by_others(story)
    assert reason == (
        "others cancelled 6 steps, all that were in flight (orders-0 and 5 more). "
        "ktui continue run goes on with the rest"
    )
    assert story.folded.pauses.reason == reason
    assert [story.sent(f"orders-{n}") for n in range(6, 9)] == [[], [], []]

    assert story.reopened(Continue()).ended
    assert story.at_target("orders-6", "orders-7", "orders-8")


def test_cancels_of_others_that_are_seen_one_after_the_other_count_together(tmp_path: Path) -> None:
    story = Story(tmp_path, NINE, Limits(partitions=6))
    for n, name in enumerate(SIX):
        story.schedule(5.5 + n, cancel(name))

    story.played(until_s=60.0)

    (reason,) = paused_by_others(story)
    assert reason.startswith("others cancelled 3 steps (orders-0 and 2 more)")
    assert len([n for n in range(6, 9) if story.sent(f"orders-{n}")]) <= 2


def test_two_of_six_steps_that_others_cancel_do_not_pause_a_run(tmp_path: Path) -> None:
    story = Story(tmp_path, NINE, Limits(partitions=6))
    story.schedule(5.5, cancel("orders-0"), cancel("orders-1"))

    assert story.played().ended

    assert paused_by_others(story) == []
    assert story.at_target(*(f"orders-{n}" for n in range(2, 9)))


def test_a_step_that_is_alone_in_flight_counts_as_all_of_them(tmp_path: Path) -> None:
    story = Story(tmp_path, TWO)
    story.schedule(5.5, cancel("orders-0"))

    story.played(until_s=60.0)

    (reason,) = paused_by_others(story)
    assert reason.startswith("others cancelled 1 step, all that were in flight (orders-0)")
    assert story.sent("orders-1") == []


def test_cancels_of_others_after_which_nothing_is_left_end_a_run(tmp_path: Path) -> None:
    story = Story(tmp_path, SIX, Limits(partitions=6))
    story.schedule(5.5, *(cancel(name) for name in SIX))

    assert story.played().ended

    assert paused_by_others(story) == []


def test_a_run_whose_other_steps_complete_beside_cancels_of_others_ends_and_is_not_paused(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path, SIX, Limits(partitions=6))
    story.played(until_s=3.0)
    story.cluster.do(cancel("orders-0", "orders-1", "orders-2"))
    story.clock.pass_time(60.0)  # without an engine: the next poll shows all at once
    story.cluster.catch_up()

    story.resumed()

    assert [story.state(f"orders-{n}") for n in (0, 3)] == [State.CHANGED_ELSEWHERE, State.DONE]
    assert paused_by_others(story) == []


def test_a_deleted_topic_and_cancels_of_the_operator_are_no_cancels_of_others(
    tmp_path: Path,
) -> None:
    audit = {f"audit-{n}": ((1, 2, 3), (4, 2, 3)) for n in range(4)}
    story = Story(tmp_path, {**audit, **TWO}, Limits(partitions=4))
    story.schedule(3.5, layout.DeleteTopic("audit"))
    story.asked(12.0, CancelMoves(CancelKind.STOP, topics=("orders",)))

    assert story.played().ended

    assert paused_by_others(story) == []
