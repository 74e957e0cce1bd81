"""Runs with a schedule or an objective."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict
from ktui.execution.host.catalog import run_state
from ktui.execution.host.ownership import Holder
from ktui.execution.journal.commands import SetSchedule, SetThrottle
from ktui.execution.run.events import (
    Answered,
    AnyRunEvent,
    Cancel,
    Ended,
    JournalEntry,
    OpenRequest,
    RateHeld,
    Request,
    ScheduleChanged,
    Started,
    StepBegun,
    StepGate,
    StepOver,
)
from ktui.execution.run.options import Schedule, Window
from ktui.execution.run.text import held_text
from ktui.execution.run.throttle_ledger import FLOOR
from ktui.execution.throttle.objective import Figure
from ktui.pacing.limits import Limits, default_limits
from ktui.planning.throttle_rates import NO_THROTTLE, Objective, parse_throttle_rates
from ktui.simulated.clock import FIRST_MOMENT
from ktui.simulated.layout import SetInbound
from support.kafka.metadata_log import ThrottleLog
from support.runs.engine_runs import Replicas
from support.runs.stories import Story
from support.runs.throttled import ThrottledStory, settings_in
from support.runs.witnessed import WitnessedRun
from support.schedules.log_judge import (
    Replayed,
    TopicLog,
    after_the_end,
    against_intents,
    followed,
    intents,
    lost_in_sync,
    unthrottled,
)
from support.schedules.schedule import COUNT, Asked, Fault, schedule
from support.simulated.moving_clusters import a_cluster

TOPIC, ID = "orders", "some-id"
BEGAN = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
MADE = {
    "replicas": [1, 2],
    "isr": [1, 2],
    "leader": 1,
    "addingReplicas": [],
    "removingReplicas": [],
}
ADDING = {"replicas": [1, 2, 3], "addingReplicas": [3]}
Change = tuple[float, dict[str, Any]]


def test_fifty_schedules_cover_every_fault_and_command_and_five_suspend_for_90_s() -> None:
    planned = Counter(event.what for number in range(COUNT) for event in schedule(number).events)
    assert {*planned} == {*Fault, *Asked}
    assert planned[Fault.HOLDER_SUSPENDED] == 5
    assert schedule(17) == schedule(17) != schedule(18)


def log(*changes: Change) -> TopicLog:
    """Build a partition's records, each at its time in seconds after the beginning."""
    records: list[tuple[int, int, dict[str, Any]]] = [
        (0, ms(-60), {"type": "TOPIC_RECORD", "data": {"topicId": ID, "name": TOPIC}}),
        (1, ms(-60), record("PARTITION_RECORD", MADE)),
    ]
    for offset, (at_s, change) in enumerate(changes, start=2):
        records.append((offset, ms(at_s), record("PARTITION_CHANGE_RECORD", change)))
    throttles = ThrottleLog.among([(offset, body) for offset, _, body in records], TOPIC)
    return followed(throttles, {offset: at_ms for offset, at_ms, _ in records})


def record(kind: str, change: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "data": {"topicId": ID, "partitionId": 0, **change}}


def ms(at_s: float) -> int:
    return int((BEGAN.timestamp() + at_s) * 1000)


def written(*events: tuple[float, AnyRunEvent]) -> list[JournalEntry]:
    return [
        JournalEntry(seq, BEGAN + timedelta(seconds=at_s), event)
        for seq, (at_s, event) in enumerate(events, start=1)
    ]


def step(*replicas: int) -> StepBegun:
    return StepBegun(
        topic=TOPIC,
        partition=0,
        batch=1,
        replicas=replicas,
        adding=(),
        removing=(),
        elect=None,
        before=(1, 2),
        leader=1,
    )


def cancel() -> Cancel:
    return Cancel(topic=TOPIC, partition=0, reason="an operator has called it off")


def answer(request: Request, verdict: Verdict) -> Answered:
    return Answered(topic=TOPIC, partition=0, request=request, verdict=verdict)


def found(log: TopicLog, entries: Iterable[JournalEntry]) -> list[str]:
    return against_intents(log, intents(entries))


def test_intended_requests_that_take_effect_in_order_raise_no_problem() -> None:
    moved = log((1.1, ADDING), (3, {"addingReplicas": [], "isr": [1, 2, 3]}))
    entries = written((1, step(1, 2, 3)), (1.2, answer(Request.ALTER, Verdict.ACCEPTED)))
    assert found(moved, entries) == []
    assert lost_in_sync(moved, 2) == ([], [])


@pytest.mark.parametrize(
    ("changes", "events", "words"),
    [
        ([(1, ADDING)], [], "nobody meant to send this"),
        (
            [(1.1, ADDING), (9, {**ADDING, "replicas": [1, 2, 4], "addingReplicas": [4]})],
            [(1, step(1, 2, 3)), (8, step(1, 2, 4))],
            "altered while it moved",
        ),
        (
            [(1.1, ADDING), (9, {"replicas": [1, 2], "addingReplicas": []}), (70, ADDING)],
            [(1, step(1, 2, 3)), (8, cancel()), (8.1, answer(Request.CANCEL, Verdict.ACCEPTED))],
            "took effect after",
        ),
    ],
    ids=["nobody meant it", "it moved", "it came late"],
)
def test_a_request_that_takes_effect_where_it_should_not_is_found(
    changes: list[Change], events: list[tuple[float, AnyRunEvent]], words: str
) -> None:
    (problem,) = found(log(*changes), written(*events))
    assert words in problem


def test_a_cancel_leaving_none_in_sync_is_a_fault_or_counted_if_the_isr_just_shrank() -> None:
    cancelled = {"replicas": [1, 2], "addingReplicas": [], "isr": [1], "leader": 1}
    shrunk = {"isr": [3], "leader": 3}
    long_ago = log((1, ADDING), (2, {"isr": [1, 2, 3]}), (3, shrunk), (60, cancelled))
    just_before = log((1, ADDING), (2, {"isr": [1, 2, 3]}), (59, shrunk), (60, cancelled))

    assert [len(each) for each in lost_in_sync(long_ago, 1)] == [1, 0]
    assert [len(each) for each in lost_in_sync(just_before, 1)] == [0, 1]


def test_a_drop_below_min_insync_replicas_is_found() -> None:
    more = (1, {"replicas": [1, 2, 3], "isr": [1, 2]})
    dropped = log(more, (60, {"replicas": [2, 3], "isr": [2], "leader": 2}))
    assert lost_in_sync(dropped, 1) == ([], [])
    assert [len(each) for each in lost_in_sync(dropped, 2)] == [1, 0]


def test_an_unclean_leader_is_a_fault_if_a_request_caused_it_and_counted_otherwise() -> None:
    alone = {"isr": [2]}
    elected = {"leader": 1, "isr": [1], "leaderRecoveryState": 1}
    by_kafka = log((1, alone), (2, elected))
    by_us = log((1, alone), (2, {**elected, "replicas": [1]}))

    assert [len(by_kafka.unclean), len(by_kafka.problems)] == [1, 0]
    assert [len(by_us.unclean), len(by_us.problems)] == [0, 1]


def test_an_alter_that_adds_without_its_throttle_is_found() -> None:
    assert len(unthrottled(log((1, ADDING)), ["500000"])) == 1


def test_a_journal_with_more_at_once_than_its_limits_allow_is_found(tmp_path: Path) -> None:
    brokers = range(1, 5)
    cluster = a_cluster({TOPIC: [(1, 2)] * 4}, brokers=brokers, messages=1_000)
    cluster.clock._leaping = True  # type: ignore[attr-defined]  # it is a virtual one
    targets = {TopicPartition(TOPIC, number): (3, 4) for number in range(4)}
    run = WitnessedRun(cluster, tmp_path, targets, Limits(replicas=1, partitions=2))
    polls: list[tuple[datetime, Observation]] = []
    entries: list[JournalEntry] = []

    def is_written(appended: Sequence[JournalEntry]) -> None:
        """Record each write at a moment of its own, as in real time."""
        if appended:
            at = appended[0].at + timedelta(microseconds=appended[0].seq)
            entries.extend(JournalEntry(entry.seq, at, entry.event) for entry in appended)
            if run.seen is not None:
                polls.append((at, run.seen))

    asyncio.run(run.start())
    entries += run.entries()
    run.checks.append(is_written)
    asyncio.run(run.execute())

    replayed = Replayed(entries, polls, brokers, 1)
    assert list(replayed.problems()) == []
    assert replayed.rules.decisions > 4
    fewer = [with_limits(entry, Limits(replicas=1, partitions=1)) for entry in entries]
    assert list(Replayed(fewer, polls, brokers, 1).problems())


def with_limits(entry: JournalEntry, limits: Limits) -> JournalEntry:
    if not isinstance(entry.event, Started):
        return entry
    return JournalEntry(entry.seq, entry.at, msgspec.structs.replace(entry.event, limits=limits))


def test_a_request_after_the_end_is_found_unless_the_end_names_it() -> None:
    late = log((99, ADDING))
    named = OpenRequest(topic=TOPIC, partition=0, node=2)
    assert len(after_the_end(late, written((9, Ended(counts={}))))) == 1
    assert after_the_end(late, written((9, Ended(counts={}, open=(named,))))) == []


RF3 = (1, 2, 3)
MINUTE_S = 60.0


def _many(count: int) -> dict[str, tuple[Replicas, Replicas]]:
    targets = ((4, 2, 3), (5, 2, 3), (6, 2, 3))
    return {f"orders-{n}": (RF3, targets[n % 3]) for n in range(count)}


def _window(from_min: int, to_min: int) -> str:
    """Return a window by minutes after the first moment, whatever the local time is then."""
    local = FIRST_MOMENT.astimezone()
    first = local.hour * 60 + local.minute
    return str(Window((first + from_min) % 1440, (first + to_min) % 1440))


def _begun(story: Story) -> list[float]:
    return story.seconds(lambda event: isinstance(event, StepBegun))


def test_no_step_begins_before_the_start_of_the_run(tmp_path: Path) -> None:
    start_at = FIRST_MOMENT + timedelta(seconds=90)
    story = Story(tmp_path, _many(2), schedule=Schedule(start_at=start_at))

    run = story.played()

    assert run.ended
    assert 90.0 <= _begun(story)[0] < 101.0
    assert not run.gate.shut


def test_steps_begin_in_the_window_and_only_those_that_are_expected_to_end_in_it(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path, _many(12), schedule=Schedule(window=_window(2, 3)))

    run = story.played(until_s=400.0)

    assert not run.ended
    begun = _begun(story)
    assert 2 * MINUTE_S <= begun[0] < 2 * MINUTE_S + 11.0
    assert begun[-1] < 3 * MINUTE_S - 5.0
    assert story.seconds(lambda event: isinstance(event, StepOver))[-1] < 3 * MINUTE_S + 2.0
    assert run.over >= 3
    assert run.gate.until == FIRST_MOMENT + timedelta(days=1, minutes=2)
    assert run.gate.reason.startswith("its window, ")
    assert run_state(run, Holder(1, "here", "me", FIRST_MOMENT)).value == "waiting"


def test_a_step_in_flight_finishes_after_its_window_has_closed(tmp_path: Path) -> None:
    slow = {"copied_s": 100.0}
    story = Story(tmp_path, _many(1), cluster=slow, schedule=Schedule(window=_window(1, 2)))

    story.played(until_s=400.0)

    assert len(_begun(story)) == 1
    assert story.seconds(lambda event: isinstance(event, StepOver))[0] > 2 * MINUTE_S


def test_a_move_that_takes_longer_than_any_window_begins_in_one_all_the_same(
    tmp_path: Path,
) -> None:
    large = {"messages": 50_000_000, "copied_s": 1_000.0}
    story = Story(tmp_path, _many(1), cluster=large, schedule=Schedule(window=_window(1, 2)))

    story.played(until_s=200.0)

    assert len(_begun(story)) == 1


def test_an_operator_opens_a_run_that_waits_and_shuts_it_again(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(9), schedule=Schedule(window=_window(60, 120)))
    story.asked(30.0, SetSchedule(window=""))
    story.asked(70.0, SetSchedule(start_at=FIRST_MOMENT + timedelta(seconds=200)))

    assert story.played().ended

    begun = _begun(story)
    assert 30.0 <= begun[0] < 33.0
    assert not [at for at in begun if 72.0 < at < 200.0]
    changed = story.seconds(lambda event: isinstance(event, ScheduleChanged))[1]
    assert not [at for at in begun if changed <= at < 200.0]
    assert [at for at in begun if at >= 200.0]
    words = [asked.answer.words for asked in story.answers if asked.answer is not None]
    assert words[0] == "in force: at any time"
    assert words[1].startswith("in force: from ")


def test_no_step_begins_while_the_command_fails(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(4), schedule=Schedule(while_command="/bin/check it"))
    asked: set[str] = set()

    def forbids(command: str) -> str | None:
        asked.add(command)
        failing = 40.0 <= story.clock.monotonic() < 200.0
        return "--while check ended with exit code 1" if failing else None

    story.forbids = forbids

    assert story.played().ended

    assert asked == {"/bin/check it"}
    assert not [at for at in _begun(story) if 41.0 < at < 200.0]
    shut = [each for each in story.events if isinstance(each, StepGate)]
    assert [(gate.shut, gate.reason) for gate in shut] == [
        (True, "--while check ended with exit code 1"),
        (False, ""),
    ]


def test_a_resumed_run_keeps_the_schedule_that_an_operator_has_set(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(3), Limits(replicas=1, partitions=1))
    story.asked(5.0, SetSchedule(start_at=FIRST_MOMENT + timedelta(seconds=100)))
    story.played(until_s=20.0)

    assert story.resumed().ended

    assert not [at for at in _begun(story) if 6.0 < at < 100.0]


WAYS: tuple[tuple[Replicas, Replicas], ...] = (
    ((1, 2, 3), (4, 2, 3)),
    ((2, 3, 1), (5, 3, 1)),
    ((3, 1, 2), (6, 1, 2)),
)
FAST = {"messages": 400_000, "copied_s": 20_000.0}
"""Each replica has 400 MB, and a broker can take in 20 MB/s."""
MB = 1_000_000


class _Felt(ThrottledStory):
    """A story whose figure is the rate in force, in MB/s: "latency<8" allows 8 MB/s."""

    def __init__(
        self, folder: Path, rate: str, sli_command: str = "/bin/latency", *, canary: bool = False
    ) -> None:
        ways = {f"orders-{n}": WAYS[n % 3] for n in range(12)}
        super().__init__(
            folder,
            ways,
            rate,
            limits=default_limits(),
            cluster=FAST,
            sli_command=sli_command,
            canary=canary,
        )
        self.silent = False
        self.figure = self._felt

    def _felt(self, _objective: Objective) -> Figure:
        rate = self.run.throttled.in_force.of(4)
        return Figure(None, "no metrics") if self.silent else Figure((rate or 20 * MB) / MB)

    @property
    def held(self) -> list[int]:
        return [event.rate for event in self.events if isinstance(event, RateHeld)]


def test_the_rate_rises_to_what_the_objective_allows_and_stays_below_it(tmp_path: Path) -> None:
    story = _Felt(tmp_path, "slo=latency<8")

    run = story.played(until_s=500.0)

    assert story.held[0] <= 2 * FLOOR
    held = run.throttled.held_at
    assert held is not None
    assert 4 * MB <= held.rate <= 8 * MB
    assert held.kept >= 0.95 * held.windows > 20
    assert run.throttled.in_force.of(4) == held.rate


def test_before_the_first_figure_and_while_there_is_none_it_is_the_least_rate(
    tmp_path: Path,
) -> None:
    story = _Felt(tmp_path, "slo=latency<8")
    story.silent = True

    run = story.played(until_s=100.0)

    assert run.throttled.in_force.of(4) == FLOOR
    held = run.throttled.held_at
    assert held is not None
    assert held_text(held).startswith("1.0 MB/s into each broker: there is no figure: no metrics")


def test_with_figures_by_broker_each_has_a_rate_of_its_own(tmp_path: Path) -> None:
    story = _Felt(tmp_path, "12MB,slo=latency<8")

    def felt(_objective: Objective) -> Figure:
        """Broker 4 feels three times as much as the others; leaders feel nothing."""
        in_force = story.run.throttled.in_force
        rates = {broker: (in_force.of(broker) or 0) / MB for broker in (4, 5, 6)}
        return Figure(None, brokers={1: 0.0, 2: 0.0, 3: 0.0, **rates, 4: 3 * rates[4]})

    story.figure = felt
    run = story.played(until_s=200.0)

    held = run.throttled.held_at
    assert held is not None
    assert MB < held.rates[4] <= 8 * MB / 3
    assert 4 * MB <= held.rates[5] <= 8 * MB
    assert {b: run.throttled.in_force.of(b) for b in (4, 5)} == {b: held.rates[b] for b in (4, 5)}
    assert story.rates[4] == str(held.rates[4])
    assert held.windows >= 10
    assert held.kept >= 0.95 * held.windows


def test_a_lower_throttle_stays_in_force(tmp_path: Path) -> None:
    story = _Felt(tmp_path, "3MB,slo=latency<8")

    run = story.played(until_s=300.0)

    assert run.throttled.in_force.of(4) == 3 * MB


def test_at_the_end_everything_is_put_back(tmp_path: Path) -> None:
    story = _Felt(tmp_path, "slo=latency<30")
    story.schedule(100.0, SetInbound("orders", 1_000.0))

    run = story.to_the_end()

    assert run.ended
    assert settings_in(story.cluster) == {}


def test_an_objective_is_changed_and_lifted_while_the_run_goes_on(tmp_path: Path) -> None:
    story = _Felt(tmp_path, "slo=latency<2")
    story.asked(100.0, SetThrottle(parse_throttle_rates("slo=latency<6")))
    story.asked(300.0, SetThrottle(NO_THROTTLE))

    run = story.played(until_s=320.0)

    assert max(story.held) > 2.5 * MB
    assert not run.throttled.in_force


@pytest.mark.parametrize(
    ("canary", "words"),
    [
        (False, "nothing measures the figure of latency<6. Use the canary (--canary)"),
        (True, "the canary measures p50 to p99.9, and no latency"),
    ],
)
def test_a_run_without_its_figure_takes_no_objective(
    tmp_path: Path, *, canary: bool, words: str
) -> None:
    story = _Felt(tmp_path, "none", sli_command="", canary=canary)
    story.asked(1.0, SetThrottle(parse_throttle_rates("slo=latency<6")))

    story.played(until_s=10.0)

    [answer] = [each.answer for each in story.answers if each.answer]
    assert not answer.accepted
    assert answer.words.startswith(words)


def test_a_resumed_run_goes_on_at_its_rate(tmp_path: Path) -> None:
    story = _Felt(tmp_path, "slo=latency<8")
    before = story.played(until_s=300.0).throttled.held_at

    run = story.resumed(until_s=340.0)

    assert before is not None
    assert run.throttled.held_at is not None
    assert run.throttled.held_at.rate >= 0.8 * before.rate
    assert run.throttled.held_at.windows >= before.windows
