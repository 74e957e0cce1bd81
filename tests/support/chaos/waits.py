"""Why partitions wait, derived from the simulated controller: limits, or obstacles to a step."""

from collections.abc import Iterator

from ktui.cluster.partition import TopicPartition
from ktui.cluster.settings import FOLLOWER_RATE
from ktui.execution.run.states import State
from ktui.execution.run.track import Track, find_goal
from ktui.execution.run.unanswered import open_request_text
from ktui.execution.throttle.apply import silent_text
from ktui.pacing.limits import InternalOrder, Mode
from ktui.pacing.situation import Blocked, Done, Move, Next, Situation, Step
from ktui.pacing.steps import next_step
from support.rule_book import Taken, full_limits, is_internal, taken_by, why_held
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
        adds = isinstance(following, Step) and bool(following.adds)
        return bool(why_held(self._run.folded, track.tp, adds=adds))

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
        beside = [taken_by(each.move, self._leader(each.tp)) for each in self._steps]
        beside += [
            taken_by(Move(tp, each, holds_place=False), self._leader(tp))
            for tp, each in self._kept.items()
            if each is not step
        ]
        beside += [
            Taken(tp=tp, adds=known.adding, leader=known.leader, theirs=True)
            for tp, known in self._controller.reassigning.items()
            if tp not in self._run.folded.tracks_in_flight
        ]
        racks = {broker.id: broker.rack for broker in self._run.cluster.spec.brokers}
        move = Move(track.tp, step, alone=True, holds_place=False)
        taken = taken_by(move, self._leader(track.tp))
        return bool(full_limits(self._run.folded.limits, taken, beside, racks))

    def _goes_last(self, track: Track) -> bool:
        """Return whether one of Kafka's own partitions waits for others to begin before it."""
        last = self._run.folded.limits.internal is InternalOrder.LAST
        if not last or track.under_way or track.cancel or not is_internal(track.tp):
            return False
        others = (t for t in self._run.folded.tracks.values() if not is_internal(t.tp))
        return any(not t.under_way and not t.state.ended for t in others)

    def _waits_in_its_place(self, track: Track) -> bool:
        """Return whether a partition keeps its place while its next step has to wait."""
        following = self._next(track)
        return isinstance(following, Step) and self._limited_by_size(track, following)

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
