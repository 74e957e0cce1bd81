"""What a row shows its partition waiting for: as the run's process decides, in plain words."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from ktui.cluster.partition import TopicPartition
from ktui.execution.forecast.waits import HeldBy, WaitCause, Waits, waiting_tracks
from ktui.execution.run.events import (
    AnyRunEvent,
    CancelAsked,
    CancelGate,
    JournalEntry,
    Outage,
    Paused,
    PauseOrigin,
    Planned,
    PlannedPart,
    StateEntered,
    StepBegun,
    StepGate,
    StepOver,
    UrgencyChanged,
)
from ktui.execution.run.options import RunOptions
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.execution.time_left.forecast import TimeNeeded
from ktui.pacing.choosing import (
    WaitsFor,
    WaitsForCut,
    WaitsForLoneStep,
    WaitsForNextWave,
    WaitsForOthers,
)
from ktui.pacing.limits import Full, InternalOrder, Limits
from ktui.pacing.room import WaitsToGoAlone
from ktui.pacing.situation import Urgency
from ktui.planning.throttle_rates import NO_THROTTLE
from ktui.speed.capacity import Capacity
from ktui.tui.run_view.rows import RunRows
from ktui.tui.screens.watch.words import run_reason, waiting_words
from support.journals.journals import owned, started

AT = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)
FIRST, LAST = TopicPartition("a", 0), TopicPartition("a", 2)


def a_run(
    *events: AnyRunEvent,
    limits: Limits | None = None,
    target: tuple[int, ...] = (4, 2, 3),
    urgent_first: bool = False,
    last: str = "a",
) -> Run:
    """Build a run of three partitions, the first of which is being given broker 4.

    The last one is of topic `last`.
    """
    planned = tuple(
        Planned(topic, n, None, target, (1, 2, 3), 1, size=10**9)
        for n, topic in enumerate(("a", "a", last))
    )
    begun = StepBegun(
        topic="a", partition=0, batch=1, replicas=(1, 2, 3, 4), adding=(4,), removing=(),
        elect=None, before=(1, 2, 3), leader=1,
    )  # fmt: skip
    in_force = limits or Limits(replicas=1, partitions=1)
    options = RunOptions(urgent_first=urgent_first)
    start = replace(started(3), limits=in_force, options=options)
    every = (start, PlannedPart(partitions=planned), owned(), begun, *events)
    return Run("drain").fold(JournalEntry(n, AT, event) for n, event in enumerate(every, start=1))


def needed(run: Run, shown: float | None) -> TimeNeeded:
    """Judge by copies that have gone on for a minute, at so many bytes a second."""
    capacity = Capacity()
    if shown is not None:
        capacity.learn([((1, 4), 60 * shown)], 60.0, NO_THROTTLE)
    return TimeNeeded(run, capacity.under(NO_THROTTLE), None, known=capacity.known)


def waits_for(
    run: Run, tp: TopicPartition = LAST, *, owned_by_one: bool = True, shown: float | None = None
) -> WaitCause | None:
    rows = RunRows(run)
    track = run.tracks[tp]
    between = [each for each in run.tracks.values() if each.under_way and each.step is None]
    rows.waits = Waits(
        run, between=between, needed=needed(run, shown), seen=None, now=AT, owned=owned_by_one
    )
    return rows.waits.of(track)


def test_a_row_waits_for_a_place_or_for_a_broker() -> None:
    assert waits_for(a_run()) == Full("partitions", 1, 1)
    per_broker = Limits(replicas=1, partitions=3, per_broker=1)
    assert waits_for(a_run(limits=per_broker)) == Full("per_broker", 1, 1, at=4)
    assert waits_for(a_run(), FIRST) is None


@pytest.mark.parametrize(
    ("event", "hold"),
    [
        (Paused(by=PauseOrigin.OPERATOR), HeldBy.RUN_PAUSED),
        (Paused(by=PauseOrigin.OPERATOR, topics=("a",)), HeldBy.PAUSED),
        (StepGate(shut=True, reason="2 are offline"), HeldBy.GATE_SHUT),
        (Outage(lost=True, reason="connection refused"), HeldBy.CLUSTER_LOST),
    ],
)
def test_a_hold_on_the_run_is_shown_before_any_limit(event: AnyRunEvent, hold: HeldBy) -> None:
    assert waits_for(a_run(event)) is hold


def test_a_run_without_a_process_waits_for_one() -> None:
    assert waits_for(a_run(), owned_by_one=False) is HeldBy.NO_ENGINE


def test_a_row_is_too_late_by_the_same_pace_that_decides() -> None:
    run = a_run()
    run.until = AT + timedelta(seconds=60)
    slow, quick = 10e6, 100e6
    assert waits_for(run, shown=slow) is HeldBy.TOO_LATE
    assert waits_for(run, shown=quick) == Full("partitions", 1, 1)
    run.until = AT
    assert waits_for(run, shown=quick) is HeldBy.TIME_UP


def test_a_row_is_too_late_as_assumed_while_nothing_has_been_copied() -> None:
    run = a_run()
    run.until = AT + timedelta(seconds=5)
    waits = waits_for(run)
    assert waits is HeldBy.TOO_LATE_AS_ASSUMED
    words = waiting_words(waits, run, run.tracks[LAST])
    assert "as assumed: no copy has shown its rate" in words.sentence


URGENT = UrgencyChanged(topic="a", partition=2, why=Urgency.UNDER_MIN_ISR)


def test_a_row_of_an_urgent_partition_says_why_and_waits_only_for_urgent_ones() -> None:
    limits = Limits(replicas=1, partitions=2, per_broker=1)
    assert waits_for(a_run(URGENT, limits=limits, urgent_first=True)) is None

    among_urgent = StepBegun(
        topic="a", partition=1, batch=2, replicas=(1, 2, 3, 4), adding=(4,), removing=(),
        elect=None, before=(1, 2, 3), leader=1, among_urgent=True,
    )  # fmt: skip
    second = a_run(URGENT, among_urgent, limits=limits, urgent_first=True)
    waits = waits_for(second)
    assert waits == Full("per_broker", 1, 1, at=4, among_urgent=True)
    words = waiting_words(waits, second, second.tracks[LAST])
    assert words.short == "urgent: under min ISR; broker 4: 1 of 1 (B)"
    assert words.sentence == (
        "It goes first (urgent: under min ISR). Its next step adds a replica on broker 4: B lets 1 "
        "replica be added on one broker, and 1 is there. Only what urgent partitions have in "
        "flight counts for it."
    )


def test_a_row_of_an_urgent_partition_that_goes_next_says_why() -> None:
    run = a_run(URGENT, limits=Limits(replicas=1))
    rows = RunRows(run)
    piece = run_reason(run.tracks[LAST], rows)
    assert piece is not None
    assert piece.text == "urgent: under min ISR"
    assert [track.tp for track in waiting_tracks(run)] == [LAST]


OFFSETS = TopicPartition("__consumer_offsets", 2)


def test_a_row_of_an_internal_partition_waits_for_others_that_wait_to_begin() -> None:
    limits = Limits(replicas=1, internal=InternalOrder.LAST)
    blocked = StateEntered(topic="a", partition=1, state=State.BLOCKED, reason="broker 4 is down")
    paused = Paused(by=PauseOrigin.OPERATOR, topics=("a",))

    def waits(*events: AnyRunEvent, internal: InternalOrder = InternalOrder.LAST) -> object:
        of = replace(limits, internal=internal)
        return waits_for(a_run(*events, limits=of, last=OFFSETS.topic), OFFSETS)

    assert waits() == WaitsForOthers()
    assert waits(internal=InternalOrder.FIRST) is None
    assert waits(blocked) is None
    assert waits(paused) is None


def test_the_next_partition_to_begin_is_an_internal_one_where_these_go_first() -> None:
    limits = Limits(replicas=1, partitions=1, internal=InternalOrder.FIRST)
    run = a_run(limits=limits, last=OFFSETS.topic)
    assert [track.tp for track in waiting_tracks(run)] == [OFFSETS]
    rows = RunRows(run)
    rows.apply_entries([])
    assert rows.place(run.tracks[OFFSETS]) == 1


def test_a_ready_partition_waits_for_the_others_of_its_cut() -> None:
    over = StepOver(topic="a", partition=0, replicas=(1, 2, 3, 4), leader=1)
    second = StepBegun(
        topic="a", partition=1, batch=2, replicas=(1, 2, 3, 4), adding=(4,), removing=(),
        elect=None, before=(1, 2, 3), leader=1,
    )  # fmt: skip
    run = a_run(over, second, limits=Limits(replicas=1, partitions=2))
    run.tracks[FIRST].state = State.READY
    assert waits_for(run, FIRST) == WaitsForCut(1, 2)


@pytest.mark.parametrize(
    ("waits", "short", "words"),
    [
        (Full("partitions", 4, 4), "4 of 4 under way (P)", "begins when one of them has ended"),
        (
            Full("leader_movements", 2, 2),
            "2 of 2 leader movements (L)",
            "L lets 2 leader movements",
        ),
        (
            Full("replica_movements", 40, 40, others=3),
            "40 of 40 replicas (M), 3 foreign",
            "40 are, 3 of them by others",
        ),
        (
            Full("per_broker", 2, 2, 7, 1),
            "broker 7: 2 of 2 (B), 1 foreign",
            "on broker 7: B lets 2",
        ),
        (
            Full("per_broker", 1, 1, 7, own=True),
            "broker 7: 1 of 1 (B)",
            "on broker 7: its own B lets 1 replica be added, and 1 is there",
        ),
        (
            Full("per_leader", 2, 2, 7, own=True),
            "leader 7: 2 of 2 (S)",
            "from broker 7: its own S lets 2 replicas be copied, and 2 are",
        ),
        (
            Full("bytes_per_broker", 3 * 2**20, 2 * 2**20, 7, own=True),
            "broker 7: 3.0 MiB of 2.0 MiB (W)",
            "from broker 7: its own W lets 2.0 MiB be in flight, and 3.0 MiB are there",
        ),
        (
            WaitsToGoAlone(3, 2, "per_leader", 7),
            "adds 3, S of broker 7 is 2",
            "more than S of broker 7 (2) ever lets",
        ),
        (WaitsForNextWave(3, 1), "wave 3: 1 left", "1 partition of wave 3 has not ended"),
        (WaitsForLoneStep(FIRST), "a-0 goes alone", "until it is over"),
        (WaitsToGoAlone(3, 2), "adds 3, M is 2", "once nothing else is in flight"),
        (WaitsForCut(2, 3), "drop waits: 2 of 3 ready", "cut together once 3 do (2 do by now)"),
        (
            WaitsForCut(2, 100),
            "drop waits: 2 of 3 ready",
            "The 3 that are left are cut once nothing is adding any more (2 are ready by now)",
        ),
        (
            Full("bytes_per_broker", 3 * 2**20, 2 * 2**20, 7),
            "broker 7: 3.0 MiB of 2.0 MiB (W)",
            "W lets 2.0 MiB be in flight at one broker, and 3.0 MiB are there",
        ),
        (
            Full("bytes_in_flight", 3 * 2**20, 2 * 2**20),
            "3.0 MiB of 2.0 MiB (V)",
            "V lets 2.0 MiB be in flight in the cluster, and 3.0 MiB are",
        ),
        (WaitsForOthers(), "internal: last", "begins once no other partition waits to begin"),
        (
            Full("leader_movements", 1, 1, among_internal=True),
            "one internal leader at a time",
            "coordinates groups or transactions: of these one moves at a time",
        ),
        (HeldBy.RUN_PAUSED, "the run is paused", "The run is paused: by the operator."),
        (HeldBy.NO_ENGINE, "the run waits for resume", "ktui resume drain"),
    ],
)
def test_a_wait_has_a_short_and_a_full_wording(
    waits: HeldBy | WaitsFor, short: str, words: str
) -> None:
    run = a_run(Paused(by=PauseOrigin.OPERATOR))
    wording = waiting_words(waits, run, run.tracks[LAST])
    assert wording.short == short
    assert words in wording.sentence
    assert wording.sentence.endswith(".")


def test_the_last_step_of_a_partition_takes_a_place_while_in_flight() -> None:
    all_at_once = StepBegun(
        topic="a", partition=1, batch=1, replicas=(4, 2, 3), adding=(4,), removing=(1,),
        elect=None, before=(1, 2, 3), leader=1,
    )  # fmt: skip
    run = a_run(all_at_once, limits=Limits(partitions=2))

    assert waits_for(run) == Full("partitions", 2, 2)


# --- cancelled -------------------------------------------------------------------------------


def a_run_rolling_back(*events: AnyRunEvent) -> Run:
    """Build a run whose first partition has had a step and is to be rolled back."""
    over = StepOver(topic="a", partition=0, replicas=(1, 2, 3, 4), leader=1)
    asked = CancelAsked(kind=CancelKind.ROLLBACK, partitions=(FIRST,))
    return a_run(over, asked, *events)


def test_a_rollback_is_held_by_a_later_pause_but_not_by_an_earlier_one() -> None:
    before = a_run(
        StepOver(topic="a", partition=0, replicas=(1, 2, 3, 4), leader=1),
        Paused(by=PauseOrigin.OPERATOR),
        CancelAsked(kind=CancelKind.ROLLBACK, partitions=(FIRST,)),
    )
    assert waits_for(before, FIRST) is None
    assert waits_for(before) is HeldBy.RUN_PAUSED
    assert (
        waits_for(a_run_rolling_back(Paused(by=PauseOrigin.OPERATOR)), FIRST) is HeldBy.RUN_PAUSED
    )


def test_a_rollback_does_not_wait_for_places_held_by_paused_partitions() -> None:
    over = StepOver(topic="a", partition=0, replicas=(1, 2, 3, 4), leader=1)
    also = StepBegun(
        topic="a", partition=2, batch=2, replicas=(1, 2, 3, 4), adding=(4,), removing=(),
        elect=None, before=(1, 2, 3), leader=1,
    )  # fmt: skip
    done = StateEntered(topic="a", partition=0, state=State.DONE)
    between = StepOver(topic="a", partition=2, replicas=(1, 2, 3, 4), leader=1)
    asked = CancelAsked(kind=CancelKind.ROLLBACK, partitions=(FIRST,))
    running = a_run(over, done, also, between, asked, target=(4, 5, 3))
    assert waits_for(running, FIRST) == Full("partitions", 1, 1)
    paused = a_run(
        over, done, also, between, Paused(by=PauseOrigin.OPERATOR), asked, target=(4, 5, 3)
    )
    assert waits_for(paused, FIRST) is None


def test_the_cancel_gate_holds_all_but_rollbacks_and_shows_how_to_open_it() -> None:
    run = a_run_rolling_back(CancelGate(shut=True, reason="ada@ops1 (4711) at 14:02"))
    assert waits_for(run, FIRST) is None
    assert waits_for(run) is HeldBy.CANCEL_GATE_SHUT
    words = waiting_words(HeldBy.CANCEL_GATE_SHUT, run, run.tracks[LAST])
    assert words.sentence == "The cancel gate is shut by ada@ops1 (4711) at 14:02. O opens it."


def test_the_health_gate_does_not_hold_a_rollback_that_only_drops() -> None:
    gate = StepGate(shut=True, reason="3 partitions under-replicated")
    assert waits_for(a_run_rolling_back(gate), FIRST) is None
    assert waits_for(a_run_rolling_back(gate)) is HeldBy.GATE_SHUT
