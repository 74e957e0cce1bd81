"""A budget for the whole cluster is shared by the brokers that can use it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.execution.journal.commands import SetThrottle
from ktui.execution.run.events import BudgetShared
from ktui.execution.throttle.desired import SLACK, share_budget, usable
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import parse_throttle_rates
from support.runs.engine_runs import Replicas
from support.runs.throttled import ThrottledStory

RF3 = (1, 2, 3)
LARGE, SMALL = "orders-0", "orders-1"
MB = 1_000_000
rates = st.integers(1, 10**9)
brokers = st.dictionaries(st.integers(1, 9), st.none() | rates.map(float), max_size=6)


def test_it_is_shared_evenly_and_moved_on_as_copies_end() -> None:
    before = share_budget(90 * MB, dict.fromkeys((1, 2, 3)), {})

    assert before == dict.fromkeys((1, 2, 3), 30 * MB)
    assert share_budget(90 * MB, dict.fromkeys((1, 2)), before) == dict.fromkeys((1, 2), 45 * MB)


def test_what_a_broker_cannot_use_goes_to_the_others() -> None:
    before = dict.fromkeys((1, 2, 3), 30 * MB)
    of_use = usable({1: 8e6, 2: 29e6, 3: 30e6}, before, {})

    shares = share_budget(90 * MB, {2: None, 3: None, **of_use}, before)

    assert of_use == {1: 10e6}
    assert shares == {1: 10 * MB, 2: 40 * MB, 3: 40 * MB}


def test_a_broker_that_uses_what_it_has_kept_may_get_more_again() -> None:
    shares = {1: 10 * MB}

    assert usable({1: 8e6}, shares, {}) == {}
    assert usable({1: 8e6}, shares, {1: 10e6}) == {1: 10e6}
    assert usable({1: 9e6}, shares, {1: 10e6}) == {}


def test_a_brokers_own_throttle_bounds_its_share() -> None:
    assert share_budget(90 * MB, {1: 10e6, 2: None, 3: None}, {}) == {
        1: 10 * MB,
        2: 40 * MB,
        3: 40 * MB,
    }


def test_little_changes_are_left_alone() -> None:
    before = dict.fromkeys(range(1, 12), 10 * MB)

    shares = share_budget(110 * MB, dict.fromkeys(range(1, 13)), before)

    assert {broker: shares[broker] for broker in before} == before
    assert shares[12] == int(110 * MB / 12)


@given(rates, brokers, brokers)
def test_all_shares_together_exceed_the_budget_by_no_more_than_the_slack(
    budget: int, earlier: dict[int, float | None], now: dict[int, float | None]
) -> None:
    shares = share_budget(budget, now, share_budget(budget, earlier, {}))

    assert shares.keys() == now.keys()
    assert sum(shares.values()) <= (1 + SLACK) * budget + 1_000 * len(now)
    for broker, most in now.items():
        assert shares[broker] <= max(1_000, (most or budget) / (1 - SLACK) + 1)
    if now and not any(now.values()):
        assert sum(shares.values()) >= (1 - SLACK) * budget - len(now)


WAYS: dict[str, tuple[Replicas, Replicas]] = {LARGE: (RF3, (4, 2, 3)), SMALL: (RF3, (5, 2, 3))}


def test_two_brokers_share_a_budget_and_the_last_one_gets_all_of_it(tmp_path: Path) -> None:
    ways = {**WAYS, "orders-2": (RF3, (4, 2, 3))}
    story = ThrottledStory(tmp_path, ways, "total=1MB", limits=Limits(replicas=1, per_broker=1))

    story.to_the_end()

    shared = [event.shares for event in story.events if isinstance(event, BudgetShared)]
    first = {each.broker: each.bytes_s for each in shared[0]}
    assert first == {4: 500_000, 5: 500_000}
    assert {each.broker: each.bytes_s for each in shared[1]} == {4: MB}
    story.assert_left_as_found()
    assert story.at_target(*ways)


@pytest.mark.parametrize("words", ["budget_shared", "configured"])
def test_nothing_stays_of_a_budget_whose_engine_is_killed(words: str, tmp_path: Path) -> None:
    story = ThrottledStory(
        tmp_path, WAYS, "800kB,total=1MB", limits=Limits(replicas=1, partitions=2)
    )
    story.killed(words)

    story.to_the_end()

    story.assert_left_as_found()
    assert story.at_target(*WAYS)


def test_a_budget_is_set_changed_and_lifted_while_a_run_goes_on(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, WAYS, "400kB", limits=Limits(replicas=1, partitions=2))
    for at_s, text in ((3.0, "400kB,total=200kB"), (20.0, "total=2MB"), (30.0, "none")):
        story.asked(at_s, SetThrottle(parse_throttle_rates(text)))

    story.to_the_end()

    shared = [event.shares for event in story.events if isinstance(event, BudgetShared)]
    assert [sum(each.bytes_s or 0 for each in shares) for shares in shared[:2]] == [
        200_000,
        2_000_000,
    ]
    story.assert_left_as_found()
    assert story.at_target(*WAYS)
