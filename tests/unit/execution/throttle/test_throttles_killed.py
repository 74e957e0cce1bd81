"""A run with throttles is killed: once resumed, it leaves the settings as they were before it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ktui.cluster.ports import ConfigOp
from ktui.execution.journal.commands import SetThrottle
from ktui.execution.run.events import StepOver
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import parse_throttle_rates
from support.runs.throttled import IN_5_S, TWO, ThrottledStory, change_list, set_rate

INSTANTS = {
    "before the intent of a step is written": "before writing StepBegun",
    "once the intent of a step is written": "after writing StepBegun",
    "before what was found is written": "before writing SettingsFound",
    "once what was found is written": "after writing SettingsFound",
    "before the intent to set a rate is written": "before writing Configure.*SET",
    "once the intent to set a rate is written": "after writing Configure.*SET",
    "before a rate is sent": "before sending settings to set",
    "with a rate on its way": "with settings to set on their way",
    "with a rate set and not answered": "with settings to set done",
    "before the answer to a rate is written": "before writing Configured.*'4'",
    "once the answer to a rate is written": "after writing Configured.*'4'",
    "before the intent to list a replica is written": "before writing Configure.*APPEND",
    "once the intent to list a replica is written": "after writing Configure.*APPEND",
    "before a replica is listed": "before sending settings to append",
    "with a replica on its way to the list": "with settings to append on their way",
    "with a replica listed and not answered": "with settings to append done",
    "before the answer to a list is written": "before writing Configured.*'orders'",
    "once the answer to a list is written": "after writing Configured.*'orders'",
    "before the alter is sent": "before sending [12] alters",
    "with the alter on its way": "with [12] alters on their way",
    "with the alter taken and not answered": "with [12] alters done",
    "before the answer to the alter is written": "before writing Answered",
    "once the answer to the alter is written": "after writing Answered",
    "once the end of the copy is written": "after writing StepOver",
    "before the intent to unlist it is written": "before writing Configure.*SUBTRACT",
    "once the intent to unlist it is written": "after writing Configure.*SUBTRACT",
    "with a replica on its way off the list": "with settings to subtract on their way",
    "with a replica off the list and not answered": "with settings to subtract done",
    "before the intent to put back is written": "before writing Configure.*DELETE",
    "once the intent to put back is written": "after writing Configure.*DELETE",
    "before it is put back": "before sending settings to delete",
    "with what is put back on its way": "with settings to delete on their way",
    "with all put back and not answered": "with settings to delete done",
    "before the end of the run is written": "before writing Ended",
}
PUTS_BACK = {instant for instant, words in INSTANTS.items() if "delete" in words.lower()}


def _cases() -> Iterator[Any]:
    """Yield an instant and how long the run has no engine; most of them run in the soak only."""
    for instant, dead_s in product(INSTANTS, (0.3, 90.0)):
        marks = () if dead_s < 1.0 and instant in PUTS_BACK else (pytest.mark.soak,)
        yield pytest.param(instant, dead_s, marks=marks)


@pytest.mark.parametrize(("instant", "dead_s"), _cases())
def test_a_throttled_run_killed_and_resumed_leaves_no_throttle_behind(
    instant: str, dead_s: float, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, TWO, cluster=IN_5_S)
    story.killed(INSTANTS[instant])

    story.to_the_end(dead_s)

    story.assert_left_as_found()
    assert story.reaper.where
    assert story.at_target(*TWO)


@pytest.mark.parametrize("instant", INSTANTS)
def test_what_others_had_set_is_there_again_after_a_kill_and_nothing_else(
    instant: str, tmp_path: Path
) -> None:
    limits = Limits(replicas=1, partitions=2)
    story = ThrottledStory(tmp_path, TWO, limits=limits, cluster=IN_5_S)
    story.killed(INSTANTS[instant].replace("DELETE", "puts_back=True").replace("delete", "set"))
    story.cluster.configure([set_rate(4, 3_000_000), set_rate(1, 7)])  # on broker 5 there is none
    story.cluster.configure([change_list(ConfigOp.SET, "0:9, 1:9,7:1")])

    story.to_the_end()

    story.assert_left_as_found()
    assert story.reaper.where
    assert story.at_target(*TWO)
    assert story.rates == {4: "3000000", 1: "7"}
    assert story.lists == {"follower.replication.throttled.replicas": "0:9, 1:9,7:1"}


@pytest.mark.parametrize("instant", ["before", "after"])
def test_a_run_killed_while_its_rate_changes_leaves_no_throttle_behind(
    instant: str, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, TWO)
    story.asked(5.0, SetThrottle(parse_throttle_rates("700kB")))
    story.killed(f"{instant} writing ThrottleChanged")

    story.to_the_end()

    story.assert_left_as_found()
    assert story.reaper.where


def test_an_entry_that_arrives_when_its_replica_is_in_sync_is_removed_again(
    tmp_path: Path,
) -> None:
    story = ThrottledStory(tmp_path, rate="none")
    story.asked(2.0, SetThrottle(parse_throttle_rates("5MB")))
    story.killed("with settings to append on their way")

    story.to_the_end()

    story.assert_left_as_found()
    assert story.reaper.where
    copied_s = story.seconds(lambda event: isinstance(event, StepOver))[0]
    taken_off_s = story.seconds(lambda event: "SUBTRACT" in str(event))
    assert taken_off_s[0] - copied_s < 1.0
    assert len(taken_off_s) == 2
