"""Throttles on brokers that fail, and come back or not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ktui.cluster.settings import LEADER_RATE
from ktui.execution.journal.commands import LeaveThrottles, SetThrottle
from ktui.execution.run.events import SettingsGivenUp
from ktui.execution.run.options import OnStall
from ktui.execution.run.states import State
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.simulated import layout
from support.runs.throttle_rules import settings_in
from support.runs.throttled import TWO, ThrottledStory, broker, set_rate

Timed = Sequence[tuple[float, layout.OutsideEvent]]
OUTAGES: dict[str, Timed] = {
    "the target dies while it copies": [(5.0, layout.Kill(4)), (60.0, layout.Start(4))],
    "the target dies, and is back at once": [(5.0, layout.Kill(4)), (6.0, layout.Start(4))],
    "the target hangs, and goes on": [(5.0, layout.Hang(4)), (12.0, layout.Resume(4))],
    "the target hangs for long": [(5.0, layout.Hang(4)), (50.0, layout.Resume(4))],
    "the target shuts down, and is back": [(5.0, layout.Shutdown(4)), (40.0, layout.Start(4))],
    "the target dies when it is in sync": [(20.05, layout.Kill(4)), (60.0, layout.Start(4))],
    "the target hangs when it is in sync": [(20.05, layout.Hang(4)), (60.0, layout.Resume(4))],
    "the target dies at the very end": [(42.0, layout.Kill(5)), (42.0, layout.Kill(4)),
                                        (90.0, layout.Start(4)), (90.0, layout.Start(5))],
    "the source dies, and is back": [(5.0, layout.Kill(1)), (50.0, layout.Start(1))],
    "the source dies for good": [(5.0, layout.Kill(1))],
    "the source hangs": [(5.0, layout.Hang(1)), (60.0, layout.Resume(1))],
    "a kept replica dies": [(5.0, layout.Kill(2)), (50.0, layout.Start(2))],
    "target and source die": [(5.0, layout.Kill(1)), (6.0, layout.Kill(4)),
                              (50.0, layout.Start(4)), (60.0, layout.Start(1))],
    "one broker after the other is restarted": [
        (5.0 + 25.0 * n + late, act)
        for n, b in enumerate((1, 2, 3, 4, 5))
        for late, act in ((0.0, layout.Shutdown(b)), (4.0, layout.Start(b)))
    ],
    "a broker dies as the controller changes": [
        (5.0, layout.Kill(4)), (5.0, layout.ChangeController()), (60.0, layout.Start(4)),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(1, id="one by one", marks=pytest.mark.soak),
        pytest.param(2, id="both at once"),
    ],
)
@pytest.mark.parametrize("outage", OUTAGES)
def test_no_throttle_stays_after_brokers_are_lost_for_a_while(
    outage: str, limits: int, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, TWO, limits=Limits(replicas=1, partitions=limits))
    story.cluster.configure([set_rate(5, 3_000_000)])
    for at_s, act in OUTAGES[outage]:
        story.schedule(at_s, act)

    story.to_the_end()

    story.assert_left_as_found()
    _moved(story)


@pytest.mark.parametrize(
    "leaders",
    [
        pytest.param(False, id="followers", marks=pytest.mark.soak),
        pytest.param(True, id="leaders too"),
    ],
)
@pytest.mark.parametrize("outage", sorted(OUTAGES.keys() - {"the source dies for good"}))
def test_no_throttle_stays_after_brokers_are_lost_and_stalled_steps_are_cancelled(
    outage: str,
    leaders: bool,  # noqa: FBT001 - a parameter
    tmp_path: Path,
) -> None:
    story = ThrottledStory(
        tmp_path, TWO, throttle_leaders=leaders, on_stall=OnStall.CANCEL, stall_timeout_s=20.0
    )
    for at_s, act in OUTAGES[outage]:
        story.schedule(at_s, act)

    story.to_the_end()

    story.assert_left_as_found()
    _moved(story)


def _moved(story: ThrottledStory) -> None:
    assert {each: story.replicas(each) for each in story.targets} == story.targets
    assert {track.state for track in story.run.tracks.values()} == {State.DONE}


def _with_a_dead_source(folder: Path) -> ThrottledStory:
    """Build a run that throttles leaders, one of which dies and is moved off all the same."""
    story = ThrottledStory(folder, TWO, throttle_leaders=True)
    story.cluster.configure([set_rate(1, 9_000_000, LEADER_RATE)])
    story.schedule(5.0, layout.Kill(1))
    return story


def test_a_run_does_not_end_before_its_throttle_is_off_a_broker_that_is_down(
    tmp_path: Path,
) -> None:
    story = _with_a_dead_source(tmp_path)
    story.schedule(130.0, layout.Start(1))

    story.played(until_s=110.0)
    _moved(story)
    assert not story.run.ended
    assert story.run.throttled.brokers == [1]

    story.resumed()
    story.assert_left_as_found()


def test_a_throttle_on_a_source_that_never_comes_back_can_be_left_behind(tmp_path: Path) -> None:
    story = _with_a_dead_source(tmp_path)
    story.asked(100.0, LeaveThrottles())

    run = story.played()

    assert run.ended
    assert run.throttled.clean
    (answer,) = [asked.answer for asked in story.answers if asked.answer]
    assert "(before: 9000000)" in answer.words
    changed = settings_in(story.cluster)
    assert changed.pop(broker(1)) == {LEADER_RATE: "500000"}
    assert not changed


def _over_but_for_broker_4(folder: Path) -> ThrottledStory:
    """Build a run that ends while the only broker with a rate of ours is down."""
    story = ThrottledStory(folder, {"orders-0": ((1, 2, 3), (4, 2, 3))})
    story.asked(10.0, SetThrottle(parse_throttle_rates("none")))
    story.schedule(9.9, layout.Hang(4))
    story.schedule(150.0, layout.Resume(4))
    return story


def test_a_rate_is_put_back_as_soon_as_its_broker_is_back(tmp_path: Path) -> None:
    story = _over_but_for_broker_4(tmp_path)

    story.played(until_s=100.0)
    assert story.rates == {4: "500000"}

    story.resumed(until_s=1_900.0)
    story.assert_left_as_found()


def test_a_throttle_on_a_broker_that_never_comes_back_can_be_left_behind_and_is_named(
    tmp_path: Path,
) -> None:
    story = ThrottledStory(tmp_path, TWO, on_stall=OnStall.CANCEL, stall_timeout_s=20.0)
    story.schedule(5.0, layout.Kill(4), layout.DeleteTopic("orders"))
    story.played(until_s=100.0)
    assert story.rates == {4: "500000"}
    assert not story.run.ended
    story.asked(101.0, LeaveThrottles())

    run = story.resumed()

    assert run.ended
    assert run.throttled.clean
    assert story.rates == {4: "500000"}
    (answer,) = [asked.answer for asked in story.answers if asked.answer]
    assert "broker 4 follower.replication.throttled.rate=500000" in answer.words
    assert any(isinstance(event, SettingsGivenUp) for event in story.events)
