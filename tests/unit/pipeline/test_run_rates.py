"""The rates of a run over time: which was in force, who chose it, and whether its promise held."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import msgspec
import pytest

from ktui.execution.run.events import (
    AnyRunEvent,
    BudgetShared,
    Ended,
    JournalEntry,
    RateChosen,
    RateHeld,
    ScheduleChanged,
    Started,
    ThrottleChanged,
)
from ktui.execution.run.options import NO_SCHEDULE, RunOptions, Schedule
from ktui.execution.run.states import State
from ktui.pipeline.tables.run_story import RunFacts, RunStory
from ktui.planning.throttle_rates import NO_THROTTLE, BrokerRate, parse_throttle_rates
from support.pipeline.sampled import moment, ms, now, over, planned, started, step

MB = 1_000_000
BY = moment(ms(600))
Happened = tuple[float, AnyRunEvent]


def begun(throttle: str = "none", schedule: Schedule = NO_SCHEDULE) -> Started:
    options = RunOptions(throttle=parse_throttle_rates(throttle), schedule=schedule)
    return msgspec.structs.replace(started(), options=options)


def facts_of(events: Sequence[Happened]) -> RunFacts:
    story = RunStory("drain")
    for seq, (at, event) in enumerate(events, start=1):
        story.take(JournalEntry(seq, moment(ms(at)), event), ms(at))
    return story.facts()


def held(mb_s: int, figure: float | None, windows: int, kept: int, reason: str = "") -> RateHeld:
    return RateHeld(rate=mb_s * MB, figure=figure, windows=windows, kept=kept, reason=reason)


def chosen(mb_s: int | None, *, late: bool = False) -> RateChosen:
    rate = None if mb_s is None else mb_s * MB
    return RateChosen(rate=rate, ends_at=BY + timedelta(seconds=60 if late else -60), late=late)


def test_the_rate_of_an_objective_is_listed_with_each_figure() -> None:
    facts = facts_of(
        [
            (0, begun("slo=p99<150ms")),
            (10, held(2, 40.0, 1, 1)),
            (20, held(1, None, 2, 1, "no answer")),
            (30, held(3, 90.0, 3, 2)),
        ]
    )

    assert [(row.bytes_s, row.figure, row.reason) for row in facts.rates] == [
        (MB, None, None), (2 * MB, 40.0, None), (MB, None, "no answer"), (3 * MB, 90.0, None),
    ]  # fmt: skip
    assert {row.chosen_by for row in facts.rates} == {"objective"}
    assert (facts.objective, facts.windows, facts.kept) == ("p99<150ms", 3, 2)
    assert facts.rate_changes == 3


def test_the_rate_in_force_is_chosen_by_the_lowest_of_all() -> None:
    facts = facts_of(
        [
            (0, begun("20MB,total=100MB,slo=p99<150ms", Schedule(by=BY))),
            (10, held(50, 40.0, 1, 1)),
            (20, chosen(10)),
            (30, held(5, 200.0, 2, 1)),
            (40, held(60, 40.0, 3, 2)),
            (50, BudgetShared(shares=(BrokerRate(4, 4 * MB), BrokerRate(5, 96 * MB)))),
        ]
    )

    assert [row.chosen_by for row in facts.rates] == [
        "objective", "operator", "by", "objective", "by", "budget",
    ]  # fmt: skip
    assert facts.rates[-1].brokers == (BrokerRate(4, 4 * MB), BrokerRate(5, 10 * MB))


def test_a_promise_that_was_lifted_chooses_no_rate_any_more() -> None:
    by = Schedule(by=BY)
    facts = facts_of(
        [
            (0, begun("none", by)),
            (10, chosen(10)),
            (20, ScheduleChanged(old=by, new=NO_SCHEDULE)),
            (30, ThrottleChanged(old=NO_THROTTLE, new=parse_throttle_rates("5MB"))),
        ]
    )

    assert [(row.bytes_s, row.chosen_by) for row in facts.rates] == [
        (None, None), (10 * MB, "by"), (None, None), (5 * MB, "operator"),
    ]  # fmt: skip
    assert facts.by_t is None


def test_windows_of_an_objective_that_was_changed_are_not_counted_for_the_new_one() -> None:
    old, new = parse_throttle_rates("slo=p99<150ms"), parse_throttle_rates("slo=p99<200ms")
    facts = facts_of(
        [(0, begun(old.typed)), (10, held(2, 40.0, 9, 9)), (20, ThrottleChanged(old=old, new=new))]
    )

    assert (facts.objective, facts.windows, facts.kept) == ("p99<200ms", None, None)


def test_the_rate_that_by_chose_comes_with_the_end_that_it_leads_to() -> None:
    facts = facts_of([(0, begun("none", Schedule(by=BY))), (10, chosen(None, late=True))])

    row = facts.rates[-1]
    assert (row.bytes_s, row.late, row.ends_at_t) == (None, True, ms(660))
    assert facts.by_t == ms(600)


def test_only_time_with_steps_in_flight_counts_for_a_rate() -> None:
    facts = facts_of(
        [
            (0, begun("20MB")),
            (1, planned("a", "b")),
            (5, step("a")),
            (15, chosen(10)),
            (18, over("a")),
            (18, now("a")),
            (40, step("b")),
            (42, over("b")),
            (42, now("b")),
            (43, Ended(counts={State.DONE: 2})),
        ]
    )

    assert [row.in_flight_ms for row in facts.rates] == [10_000, 3_000 + 2_000]


@pytest.mark.parametrize("missing", [1, 2])
def test_nothing_is_guessed_of_rates_before_the_first_recorded_event(missing: int) -> None:
    events: list[Happened] = [
        (0, begun("slo=p99<150ms")), (10, held(2, 40.0, 1, 1)), (20, chosen(1)),
    ]  # fmt: skip

    facts = facts_of(events[missing:])

    assert facts.rates == []
    assert (facts.objective, facts.rate_changes, facts.windows) == (None, None, None)
