"""What an operator should do after an event, as the summary of a rehearsal says it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ktui.execution.run.events import JournalEntry, Paused, PauseOrigin, StepGate
from ktui.execution.run.run import Run
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.throttle_rates import ThrottleRates
from ktui.rehearsal.aftermath import Aftermath, EndedBy, Hit, what_to_do
from ktui.rehearsal.summary import Summary, summarise
from ktui.simulated.clock import FIRST_MOMENT
from support.rehearsal.small_twins import ONTO_4, played

ALONE = Plan((PartitionTarget("orders", 0, (1, 2, 4)),))
GOES_ON = ("Nothing: the run goes on by itself.",)
ENDED = ("Nothing: the run has ended.",)
NOT_KNOWN = ("Not known yet: trouble can take up to 1m 30s to show.",)
ANSWER_AGAIN = "Let broker {} answer again (resume its process, or restart it)"
FREE_DISK = "Free the disk of broker 4 and start it"
PUT_BACK = "Set min.insync.replicas back to what it was: orders to 2."
SLOWLY = ThrottleRates(10_000_000)
"""A rate at which the copies of the plan take 100 s."""


def after(*events: str, throttle: ThrottleRates = SLOWLY, poll_s: float = 1.0) -> Summary:
    return summarise(played(ONTO_4, *events, throttle=throttle, poll_s=poll_s))


def to_do(summary: Summary) -> tuple[str, ...]:
    """Return the advice on the first event."""
    return summary.faults[0].do


@pytest.mark.parametrize(
    ("event", "advice"),
    [
        ("kill 4", "Start broker 4, or cancel the reassignment."),
        (
            "suspend 4",
            f"{ANSWER_AGAIN.format(4)}, or cancel the reassignment.",
        ),
        (
            "disk 4 full",
            f"{FREE_DISK}, or cancel the reassignment and plan it onto other brokers.",
        ),
    ],
)
def test_a_broker_that_copies_go_to_is_brought_back_as_fits_what_happened_to_it(
    event: str, advice: str
) -> None:
    broken = after(f"{event} at 30%", poll_s=5.0)

    assert broken.ended_by is EndedBy.STANDSTILL
    assert to_do(broken) == (advice,)
    assert any("broker 4" in each for each in broken.why)


def test_a_broker_that_the_plan_does_not_need_is_still_brought_back_for_what_lacks_it() -> None:
    (advice,) = to_do(summarise(played(ALONE, "suspend 3 at 20%")))

    assert advice.startswith(f"{ANSWER_AGAIN.format(3)}: ")
    assert "3 under-replicated until then." in advice


def test_a_broker_that_comes_back_by_itself_asks_for_nothing() -> None:
    assert to_do(after("suspend 4 for 40s at 30%")) == GOES_ON


def test_copies_that_fall_behind_what_is_written_are_no_matter_of_brokers_or_of_patience() -> None:
    broken = after("load x5000 at 30%", throttle=ThrottleRates(), poll_s=5.0)

    (advice,) = to_do(broken)
    assert not broken.complete
    assert advice.startswith(
        "Let producers write less, or fewer replicas be copied onto broker 4 ("
    )


def test_copies_that_a_throttle_lets_fall_behind_need_a_higher_one() -> None:
    (advice,) = to_do(after("load x2000 at 10s", poll_s=5.0))

    assert advice.startswith("Raise the throttle")


def test_an_alarm_that_was_open_before_an_event_still_counts_to_it() -> None:
    broken = after("kill 4 at 10s", "load x2 at 2m", "start 4 at 4m")

    assert [fault.do for fault in broken.faults] == [
        ("Start broker 4, or cancel the reassignment.",),
        ("Start broker 4, or cancel the reassignment.",),
        GOES_ON,
    ]
    assert [(fault.at_s, fault.until_s) for fault in broken.faults[:2]] == [(10, 120), (120, 240)]


def test_a_raised_min_isr_is_put_back_and_no_broker_is_missed_where_all_are_up() -> None:
    raised = after("min.insync.replicas orders=4 at 5s", "controller moves at 90s")

    assert raised.complete
    put_back, wait = to_do(raised)
    assert put_back == PUT_BACK
    assert wait.startswith("Wait for the copies to come into sync: ")
    assert "1 under min ISR until then" in wait  # the one whose new replica is being copied
    assert raised.faults[1].do == ENDED


def test_a_raised_min_isr_beside_a_dead_broker_is_one_of_two_remedies() -> None:
    broken = after("min.insync.replicas orders=3 at 5s", "kill 3 at 5s", "load x1 at 40s")

    start, put_back = to_do(broken)
    assert start.startswith("Start broker 3: of the cluster's partitions, ")
    assert put_back == PUT_BACK


def test_a_slow_broker_takes_longer_and_needs_its_capacity_back_only_if_it_falls_behind() -> None:
    slow = after("slow 4 to 1% at 30%", throttle=ThrottleRates(), poll_s=5.0)
    behind = after("slow 4 to 1% at 30%", "load x500 at 30%", throttle=ThrottleRates(), poll_s=5.0)

    assert slow.complete
    assert slow.time_s > 300
    assert to_do(slow) == ENDED
    assert to_do(behind) == ("Give broker 4 back its network and disk, of which it has 1%.",)


def test_nothing_is_said_to_be_needed_only_once_trouble_would_have_shown() -> None:
    quiet = after("controller moves at 20s", "controller moves at 90s")

    assert [fault.do for fault in quiet.faults] == [NOT_KNOWN, ENDED]


def test_what_cannot_go_on_is_named_with_its_reason() -> None:
    assert to_do(after("delete orders at 20s")) == (
        "See to what does not go on: 2 partitions topic gone: its topic was deleted.",
    )


@pytest.mark.parametrize(
    ("event", "advice"),
    [
        (
            Paused(by=PauseOrigin.OPERATOR, reason="lunch"),
            "Continue the run, which is paused: lunch.",
        ),
        (
            StepGate(shut=True, reason="3 partitions are offline"),
            "See to what holds back the steps of the run: 3 partitions are offline.",
        ),
    ],
)
def test_a_run_that_is_held_back_does_not_go_on_by_itself(
    event: Paused | StepGate, advice: str
) -> None:
    run = Run("moves").fold([JournalEntry(1, FIRST_MOMENT + timedelta(seconds=5), event)])
    calm = Aftermath(until_s=600.0, lost={}, slowed={}, stalls=(), unhealthy={}, raised={})

    assert tuple(what_to_do(Hit(text="load x2", at_s=1.0, after=calm), run)) == (advice,)
