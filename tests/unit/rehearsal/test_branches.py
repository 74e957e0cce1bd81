"""Branches and twins of a live run."""

import asyncio
import multiprocessing
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from ktui.cluster.broker import Broker, BrokerConfig, LogDir, TopicConfig
from ktui.cluster.observation import Observation, Reading
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.cluster.ports import Verdict
from ktui.cluster.settings import FOLLOWER_RATE, FOLLOWER_REPLICAS
from ktui.execution.host.launch import NewRun
from ktui.execution.run.events import (
    AnyRunEvent,
    JournalEntry,
    Planned,
    PlannedPart,
    ScheduleChanged,
    Started,
    StepBegun,
)
from ktui.execution.run.options import RunOptions, Schedule
from ktui.execution.run.run import Run
from ktui.insights import Prior, RateCurve, Spread
from ktui.pacing.limits import default_limits
from ktui.planning.check.findings import Allowances
from ktui.planning.check.snapshot import read_placement
from ktui.planning.plan import PartitionTarget, Plan
from ktui.progress.fold import fold
from ktui.progress.timeline import Progress
from ktui.rehearsal import twins
from ktui.rehearsal.branch import twin_at
from ktui.rehearsal.compare import (
    BranchPoint,
    Happening,
    RecordedEntries,
    WhatWas,
    comparison,
    entries_for_twin,
)
from ktui.rehearsal.twin import Pace, Twin
from ktui.rehearsal.twins import rehearse, rehearse_in_background
from ktui.simulated.clock import FIRST_MOMENT, VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.scenario.file import RatesFrom, SnapshotRates
from ktui.simulated.twin import ClusterTwin
from ktui.speed.answer import Span
from support.journals.journals import started
from support.simulated.moving_clusters import ONTO_4, TWIN, rehearsal_of
from support.simulated.observations import START

MB = 1_000_000
ASSUMED = SnapshotRates(slow=20e6, usual=50e6, fast=99e6, source=RatesFrom.ASSUMED)
MOVING, WAITING = TopicPartition("orders", 2), TopicPartition("orders", 3)
UNSEEN = TopicPartition("orders", 0)
STATE = PartitionState(
    tp=MOVING,
    topic_id="of-the-topic-itself",
    replicas=(4, 1, 2),
    isr=(1, 2),
    leader=1,
    adding=(4,),
    removing=(),
)


def begun(*more: AnyRunEvent, options: dict[str, object] | None = None) -> RecordedEntries:
    """Return a run that adds a replica to one partition, while another one waits."""
    first = started(2)
    first = msgspec.structs.replace(
        first, options=msgspec.structs.replace(first.options, **(options or {}))
    )
    topic_id = "of-the-topic-itself"
    planned = PlannedPart(
        partitions=(
            Planned("orders", 2, topic_id, (4, 1, 2), (1, 2), 1, 100 * MB),
            Planned("orders", 3, topic_id, (4, 1, 2), (1, 2), 2, 60 * MB),
        )
    )
    step = StepBegun(
        topic="orders",
        partition=2,
        batch=1,
        replicas=(4, 1, 2),
        adding=(4,),
        removing=(),
        elect=None,
        before=(1, 2),
        leader=1,
        alters=True,
        moves_leader=False,
        cut=False,
    )
    at = [START - timedelta(minutes=1)] * 3 + [START + timedelta(minutes=1)] * len(more)
    events = (first, planned, step, *more)
    entries = [JournalEntry(n, t, e) for n, (t, e) in enumerate(zip(at, events, strict=True), 1)]
    return RecordedEntries("drain", tuple(entries))


def seen(**more: object) -> Observation:
    """Return a poll in which broker 4 has a quarter of the partition that it gets."""
    offsets = {1: 1_100, 4: 350}
    return Observation(
        cluster_id="real",
        controller=1,
        brokers={b: Broker(b, rack=f"r{b}") for b in (1, 2, 4)},
        partitions={MOVING: STATE},
        ends={Replica(MOVING, b): Reading(end, 0.0) for b, end in offsets.items()},
        starts={MOVING: Reading(100, 0.0)},
        sizes={Replica(MOVING, 1): Reading(120 * MB, 0.0)},
        at=START,
        monotonic_s=0.0,
        took_s=0.0,
        **more,  # type: ignore[arg-type]  # any field of it
    )


def point_of(run: RecordedEntries, look: Observation, **more: Any) -> BranchPoint:
    return BranchPoint(
        recording="drain",
        cluster="prod",
        at=START,
        at_s=60.0,
        clock_s=0.0,
        progress=fold(Progress(), look),
        runs=(run,),
        **more,
    )


async def states(twin: ClusterTwin) -> dict[TopicPartition, PartitionState]:
    cluster = SimulatedCluster(twin.spec, VirtualClock())
    reader = cluster.reader()
    found = (await reader.describe_topics(["orders"])).partitions
    listed = await reader.list_reassignments()
    return {tp: s.with_reassignment(listed[tp]) if tp in listed else s for tp, s in found.items()}


async def test_what_was_polled_and_what_the_run_knew_is_the_state_of_the_twin() -> None:
    twin = twin_at(point_of(begun(), seen()), ASSUMED)
    now = await states(twin)
    assert now[MOVING].adding == (4,)
    assert now[MOVING].isr == (1, 2)
    assert now[MOVING].topic_id == "of-the-topic-itself"  # else the topic would be another one
    assert (now[WAITING].replicas, now[WAITING].leader) == ((1, 2), 2)
    (topic,) = twin.spec.topics
    assert topic.sizes == (0, 0, 120 * MB, 60 * MB)
    assert topic.start.held == {Replica(MOVING, 4): 30 * MB}  # by offsets
    assert "2 partitions of these topics were not recorded: they are empty here" in twin.notes
    assert now[UNSEEN].replicas == (1,)
    assert [b.rack for b in twin.spec.brokers] == ["r1", "r2", "r4"]


def test_brokers_copy_as_fast_as_the_recording_shows_else_as_assumed() -> None:
    assumed = twin_at(point_of(begun(), seen()), ASSUMED)
    assert {b.copy_in for b in assumed.spec.brokers} == {50e6}
    shown = twin_at(point_of(begun(), seen(), prior=as_shown()), ASSUMED)
    assert {b.copy_in for b in shown.spec.brokers} == {8e6}
    assert min(b.net_out for b in shown.spec.brokers) >= 16e6  # what it sends counts half
    assert shown.info.rates.source is RatesFrom.RECORDED
    throttled = twin_at(point_of(begun(), seen(), prior=as_shown(known_to=1e6)), ASSUMED)
    assert {b.copy_in for b in throttled.spec.brokers} == {50e6}


def test_copies_get_as_much_of_a_throttle_as_the_recording_shows_else_as_insights_do() -> None:
    insights = msgspec.structs.replace(ASSUMED, throttled=0.7)
    held_up = msgspec.structs.replace(as_shown(throttled=0.5), throttle=5_000_000)
    for shown, share in ((None, 0.7), (as_shown(), 0.7), (held_up, 0.5)):
        twin = twin_at(point_of(begun(), seen(), prior=shown), insights)
        assert {b.throttle_share for b in twin.spec.brokers} == {share}
        assert any("of a throttle" in note for note in twin.notes) is (shown is held_up)


def as_shown(**curve: Any) -> Prior:
    """Return what a recording may show: 4 MB/s of a copy by itself."""
    shape = {"most_bytes_s": 8e6, "half_at": 1.0, "most_at_once": 2, **curve}
    return Prior(Spread(4e6, 4e6, 4e6, 9), 1.0, RateCurve(**shape), 1)


@pytest.mark.parametrize("refuses", [True, False])
async def test_a_broker_that_was_cordoned_gets_what_kafka_would_have_let_it_get(
    *, refuses: bool
) -> None:
    cordoned = {4: (LogDir(4, "/data", cordoned=True),)}
    look = seen(log_dirs=cordoned, refuses_cordoned=refuses, waits_for_kept=False)
    twin = twin_at(point_of(begun(), look), ASSUMED)
    cluster = SimulatedCluster(twin.spec, VirtualClock())
    placement = await read_placement(cluster.reader())
    assert placement.pool.cordoned == {4}
    assert placement.pool.refused == ({4} if refuses else frozenset())
    answers = await cluster.writer().alter_reassignments(
        {WAITING: (1, 4)}, allow_replication_factor_change=True
    )
    assert (answers[WAITING].verdict is Verdict.REFUSED) is refuses


def test_what_happened_to_brokers_stands_among_what_was_done_as_it_was() -> None:
    run = begun(ScheduleChanged(old=Schedule(), new=Schedule(window="22:00-05:00")))
    now = START + timedelta(minutes=5)
    shown = comparison(
        WhatWas("drain", run.entries, START),
        run.entries[:-1],
        run.entries,
        happened=[Happening(START + timedelta(minutes=m), f"after {m}") for m in (0, 2, 9)],
        events=[Happening(START + timedelta(minutes=3), "kill 4")],
        since=START,
        now=now,
    )
    before, here = shown.split("WHAT HAPPENED SINCE, AS IT WAS")[1].split("IN THE BRANCH")
    assert before.index("22:00-05:00") < before.index("after 2")
    assert "after 0" not in before
    assert "after 9" not in before
    assert "kill 4" in here
    assert "after 2" not in here


def test_throttles_and_settings_are_those_that_were_polled() -> None:
    look = seen(
        broker_configs={4: BrokerConfig(follower_throttle_rate=5 * MB, min_insync_replicas=2)},
        topic_configs={"orders": TopicConfig(follower_throttled_replicas="2:4")},
    )
    twin = twin_at(point_of(begun(), look), ASSUMED)
    (topic,) = twin.spec.topics
    assert topic.configs[FOLLOWER_REPLICAS] == "2:4"
    assert {b.id: b.configs.get(FOLLOWER_RATE) for b in twin.spec.brokers} == {
        1: None,
        2: None,
        4: str(5 * MB),
    }
    assert twin.spec.broker_configs["min.insync.replicas"] == "2"


async def test_a_broker_that_was_down_is_down_and_does_not_lead() -> None:
    look = seen()
    brokers = {**look.brokers, 2: Broker(2, alive=False)}
    twin = twin_at(point_of(begun(), msgspec.structs.replace(look, brokers=brokers)), ASSUMED)
    assert [b.id for b in twin.spec.brokers if b.down] == [2]
    waiting = (await states(twin))[WAITING]
    assert (waiting.leader, waiting.isr) == (1, (1,))


def test_no_command_of_the_recording_runs_here_and_nobody_hears_of_it() -> None:
    old, new = Schedule(while_command="curl http://pager"), Schedule(while_command="rm -rf /")
    run = begun(
        ScheduleChanged(old=old, new=new),
        options={
            "schedule": old,
            "sli_command": "steal",
            "sli_prometheus": ("http://prod", "up"),
            "on_event": "page-the-night-shift",
            "metrics_file": "/var/lib/metrics",
        },
    )
    entries = entries_for_twin(run, START + timedelta(hours=1), "simulated-real")
    text = msgspec.json.encode([entry.event for entry in entries])
    for word in (b"pager", b"rm -rf", b"steal", b"http", b"page-the", b"/var/lib"):
        assert word not in text
    first = entries[0].event
    assert isinstance(first, Started)
    assert first.cluster_id == "simulated-real"
    assert "the command of --while is not run: steps may begin as if it succeeded" in (
        twin_at(point_of(run, seen()), ASSUMED).notes
    )


def test_what_was_done_after_the_moment_is_not_in_the_branch() -> None:
    run = begun(ScheduleChanged(old=Schedule(), new=Schedule(window="22:00-05:00")))
    assert len(entries_for_twin(run, START, "simulated-real")) == len(run.entries) - 1
    assert not run.until(START).schedule.window
    assert Run("all").fold(run.entries).schedule.window


def test_without_any_poll_there_is_no_twin() -> None:
    point = msgspec.structs.replace(point_of(begun(), seen()), progress=Progress())
    with pytest.raises(ValueError, match="nothing was polled"):
        twin_at(point, ASSUMED)


WANTED = NewRun(
    plan=ONTO_4,
    name="moves",
    plan_name="moves.json",
    limits=default_limits({}),
    options=RunOptions(record=False),
    allowed=Allowances(replication_factor_change=True, below_min_isr=True),
)


async def test_a_plan_comes_to_the_same_as_in_the_foreground_and_each_twin_is_announced() -> None:
    finished: list[Pace] = []

    prepared, twins = await rehearse_in_background(
        WANTED, TWIN, start=FIRST_MOMENT, finished=finished.append
    )

    assert not prepared.preview.problems
    assert sorted(finished) == sorted(Pace)
    foreground = await asyncio.to_thread(
        lambda: rehearse(rehearsal_of(ONTO_4), TWIN, start=FIRST_MOMENT)
    )
    assert twins == foreground


async def test_a_cancelled_rehearsal_leaves_no_process() -> None:
    before = set(multiprocessing.active_children())
    rehearsing = asyncio.create_task(
        rehearse_in_background(WANTED, TWIN, start=FIRST_MOMENT, finished=lambda _pace: None)
    )
    await asyncio.sleep(0)  # it begins
    assert set(multiprocessing.active_children()) - before

    rehearsing.cancel()

    with pytest.raises(asyncio.CancelledError):
        await rehearsing
    assert not set(multiprocessing.active_children()) - before


ALONE = Plan((PartitionTarget("empty", 0, (1, 2, 4)),))


def test_twins_played_in_processes_of_their_own_give_the_same_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rehearsal = rehearsal_of(ALONE, "load x2 at 0s")
    here = rehearse(rehearsal, TWIN, start=FIRST_MOMENT)
    monkeypatch.setattr(twins, "FEW", 0)
    monkeypatch.setattr(twins, "cores", lambda: 2)

    apart = rehearse(rehearsal, TWIN, start=FIRST_MOMENT)

    assert apart == here
    assert [twin.pace for twin in here] == [Pace.SLOW, Pace.USUAL, Pace.FAST]
    assert [twin.rate for twin in here] == [40e6, 100e6, 200e6]


def _throttled(twin: Twin) -> list[float]:
    paces = (Pace.SLOW, Pace.USUAL, Pace.FAST)
    return [twin.cluster(pace).brokers[0].throttle_share for pace in paces]


def test_copies_get_less_of_a_throttle_on_the_slow_twin_and_its_gulps_on_the_fast_one() -> None:
    brokers = [replace(broker, throttle_share=0.8) for broker in TWIN.spec.brokers]
    seen = replace(
        TWIN,
        spec=replace(TWIN.spec, brokers=tuple(brokers)),
        rates=Span(30e6, 40e6, 60e6),
        recorded=True,
    )

    assert _throttled(TWIN) == pytest.approx([0.35, 0.6, 1.1])
    assert _throttled(seen) == pytest.approx([0.8 / 1.3, 0.8, 1.1])
    assert _throttled(seen.at(1e6)) == [1.0, 1.0, 1.0]


def test_a_twin_never_has_the_id_of_its_cluster() -> None:
    spec = TWIN.cluster(Pace.SLOW)

    assert (TWIN.spec.name, spec.name) == ("prod", "simulated-prod")
    assert {broker.copy_in for broker in spec.brokers} == {40e6}
