"""What is expected to end by the time given with --until, under a throttle."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec

from ktui.execution.journal.commands import SetThrottle
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import NO_THROTTLE
from ktui.simulated.clock import FIRST_MOMENT
from support.runs.engine_runs import OWNER
from support.runs.throttled import ONE, TWO, ThrottledStory


def test_a_copy_that_its_throttle_does_not_let_end_in_time_is_not_begun(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, ONE)
    until = FIRST_MOMENT + timedelta(seconds=15)

    run = story.played_by(msgspec.structs.replace(OWNER, until=until))

    assert story.witness.alters == []
    assert run.left == "none of the 1 left is expected to end by the time given with --until"


def test_a_partition_held_as_too_late_begins_once_the_throttle_is_lifted(tmp_path: Path) -> None:
    limits = Limits(replicas=1, partitions=2)
    story = ThrottledStory(tmp_path, TWO, rate="500kB,4=none", limits=limits)
    until = FIRST_MOMENT + timedelta(seconds=25)  # a copy takes 10 s, by those so far
    story.asked(5.0, SetThrottle(NO_THROTTLE))

    story.played_by(msgspec.structs.replace(OWNER, until=until))

    assert story.begun_at("orders-0")[0] < 1.0
    assert 5.0 <= story.begun_at("orders-1")[0] < 8.0
    story.assert_left_as_found()
