"""Why partitions wait, derived from the simulated controller: limits, or obstacles to a step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ktui.cluster.partition import TopicPartition
from ktui.cluster.settings import FOLLOWER_RATE
from ktui.execution.run.events import StepBegun
from ktui.execution.run.states import State
from ktui.execution.run.track import Track, find_goal
from ktui.execution.run.unanswered import open_request_text
from ktui.execution.throttle.apply import silent_text
from ktui.pacing.limits import InternalOrder, Mode
from ktui.pacing.situation import Blocked, Done, Next, Situation, Step
from ktui.pacing.steps import next_step
from support.runs.pacing import most_at
from support.runs.throttled import settings_in
from support.runs.witnessed import WitnessedRun

_STANDS = frozenset({State.BLOCKED, State.REFUSED, State.FOREIGN})


class Waits:
    """Compares each partition without a step in flight with what it could really do.

    Args:
        run: the run; its `folded` has the steps in flight and the limits.
        min_isr: the min.insync.replicas of the run's topics.
    """

    def __init__(self, run: WitnessedRun, min_isr: int) -> None:
        self._run, self._min_isr = run, min_isr
        self._controller = run.cluster.controller
        refuses = self._controller.rules.refuses_cordoned
        self._closed = self._controller._assignable().cordoned if refuses else frozenset()
        ours = run.folded.tracks_in_flight
        self._steps = [t.step.begun for t in ours.values() if t.step is not None]
        self._kept: dict[TopicPartition, Step] = {}
        """The next steps of partitions that wait for an open request: each keeps its room."""
        self._adding = Counter(b for step in self._steps for b in step.adding)
        self._others = Counter(
            b for tp, known in self._controller.reassigning.items() if tp not in ours
            for b in known.adding
        )  # fmt: skip

    def unexplained(self, *, at_rest: bool) -> Iterator[tuple[TopicPartition, str]]:
        """Yield each partition that could proceed, or has no reason, with its possible step.

        Args:
            at_rest: whether nothing has happened for long: then reasons must be true, too.
        """
        tracks = [t for t in self._run.folded.tracks.values() if not t.state.ended and not t.step]
        nexts = {track.tp: self._next(track) for track in tracks}
        begun = [t for t in tracks if t.under_way and isinstance(nexts[t.tp], Step)]
        for track in tracks:
            following = nexts[track.tp]
            if isinstance(following, Step) and (track.open_alter or track.open_cancel):
                self._kept[track.tp] = following
        for track in tracks:
            held = self._held(track, nexts[track.tp]) or self._awaits_silent(track)
            if not held and (at_rest or not track.reason):
                why = self._why_not_told(track, nexts[track.tp], begun)
                if why and not self._far_behind(track, nexts[track.tp], begun):
                    yield track.tp, f"{why}; it is {track.state}: {track.reason or 'no reason'}"

    @property
    def is_ill(self) -> bool:
        """Whether more partitions outside the run than it allows are under min ISR or offline."""
        options, ours = self._run.options, self._run.targets
        others = [
            known
            for topic, made in self._controller.topics.items()
            for number, known in enumerate(made.partitions)
            if TopicPartition(topic, number) not in ours
        ]
        ill = (sum(len(known.isr) < self._min_isr for known in others), options.most_under_min_isr)
        down = (sum(known.leader is None for known in others), options.most_offline)
        return any(most is not None and now > most for now, most in (ill, down))

    def _next(self, track: Track) -> Next | None:
        """Return what comes next for a partition; None if its topic is gone."""
        known, topic = self._controller.get(track.tp), self._controller.topics.get(track.tp.topic)
        if known is None or topic is None or topic.id != track.planned.topic_id:
            return None
        to = find_goal(track, known.replicas, known.isr, known.leader, self._closed)
        situation = Situation(
            replicas=known.replicas,
            isr=known.isr,
            leader=known.leader,
            target=to.replicas,
            lead=to.lead,
            online=frozenset(self._run.cluster.machines) - self._controller.fenced,
            closed=self._closed,
            min_insync_replicas=self._min_isr,
            waits_for_kept=not self._controller.rules.completes_without_kept,
            reassigning=known.reassigning,
            intermediate=track.intermediate if track.cancel is None else (),
        )
        return next_step(situation, self._run.folded.limits)

    def _held(self, track: Track, following: Next | None) -> bool:
        """Return whether a command or a gate holds a partition back."""
        run = self._run.folded
        adds = isinstance(following, Step) and bool(following.adds)
        gated = run.gate.shut and (track.cancel is None or adds)
        gated |= run.cancel_gate.shut and track.cancel is None
        return run.pauses.stops(track.tp) or gated

    def _awaits_silent(self, track: Track) -> bool:
        """Return whether a partition's reason is a request at a broker that is gone."""
        return any(
            track.reason == open_request_text(broker) or silent_text(broker) in track.reason
            for broker in self._controller.fenced
        )

    def _far_behind(self, track: Track, following: Next | None, begun: list[Track]) -> bool:
        """Return whether a partition is not polled yet: others before it in the queue proceed."""
        goes_on = bool(self._steps or begun)
        return goes_on and not track.under_way and not isinstance(following, Step)

    def _why_not_told(self, track: Track, following: Next | None, begun: list[Track]) -> str:
        moving = track.tp in self._controller.reassigning
        if track.state is State.FOREIGN and not moving:
            return "nobody reassigns it"
        match following:
            case None:
                return "its topic is gone"
            case Done():
                return "it is where it is to be"
            case Blocked() as blocked:
                explained = track.state in _STANDS and track.reason
                return "" if explained else f"it waits for this: {blocked.sentence}"
            case Step() as step if self._limited(track, step, begun) or self._foreign_rate(step):
                return ""
            case Step() as step:
                return f"it could go to {step.target}"

    def _limited(self, track: Track, step: Step, begun: list[Track]) -> bool:
        """Return whether the limits leave no room for a step beside what is in flight."""
        limits, flying = self._run.folded.limits, self._steps
        if self._limited_by_size(track, step) or self._goes_last(track):
            return True
        if step.cut and track.under_way:  # a partition that has not begun needs a place first
            return self._waits_to_be_cut()
        goes_on = [each for each in begun if each is not track and each.state is not State.READY]
        if limits.mode is Mode.WAVE and not track.under_way and (flying or goes_on):
            return True
        if (
            track.under_way and not flying
        ):  # one of the partitions that wait only for a place proceeds
            goes_on = [each for each in goes_on if self._waits_in_its_place(each)]
        places = sum(each.holds_place for each in flying) + len(goes_on)
        return _reached(limits.partitions, places)

    def _limited_by_size(self, track: Track, step: Step) -> bool:
        """Return whether a step has to wait, regardless of places."""
        flying, most = self._steps, self._run.folded.limits.leader_movements
        if any(each.alone for each in flying):
            return True
        if step.moves_leader and _reached(most, _leaders(flying)):
            return True
        if step.moves_leader and self._internal_leader_moves(track):
            return True
        return bool(step.adds) and (self._too_many(step) or self._sends_too_many(track, step))

    def _internal_leader_moves(self, track: Track) -> bool:
        """Return whether the leader of another of Kafka's own partitions moves, for one of them."""
        if self._run.folded.limits.internal is InternalOrder.NONE or not _internal(track.tp):
            return False
        return any(each.moves_leader and _internal(each.tp) for each in self._steps)

    def _goes_last(self, track: Track) -> bool:
        """Return whether one of Kafka's own partitions waits for others to begin before it."""
        last = self._run.folded.limits.internal is InternalOrder.LAST
        if not last or track.under_way or track.cancel or not _internal(track.tp):
            return False
        others = (t for t in self._run.folded.tracks.values() if not _internal(t.tp))
        return any(not t.under_way and not t.state.ended for t in others)

    def _waits_in_its_place(self, track: Track) -> bool:
        """Return whether a partition keeps its place while its next step has to wait."""
        following = self._next(track)
        return isinstance(following, Step) and self._limited_by_size(track, following)

    def _too_many(self, step: Step) -> bool:
        limits, adds = self._run.folded.limits, len(step.adds)
        kept = Counter(b for each in self._kept.values() if each is not step for b in each.adds)
        moving = self._adding.total() + self._others.total() + kept.total()
        most, alone = limits.replica_movements, not (moving or self._steps)
        if most is not None and not step.urgent and moving + adds > most and not alone:
            return True
        if not step.urgent and self._rack_is_full(step):
            return True
        here = {b: self._adding[b] + self._others[b] + kept[b] for b in step.adds}
        return any(_reached(most_at(limits, "per_broker", b), now) for b, now in here.items())

    def _rack_is_full(self, step: Step) -> bool:
        """Return whether a rack in which a step adds has no room under Z."""
        racks, ours = {b.id: b.rack for b in self._run.cluster.spec.brokers}, self._run.folded
        moving = [each.adding for each in self._steps]
        moving += [each.adds for each in self._kept.values() if each is not step]
        moving += [
            known.adding
            for tp, known in self._controller.reassigning.items()
            if tp not in ours.tracks_in_flight
        ]
        count = Counter(rack for adds in moving for rack in {racks.get(b) for b in adds})
        mine = {racks.get(b) for b in step.adds} - {None}
        return any(_reached(ours.limits.per_rack, count[rack]) for rack in mine)

    def _sends_too_many(self, track: Track, step: Step) -> bool:
        """Return whether the leader of a partition has no room under S for what a step copies."""
        leader, ours = self._leader(track.tp), self._run.folded.tracks_in_flight
        most = None if leader is None else most_at(self._run.folded.limits, "per_leader", leader)
        if most is None or step.urgent:
            return False
        sent = Counter(self._leader(each.tp) for each in self._steps for _ in each.adding)
        sent += Counter(
            known.leader for tp, known in self._controller.reassigning.items() if tp not in ours
            for _ in known.adding
        )  # fmt: skip
        sent += Counter(
            self._leader(tp) for tp, each in self._kept.items() if each is not step
            for _ in each.adds
        )  # fmt: skip
        return bool(sent) and sent[leader] + len(step.adds) > most

    def _leader(self, tp: TopicPartition) -> int | None:
        known = self._controller.get(tp)
        return None if known is None else known.leader

    def _waits_to_be_cut(self) -> bool:
        """Return whether something is still adding, so that more may become ready to be cut."""
        moving = self._controller.reassigning.keys()
        return any(step.adding and step.tp in moving for step in self._steps)

    def _foreign_rate(self, step: Step) -> bool:
        """Return whether somebody else's rate is set on a broker that the step would throttle."""
        throttled, now = self._run.folded.throttled, settings_in(self._run.cluster)
        theirs = {
            int(resource.name)
            for (resource, key), found in throttled.foreign.items()
            if key == FOLLOWER_RATE and now.get(resource, {}).get(key) == found
        }
        return bool(theirs & {*step.adds})


def _reached(most: int | None, now: int) -> bool:
    return most is not None and now >= most


def _internal(tp: TopicPartition) -> bool:
    return tp.topic.startswith("__")


def _leaders(steps: list[StepBegun]) -> int:
    return sum(step.moves_leader for step in steps)
