"""`python -m bench forecast-plans`: how far off a check is before the start, one earlier run known.

Plans are drawn from a published seed, and carried out on simulated clusters whose brokers copy as
brokers of the frozen real recordings did, second by second: those that no figure of the model was
fitted on. Blocks of seconds of a recorded run come after each other, so that there are the gulps of
throttles, and times at which a machine is busy.
"""

from __future__ import annotations

import asyncio
import math
import random
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

import msgspec

from bench.checks import check_count
from bench.forecast.real_runs import LABS, Kind, Machine
from bench.forecast.stored import StoredRun, real
from ktui.cluster.partition import TopicPartition
from ktui.execution.forecast.earlier_runs import shown_by_journal
from ktui.insights import Prior
from ktui.pacing.limits import Limits, default_limits, parse_limits
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates
from ktui.preview.facts import ClusterFacts, Terms
from ktui.preview.preview import PreviewBase
from ktui.progress.flows import Counted
from ktui.progress.fold import fold
from ktui.progress.timeline import Progress
from ktui.recording.segments import RunLine
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.data.flows import TideFactors, TopicLogs, TrafficMoment
from ktui.simulated.data.followers import Followers, Sharing
from ktui.simulated.data.hosts import Host
from ktui.simulated.data.replication import SharingFactory
from ktui.simulated.layout import BrokerSpec, ClusterSpec, TopicSpec
from ktui.speed.copies import HALF_AT, SENDING, CopyLoad, Pair
from ktui.speed.shown import prior_of
from support.runs.engine_runs import PlannedRun, plan_of, snapshot_of

SEED = 47
PLANS = 100
_BLOCK = 20
"""Seconds of a recorded run that stay together."""
_WITHIN, _SHORT_S, _WITHIN_S = 0.25, 60.0, 15.0
_AIM = 90
_LIMITS: tuple[dict[str, object], ...] = (
    {}, {}, {"partitions": 4}, {"per-broker": 2}, {"pace": "fast"},
    {"partitions": 10, "mode": "wave"}, {"per-broker": 1, "order": "size-desc"},
)  # fmt: skip
_Series = Sequence[float]


class Recorded(NamedTuple):
    """What brokers of a lab did, each a series of seconds in which it had something to copy."""

    alone: list[_Series]
    """Bytes a second that a copy by itself would have received without a throttle."""
    share: list[_Series]
    """The share of a throttle that came in."""


class PlayedPlan(NamedTuple):
    """One plan: what was said before, and what it took."""

    kind: str
    lab: str
    throttled: bool
    said_s: float
    assumed_s: float
    took_s: float

    @property
    def good(self) -> bool:
        """Whether it is as close as it is to be."""
        off_s = abs(self.said_s - self.took_s)
        return off_s <= (_WITHIN_S if self.took_s < _SHORT_S else _WITHIN * self.took_s)


def run() -> None:
    """Print how far off the checks of all plans were."""
    played = []
    for number in range(PLANS):
        played.append(play(number))
        print(f"  {number:>3} {_line(played[-1])}", flush=True)
    check_count("plans", len(played), PLANS)
    good = sum(one.good for one in played)
    off = [abs(one.said_s / one.took_s - 1) for one in played]
    assumed = [abs(one.assumed_s / one.took_s - 1) for one in played]
    print(
        f"{PLANS} plans, seed {SEED}: {good} within {_WITHIN:.0%} (under a minute: within "
        f"{_WITHIN_S:.0f} s); aim: {_AIM}. Median error {median(off):.1%}; with nothing known "
        f"{median(assumed):.0%}"
    )


def _line(one: PlayedPlan) -> str:
    throttled = "throttled" if one.throttled else ""
    mark = "" if one.good else "OFF"
    return (
        f"{one.lab:<9}{one.kind:<8}{throttled:<10} said {one.said_s:>6.0f} s, took "
        f"{one.took_s:>6.0f} s  {one.said_s / one.took_s - 1:>+5.0%} {mark}"
    )


def play(number: int) -> PlayedPlan:
    """Draw a cluster, carry an earlier run out on it, and then a plan that was checked before."""
    rng = random.Random(f"{SEED}-{number}")  # noqa: S311 - a repeatable choice
    lab = rng.choice(labs())
    recorded = recorded_rates(lab)
    throttled = rng.random() < 0.5  # noqa: PLR2004 - every other one
    cluster = _Drawn(rng, recorded)
    earlier, plan = cluster.plan(rng, throttled=throttled), cluster.plan(rng, throttled=throttled)
    prior, _ = cluster.carry_out(earlier, rng.random())
    said_s, assumed_s = cluster.check(plan, prior), cluster.check(plan, None)
    _, took_s = cluster.carry_out(plan, rng.random())
    return PlayedPlan(plan.kind, lab, throttled, said_s, assumed_s, took_s)


class _DrawnPlan(NamedTuple):
    kind: str
    targets: dict[TopicPartition, tuple[int, ...]]
    limits: Limits
    throttle: ThrottleRates


class _Drawn:
    """A cluster, drawn."""

    def __init__(self, rng: random.Random, recorded: Recorded) -> None:
        self._recorded = recorded
        self._brokers = range(1, rng.randint(5, 9) + 1)
        self._alone = fmean(map(fmean, recorded.alone))
        whole_s = 4 * 20 ** rng.random()
        whole = whole_s * self._alone * len(self._brokers)
        shares = [10 ** rng.random() for _ in range(rng.randint(16, 60))]
        factor = rng.choice((2, 3))
        self._spec = ClusterSpec(
            name="drawn",
            brokers=tuple(
                BrokerSpec(id=b, net_in=1e12, net_out=1e12, disk_write=1e12, copy_sends=SENDING)
                for b in self._brokers
            ),
            topics=tuple(
                TopicSpec(
                    name=f"t{n:02}",
                    replicas=(tuple(rng.sample(self._brokers, factor)),),
                    bytes_each=round(whole * share / sum(shares)),
                )
                for n, share in enumerate(shares)
            ),
            auto_leader_rebalance=False,
            copy_start_s=0.35,
        )

    def plan(self, rng: random.Random, *, throttled: bool) -> _DrawnPlan:
        """Draw a plan."""
        kind = rng.choice(("spread", "drain", "fill", "factor"))
        broker = rng.choice(self._brokers)
        targets = dict(self._targets(rng, kind, broker))
        named = rng.choice(_LIMITS)
        rate = round(self._alone * rng.uniform(0.2, 0.6))
        throttle = ThrottleRates(rate) if throttled else NO_THROTTLE
        return _DrawnPlan(kind, targets, parse_limits(named, default_limits(named)), throttle)

    def _targets(
        self, rng: random.Random, kind: str, broker: int
    ) -> Iterator[tuple[TopicPartition, tuple[int, ...]]]:
        for topic in self._spec.topics:
            (now,) = topic.replicas
            others = [b for b in self._brokers if b not in now]
            wanted = None
            if kind == "spread" and rng.random() < 2 / 3:
                wanted = tuple(rng.sample(self._brokers, len(now)))
            elif kind == "drain" and broker in now:
                wanted = tuple(rng.choice(others) if b == broker else b for b in now)
            elif kind == "fill" and broker not in now:
                wanted = (*now[:-1], broker)
            elif kind == "factor" and rng.random() < 2 / 3:
                wanted = (*now, rng.choice(others))
            if wanted is not None and wanted != now:
                yield TopicPartition(topic.name, 0), wanted

    def check(self, plan: _DrawnPlan, prior: Prior | None) -> float:
        """Return the seconds that a check says."""
        cluster = SimulatedCluster(self._spec, VirtualClock(leaping=True))
        moves = plan_of(plan.targets)
        snapshot = asyncio.run(snapshot_of(cluster.reader(), moves))
        facts = ClusterFacts(seen=snapshot, prior=prior)
        terms = Terms(limits=plan.limits, throttle=plan.throttle)
        how_long = PreviewBase(moves, facts).under(terms).how_long
        if how_long is None:
            raise SystemExit("not measured: the sizes are not known")
        return how_long.time_s.middle

    def carry_out(self, plan: _DrawnPlan, seed: float) -> tuple[Prior | None, float]:
        """Carry a plan out; return what it has shown, and the seconds that it took."""
        cluster = SimulatedCluster(self._spec, VirtualClock(leaping=True))
        cluster.replication.share_by(_as_recorded(self._recorded, seed))
        with tempfile.TemporaryDirectory() as folder:
            planned = PlannedRun(
                cluster, Path(folder), plan.targets, plan.limits, throttle=plan.throttle
            )
            done = asyncio.run(planned.to_its_end())
            with planned.opened() as journal:
                entries = list(journal.entries())
        if done.started_at is None or done.over != len(done.tracks):
            raise SystemExit("not measured: a run has not ended")
        shown = shown_by_journal("earlier", entries)
        took_s = (entries[-1].at - done.started_at) / timedelta(seconds=1)
        return None if shown is None else prior_of([shown]), took_s


def _as_recorded(recorded: Recorded, seed: float) -> SharingFactory:
    def make(
        hosts: dict[int, Host], followers: Followers, moment: TrafficMoment, tides: TideFactors
    ) -> Sharing:
        return RecordedSharing(recorded, seed, hosts, followers, moment, tides)

    return make


class RecordedSharing(Sharing):
    """Lets each broker copy, second by second, as one of the recordings did."""

    def __init__(
        self,
        recorded: Recorded,
        seed: float,
        hosts: dict[int, Host],
        followers: Followers,
        moment: TrafficMoment,
        tides: TideFactors,
    ) -> None:
        super().__init__(hosts, followers, moment, tides)
        rng = random.Random(seed)  # noqa: S311 - a simulation's dice
        self._rates = {
            broker: (_blocks(recorded.alone, rng), _blocks(recorded.share, rng))
            for broker in sorted(hosts)
        }
        self._second = -1

    def share(self, topics: Iterable[TopicLogs]) -> None:
        """Recompute all rates."""
        while self._second < int(self._moment.now_s + 1e-6):
            self._second += 1
            for broker, (alone, share) in self._rates.items():
                host = self._hosts[broker]
                host.spec = msgspec.structs.replace(
                    host.spec,
                    copy_in=(1 + HALF_AT) * next(alone),
                    copy_half_at=HALF_AT,
                    throttle_share=max(0.01, next(share)),
                )
        super().share(topics)

    def next_s(self) -> float:
        """Return the next second, or the event before it, while something copies."""
        if not len(self._channels):
            return math.inf
        return min(super().next_s(), math.floor(self._moment.now_s + 1e-6) + 1.0)


def _blocks(series: Sequence[_Series], rng: random.Random) -> Iterator[float]:
    """Yield seconds of a series without end: blocks of them, from anywhere in any of these."""
    weights = [len(each) for each in series]
    while True:
        (each,) = rng.choices(series, weights)
        begin = rng.randrange(len(each))
        yield from each[begin : begin + _BLOCK]


def labs() -> tuple[str, ...]:
    """Return the frozen labs with runs without a throttle."""
    varied = [lab for lab in LABS if lab.frozen and lab.kind is not Kind.LONG]
    return tuple(lab.name for machine in Machine for lab in varied if lab.machine is machine)


@cache
def _runs() -> Mapping[str, list[StoredRun]]:
    return {n: of for machine in Machine for n, of in real(machine, frozen=True).clusters.items()}


@cache
def recorded_rates(lab: str) -> Recorded:
    """Return what the brokers of a frozen lab did in all of its runs."""
    found = Recorded([], [])
    for stored in _runs()[lab]:
        for free, series in _series(stored):
            if len(series) >= _BLOCK:
                (found.alone if free else found.share).append(series)
    return found


def _series(stored: StoredRun) -> Iterator[tuple[bool, _Series]]:
    """Yield the series of each broker of a run: whether it had no throttle, and the seconds."""
    series: defaultdict[tuple[int, bool], list[float]] = defaultdict(list)
    progress = Progress()
    for event in stored.events():
        if isinstance(event, RunLine):
            continue
        before, seen = progress.flows.counted, event.observation
        progress = fold(progress, seen)
        onto: defaultdict[int, list[tuple[Pair, float]]] = defaultdict(list)
        for replica, now in progress.flows.counted.items():
            was, state = before.get(replica), seen.partitions.get(replica.tp)
            if was is None or state is None or state.leader is None:
                continue
            bytes_s = _bytes_s(was, now)
            if bytes_s is not None:
                onto[replica.broker].append(((state.leader, replica.broker), bytes_s))
        limits = {
            broker: config.follower_throttle_rate for broker, config in seen.broker_configs.items()
        }
        unbound = frozenset(broker for broker in onto if limits.get(broker) is None)
        load = CopyLoad(unbound.__contains__, (pair for each in onto.values() for pair, _ in each))
        for broker, each in onto.items():
            limit = limits.get(broker)
            if limit is not None:
                share = sum(bytes_s for _, bytes_s in each) / limit
                series[broker, False].append(share)
            elif any(bytes_s for _, bytes_s in each):
                alone = sum(bytes_s * load.slows(pair) for pair, bytes_s in each) / len(each)
                series[broker, True].append(alone)
    for (_, free), seconds in series.items():
        yield free, seconds


def _bytes_s(was: Counted, now: Counted) -> float | None:
    """Return the rate of a replica between two polls; None where it is not known."""
    if now.each is None or now.value < was.value or now.at_s <= was.at_s:
        return None
    if now.by_offsets is not was.by_offsets:
        return None
    return (now.value - was.value) * now.each / (now.at_s - was.at_s)
