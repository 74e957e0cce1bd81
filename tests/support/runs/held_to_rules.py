"""Rules for every decision of a run, whatever happens to the cluster, checked as it is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.execution.run.events import Answered, JournalEntry, StateEntered, StepBegun
from ktui.execution.run.parts import judge_refusal
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.track import Goal, Track, find_goal
from ktui.pacing.limits import InternalOrder, Mode, Shape
from support.runs.pacing import most_at
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
            self._check_shut(step, self._before.tracks[step.tp])
        self._check_urgency()
        for among_urgent in (False, True):
            self._check_places(among_urgent=among_urgent)
            self._check_adds(among_urgent=among_urgent)
            self._check_leaders(among_urgent=among_urgent)
        self._check_internal()
        self._check_waves()
        for step in self._begun:
            self._check_step(step)

    def _check_shut(self, step: StepBegun, track: Track) -> None:
        """A cancelled partition proceeds in any case, except under pauses requested later."""
        assert not self._before.pauses.stops(step.tp), "a step begins while it is paused"
        back = track.cancel is not None
        assert back or not self._before.cancel_gate.shut, "a step begins: the cancel gate is shut"
        gated = self._before.gate.shut
        assert not gated or (back and not step.adding), "a step begins while the gate is shut"

    def _check_urgency(self) -> None:
        """Check that exactly the partitions with too few replicas in sync go as urgent ones."""
        for step in self._begun:
            track, state = self._before.tracks[step.tp], self._seen.partitions[step.tp]
            known = step.tp.topic in self._seen.topic_configs
            enough = min(max(2, self._min_isr if known else 1), len(_goal(track, state).replicas))
            urgent = self._before.options.urgent_first and len(state.isr) < enough
            assert step.among_urgent == urgent, (step, state)

    def _of(self, *, among_urgent: bool) -> list[StepBegun]:
        """Return the steps of the decision that are bound by what all use, or the urgent ones."""
        return [step for step in self._begun if step.among_urgent == among_urgent]

    def _flying(self, *, among_urgent: bool) -> list[StepBegun]:
        """Return the steps in flight that count for those, once the last of them has begun.

        A partition that is called off goes before the urgent ones, which do not count it.
        """
        begun = list(self._begun)
        while begun and begun[-1].among_urgent != among_urgent:
            begun.pop()
        every = (*self._flying_before(), *begun)
        return [step for step in every if step.among_urgent or not among_urgent]

    def _flying_before(self) -> list[StepBegun]:
        tracks = self._before.tracks_in_flight.values()
        return [track.step.begun for track in tracks if track.step is not None]

    def _check_places(self, *, among_urgent: bool) -> None:
        most, begun_now = self._limits.partitions, self._of(among_urgent=among_urgent)
        flying = self._flying(among_urgent=among_urgent)
        if most is not None and any(step.holds_place for step in begun_now):
            assert sum(step.holds_place for step in flying) <= most
        if among_urgent:
            return
        firsts = [step for step in begun_now if not self._before.tracks[step.tp].under_way]
        cancels = any(track.cancel for track in self._before.tracks.values())
        if most is not None and firsts and self._run.engines == 1 and not cancels:
            begun = {step.tp for step in self._begun}
            waiting = [t for t in self._before.tracks.values() if t.tp not in begun]
            between = sum(t.under_way and self._waits(t) for t in waiting)
            assert between + sum(step.holds_place for step in flying) <= most

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

    def _check_adds(self, *, among_urgent: bool) -> None:
        begun_now = self._of(among_urgent=among_urgent)
        bound = [step for step in begun_now if step.adding and not step.urgent]
        loose = {step.tp for step in self._begun if step.urgent}
        every = self._flying(among_urgent=among_urgent)
        flying = [step for step in every if step.tp not in loose]
        others = Counter[int]() if among_urgent else self._others()
        if any(step.alone for step in bound):
            assert len(every) == 1
            assert not others
            return
        if bound and self._limits.replica_movements is not None:
            adds = sum(len(step.adding) for step in flying) + others.total()
            assert adds <= self._limits.replica_movements, (flying, others)
        adding = Counter(b for step in flying for b in step.adding) + others
        for broker in {b for step in bound for b in step.adding}:
            most = most_at(self._limits, "per_broker", broker)
            assert most is None or adding[broker] <= most, broker
        self._check_senders(bound, flying, among_urgent=among_urgent)
        self._check_racks(bound, flying, among_urgent=among_urgent)

    def _check_senders(
        self, bound: Sequence[StepBegun], flying: Sequence[StepBegun], *, among_urgent: bool
    ) -> None:
        """Check S where no leader has moved since its copies began, and nobody else copies."""
        if self._others() and not among_urgent:
            return
        seen = self._seen.partitions
        if any(step.tp not in seen or seen[step.tp].leader != step.leader for step in flying):
            return
        sent = Counter(step.leader for step in flying for _ in step.adding)
        for leader in {step.leader for step in bound if step.leader is not None}:
            most = most_at(self._limits, "per_leader", leader)
            assert most is None or sent[leader] <= most, leader

    def _check_racks(
        self, bound: Sequence[StepBegun], flying: Sequence[StepBegun], *, among_urgent: bool
    ) -> None:
        """Check Z: partitions that add in a rack, those of others included."""
        most, ours = self._limits.per_rack, self._before.tracks_in_flight
        others = [s.adding for tp, s in self._seen.partitions.items() if tp not in ours]
        adding = [step.adding for step in flying] + ([] if among_urgent else others)
        count = Counter(rack for brokers in adding for rack in self._racks(brokers))
        for rack in {rack for step in bound for rack in self._racks(step.adding)}:
            assert most is None or count[rack] <= most, rack

    def _racks(self, brokers: Iterable[int]) -> set[str]:
        racks = {spec.id: spec.rack for spec in self._run.cluster.spec.brokers}
        return {rack for broker in brokers if (rack := racks.get(broker)) is not None}

    def _others(self) -> Counter[int]:
        flying = self._before.tracks_in_flight
        states = (s for tp, s in self._seen.partitions.items() if tp not in flying)
        return Counter(broker for state in states for broker in state.adding)

    def _check_leaders(self, *, among_urgent: bool) -> None:
        most, begun_now = self._limits.leader_movements, self._of(among_urgent=among_urgent)
        if most is not None and any(step.moves_leader for step in begun_now):
            flying = self._flying(among_urgent=among_urgent)
            assert sum(step.moves_leader for step in flying) <= most

    def _check_internal(self) -> None:
        """Check that of the leaders of Kafka's own topics one moves, and that these go last."""
        internal = [step for step in self._begun if step.tp.topic.startswith("__")]
        rule = self._limits.internal
        if rule is InternalOrder.NONE or not internal:
            return
        if any(step.moves_leader for step in internal):
            flying = (*self._flying_before(), *self._begun)
            assert sum(s.moves_leader and s.tp.topic.startswith("__") for s in flying) == 1
        firsts = [step for step in internal if self._goes_in_turn(step)]
        if rule is InternalOrder.LAST and firsts and self._run.engines == 1:
            begun = {step.tp for step in self._begun}
            tracks = (t for t in self._before.tracks.values() if not t.tp.topic.startswith("__"))
            waiting = [t for t in tracks if not t.under_way and t.tp not in begun]
            assert not [t for t in waiting if self._waits(t) and self._may_step(t)], firsts

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

    def _check_waves(self) -> None:
        """Nothing begins before the last wave has ended, apart from blocked and held partitions."""
        usual = self._of(among_urgent=False)
        firsts = [step for step in usual if not self._before.tracks[step.tp].under_way]
        if self._limits.mode is Mode.WAVE and firsts:
            assert not self._before.tracks_in_flight
            going = [t for t in self._before.tracks.values() if self._goes_on(t)]
            assert not going, going

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
        assert not state.reassigning
        assert state.replicas == step.before
        cancelled = track.cancel and {*step.before} == {*track.replicas}
        assert _as_left(track, step.before) or cancelled
        assert state.leader is not None
        cordoned = self._run.read_cordoned | self.refused_for
        straight = bool(cordoned & {*step.removing})
        if self._limits.replicas is not None and not (step.urgent or straight):
            assert len(step.adding) <= self._limits.replicas
        if self._seen.refuses_cordoned and step.alters:
            named = self._run.read_cordoned & {*step.replicas}
            assert not named, f"a list names {named} after the engine has read the cordon"
        self._check_drops(step, state)

    def _check_drops(self, step: StepBegun, state: PartitionState) -> None:
        closed = frozenset(self._run.read_cordoned | self.refused_for)
        goes_to, gone = _goal(self._before.tracks[step.tp], state, closed), {*step.removing}
        target, first = goes_to.replicas, goes_to.lead or goes_to.replicas[0]
        alive = {b for b in state.isr if self._seen.alive(b)}
        in_sync = {*state.isr} - gone | {*step.adding}
        if gone & {*state.isr}:
            least = self._min_isr if step.tp.topic in self._seen.topic_configs else 1  # not known
            assert len(in_sync) >= min(least, len(target)), "below min ISR by a drop"
        down = {b for b in state.replicas if not self._seen.alive(b)}
        dead = (down | {*state.offline}) - {*state.isr}  # also on a failed log dir
        present = len([b for b in state.replicas if b not in dead - {*target}])
        dropped = len(gone - (dead - {*target}))
        left = present - dropped + len(step.adding)
        assert left >= min(present, len(target)), "dropped unreplaced"
        if state.leader in gone:
            assert first in alive or first in step.adding, "drops the leader too early"
        if not step.alters:
            assert step.elect != state.leader
        if self._limits.shape is Shape.GENTLE and self._limits.replicas is not None and step.cut:
            assert {*target} <= alive


def _as_left(track: Track, replicas: tuple[int, ...]) -> bool:
    return replicas in (track.replicas, track.planned.target, track.sent, track.original)


def _goal(track: Track, state: PartitionState, closed: frozenset[int] = frozenset()) -> Goal:
    return find_goal(track, state.replicas, state.isr, state.leader, closed)
