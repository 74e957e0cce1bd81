"""Rates changed, lifted and set during a run: in force at once, and still put back."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.cluster.settings import FOLLOWER_REPLICAS
from ktui.execution.journal.commands import Command, Pause, SetThrottle
from ktui.execution.run.events import Configure, ThrottleChanged
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import parse_throttle_rates
from support.runs.throttled import ONE, TWO, ThrottledStory, set_rate


def rate(text: str) -> Command:
    return SetThrottle(parse_throttle_rates(text))


CHANGES: dict[str, list[tuple[float, str]]] = {
    "once": [(5.0, "1MB")],
    "ten times": [(2.0 + n, f"{400 + 50 * n}kB") for n in range(10)],
    "ten times in a second": [(5.0 + 0.1 * n, f"{400 + 50 * n}kB") for n in range(10)],
    "far down": [(5.0, "100kB"), (60.0, "900kB")],
    "lifted": [(5.0, "none")],
    "lifted and set again": [(5.0, "none"), (8.0, "400kB")],
    "lifted while it waits for its cut": [(20.1, "none")],
    "lifted for one broker": [(5.0, "500kB,4=none")],
    "lifted for all others": [(5.0, "4=500kB")],
    "another rate for one broker": [(5.0, "500kB,4=700kB")],
    "to what it is": [(5.0, "500kB")],
}


@pytest.mark.parametrize(
    ("limits", "before"),
    [
        pytest.param(1, 3_000_000, id="one by one, a rate before"),
        pytest.param(2, None, id="both at once, none before"),
        pytest.param(1, None, id="one by one, none before", marks=pytest.mark.soak),
        pytest.param(2, 3_000_000, id="both at once, a rate before", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize("change", CHANGES)
def test_no_throttle_stays_after_the_rate_is_changed(
    change: str, limits: int, before: int | None, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, TWO, limits=Limits(replicas=1, partitions=limits))
    if before is not None:
        story.cluster.configure([set_rate(4, before), set_rate(5, before)])
    for at_s, text in CHANGES[change]:
        story.asked(at_s, rate(text))

    story.to_the_end()

    story.assert_left_as_found()
    assert story.at_target(*TWO)
    assert all(asked.answer and asked.answer.accepted for asked in story.answers)


def test_a_rate_for_a_broker_that_is_not_in_the_cluster_is_refused(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO, limits=Limits(replicas=1, partitions=2))
    story.asked(5.0, rate("200kB,99=300kB"))

    story.to_the_end()

    (asked,) = story.answers
    assert asked.answer is not None
    assert not asked.answer.accepted
    assert "there is no broker 99 in the cluster" in asked.answer.words
    assert not any(isinstance(event, ThrottleChanged) for event in story.events)


def test_a_changed_rate_is_in_force_at_once_on_all_brokers_concerned(tmp_path: Path) -> None:
    ways = {**TWO, "orders-2": ((1, 2, 3), (6, 2, 3))}
    story = ThrottledStory(tmp_path, ways, limits=Limits(replicas=1, partitions=2))
    story.asked(5.0, rate("200kB,5=300kB"))

    story.played(until_s=6.5)

    assert story.rates == {4: "200000", 5: "300000"}
    assert story.lists == {FOLLOWER_REPLICAS: "0:4,1:5"}
    story.resumed()
    story.assert_left_as_found()


def test_lifting_a_throttle_puts_the_settings_back_at_once_and_the_copy_continues(
    tmp_path: Path,
) -> None:
    story = ThrottledStory(tmp_path, ONE)
    story.cluster.configure([set_rate(4, 900_000)])
    story.asked(5.0, rate("none"))

    story.played(until_s=7.5)

    assert story.rates == {4: "900000"}
    assert not story.lists
    assert story.run.throttled.clean
    assert story.resumed().ended


def test_a_throttle_set_midway_binds_the_steps_that_begin_after_it(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO, rate="none")
    story.asked(5.0, rate("500kB"))

    story.to_the_end()

    story.assert_left_as_found()
    assert {broker for _, broker in story.rules.bound} == {5}
    assert story.at_target(*TWO)


def test_a_run_without_a_throttle_touches_no_setting(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO, rate="none")
    story.cluster.configure([set_rate(4, 9_000_000)])

    story.to_the_end()

    story.assert_left_as_found()
    assert not any(isinstance(event, Configure) for event in story.events)


def test_a_rate_changed_while_paused_is_put_back_when_nothing_is_in_flight(
    tmp_path: Path,
) -> None:
    story = ThrottledStory(tmp_path, TWO)
    story.asked(5.0, Pause())
    story.asked(8.0, rate("700kB"))

    story.played(until_s=10.0)
    assert story.rates == {4: "700000"}
    story.resumed(until_s=100.0)

    assert not story.rates
    assert not story.lists


def test_a_rate_changed_while_the_run_has_no_engine_is_in_force_with_the_next_one(
    tmp_path: Path,
) -> None:
    story = ThrottledStory(tmp_path, ONE)
    story.played(until_s=5.0)
    story.asked(5.0, rate("300kB"))

    story.resumed(until_s=8.5)

    assert story.rates == {4: "300000"}
    story.resumed()
    story.assert_left_as_found()
