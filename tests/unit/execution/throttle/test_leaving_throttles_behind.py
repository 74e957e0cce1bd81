"""A run waits for a broker that has its throttle, until it is asked to leave that behind."""

from __future__ import annotations

from pathlib import Path

from ktui.cluster.settings import FOLLOWER_RATE
from ktui.execution.forecast.progress_text import progress_line
from ktui.execution.forecast.run_progress import run_progress
from ktui.execution.host.ownership import this_process
from ktui.execution.journal.commands import LeaveThrottles
from ktui.execution.run.events import Ended, SettingsGivenUp
from ktui.simulated import layout
from support.runs.throttled import ThrottledStory, broker, set_rate


def _waiting(folder: Path) -> ThrottledStory:
    """Kill broker 4 while it is throttled, and delete the topic that moves to it soon after."""
    story = ThrottledStory(folder)
    story.schedule(5.0, layout.Kill(4))
    story.schedule(15.0, layout.DeleteTopic("orders"))
    return story


def test_a_run_whose_partitions_have_ended_waits_for_a_broker_and_reports_it(
    tmp_path: Path,
) -> None:
    story = _waiting(tmp_path)

    run = story.played(until_s=60.0)

    assert not run.ended
    assert run.over == 1
    assert (
        "all partitions have ended; its throttle is still set on broker 4, which is down or "
        "refuses the change"
    ) in progress_line(run_progress(run, this_process()))


def test_a_broker_without_changed_settings_is_not_waited_for(tmp_path: Path) -> None:
    story = _waiting(tmp_path)
    story.already(layout.AlterConfigs((set_rate(4, 500_000),)))

    assert story.played(until_s=60.0).ended
    assert story.rates == {4: "500000"}


def test_an_unremovable_throttle_is_left_behind_on_request_and_each_value_named(
    tmp_path: Path,
) -> None:
    story = _waiting(tmp_path)
    story.asked(60.0, LeaveThrottles())

    assert story.played(until_s=100.0).ended

    (asked,) = story.answers
    assert asked.answer is not None
    assert asked.answer.accepted
    assert asked.answer.words == (
        f"left behind, and no longer the run's: broker 4 {FOLLOWER_RATE}=500000 (before: unset)"
    )
    left = [e for e in story.events if isinstance(e, SettingsGivenUp)][-1]
    assert (left.resource, left.keys) == (broker(4), (FOLLOWER_RATE,))
    assert left.reason == "left behind, as somebody@here (2) asked"
    assert story.seconds(lambda event: isinstance(event, Ended))[0] >= 60.0
    assert story.rates == {4: "500000"}


def test_no_throttle_is_left_behind_while_something_moves(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path)
    story.asked(5.0, LeaveThrottles())

    assert story.played().ended

    (asked,) = story.answers
    assert asked.answer is not None
    assert not asked.answer.accepted
    assert "it still moves partitions" in asked.answer.words
    story.assert_left_as_found()


def test_a_request_to_leave_throttles_reports_when_none_is_left(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, rate="none")
    story.asked(5.0, LeaveThrottles())

    assert story.played().ended

    (asked,) = story.answers
    assert asked.answer is not None
    assert asked.answer.words == "nothing of the run's throttle is left anywhere"
