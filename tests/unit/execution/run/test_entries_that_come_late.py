"""Entries that arrive in a list after they were removed from it: they are removed again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktui.cluster.ports import ConfigOp, Verdict, WriteResult
from ktui.cluster.settings import FOLLOWER_REPLICAS
from ktui.execution.journal.commands import SetThrottle
from ktui.execution.run.events import Configure, Configured, FoundSetting, SettingsFound
from ktui.execution.run.run import Run
from ktui.execution.throttle.desired import ThrottleChanges
from ktui.planning.throttle_rates import NO_THROTTLE
from support.runs.throttled import ONE, ThrottledStory, change_list, topic

TAKEN_OFF = r"after writing Configured.*TOPIC.*ACCEPTED"
"""An entry whose request is still in flight."""


def over(story: ThrottledStory) -> None:
    """Run to the end, until nothing is in flight any more."""
    story.to_the_end()
    story.clock.pass_time(100.0)
    story.cluster.catch_up()


def last_removal(story: ThrottledStory, answer: Verdict, times: int = 1) -> None:
    """Answer some removals, from the second on, without carrying them out."""
    sending, count = story.sending.alter_configs, [0]

    async def send(changes: Any, **how: Any) -> Any:
        count[0] += any(change.op is ConfigOp.SUBTRACT for change in changes)
        if any(change.op is ConfigOp.SUBTRACT for change in changes) and 1 < count[0] <= 1 + times:
            return {change.resource: WriteResult(answer, message="no") for change in changes}
        return await sending(changes, **how)

    story.sending.alter_configs = send  # type: ignore[method-assign]


@pytest.mark.parametrize("answer", [Verdict.UNKNOWN, Verdict.REFUSED])
@pytest.mark.parametrize("times", [1, 3])
def test_a_late_entry_is_removed_even_if_the_request_for_that_fails(
    times: int, answer: Verdict, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, ONE)
    story.sending.settings_late_by_s[ConfigOp.APPEND] = 40.0
    story.asked(10.0, SetThrottle(NO_THROTTLE))
    last_removal(story, answer, times)

    over(story)

    story.assert_left_as_found()


@pytest.mark.parametrize("dead_s", [2.0, 30.0])
@pytest.mark.parametrize("by_s", [20.0, 50.0])
def test_an_entry_arriving_after_its_removal_and_a_kill_is_removed_again(
    by_s: float, dead_s: float, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, ONE)
    story.sending.settings_late_by_s[ConfigOp.APPEND] = by_s
    story.killed(TAKEN_OFF)

    story.to_the_end(dead_s)
    story.clock.pass_time(100.0)
    story.cluster.catch_up()

    story.assert_left_as_found()
    assert story.reaper.where


def test_an_entry_arriving_after_the_run_was_left_and_resumed_is_removed(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, ONE)
    story.sending.settings_late_by_s[ConfigOp.APPEND] = 50.0

    story.played(until_s=8.0)
    story.resumed()
    story.clock.pass_time(100.0)
    story.cluster.catch_up()

    story.assert_left_as_found()


def test_a_request_changes_each_list_only_once() -> None:
    """Kafka refuses a request that names a setting of a topic twice."""
    run, orders = Run("run"), topic("orders")
    found = FoundSetting(orders, FOLLOWER_REPLICAS, None)
    put_in = Configure(changes=(change_list(ConfigOp.APPEND, "1:5"),))
    done = Configured(resource=orders, verdict=Verdict.ACCEPTED)
    for event in (SettingsFound(found=(found,)), put_in, done):
        run.throttled.apply(event)

    removals = ThrottleChanges(run, {}, set()).removals(
        {(orders, FOLLOWER_REPLICAS): frozenset({"0:4"})}
    )

    assert list(removals) == [change_list(ConfigOp.SUBTRACT, "0:4,1:5")]
