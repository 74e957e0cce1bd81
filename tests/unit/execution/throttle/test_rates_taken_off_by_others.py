"""A run's rate that somebody removes, as Kafka's own tool does with --verify."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.cluster.ports import ConfigOp
from ktui.execution.journal.commands import SetLimits
from ktui.execution.run.events import SettingsGivenUp
from ktui.simulated import layout
from support.runs.throttled import ONE, ThrottledStory, change_list, set_rate
from support.simulated.witness import Arrival


@pytest.mark.parametrize(
    ("before", "words"),
    [(None, "someone else deleted it"), (3_000_000, "someone else set it to 3000000")],
)
def test_a_run_reports_that_somebody_has_removed_its_rate(
    before: int | None, words: str, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, ONE)
    story.cluster.configure([set_rate(4, before)])
    story.schedule(5.0, layout.AlterConfigs((set_rate(4, before),)))

    story.to_the_end()

    assert _reasons(story) == [words]


@pytest.mark.parametrize("at_s", [0.0, 15.0])
def test_nobody_is_blamed_when_only_answers_were_lost(at_s: float, tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, ONE)
    story.schedule(at_s, *[layout.LoseAnswer()] * 4)

    story.to_the_end()

    story.assert_left_as_found()
    assert _reasons(story) == []


@pytest.mark.parametrize("late_s", [0.5, 30.0])
def test_nobody_is_blamed_when_a_rate_is_put_back_late(late_s: float, tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, ONE)
    story.sending.settings_late_by_s[ConfigOp.DELETE] = late_s

    story.to_the_end()

    story.assert_left_as_found()
    assert _reasons(story) == []


def test_no_step_relies_on_a_rate_that_was_removed_a_moment_ago(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, {**ONE, "orders-1": ONE["orders-0"]}, poll_s=0.3)
    story.schedule(0.5, layout.AlterConfigs((set_rate(4, None),)))
    # A broker has a second to apply the run's own change: the deletion falls into it.
    story.asked(0.6, SetLimits({"partitions": 2}))
    rates: list[str | None] = []

    def arrives(arrival: Arrival) -> None:
        if any(target and 4 in target for target in arrival.partitions.values()):
            rates.append(story.rates.get(4))

    story.witness.arrivals.append(arrives)
    story.to_the_end()

    assert rates[:2] == ["500000", "500000"]


def test_a_list_that_its_owners_have_emptied_is_not_left_behind_empty(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, ONE)
    story.cluster.configure([change_list(ConfigOp.SET, "7:9")])
    story.schedule(5.0, layout.AlterConfigs((change_list(ConfigOp.SUBTRACT, "7:9"),)))

    story.to_the_end()

    assert story.lists == {}


def _reasons(story: ThrottledStory) -> list[str]:
    return [e.reason for e in story.events if isinstance(e, SettingsGivenUp) and e.reason]
