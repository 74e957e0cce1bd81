"""Rules for every decision of a run, whatever happens to the cluster, checked as it is written."""

from collections.abc import Sequence

from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.execution.run.events import Answered, JournalEntry, StateEntered, StepBegun
from ktui.execution.run.parts import judge_refusal
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.track import Goal, Track, find_goal
from support.rule_book import (
    Taken,
    adds_too_many,
    full_limits,
    is_internal,
    is_urgent,
    not_as_begun,
    out_of_turn,
    step_problems,
    taken_by,
    why_held,
)
from support.runs.witnessed import WitnessedRun


class Rules:
    """Checks a run's decisions against the limits in force and the forbidden steps.

    Args:
        run: the run.
        min_isr: min.insync.replicas of its topics.
    """

    def __init__(self, run: WitnessedRun, min_isr: int) -> None:
        self._run = run
        self._min_isr = min_isr
        self.decisions = 0
        self._refused_for = set[int]()
        """The brokers whose cordon made Kafka refuse a request of the run."""
        self._without_place: set[TopicPartition] = set()
        """Those that were blocked since their last step: they gave up their places under P."""
        run.checks.append(self.check)

    def check(self, entries: Sequence[JournalEntry]) -> None:
        begun = [entry.event for entry in entries if isinstance(entry.event, StepBegun)]
        if begun:
            self.decisions += 1
            without_place = _held_back(entries) | self._without_place
            decision = _Decision(self._run, begun, self._min_isr, without_place)
            decision.refused_for = frozenset(self._refused_for)
            decision.check()
        self._note_places(entries)
        for entry in entries:
            if isinstance(entry.event, Answered):
                cordoned = judge_refusal(entry.event).cordoned
                self._refused_for |= set() if cordoned is None else {cordoned}
            if isinstance(entry.event, StateEntered) and self._run.seen is not None:
                self._standing(entry.event, self._run.seen)

    def _note_places(self, entries: Sequence[JournalEntry]) -> None:
        for event in (entry.event for entry in entries):
            if isinstance(event, StateEntered) and event.state is State.BLOCKED:
                self._without_place.add(event.tp)
            elif isinstance(event, StepBegun):
                self._without_place.discard(event.tp)

    def _standing(self, event: StateEntered, seen: Observation) -> None:
        """The journal's report about a partition matches the poll."""
        state = seen.partitions.get(event.tp)
        target = self._run.targets[event.tp]
        called_off = self._run.folded.tracks[event.tp].cancel is not None
        if event.state is State.DONE and not called_off:
            assert state is not None
            assert (state.replicas, state.leader) == (target, target[0]), event
        elif event.state is State.FOREIGN:
            assert state is not None
            assert state.reassigning, event
        elif event.state in {State.BLOCKED, State.REFUSED} and state is not None:
            self._blocked(event, state, seen)

    def _blocked(self, event: StateEntered, state: PartitionState, seen: Observation) -> None:
        words, closed = event.reason, self._run.read_cordoned | self._refused_for
        if words.startswith("it is offline"):
            assert state.leader is None or not seen.alive(state.leader) or not state.isr, event
        elif "offline" in words:
            down = {*self._down(seen), *state.offline}  # or only its log dir is
            assert any(f" {broker}" in words for broker in down), event
        elif "cordoned" in words:
            assert any(f"uncordon {broker}`" in words for broker in closed), event
        elif "not in sync" in words:
            target = _goal(self._run.folded.tracks[event.tp], state, closed).replicas
            assert any(b not in state.isr or not seen.alive(b) for b in target), event

    def _down(self, seen: Observation) -> list[int]:
        known = {broker.id for broker in self._run.cluster.spec.brokers}
        return [broker for broker in known if not seen.alive(broker)]


def _held_back(entries: Sequence[JournalEntry]) -> frozenset[TopicPartition]:
    """Return the partitions that the very decision reports as waiting."""
    entered = (entry.event for entry in entries if isinstance(entry.event, StateEntered))
    waits = {State.BLOCKED, State.REFUSED}
    return frozenset(event.tp for event in entered if event.state in waits)


class _Decision:
    """The steps of one decision, and the run just before it."""

    def __init__(
        self,
        run: WitnessedRun,
        begun: Sequence[StepBegun],
        min_isr: int,
        without_place: frozenset[TopicPartition],
    ) -> None:
        assert run.seen is not None
        self._before: Run = run.folded
        self._limits = run.folded.limits
        self._seen = run.seen
        self._begun = begun
        self._run = run
        self._min_isr = min_isr
        self._without_place = without_place
        self.refused_for = frozenset[int]()

    def check(self) -> None:
        for step in self._begun:
            assert not (why := why_held(self._before, step.tp, adds=bool(step.adding))), why
        self._check_urgency()
        self._check_room()
        self._check_turns()
        for step in self._begun:
            self._check_step(step)

    def _check_urgency(self) -> None:
        """Check that exactly the partitions with too few replicas in sync go as urgent ones."""
        for step in self._begun:
            track, state = self._before.tracks[step.tp], self._seen.partitions[step.tp]
            min_isr = self._min_isr if step.tp.topic in self._seen.topic_configs else 1
            urgent = is_urgent(state.isr, _goal(track, state).replicas, min_isr)
            urgent &= self._before.options.urgent_first
            assert step.among_urgent == urgent, (step, state)

    def _check_room(self) -> None:
        """Check each step against what is in flight and what begins before it."""
        flying = self._before.tracks_in_flight
        ours = [taken_by(t.step.begun.move, t.step.begun.leader) for t in flying.values() if t.step]
        others = [
            Taken(tp=tp, adds=state.adding, leader=state.leader, theirs=True)
            for tp, state in self._seen.partitions.items()
            if tp not in flying and state.adding
        ]
        racks = {spec.id: spec.rack for spec in self._run.cluster.spec.brokers}
        for step in self._begun:
            taken = taken_by(step.move, step.leader)
            beside = [*ours, *others, *self._places_kept(step, ours)]
            full = full_limits(self._limits, taken, beside, racks)
            if (others and not step.among_urgent) or self._a_leader_moved([*ours, taken]):
                full -= {"per_leader"}  # the run may know another leader than the last poll
            assert not full, (full, step, beside)
            ours.append(taken)

    def _a_leader_moved(self, taken: Sequence[Taken]) -> bool:
        """Whether a leader has moved since its copies began."""
        seen = self._seen.partitions
        return any(each.tp not in seen or seen[each.tp].leader != each.leader for each in taken)

    def _places_kept(self, step: StepBegun, ours: Sequence[Taken]) -> list[Taken]:
        """Return what holds places between two steps, as far as the run must know, for a first."""
        tracks, counted = self._before.tracks, {each.tp for each in ours}
        cancels = any(track.cancel for track in tracks.values())
        first = not step.among_urgent and not tracks[step.tp].under_way
        if not first or self._run.engines != 1 or cancels:
            return []
        waiting = tracks.keys() - {each.tp for each in self._begun}
        goes_on = {e.tp for e in self._begun if e.holds_place and tracks[e.tp].under_way}
        waits = {tp for tp in waiting if tracks[tp].under_way and self._waits(tracks[tp])}
        return [Taken(tp=tp, holds_place=True) for tp in (goes_on | waits) - counted]

    def _waits(self, track: Track) -> bool:
        """Whether a partition waits for its next step, for no reason of its own."""
        held = self._before.pauses.holds(track.tp) or self._hidden(track)
        return track.state is State.QUEUED and not held

    def _hidden(self, track: Track) -> bool:
        """Whether the last poll shows nothing of a partition, or a change of somebody else's.

        Such a partition may keep its place for a while. A topic created again is another one.
        """
        state = self._seen.partitions.get(track.tp)
        if state is None or not state.described or track.tp in self._without_place:
            return True
        if track.planned.topic_id not in {None, state.topic_id}:
            return True
        return not _as_left(track, state.replicas)

    def _check_turns(self) -> None:
        """Check waves, and that Kafka's own partitions go last, but for those that may not."""
        begun, before = {step.tp for step in self._begun}, self._before
        tracks = before.tracks.values()
        usual = [step.tp for step in self._begun if not step.among_urgent]
        going = [*before.tracks_in_flight, *(t.tp for t in tracks if self._goes_on(t))]
        firsts = [tp for tp in usual if not before.tracks[tp].under_way]
        assert not (why := out_of_turn(self._limits, firsts, going=going, waiting=())), why
        in_turn = [step.tp for step in self._begun if self._goes_in_turn(step)]
        if self._run.engines == 1 and any(map(is_internal, in_turn)):
            new = (t for t in tracks if not t.under_way and t.tp not in begun)
            waiting = [t.tp for t in new if self._waits(t) and self._may_step(t)]
            assert not (why := out_of_turn(self._limits, in_turn, going=(), waiting=waiting)), why

    def _goes_in_turn(self, step: StepBegun) -> bool:
        track = self._before.tracks[step.tp]
        return not (step.among_urgent or track.under_way or track.cancel)

    def _may_step(self, track: Track) -> bool:
        """Whether nothing at all keeps a partition that waits from a step, apart from limits."""
        state = self._seen.partitions[track.tp]
        concerned = {*state.replicas, *_goal(track, state).replicas}
        leaders = {each.leader for each in self._seen.partitions.values()}
        well = all(self._seen.alive(b) and b in leaders for b in concerned)
        open_request = track.open_alter or track.open_cancel or track.refusals
        in_sync = {*state.isr} == {*state.replicas} and not state.reassigning
        return well and in_sync and not open_request

    def _goes_on(self, track: Track) -> bool:
        before = self._before
        shut = track.cancel is None and (before.gate.shut or before.cancel_gate.shut)
        waits = track.state in {State.READY, State.QUEUED} and track.tp not in self._seen.absent
        held = before.pauses.stops(track.tp) or self._hidden(track)
        return track.under_way and waits and not shut and not held

    def _check_step(self, step: StepBegun) -> None:
        track, state = self._before.tracks[step.tp], self._seen.partitions[step.tp]
        assert not track.state.ended
        assert track.step is None
        assert not self._before.pauses.holds(step.tp)
        assert not (wrong := not_as_begun(state, step.before)), wrong
        cancelled = track.cancel and {*step.before} == {*track.replicas}
        assert _as_left(track, step.before) or cancelled
        assert state.leader is not None
        cordoned = self._run.read_cordoned | self.refused_for
        straight = bool(cordoned & {*step.removing})
        goes_to = _goal(track, state, frozenset(cordoned))
        known = step.tp.topic in self._seen.topic_configs
        least = min(self._min_isr if known else 1, len(goes_to.replicas))
        assert straight or not adds_too_many(self._limits, step.step, state, least), step
        if self._seen.refuses_cordoned and step.alters:
            named = self._run.read_cordoned & {*step.replicas}
            assert not named, f"a list names {named} after the engine has read the cordon"
        concerned = {*state.replicas, *goes_to.replicas} - {*state.offline}  # or only a log dir is
        up = {broker for broker in concerned if self._seen.alive(broker)}
        goal, first = goes_to.replicas, goes_to.lead or goes_to.replicas[0]
        rules = step_problems(
            step.step, state, state.leader, goal=goal, first=first, least=least, up=up
        )
        assert not (problems := [*rules]), (problems, step, state)


def _as_left(track: Track, replicas: tuple[int, ...]) -> bool:
    return replicas in (track.replicas, track.planned.target, track.sent, track.original)


def _goal(track: Track, state: PartitionState, closed: frozenset[int] = frozenset()) -> Goal:
    return find_goal(track, state.replicas, state.isr, state.leader, closed)
