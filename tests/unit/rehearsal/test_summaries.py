"""What a rehearsal finds, advises, and lets fail."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from ktui.cluster.ports import ConfigChange, ConfigOp
from ktui.cluster.settings import topic_resource
from ktui.execution.run.events import JournalEntry, Paused, PauseOrigin, StepGate
from ktui.execution.run.run import Run
from ktui.pacing.limits import Limits
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.throttle_rates import ThrottleRates
from ktui.progress.timeline import Cause
from ktui.rehearsal.aftermath import Aftermath, EndedBy, Hit, what_to_do
from ktui.rehearsal.summary import Summary, summarise
from ktui.rehearsal.twin import FaultMoment, FaultProblem, Pace, parse_fault
from ktui.simulated import layout
from ktui.simulated.clock import FIRST_MOMENT
from ktui.simulated.layout import OutsideEvent
from support.simulated.moving_clusters import ONTO_4, SPEC, TWIN, TWIN_SIZE, played

ALONE = Plan((PartitionTarget("orders", 0, (1, 2, 4)),))


@pytest.fixture(scope="module")
def undisturbed() -> Summary:
    return summarise(played(ONTO_4))


def test_a_plan_takes_the_time_of_its_copies_at_the_rate_of_the_twin(undisturbed: Summary) -> None:
    copies_s = 2 * TWIN_SIZE / 50e6

    assert undisturbed.complete
    assert undisturbed.ended_by is EndedBy.RUN
    assert undisturbed.bytes_copied == 2 * TWIN_SIZE
    assert copies_s < undisturbed.time_s < copies_s + 15
    assert (undisturbed.stalls, undisturbed.faults, undisturbed.why) == ((), (), ())


def test_peaks_are_those_of_the_brokers_that_the_plan_concerns(undisturbed: Summary) -> None:
    brokers = {use.broker: use for use in undisturbed.brokers}

    assert sorted(brokers) == [1, 2, 3, 4]
    assert brokers[4].inflow == pytest.approx(50e6)
    assert brokers[4].disk - brokers[4].room == pytest.approx(2 * TWIN_SIZE, rel=0.01)
    assert [brokers[b].inflow for b in (1, 2, 3)] == [0.0, 0.0, 0.0]


def test_extra_replicas_are_held_by_the_broker_that_loses_them() -> None:
    together = summarise(played(ONTO_4, limits=Limits()))
    at_once = summarise(played(ONTO_4, limits=Limits(shape=Limits().shape, replicas=1)))

    for summary in (together, at_once):
        extra = {use.broker: use.extra_replicas for use in summary.brokers}
        assert extra == {1: 0, 2: 0, 3: 2, 4: 0}


def test_each_cut_and_nothing_else_raises_a_leader_epoch(undisturbed: Summary) -> None:
    assert undisturbed.leader_epoch_bumps == 2
    assert undisturbed.batches >= 2


def test_a_stop_drops_what_is_under_way_and_a_rollback_copies_what_was_dropped() -> None:
    moves = summarise(played(ONTO_4, limits=Limits(replicas=1, partitions=1, cut_together=1)))

    first, last = moves.stops[0], moves.stops[-1]
    assert (first.done, first.left, first.bytes_left) == (0, 2, 2 * TWIN_SIZE)
    assert (first.in_flight, first.back_partitions, first.back_bytes) == (TWIN_SIZE, 1, 0)
    assert (last.done, last.left, last.bytes_left) == (1, 1, TWIN_SIZE)
    assert (last.in_flight, last.back_partitions, last.back_bytes) == (TWIN_SIZE, 2, TWIN_SIZE)


def test_a_throttle_bounds_the_inflow_and_is_the_cause_of_a_longer_run() -> None:
    slowed = summarise(played(ALONE, throttle=ThrottleRates(10_000_000)))

    inflow = next(use.inflow for use in slowed.brokers if use.broker == 4)
    share = TWIN.spec.brokers[0].throttle_share * 10e6
    assert share <= inflow < 10e6  # of the first second, in which the copy begins unthrottled
    assert slowed.time_s == pytest.approx(TWIN_SIZE / share, rel=0.05)


def test_a_copy_that_is_over_between_two_polls_still_counts_as_inflow() -> None:
    small = replace(SPEC.topics[0], bytes_each=5_000_000)
    twin = replace(TWIN, spec=replace(SPEC, topics=(small,)))
    quick = summarise(played(ALONE, twin=twin))

    inflow = next(use.inflow for use in quick.brokers if use.broker == 4)
    assert 1e6 < inflow <= 5.1e6


def test_a_broker_that_dies_and_comes_back_is_a_stall_with_its_cause_and_advice() -> None:
    broken = summarise(played(ALONE, "kill 4 at 40%", "start 4 at 2m"))

    assert broken.complete
    assert [(stall.cause, stall.broker) for stall in broken.stalls] == [(Cause.TARGET_DOWN, 4)]
    assert 20 < broken.stalls[0].lasted_s < 120
    killed, started = broken.faults
    assert (killed.event, started.at_s) == ("kill 4 at 40%", 120.0)
    assert any("broker 4 is down" in words for words in killed.did)
    assert "Start broker 4, or cancel the reassignment." in killed.do
    assert killed.stop.in_flight == TWIN_SIZE
    assert killed.stop.back_bytes == 0


def test_a_plan_that_cannot_end_is_given_up_with_its_reasons() -> None:
    broken = summarise(played(ONTO_4, "kill 4 at 40%", poll_s=5.0))

    assert broken.ended_by is EndedBy.STANDSTILL
    assert not broken.complete
    assert broken.why[0] == "no progress for 15m"
    assert any("broker 4" in why for why in broken.why[1:])
    assert broken.time_s < 60


def test_a_suspended_broker_goes_on_after_its_time() -> None:
    paused = summarise(played(ALONE, "suspend 4 for 20s at 50%"))
    usual = summarise(played(ALONE))

    assert paused.complete
    assert paused.time_s > usual.time_s + 15


def test_a_broker_that_stays_down_is_named_even_if_the_run_ends_without_it() -> None:
    broken = summarise(played(ALONE, "kill 3 at 20%"))

    (outcome,) = broken.faults
    assert broken.complete
    assert any("3 under-replicated" in words for words in outcome.do)


def test_an_event_whose_moment_never_comes_is_listed_and_does_not_happen() -> None:
    over = summarise(played(ALONE, "kill 3 at 20%", "start 3 at 1m"))

    assert over.time_s < 60
    assert over.missed == ("start 3 at 1m",)
    assert over.faults[0].do[0].startswith("Start broker 3: ")


def test_where_nothing_is_copied_the_share_is_that_of_the_partitions() -> None:
    reorder = Plan((PartitionTarget("empty", 0, (2, 1, 3)), PartitionTarget("empty", 1, (3, 2, 1))))

    at_once = summarise(played(reorder, "load x2 at 0%"))

    assert at_once.complete
    assert [fault.event for fault in at_once.faults] == ["load x2 at 0%"]


def test_slow_and_fast_twins_are_the_ends_of_the_range() -> None:
    slow, fast = (summarise(played(ALONE, pace=pace)).time_s for pace in (Pace.SLOW, Pace.FAST))

    assert slow > TWIN_SIZE / TWIN.rates.low
    assert TWIN_SIZE / TWIN.rates.high < fast < slow / 2


GOES_ON = ("Nothing: the run goes on by itself.",)
ENDED = ("Nothing: the run has ended.",)
NOT_KNOWN = ("Not known yet: trouble can take up to 1m 30s to show.",)
ANSWER_AGAIN = "Let broker {} answer again (resume its process, or restart it)"
FREE_DISK = "Free the disk of broker 4 and start it"
PUT_BACK = "Set min.insync.replicas back to what it was: orders to 2."
SLOWLY = ThrottleRates(10_000_000)  # a rate at which the copies of the plan take 100 s


def after(*events: str, throttle: ThrottleRates = SLOWLY, poll_s: float = 1.0) -> Summary:
    return summarise(played(ONTO_4, *events, throttle=throttle, poll_s=poll_s))


def to_do(summary: Summary) -> tuple[str, ...]:
    """Return the advice on the first event."""
    return summary.faults[0].do


@pytest.mark.parametrize(
    ("event", "advice"),
    [
        ("kill 4", "Start broker 4, or cancel the reassignment."),
        ("suspend 4", f"{ANSWER_AGAIN.format(4)}, or cancel the reassignment."),
        ("disk 4 full", f"{FREE_DISK}, or cancel the reassignment and plan it onto other brokers."),
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


MIN_ISR = ConfigChange(topic_resource("orders"), "min.insync.replicas", ConfigOp.SET, "1")


@pytest.mark.parametrize(
    ("text", "moment", "acts"),
    [
        ("kill 5 at 40%", FaultMoment(share=0.4), [(0.0, layout.Kill(5))]),
        ("stop 5 at 10m", FaultMoment(after_s=600.0), [(0.0, layout.Shutdown(5))]),
        ("  start  5  at 60% ", FaultMoment(share=0.6), [(0.0, layout.Start(5))]),
        (
            "suspend 3 for 60s at 50%",
            FaultMoment(share=0.5),
            [(0.0, layout.Hang(3)), (60.0, layout.Resume(3))],
        ),
        ("suspend 3 at 1h30m", FaultMoment(after_s=5_400.0), [(0.0, layout.Hang(3))]),
        ("slow 3 to 20% at 1m", FaultMoment(after_s=60.0), [(0.0, layout.Slow(3, 0.2))]),
        ("disk 4 full at 30%", FaultMoment(share=0.3), [(0.0, layout.FillDisk(4, 0))]),
        ("disk 4 leave 1GB at 0%", FaultMoment(share=0.0), [(0.0, layout.FillDisk(4, 10**9))]),
        (
            "load x2 at 10m",
            FaultMoment(after_s=600.0),
            [(0.0, layout.SetInbound("orders", 20_000.0))],
        ),
        (
            "load orders x0.5 at 10m",
            FaultMoment(after_s=600.0),
            [(0.0, layout.SetInbound("orders", 5_000.0))],
        ),
        ("delete empty at 1m", FaultMoment(after_s=60.0), [(0.0, layout.DeleteTopic("empty"))]),
        ("controller moves at 1m", FaultMoment(after_s=60.0), [(0.0, layout.ChangeController())]),
        (
            "min.insync.replicas orders=1 at 1h",
            FaultMoment(after_s=3_600.0),
            [(0.0, layout.AlterConfigs((MIN_ISR,)))],
        ),
    ],
)
def test_a_fault_has_its_moment_and_what_happens_then(
    text: str, moment: FaultMoment, acts: list[tuple[float, OutsideEvent]]
) -> None:
    fault = parse_fault(text, SPEC)

    assert fault.at == moment
    assert list(fault.acts) == acts


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("kill 5", "`at 40%`"),
        ("kill 5 at soon", "'soon' is not a time"),
        ("kill 5 at 120%", "at most 100%"),
        ("kil 5 at 40%", "Did you mean `kill`?"),
        ("explode 5 at 40%", "`kill BROKER`"),
        ("kill 9 at 40%", "The brokers are 1, 2, 3, 4, 5"),
        ("kill five at 40%", "there is no broker 'five'"),
        ("kill 4 5 at 40%", "expected `kill BROKER`"),
        ("suspend 3 fro 60s at 50%", "expected `suspend BROKER for TIME`"),
        ("suspend 3 for long at 50%", "'long': expected a time"),
        ("slow 3 to 200% at 50%", "at most 100 %"),
        ("disk 4 empty at 50%", "expected `disk BROKER full`"),
        ("load ordrs x2 at 1m", "Did you mean 'orders'?"),
        ("load empty x2 at 1m", "nothing is written to it"),
        ("load 2 at 1m", "expected `load xFACTOR`"),
        ("min.insync.replica orders=2 at 1h", "did you mean 'min.insync.replicas'?"),
        ("min.insync.replicas orders at 1h", "`KEY TOPIC=VALUE`"),
        ("min.insync.replicas orders=many at 1h", "Kafka would refuse it"),
        ("controller dies at 1h", "expected `controller moves`"),
    ],
)
def test_a_mistake_in_a_fault_is_named_with_its_fix(text: str, named: str) -> None:
    with pytest.raises(FaultProblem) as caught:
        parse_fault(text, SPEC)

    assert named in str(caught.value)
