"""What is left of a run: its copies in flight, poll by poll, and its rest, played forward."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import NamedTuple

import msgspec

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.execution.run.run import Run
from ktui.execution.run.track import OpenStep, Track, find_goal
from ktui.pacing.situation import Situation, WantedPartition
from ktui.progress.timeline import Cause, Lane, Role, StallKind, Timeline
from ktui.speed.answer import Basis, Bound
from ktui.speed.capacity import Capacity, Rates
from ktui.speed.copies import Pair, leader_or_first
from ktui.speed.least_time import least_time
from ktui.speed.simulate import (
    POLL_S,
    Bundle,
    Onto,
    RestOfRun,
    StandIns,
    StepInFlight,
    StepOverhead,
    bundled,
    go_together,
    simulate_stand_ins,
)

_LONGEST_S = 30.0  # after a longer time without a poll, nothing is known of when brokers were busy
_AFTER_THROTTLE = timedelta(seconds=22)
"""For so long after rates were chosen for brokers, copies say nothing: Kafka's windows are 11 s.

Such rates change again and again, and what was learnt of such a time would choose the next ones.
"""
_MOST_SHARE = 0.98  # above this share, the share copied says little about the size
_GROWTH_SPAN_S = 120.0
_BLOCKING = (Cause.TARGET_DOWN, Cause.LOG_DIR_OFFLINE, Cause.NO_LEADER)
_STEPS = 20

Timelines = Mapping[TopicPartition, Timeline]


class _Copy(msgspec.Struct, frozen=True, gc=False):
    """One replica that is being added."""

    copied: float  # bytes
    left: float  # bytes
    leader: int
    blocked: bool = False  # nothing can be copied, as observed: no time of its broker counts

    @property
    def share(self) -> float:
        whole = self.copied + self.left
        return self.copied / whole if whole else 0.0


_Copies = Mapping[tuple[TopicPartition, int], _Copy]


class CopyProgress(msgspec.Struct):
    """Follow the copies in flight of a run: what was observed of them so far."""

    copies: dict[tuple[TopicPartition, int], _Copy] = {}
    looked_at: datetime | None = None
    ended: set[TopicPartition] = set()  # their steps ended as intended since the last poll
    sizes: dict[TopicPartition, float] = {}  # bytes, as of the last poll that showed them
    growth: float = 0.0
    growth_weight: float = 0.0
    quiet_until: datetime | None = None
    whole_at: dict[TopicPartition, datetime] = {}  # when first seen to have everything of a step
    joining: tuple[float, ...] = ()
    other: tuple[float, ...] = ()

    def throttled(self, at: datetime) -> None:
        self.quiet_until = at + _AFTER_THROTTLE

    def over(self, tp: TopicPartition, step: OpenStep, at: datetime) -> None:
        self.sizes.pop(tp, None)
        self.ended.add(tp)
        if not step.begun.adding:
            self.other = _latest(self.other, (at - step.at).total_seconds())
        whole_at = self.whole_at.pop(tp, None)
        if whole_at is not None:
            self.joining = _latest(self.joining, (at - whole_at).total_seconds())

    @property
    def looked(self) -> bool:
        return self.looked_at is not None

    @property
    def joining_s(self) -> int | None:
        """Of a step that adds, besides copying, in whole polls; None while unknown."""
        return max(0, round(median(self.joining) - POLL_S / 2)) if self.joining else None

    @property
    def other_s(self) -> int:
        """Of a step that adds nothing, in whole polls; at least one."""
        return max(POLL_S, round(median(self.other) - POLL_S / 2)) if self.other else POLL_S

    def left(self, tp: TopicPartition, step: OpenStep) -> dict[int, float]:
        """The bytes that the replicas of a step still lack, by broker."""
        copies = {broker: self.copies.get((tp, broker)) for broker in step.begun.adding}
        return {b: copy.left for b, copy in copies.items() if copy is not None and copy.left > 0}

    def done(self, track: Track) -> float:
        """The bytes copied by a step in flight, by sizes as of the run's start."""
        adding = () if track.step is None else track.step.begun.adding
        copies = (self.copies.get((track.tp, broker)) for broker in adding)
        return sum(copy.share * track.planned.size for copy in copies if copy is not None)

    def grown(self, passed_s: float) -> float:
        return max(0.1, 1 + self.growth * passed_s)

    def update(
        self,
        run: Run,
        capacity: Capacity,
        now: datetime,
        seen: Timelines,
        expected: Callable[[Pair], float],
    ) -> None:
        """`capacity` learns; `expected`: the bytes a second of a copy that is not observed."""
        before, self.copies = self.copies, {}
        for track, step in run.open_steps:
            if not step.begun.adding or step.cancelled_by_operator:
                continue
            timeline = seen.get(track.tp)
            if timeline is None:
                self.copies |= _unseen(track, step, now, expected)
            else:
                self.copies |= self._of(track, step, timeline)
                if not self.left(track.tp, step):
                    self.whole_at.setdefault(track.tp, now)
        if seen:
            self._learn(run, capacity, now, before)

    def _of(
        self, track: Track, step: OpenStep, timeline: Timeline
    ) -> Iterator[tuple[tuple[TopicPartition, int], _Copy]]:
        """Yield the copies of a step.

        Lag and share are not of the same instant, and the lag alone would make an error of the size
        many times as large near the end. So a known size counts with the part that is copied.
        """
        for broker in step.begun.adding:
            lane = timeline.lanes.get(broker)
            share = _share(lane)
            if lane is not None and lane.lag_bytes and 0 < share < _MOST_SHARE:
                known = self.sizes.get(track.tp, lane.lag_bytes / (1 - share))
                self.sizes[track.tp] = share * known + lane.lag_bytes
            size = self.sizes.get(track.tp, track.planned.size)
            yield (
                (track.tp, broker),
                _Copy(share * size, (1 - share) * size, leader_of(step), _is_blocked(lane)),
            )

    def _learn(self, run: Run, capacity: Capacity, now: datetime, before: _Copies) -> None:
        looked_at, self.looked_at = self.looked_at, now
        ended, self.ended = self.ended, set()
        passed_s = 0.0 if looked_at is None else (now - looked_at).total_seconds()
        if not 0 < passed_s <= _LONGEST_S:
            return
        if self.quiet_until is None or now >= self.quiet_until:
            copied = list(self._copied_since(before, ended))
            capacity.learn(copied, passed_s, run.throttled.in_force)
        self._learn_growth(run, now, passed_s)

    def _copied_since(
        self, before: _Copies, ended: set[TopicPartition]
    ) -> Iterator[tuple[Pair, float]]:
        """A copy whose step has ended has received the rest."""
        for (tp, broker), was in before.items():
            now = self.copies.get((tp, broker))
            gone = now is None and tp not in ended
            if was.left <= 0 or was.blocked or gone or (now is not None and now.blocked):
                continue
            size = was.left if now is None else now.copied - was.copied
            yield (was.leader, broker), size

    def _learn_growth(self, run: Run, now: datetime, passed_s: float) -> None:
        """Learn how fast partitions grow together, as a share of their size at the start."""
        sizes = self.sizes
        copying = [tp for (tp, _), copy in self.copies.items() if copy.left > 0]
        known = [tp for tp in dict.fromkeys(copying) if tp in sizes]
        planned = sum(run.tracks[tp].planned.size for tp in known)
        began = run.started_at
        if not planned or began is None or now <= began:
            return
        growth = sum(sizes[tp] for tp in known) / planned - 1
        weight = 1 - math.exp(-passed_s / _GROWTH_SPAN_S)
        self.growth_weight += weight * (1 - self.growth_weight)
        share = weight / self.growth_weight if self.growth_weight else 0.0
        self.growth += share * (growth / (now - began).total_seconds() - self.growth)


def _latest(known: tuple[float, ...], new: float) -> tuple[float, ...]:
    return (*known, new)[-_STEPS:]


def _unseen(
    track: Track, step: OpenStep, now: datetime, expected: Callable[[Pair], float]
) -> Iterator[tuple[tuple[TopicPartition, int], _Copy]]:
    size, passed_s, leader = track.planned.size, (now - step.at).total_seconds(), leader_of(step)
    for broker in step.begun.adding:
        copied = max(0.0, min(size, passed_s * expected((leader, broker))))
        yield (track.tp, broker), _Copy(copied, size - copied, leader)


def leader_of(step: OpenStep) -> int:
    """Return whom the copies of a step come from."""
    return leader_or_first(step.begun.leader, step.begun.before)


def _is_blocked(lane: Lane | None) -> bool:
    stall = None if lane is None else lane.stall
    return stall is not None and (stall.kind is StallKind.STALLED or stall.cause in _BLOCKING)


def _share(lane: Lane | None) -> float:
    if lane is None:
        return 0.0
    if lane.role in (Role.IN_SYNC, Role.LEADER):
        return 1.0
    return lane.share or 0.0 if lane.role is Role.ADDING else 0.0


def expected_situation(track: Track) -> Situation:
    """Return a partition's situation after its step in flight, if there is one."""
    replicas, leader = track.replicas, track.planned.leader
    if track.step is not None and not track.step.cancelled_by_operator:
        begun = track.step.begun
        replicas, leader = begun.replicas, begun.leader if begun.elect is None else begun.elect
    elif track.sent is not None:  # a step is over, and the first replica may have been elected
        leader = _first(replicas)
    return _healthy(track, replicas, leader)


def situation_before(track: Track, step: OpenStep) -> Situation:
    """Return a partition's situation before its step in flight."""
    now = _healthy(track, step.begun.before, step.begun.leader)
    online = now.online.union(step.begun.replicas)
    return msgspec.structs.replace(now, online=online)


def _healthy(track: Track, replicas: Brokers, leader: int | None) -> Situation:
    leader = leader if leader in replicas else _first(replicas)
    goes_to = find_goal(track, replicas, replicas, leader)
    return Situation(
        replicas=replicas,
        isr=replicas,
        leader=leader,
        target=goes_to.replicas,
        lead=goes_to.lead,
        online=frozenset((*replicas, *goes_to.replicas)),
    )


def _first(replicas: Brokers) -> int | None:
    return replicas[0] if replicas else None


_FOR_EVER_S = 10 * 365 * 86_400.0  # 10 years: a replica that hardly moves would take for ever


class Remaining(msgspec.Struct, frozen=True):
    """The seconds that are left."""

    copying_s: float  # while something is copied: this depends on the rate
    waiting_s: float  # while nothing is copied

    @property
    def whole_s(self) -> float:
        return self.copying_s + self.waiting_s


def simulate_remaining(
    run: Run, headway: CopyProgress, rates: Rates, *, joining_s: int, grown: float
) -> Remaining:
    """Simulate a run's rest. Of very many partitions, some stand for the others."""
    rest = _rest_of(run)
    left = RestOfRun(
        [
            _in_flight(each, each.one.step, headway)
            for each in rest.in_flight
            if each.one.step is not None
        ],
        [
            *(wanted_after(track, track.planned.size * grown) for track in rest.begun),
            *(_wanted(each, grown, rest.together) for each in rest.fresh),
        ],
        run.racks,
    )
    stand = StandIns(
        {tp: Counter(map(_leader, others)) for tp, others in rest.together.items()},
        {tp: 1 + len(others) for tp, others in rest.in_turn.items()},
        rest.steps,
    )
    tracks = run.tracks.values()
    cut = sum(track.step is not None and track.step.begun.cut for track in tracks)
    to_cut = sum(not track.state.ended for track in tracks) - cut
    overhead = StepOverhead(joining_s, headway.other_s)
    outcome = simulate_stand_ins(left, run.limits, overhead, rates, stand, to_cut=to_cut)
    copying_s, waiting_s = outcome.copying_s, outcome.waiting_s
    return Remaining(min(_FOR_EVER_S, copying_s), min(_FOR_EVER_S, waiting_s))


_Others = Mapping[TopicPartition, Sequence[Track]]  # those that one stands for, if any


class _Rest(NamedTuple):
    """The partitions of a run that are not at their ends, those that are many in bundles."""

    in_flight: Sequence[Bundle[Track]]
    begun: Sequence[Track]  # between two of their steps
    fresh: Sequence[Bundle[Track]]  # without a step so far
    together: _Others  # copied at the same time
    in_turn: _Others  # copied one after the other

    @property
    def steps(self) -> float:
        """How many steps a step stands for, on average: it takes their time besides copying."""
        if not self.in_turn:
            return 1.0
        return sum(1 + len(each.others) for each in self.fresh) / len(self.fresh)


def _rest_of(run: Run) -> _Rest:
    in_flight = _bundled(list(filter(goes_to_target, run.tracks_in_flight.values())))
    waiting = [
        t for t in run.tracks.values() if not (t.state.ended or t.tp in run.tracks_in_flight)
    ]
    not_begun = [track for track in waiting if not track.under_way]
    fresh = _bundled(not_begun)
    together, in_turn = _many(in_flight), _many(fresh)
    if go_together([track.planned.size for track in not_begun], run.limits):
        together, in_turn = together | in_turn, {}
    return _Rest(in_flight, [t for t in waiting if t.under_way], fresh, together, in_turn)


def _bundled(tracks: Sequence[Track]) -> list[Bundle[Track]]:
    return bundled(tracks, lambda track: track.planned.size, _onto)


def _onto(track: Track) -> Onto:
    planned = track.planned
    return sorted({*planned.target} - {*planned.original}), planned.target


def _leader(track: Track) -> int:
    planned = track.planned
    return leader_or_first(planned.leader, planned.original)


def _many(bundles: Iterable[Bundle[Track]]) -> dict[TopicPartition, Sequence[Track]]:
    return {each.one.tp: each.others for each in bundles if each.others}


def _wanted(bundle: Bundle[Track], grown: float, together: _Others) -> WantedPartition:
    count = 1 + len(together.get(bundle.one.tp, ()))
    return wanted_after(bundle.one, bundle.size * count * grown)


def goes_to_target(track: Track) -> bool:
    """Whether its step goes on to its end: a cancelled step takes no time worth counting."""
    return track.step is not None and not track.step.cancelled_by_operator


def _in_flight(bundle: Bundle[Track], step: OpenStep, headway: CopyProgress) -> StepInFlight:
    track, begun, count = bundle.one, step.begun, 1 + len(bundle.others)
    left = headway.left(track.tp, step)
    if bundle.others:
        steps = [(each.tp, each.step) for each in (track, *bundle.others)]
        whole = sum(sum(headway.left(tp, of).values()) for tp, of in steps if of is not None)
        left = {broker: whole / len(begun.adding) for broker in begun.adding if whole}
    return StepInFlight(
        WantedPartition(
            track.tp,
            situation_before(track, step),
            round(bundle.size * count),
            track.planned.sized,
            track.planned.ahead,
            begun=True,
        ),
        begun.move,
        left,
    )


def wanted_after(track: Track, size: float) -> WantedPartition:
    """Return a partition after its step in flight; `size` in bytes, of all that it stands for."""
    return WantedPartition(
        track.tp,
        expected_situation(track),
        round(size),
        track.planned.sized,
        track.planned.ahead,
        begun=track.under_way,
        first=track.cancel is not None,
    )


class LeastLeft(msgspec.Struct, frozen=True):
    """The least time that the rest of a run could take, and how close its forecast is."""

    bound: Bound
    times: float  # by the forecast, as a multiple of the least one; at least 1
    basis: Basis  # where the rates of both come from


def least_remaining(run: Run, headway: CopyProgress, rates: Rates, *, grown: float) -> Bound | None:
    """Compute the least time of the rest, at 20 us a partition; None without copies."""
    return least_time(_all_left(run, headway, grown), run.limits, rates)


def _all_left(run: Run, headway: CopyProgress, grown: float) -> Iterator[WantedPartition]:
    """A step in flight apart from those that follow it."""
    for track in list(run.tracks.values()):  # another thread may add some
        if track.state.ended:
            continue
        step = track.step
        if step is not None and goes_to_target(track):
            yield from _copies_left(track, step, headway)
        yield wanted_after(track, track.planned.size * grown)


def _copies_left(track: Track, step: OpenStep, headway: CopyProgress) -> Iterator[WantedPartition]:
    """Yield the copies of a step, all with the least that one of them lacks."""
    left, before = headway.left(track.tp, step), situation_before(track, step)
    if left:
        now = msgspec.structs.replace(before, target=(*before.replicas, *left))
        yield WantedPartition(track.tp, now, round(min(left.values())), begun=True)
