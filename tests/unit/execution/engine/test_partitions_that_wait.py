"""Partitions that wait, what a run promises, and what a turn costs."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ktui.cluster.broker import Broker, TopicConfig
from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import Verdict, WriteResult
from ktui.execution import RunRefused
from ktui.execution.engine.decider import Decider
from ktui.execution.journal.commands import (
    CancelMoves,
    Continue,
    Pause,
    SetLimits,
    SetSchedule,
    SetThrottle,
)
from ktui.execution.run.events import (
    AnyRunEvent,
    JournalEntry,
    Planned,
    RateChosen,
    Request,
    Started,
    StateEntered,
    StepBegun,
    StepOver,
)
from ktui.execution.run.options import RunOptions, Schedule
from ktui.execution.run.plans import planned_parts
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.execution.run.throttle_status import throttle_status
from ktui.pacing import roster, steps
from ktui.pacing.limits import Limits, Mode, Shape, default_limits
from ktui.pacing.situation import Next, Situation
from ktui.planning.throttle_rates import ThrottleRates, parse_throttle_rates
from ktui.simulated import layout
from ktui.simulated.clock import FIRST_MOMENT
from ktui.simulated.layout import SetInbound
from support.chaos import stories
from support.runs.engine_runs import Replicas
from support.runs.stories import Story
from support.runs.throttled import RF3 as THROTTLED_RF3
from support.runs.throttled import ThrottledStory, settings_in
from support.simulated.moving_clusters import MESSAGE_BYTES, tp
from support.simulated.witness import CountingReader

RF3 = (1, 2, 3)
GENTLE = Limits(replicas=1, partitions=2, cut_together=2, shape=Shape.GENTLE)


@contextmanager
def dies_with_request(story: Story, number: int, name: str, broker: int = 9) -> Iterator[None]:
    """Kill a broker with one request of a partition; requests for others arrive."""
    sending, coming = story.sending.alter_reassignments, [tp(name)] * number

    async def alter(targets: Any, **how: Any) -> Any:
        lost = {each: to for each, to in targets.items() if [each] == coming}
        left = {each: to for each, to in targets.items() if each not in lost}
        del coming[: tp(name) in targets]
        if lost:
            story.cluster.do(layout.Kill(broker))
        results = await sending(left, **how) if left else {}
        return {**results, **dict.fromkeys(lost, WriteResult(Verdict.UNKNOWN, node=broker))}

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(story.sending, "alter_reassignments", alter)
        yield


def test_ready_partitions_do_not_wait_to_be_cut_with_a_cancelled_step(tmp_path: Path) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (5, 2, 3))}, GENTLE)
    story.asked(2.0, CancelMoves(CancelKind.STOP, partitions=(tp("orders-1"),)))

    with dies_with_request(story, 1, "orders-1"):
        story.played(until_s=300.0)

    cuts = [entry for entry in story.entries() if _is_cut(entry.event)]
    assert (cuts[0].at - story.told_at(0)).total_seconds() < 60.0
    assert story.at_target("orders-0")
    assert not story.folded.tracks[tp("orders-1")].state.ended


def test_a_blocked_partition_with_an_open_request_reports_one_reason(tmp_path: Path) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (4, 2, 3))})
    story.schedule(40.0, layout.Kill(4))

    with dies_with_request(story, 1, "orders-0"):
        story.played(until_s=60.0)
    story.resumed(until_s=400.0)

    reasons = [event.reason for event in story.events if isinstance(event, StateEntered)]
    assert len(reasons) < 8, reasons


def test_a_wave_continues_without_a_partition_of_a_silent_broker_even_after_a_resume(
    tmp_path: Path,
) -> None:
    ways = dict.fromkeys([f"orders-{number}" for number in range(3)], (RF3, (4, 5, 3)))
    story = Story(tmp_path, ways, Limits(replicas=1, partitions=1, mode=Mode.WAVE))

    with dies_with_request(story, 2, "orders-0"):
        story.played(until_s=45.0)
    story.resumed(until_s=400.0)

    assert story.folded.tracks[tp("orders-0")].open_alter
    assert story.at_target("orders-1", "orders-2")


def test_a_stopped_partition_is_reported_with_the_replicas_a_late_request_gave_it(
    tmp_path: Path,
) -> None:
    stories.a_held_reorder_arrives_before_a_stop(tmp_path)


def test_after_a_pause_begun_partitions_take_the_place_in_order(tmp_path: Path) -> None:
    names = [f"orders-{number}" for number in range(6)]
    both = Limits(replicas=1, partitions=6)
    story = Story(tmp_path, dict.fromkeys(names, (RF3, (4, 5, 3))), both)
    story.asked(2.0, Pause(topics=("orders",)))
    story.asked(100.0, SetLimits({"partitions": 1}), Continue(topics=("orders",)))

    story.played()

    adding = [event.tp for event in story.events if isinstance(event, StepBegun) and event.adding]
    assert adding[6:] == [tp(name) for name in names]


def _is_cut(event: object) -> bool:
    return isinstance(event, StepBegun) and event.cut


@pytest.mark.parametrize("limits", [Limits(per_leader=1), Limits(bytes_per_broker=1_000_000)])
def test_after_a_resume_a_step_in_flight_still_counts_at_the_leader_it_copies_from(
    tmp_path: Path, limits: Limits
) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (5, 2, 3))}, limits)
    story.played(until_s=3.0)
    assert [step.partition for step in story.steps] == [0]

    story.resumed()
    second = next(
        entry
        for entry in story.entries()
        if isinstance(entry.event, StepBegun) and entry.event.partition == 1
    )
    overs = [e for e in story.entries() if isinstance(e.event, StepOver) and not e.event.partition]
    assert second.at >= overs[0].at


def test_a_step_in_flight_counts_at_the_leader_that_has_taken_over(tmp_path: Path) -> None:
    """Broker 1 dies while it sends, so broker 2 sends on: under S it has no room for another."""
    ways = {"orders-0": ((1, 2, 3), (1, 2, 4)), "orders-1": ((2, 3, 5), (2, 3, 6))}
    story = Story(
        tmp_path, ways, Limits(per_leader=1, per_broker=1, partitions=1), {"messages": 30_000}
    )
    story.schedule(5.0, layout.Kill(1))
    story.asked(20.0, SetLimits({"partitions": None}))
    story.played(until_s=25.0)
    assert story.folded.tracks[tp("orders-0")].step is not None
    assert story.leader(tp("orders-0")) == 2
    assert [step.partition for step in story.steps] == [0]


def test_a_partition_called_off_in_its_pause_is_not_judged_by_how_it_stood_before(
    tmp_path: Path,
) -> None:
    ways = {"orders-0": ((1, 2), (3, 2)), "orders-1": ((4, 5), (6, 5))}
    story = Story(tmp_path, ways, GENTLE)
    story.schedule(1.0, layout.Slow(6, 0.0001))
    story.schedule(20.0, layout.Kill(1), layout.Kill(2), layout.Kill(3))
    story.asked(30.0, Pause(partitions=(tp("orders-0"),)))
    story.schedule(40.0, layout.Start(1), layout.Start(2), layout.Start(3))
    story.asked(60.0, CancelMoves(CancelKind.TRIM, partitions=(tp("orders-0"),)))

    story.played(until_s=80.0)

    assert story.said("orders-0", State.BLOCKED) == ["it is offline: no replica leads"]
    assert story.said("orders-0", State.REFUSED) == []
    assert story.state("orders-0") is State.STOPPED


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
    story = ThrottledStory(tmp_path, {"orders-0": (THROTTLED_RF3, (4, 2, 3))}, "none", cluster=FAST)

    def refuses() -> None:
        raise RunRefused("run other has a throttle")

    story.check_throttle = refuses
    story.asked(1.0, SetSchedule(by=FIRST_MOMENT + timedelta(seconds=400)))

    run = story.to_the_end()

    assert [each.answer.words for each in story.answers if each.answer] == [
        "run other has a throttle"
    ]
    assert run.schedule.by is None


EACH = 500
PLACES = 10
BEFORE, TARGET = (1, 2, 3), (4, 2, 3)
A_TURN = 8 * PLACES  # a turn with ten places never has to examine more than this


class _LargeRun:
    """A decider of a large run, on a cluster that completes each step by the next poll."""

    def __init__(self, topics: int) -> None:
        self.partitions = [
            TopicPartition(f"topic-{t:04}", n) for t in range(topics) for n in range(EACH)
        ]
        planned = [
            Planned(tp.topic, tp.partition, "id", TARGET, BEFORE, 1) for tp in self.partitions
        ]
        started = Started(
            cluster_id="a",
            plan="plan.json",
            plan_sha256="",
            partitions=len(planned),
            limits=Limits(replicas=1, partitions=PLACES),
            options=RunOptions(),
            version="1",
        )
        self.run = Run("run")
        self.seconds = 0
        self.replicas: dict[TopicPartition, tuple[int, ...]] = {}
        self.record([started, *planned_parts(planned)])
        self.decider = Decider(self.run)

    def record(self, events: list[AnyRunEvent]) -> None:
        at = FIRST_MOMENT + timedelta(seconds=self.seconds)
        for event in events:
            self.run.apply(JournalEntry(self.run.seq + 1, at, event))

    def turn(self) -> int:
        """Run one turn and return how many partitions had to be polled."""
        wanted = self.decider.interest.partitions
        self.seconds += 1
        self.record(self.decider.process_poll(self._seen(wanted)))
        decided = self.decider.decide()
        if decided.look_again:
            return len(wanted) + self.turn()
        self.record(list(decided.intents))
        for sending in decided.sendings:
            for partition, replicas in sending.partitions.items():
                if sending.request is Request.ALTER and replicas is not None:
                    self.replicas[partition] = replicas
            results = dict.fromkeys(sending.partitions, WriteResult(Verdict.ACCEPTED))
            self.record(self.decider.process_answer(sending.request, results))
        self.record(self.decider.end())
        return len(wanted)

    def _seen(self, wanted: frozenset[TopicPartition]) -> Observation:
        topics = {tp.topic for tp in wanted}
        return Observation(
            cluster_id="a",
            controller=1,
            brokers={b: Broker(b, f"broker-{b}", 9092, None, alive=True) for b in range(1, 5)},
            partitions={tp: self._state(tp) for tp in wanted},
            topic_configs=dict.fromkeys(topics, TopicConfig()),
            at=FIRST_MOMENT + timedelta(seconds=self.seconds),
            monotonic_s=float(self.seconds),
            took_s=0.0,
            fresh=True,
        )

    def _state(self, tp: TopicPartition) -> PartitionState:
        replicas = self.replicas.get(tp, BEFORE)
        leader = 1 if 1 in replicas else replicas[0]
        return PartitionState(tp, "id", replicas, replicas, leader)


@pytest.mark.parametrize("topics", [20, pytest.param(400, marks=pytest.mark.soak)])
def test_a_turn_costs_what_is_in_flight_however_many_partitions_are_queued(
    topics: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()
    real = steps.next_step

    def counted(now: Situation, limits: Limits) -> Next:
        calls["next steps"] += 1
        return real(now, limits)

    monkeypatch.setattr(roster, "next_step", counted)
    large_run = _LargeRun(topics)
    large_run.turn()
    first = calls["next steps"]

    polled, computed = [], []
    for _ in range(20):
        calls.clear()
        polled.append(large_run.turn())
        computed.append(calls["next steps"])

    assert first >= topics * EACH
    assert max(polled) <= A_TURN
    assert max(computed) <= A_TURN
    assert large_run.run.over >= 90


@pytest.mark.parametrize(("messages_s", "quick"), [(300, False), (1_000, True)])
def test_only_steps_that_are_soon_over_are_polled_more_often_than_once_a_second(
    tmp_path: Path, messages_s: int, *, quick: bool
) -> None:
    ways = {f"orders-{n}": ((1, 2, 3), (4 + n % 3, 2, 3)) for n in range(12)}
    limits = Limits(replicas=1, partitions=3)
    story = Story(tmp_path, ways, limits, cluster={"copied_s": messages_s})
    reader = CountingReader(story.reader)
    story.reader = reader

    run = story.played()

    polls, lasted_s = reader.calls["list_reassignments"], story.clock.monotonic()
    assert run.ended
    assert (polls > 1.5 * lasted_s) is quick
