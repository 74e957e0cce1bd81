"""How long the rest of a run takes, by a simulation with its own pacing, and the least time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.execution.run.run import Run
from ktui.execution.run.track import OpenStep, Track, find_goal
from ktui.execution.time_left.copy_progress import CopyProgress
from ktui.pacing.situation import Situation, WantedPartition
from ktui.speed.answer import Basis, Bound
from ktui.speed.bundles import (
    Bundle,
    Onto,
    StandIns,
    bundled,
    go_together,
    simulate_stand_ins,
)
from ktui.speed.capacity import Rates
from ktui.speed.copies import leader_or_first
from ktui.speed.least_time import least_time
from ktui.speed.simulate import RestOfRun, StepInFlight, StepOverhead


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


_LONGEST_S = 10 * 365 * 86_400.0  # 10 years: a replica that hardly moves would take for ever


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
    return Remaining(min(_LONGEST_S, copying_s), min(_LONGEST_S, waiting_s))


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
