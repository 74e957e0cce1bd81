"""A run with `--by` is done in time, at the lowest rate with which it is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from ktui.execution.errors import RunRefused
from ktui.execution.journal.commands import SetSchedule, SetThrottle
from ktui.execution.run.events import RateChosen, StepBegun, StepOver
from ktui.execution.run.options import Schedule
from ktui.execution.run.throttle_status import throttle_status
from ktui.pacing.limits import Limits, default_limits
from ktui.planning.throttle_rates import ThrottleRates, parse_throttle_rates
from ktui.simulated.clock import FIRST_MOMENT
from ktui.simulated.layout import SetInbound
from support.runs.engine_runs import Replicas
from support.runs.throttle_rules import settings_in
from support.runs.throttled import RF3, ThrottledStory
from support.simulated.moving_clusters import MESSAGE_BYTES

WAYS: tuple[tuple[Replicas, Replicas], ...] = (
    ((1, 2, 3), (4, 2, 3)),
    ((2, 3, 1), (5, 3, 1)),
    ((3, 1, 2), (6, 1, 2)),
)
FAST = {"messages": 100_000, "copied_s": 10_000.0}
"""Each replica has 100 MB, and a broker can take in 10 MB/s: 60 s for all at full rate."""
FULL_RATE = 10_000 * MESSAGE_BYTES


def _by(seconds: float) -> Schedule:
    return Schedule(by=FIRST_MOMENT + timedelta(seconds=seconds))


def _story(
    folder: Path,
    within_s: float,
    rate: str = "none",
    cluster: Mapping[str, float] = FAST,
    limits: Limits | None = None,
) -> ThrottledStory:
    ways = {f"orders-{n}": WAYS[n % 3] for n in range(18)}
    limits = default_limits() if limits is None else limits
    return ThrottledStory(
        folder, ways, rate, limits=limits, cluster=cluster, schedule=_by(within_s)
    )


def _chosen(story: ThrottledStory) -> list[RateChosen]:
    return [event for event in story.events if isinstance(event, RateChosen)]


def _rates_while_copying(story: ThrottledStory) -> list[int]:
    """Return the rates chosen, but for the end, where nothing is copied any more and none is."""
    chosen = _chosen(story)
    copying = chosen if chosen[-1].rate is not None else chosen[:-1]
    return [each.rate or FULL_RATE for each in copying]


def _took_s(story: ThrottledStory) -> float:
    ended = story.folded.ended_at
    assert ended is not None
    return (ended - FIRST_MOMENT).total_seconds()


def test_it_is_done_shortly_before_its_time_at_a_fraction_of_the_rate(tmp_path: Path) -> None:
    story = _story(tmp_path, within_s=300.0)

    assert story.to_the_end().ended

    assert 0.9 * 300 <= _took_s(story) <= 300.0
    rates = _rates_while_copying(story)
    assert max(rates) < 0.4 * FULL_RATE
    assert len(rates) <= 300 / 30
    assert story.folded.throttled.clean
    assert settings_in(story.cluster) == {}


def test_no_rate_holds_a_broker_back_while_only_cuts_are_left(tmp_path: Path) -> None:
    story = _story(tmp_path, within_s=900.0, limits=Limits(replicas=1, cuts_per_minute=2))

    assert story.to_the_end().ended

    assert _chosen(story)[0].rate is not None
    lifted = story.events.index(next(each for each in _chosen(story) if each.rate is None))
    steps = [event for event in story.events[:lifted] if isinstance(event, StepOver)]
    assert len(steps) <= 18 + 2  # each partition's copy, and the cuts of a minute


def test_the_first_rate_is_in_force_before_the_first_step(tmp_path: Path) -> None:
    story = _story(tmp_path, within_s=300.0)

    story.played(until_s=20.0)

    kinds = [type(event) for event in story.events]
    assert kinds.index(RateChosen) < kinds.index(StepBegun)


def test_it_goes_faster_when_copies_grow(tmp_path: Path) -> None:
    story = _story(tmp_path, within_s=300.0)
    story.schedule(60.0, SetInbound("orders", 200_000.0))

    assert story.to_the_end().ended

    assert 0.9 * 300 <= _took_s(story) <= 1.02 * 300
    rates = [each.rate or FULL_RATE for each in _chosen(story)]
    assert max(rates[1:]) > 1.1 * rates[0]


def test_the_rate_stays_about_the_same_while_partitions_keep_growing(tmp_path: Path) -> None:
    """What is to grow until it is copied is in the rate from the start, and not at the end."""
    twice_as_large_in_300_s = {**FAST, "inbound_s": FAST["messages"] / 300}
    story = _story(tmp_path, within_s=300.0, cluster=twice_as_large_in_300_s)

    assert story.to_the_end().ended

    assert 0.9 * 300 <= _took_s(story) <= 300.0
    rates = _rates_while_copying(story)
    assert max(rates) < 1.4 * rates[0]


def test_what_cannot_be_done_in_time_is_reported_at_once_with_the_soonest(tmp_path: Path) -> None:
    story = _story(tmp_path, within_s=10.0)

    assert story.to_the_end().ended

    first = _chosen(story)[0]
    assert first.late
    assert first.rate is None
    assert not story.folded.throttled.brokers


def test_a_throttle_that_is_lower_stays_in_force(tmp_path: Path) -> None:
    story = _story(tmp_path, within_s=300.0, rate="1500kB")

    run = story.played(until_s=100.0)

    assert _chosen(story)[0].late
    assert run.throttled.in_force == parse_throttle_rates("1500kB")
    assert throttle_status(run).words == "1.5 MB/s into each broker"


def test_an_operator_lifts_the_time_and_the_run_goes_on_at_full_rate(tmp_path: Path) -> None:
    story = _story(tmp_path, within_s=600.0)
    story.asked(60.0, SetSchedule(by=None))

    run = story.to_the_end()

    assert _took_s(story) < 200.0
    assert run.throttled.chosen is None
    assert run.throttled.clean


def test_an_operator_names_another_time_while_the_run_goes_on(tmp_path: Path) -> None:
    story = _story(tmp_path, within_s=1_200.0)
    story.asked(60.0, SetSchedule(by=FIRST_MOMENT + timedelta(seconds=400)))

    assert story.to_the_end().ended

    assert 0.9 * 400 <= _took_s(story) <= 400.0


def test_a_higher_throttle_named_meanwhile_changes_nothing(tmp_path: Path) -> None:
    story = _story(tmp_path, within_s=300.0)
    story.asked(60.0, SetThrottle(ThrottleRates(FULL_RATE)))

    assert story.to_the_end().ended

    assert 0.9 * 300 <= _took_s(story) <= 300.0


def test_a_resumed_run_keeps_its_time(tmp_path: Path) -> None:
    story = _story(tmp_path, within_s=300.0)
    run = story.played(until_s=100.0)
    before = run.throttled.chosen

    story.resumed()

    assert before is not None
    assert story.folded.ended
    assert 0.9 * 300 <= _took_s(story) <= 300.0


def test_no_time_is_set_while_another_run_has_a_throttle(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, {"orders-0": (RF3, (4, 2, 3))}, "none", cluster=FAST)

    def refuses() -> None:
        raise RunRefused("run other has a throttle")

    story.check_throttle = refuses
    story.asked(1.0, SetSchedule(by=FIRST_MOMENT + timedelta(seconds=400)))

    run = story.to_the_end()

    assert [each.answer.words for each in story.answers if each.answer] == [
        "run other has a throttle"
    ]
    assert run.schedule.by is None
