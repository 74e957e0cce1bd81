"""Partitions between steps: the next step of each, as the run left it or as a journal has it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.execution.engine.in_flight import StepsInFlight
from ktui.execution.engine.observed import Observed
from ktui.execution.engine.working_state import Hold, WorkingState, standing_events, state_change
from ktui.execution.run.events import AnyRunEvent, Replanned
from ktui.execution.run.options import OnForeignChange, RunOptions
from ktui.execution.run.states import State, state_when_cancelled
from ktui.execution.run.text import unexpected_replicas_text
from ktui.execution.run.track import Track, find_goal
from ktui.pacing.situation import Blocked, BlockReason, Decision, Done, Situation, WantedPartition
from ktui.pacing.steps import next_step

UNSEEN_S = 5.0  # seconds for which a partition keeps its place undescribed


class BetweenSteps:
    """Records the state of waiting partitions. Only those in `certain` may step now."""

    def __init__(self, memory: WorkingState, options: RunOptions) -> None:
        self._memory = memory
        self._options = options
        self.certain: set[TopicPartition] = set()  # described in full by the last poll, as expected
        self._unseen_since: dict[TopicPartition, float] = {}
        self._judged: dict[TopicPartition, tuple[object, ...]] = {}
        self._environment: tuple[object, ...] = ()

    def judge(self, partitions: Iterable[TopicPartition], observed: Observed) -> list[AnyRunEvent]:
        """Judge again only what has changed since a partition's last judgement; none in flight."""
        self.certain = set()
        environment = (observed.environment, self._memory.run.limits)
        before = self._judged if environment == self._environment else {}
        self._environment, self._judged = environment, {}
        roster, tracks = self._memory.roster, self._memory.run.tracks
        changed: list[TopicPartition] = []
        for tp in partitions:
            known = before.get(tp)
            if known is not None and known == self._grounds(tp, tracks[tp], observed):
                self.certain.add(tp)
                self._judged[tp] = known
            else:
                changed.append(tp)
        events: list[AnyRunEvent] = []
        for tp in sorted(changed, key=roster.rank):
            if tp in roster and tp not in roster.in_flight:
                events += self._judge_anew(tracks[tp], observed)
        return events

    def _judge_anew(self, track: Track, observed: Observed) -> list[AnyRunEvent]:
        events = self._judge(track, observed)
        if not events and track.tp in self.certain:
            grounds = self._grounds(track.tp, track, observed)
            if grounds is not None:
                self._judged[track.tp] = grounds
        return events

    def _grounds(
        self, tp: TopicPartition, track: Track, observed: Observed
    ) -> tuple[object, ...] | None:
        """Return what the judgement of a partition rests on; None if time counts for it, too."""
        memory = self._memory
        filed = memory.roster.filed_as(tp)
        if filed is None or tp in memory.unanswered or tp in memory.roster.in_flight:
            return None
        config = observed.seen.topic_configs.get(tp.topic)
        standing = (track.state, track.reason, track.urgency, track.cancel)
        wanted = (track.planned, track.then, track.replicas, track.original, track.sent)
        return observed.state(tp), config, filed, standing, wanted

    def _judge(self, track: Track, observed: Observed) -> list[AnyRunEvent]:
        if reason := observed.gone(track):
            if self._memory.doubts.confirmed(track.tp, reason, observed.seen):
                return [self._memory.give_up(track, State.TOPIC_GONE, reason)]
            return []
        state = observed.state(track.tp)
        situation = None if state is None else observed.situation(track, state)
        if state is None or situation is None:
            return self._undescribed(track, observed)
        self._unseen_since.pop(track.tp, None)
        if state.reassigning:
            self._memory.doubts.clear(track.tp)
            self._memory.release(track.tp, Hold.THROTTLE)  # decided again afterwards
            return self._record(track, situation)
        if not _expected(track, state):
            return self._changed_by_others(track, state, situation, observed)
        self._memory.doubts.clear(track.tp)
        self.certain.add(track.tp)
        return self._hold_back(track, situation, observed) or self._report_wait(track, observed)

    def _hold_back(
        self, track: Track, situation: Situation, observed: Observed
    ) -> list[AnyRunEvent]:
        """Let others go first while nothing can be sent for a partition, for a reported reason."""
        if not self._memory.awaits_answer(track, observed.seen.monotonic_s):
            self._memory.release(track.tp, Hold.UNANSWERED)
        unanswered = track.tp in self._memory.held(Hold.UNANSWERED)
        throttled = track.tp in self._memory.held(Hold.THROTTLE)
        if not (unanswered or throttled):
            return self._record(track, situation)
        done = isinstance(next_step(situation, self._memory.run.limits), Done)
        if done and not (unanswered and track.cancel):
            return self._record(track, situation)
        if not done:
            self._memory.roster.seen(track.tp, situation)
        return self._memory.hold_unanswered(track) if unanswered else []

    def _report_wait(self, track: Track, observed: Observed) -> list[AnyRunEvent]:
        """A blocked one has a reason; others go first once the broker is silent."""
        tp, roster = track.tp, self._memory.roster
        reported = tp in self._memory.held(Hold.UNANSWERED) or tp in roster.blocked
        waits = tp in self._memory.unanswered and not (reported or track.state.ended)
        if not waits:
            return []
        if self._memory.yields_place(track, observed.seen.monotonic_s):
            return self._memory.hold_unanswered(track)
        return self._memory.keep_waiting(track)

    def _record(self, track: Track, situation: Situation) -> list[AnyRunEvent]:
        events = self._memory.note_situation(track, situation)
        self._memory.release(track.tp, Hold.UNSEEN)
        return events

    def _undescribed(self, track: Track, observed: Observed) -> list[AnyRunEvent]:
        now_s = observed.seen.monotonic_s
        if now_s - self._unseen_since.setdefault(track.tp, now_s) < UNSEEN_S:
            return []
        self._memory.hold(track.tp, Hold.UNSEEN)
        blocked = state_when_cancelled(State.BLOCKED, track.cancel)
        return state_change(track, blocked, observed.hidden(track.tp.topic))

    def _changed_by_others(
        self, track: Track, state: PartitionState, situation: Situation, observed: Observed
    ) -> list[AnyRunEvent]:
        echo = {*state.replicas} == {*track.replicas, *(track.sent or ())}
        if not self._memory.doubts.confirmed(track.tp, state.replicas, observed.seen, echo=echo):
            return []
        if self._options.on_foreign_change is OnForeignChange.SKIP:
            reason = unexpected_replicas_text(state.replicas, track.replicas)
            return [self._memory.give_up(track, State.CHANGED_ELSEWHERE, reason, state.replicas)]
        self._memory.doubts.clear(track.tp)
        self.certain.add(track.tp)
        tp, now, before = track.tp, state.replicas, track.replicas
        replanned = Replanned(tp.topic, tp.partition, replicas=now, before=before)
        following = self._memory.roster.seen(tp, situation)
        return [replanned, *standing_events(track, following)]


def _expected(track: Track, state: PartitionState) -> bool:
    """The last request's target counts even if its answer was lost; a cancel loses the order."""
    asked_for = track.planned.target if track.cancel is None else track.original
    if state.replicas in (track.replicas, asked_for, track.sent):
        return True
    return track.cancel is not None and set(state.replicas) == set(track.replicas)


def steps_to_restore(tracks: Iterable[Track], batch: int) -> Decision:
    """Return a decision that restores the steps that a journal has in flight."""
    begun = (t.step.begun for t in tracks if t.step is not None)
    return Decision(batch, steps=tuple(each.move for each in begun))


def as_journaled(track: Track) -> WantedPartition:
    """Take no step before a poll; one in flight counts at its leader for S and W."""
    goes_to = find_goal(track, track.replicas, track.replicas, None)
    situation = Situation(
        replicas=track.replicas,
        isr=track.replicas,
        leader=None if track.step is None else track.step.begun.leader,
        target=goes_to.replicas,
        lead=goes_to.lead,
        online=frozenset(),
        reassigning=True,
    )
    return WantedPartition(
        track.tp,
        situation,
        track.planned.size,
        track.planned.sized,
        track.planned.ahead,
        begun=track.under_way,
        first=track.cancel is not None,
    )


def requeue_cancelled(
    partitions: Iterable[TopicPartition],
    memory: WorkingState,
    flights: StepsInFlight,
    polled: Collection[TopicPartition],
) -> tuple[list[AnyRunEvent], set[TopicPartition]]:
    """Return the events that follow, and what to poll before anything is sent."""
    events: list[AnyRunEvent] = []
    unseen: set[TopicPartition] = set()
    for tp in partitions:
        track = memory.run.tracks[tp]
        if track.state is State.STOPPED and tp in memory.roster and tp in memory.unanswered:
            # a late request would meet the partition at rest
            events += memory.hold_unanswered(track)
        elif track.state.ended:
            memory.forget(tp)
        elif tp in memory.roster and (tp in polled or track.step or tp in memory.unanswered):
            memory.release(tp, Hold.TOO_LATE)
            events += _redirect(track, memory, flights)
        else:
            memory.forget(tp)
            memory.roster.add([as_journaled(track)])
            unseen.add(tp)
    return events, unseen


def _redirect(track: Track, memory: WorkingState, flights: StepsInFlight) -> list[AnyRunEvent]:
    now = memory.roster.situation(track.tp)
    goes_to = find_goal(track, now.replicas, now.isr, now.leader, now.closed)
    turned = msgspec.structs.replace(
        now, target=goes_to.replicas, lead=goes_to.lead, intermediate=()
    )
    settled = isinstance(next_step(turned, memory.run.limits), Done)
    if settled and track.step is None and track.tp in memory.unanswered:
        return memory.hold_unanswered(track)
    following = memory.roster.redirect(track.tp, turned)
    if track.step is not None:
        flights.cancel(track)
        return []
    if isinstance(following, Blocked) and following.why is BlockReason.REASSIGNING:
        return []  # or it was not polled yet: the next poll decides
    return standing_events(track, following, now.replicas)


def requeue_joined(
    partitions: Iterable[TopicPartition], memory: WorkingState, observed: Observed | None
) -> list[AnyRunEvent]:
    """Queue what has nothing in flight, after the run has applied it; unpolled ones get no step."""
    tracks = [memory.run.tracks[tp] for tp in partitions]
    for track in tracks:
        memory.forget(track.tp)
    memory.roster.add(map(as_journaled, tracks))
    return (
        []
        if observed is None
        else [event for track in tracks for event in _record(track, memory, observed)]
    )


def _record(track: Track, memory: WorkingState, observed: Observed) -> list[AnyRunEvent]:
    state = observed.state(track.tp)
    situation = None if state is None else observed.situation(track, state)
    return [] if situation is None else memory.note_situation(track, situation)
