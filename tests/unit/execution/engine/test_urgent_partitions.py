"""Runs in which a broker dies, and leaves waiting partitions with too few replicas in sync."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.execution.run.events import StepBegun, UrgencyChanged
from ktui.execution.run.states import State
from ktui.pacing.limits import Limits, Mode
from ktui.pacing.situation import Urgency
from ktui.simulated import layout
from support.runs.stories import Story
from support.simulated.moving_clusters import tp

ONE_BY_ONE = Limits(replicas=1, partitions=1)
USUAL = [f"orders-{n}" for n in range(4)]
ON_BROKER_9 = ["orders-4", "orders-5"]
WAYS = {
    **dict.fromkeys(USUAL, ((1, 2), (1, 3))),
    **dict.fromkeys(ON_BROKER_9, ((8, 9), (8, 5))),
}
DIES_S = 5.0


def a_story(folder: Path, limits: Limits = ONE_BY_ONE, min_isr: int = 1, **options: bool) -> Story:
    configs = {"min.insync.replicas": str(min_isr)}
    return Story(folder, WAYS, limits, {"configs": configs, "messages": 40_000}, **options)


def begun(story: Story) -> list[str]:
    """Return the partitions in the order in which their first steps began."""
    steps = (event for event in story.events if isinstance(event, StepBegun))
    return list(dict.fromkeys(str(event.tp) for event in steps))


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(("min_isr", "why"), [(1, Urgency.ONE_IN_SYNC), (2, Urgency.UNDER_MIN_ISR)])
def test_partitions_of_a_dead_broker_overtake_the_rest_and_the_copy_in_flight(
    tmp_path: Path, min_isr: int, why: Urgency, mode: Mode
) -> None:
    limits = Limits(replicas=1, partitions=1, mode=mode)
    story = a_story(tmp_path, limits, min_isr, urgent_first=True)
    story.schedule(DIES_S, layout.Kill(9))

    assert story.played(until_s=5_000.0).ended

    assert begun(story) == ["orders-0", *ON_BROKER_9, *USUAL[1:]]
    first = story.begun_at("orders-4")[0]
    noticed = story.seconds(lambda event: isinstance(event, UrgencyChanged))
    assert noticed[0] == pytest.approx(first, abs=1.0)
    assert first < story.seconds(lambda e: getattr(e, "state", None) is State.DONE)[0]
    changes = [each for each in story.events if isinstance(each, UrgencyChanged)]
    assert [(str(each.tp), each.why) for each in changes if each.why is not None] == [
        (each, why) for each in ON_BROKER_9
    ]
    assert [story.folded.tracks[tp(each)].urgency for each in ON_BROKER_9] == [None, None]
    assert story.at_target(*WAYS)


def test_without_the_option_they_wait_for_their_turn(tmp_path: Path) -> None:
    story = a_story(tmp_path)
    story.schedule(DIES_S, layout.Kill(9))

    assert story.played(until_s=5_000.0).ended

    assert begun(story) == [*USUAL, *ON_BROKER_9]
    assert not any(isinstance(event, UrgencyChanged) for event in story.events)


def test_partitions_go_back_to_their_place_when_the_broker_is_back(tmp_path: Path) -> None:
    story = a_story(tmp_path, urgent_first=True)
    story.schedule(DIES_S, layout.Kill(9))
    story.schedule(30.0, layout.Start(9))

    story.played(until_s=50.0)

    assert story.folded.tracks[tp("orders-4")].step is not None
    assert story.folded.tracks[tp("orders-5")].urgency is None
    assert begun(story) == ["orders-0", "orders-4"]


def test_a_resumed_run_knows_which_steps_were_urgent(tmp_path: Path) -> None:
    story = a_story(tmp_path, urgent_first=True)
    story.schedule(DIES_S, layout.Kill(9))
    story.played(until_s=30.0)
    assert begun(story) == ["orders-0", "orders-4"]

    story.resumed(until_s=50.0)
    assert begun(story) == ["orders-0", "orders-4"]

    assert story.resumed(until_s=5_000.0).ended
    assert begun(story) == ["orders-0", *ON_BROKER_9, *USUAL[1:]]
