"""The stage of a rehearsal: lets faults happen at their moments, and watches what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import msgspec

from ktui.cluster.errors import ClusterError
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, ObservationSource, SourceWrapper
from ktui.cluster.partition import TopicPartition
from ktui.execution.run.run import Run
from ktui.progress.health import Health, HealthCounts, health
from ktui.progress.timeline import Cause, Stall, StallKind, Timeline
from ktui.rehearsal.faults import Fault
from ktui.rehearsal.played import AFTERWARDS_S, BrokerPeak, Hit, SeenStall
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.events import OutsideEvent, ScheduledEvent

_GAP_S = 15.0
"""A stall that is seen again within so many seconds has lasted all the time."""
_WINDOW_S = 1.0
"""Inflow is the mean over a time at least as long."""
_NOTICEABLE = 1 / 2_000
"""The share of the plan's bytes that counts as headway."""
_StallKey = tuple[StallKind, Cause, int]


class Stage(SourceWrapper):
    """Polls through another source; before each poll, faults happen whose share is reached.

    Args:
        source: polls the twin.
        cluster: the twin.
        run: the run that is rehearsed.
        faults: the faults.
        timelines: returns the progress of the partitions in flight at the last poll.
    """

    def __init__(
        self,
        source: ObservationSource,
        cluster: SimulatedCluster,
        run: Run,
        faults: Iterable[Fault],
        timelines: Callable[[], Mapping[TopicPartition, Timeline]],
    ) -> None:
        super().__init__(source)
        self._cluster, self._run, self._timelines = cluster, run, timelines
        self._by_share = [fault for fault in faults if fault.at.share is not None]
        self._by_time = [fault for fault in faults if fault.at.share is None]
        self._hits: list[Hit] = []
        self._peaks = {
            broker.id: BrokerPeak(broker.id, 0.0, broker.disk_bytes, broker.disk_bytes)
            for broker in cluster.spec.brokers
        }
        self._stalls: list[SeenStall] = []
        self._open: dict[_StallKey, int] = {}
        """The number of the last stall of a kind, cause and broker."""
        self._least_left: tuple[int, int] | None = None
        """The fewest partitions and bytes left as of the last headway."""
        self._began_s = cluster.clock.monotonic()
        self._last_headway_s = self._began_s
        self._last_act_s = 0.0
        """Seconds from the start until the last scheduled act of a fault."""
        self._measured = cluster.now_s, dict(cluster.replication.copied_into)
        """The last second of the cluster at which inflow was measured, and the bytes up to then."""
        for fault in self._by_time:
            self._schedule_acts(fault)

    async def poll(self, interest: Interest) -> Observation:
        """Poll the twin once.

        Raises:
            ClusterError: the twin does not answer.
        """
        self._let_faults_happen()
        try:
            return await super().poll(interest)
        finally:
            self._watch()
            await self._judge_health()

    async def outlast_faults(self) -> None:
        """Wait until the last fault is a minute ago, although the run is over."""
        pending = [hit.at_s for hit in self._hits if hit.health is None]
        if pending:
            await self._cluster.clock.sleep(max(pending) + AFTERWARDS_S - self.now_s)
            self._cluster.catch_up()
            await self._judge_health()

    def add(self, fault: Fault) -> None:
        """Take in a fault while the plan is carried out; its moment has not passed yet."""
        if fault.at.share is not None:
            self._by_share.append(fault)
            return
        self._by_time.append(fault)
        self._schedule_acts(fault)

    @property
    def now_s(self) -> float:
        """Seconds since the start of the run."""
        return self._cluster.clock.monotonic() - self._began_s

    @property
    def peaks(self) -> tuple[BrokerPeak, ...]:
        """The most that each broker has had to bear so far."""
        return tuple(self._peaks.values())

    @property
    def stalls(self) -> tuple[SeenStall, ...]:
        """The stalls so far, in the order in which they began."""
        return tuple(self._stalls)

    @property
    def hits(self) -> tuple[Hit, ...]:
        """The faults that have happened so far, in order."""
        return tuple(sorted(self._hits, key=lambda hit: hit.at_s))

    @property
    def missed(self) -> tuple[str, ...]:
        """The faults that have not happened so far."""
        return tuple(fault.text for fault in (*self._by_share, *self._by_time))

    @property
    def last_headway_s(self) -> float:
        """The second of the clock at which less was left than ever before."""
        return self._last_headway_s

    @property
    def awaits_faults(self) -> bool:
        """Whether something is still to happen at its time, which may set the run going again."""
        return self.now_s < self._last_act_s

    def _let_faults_happen(self) -> None:
        now_s = self.now_s
        for fault in [each for each in self._by_time if (each.at.after_s or 0.0) <= now_s]:
            self._by_time.remove(fault)  # the cluster's schedule has let it happen
            self._hits.append(Hit(text=fault.text, at_s=fault.at.after_s or 0.0))
        if not self._by_share:
            return
        share = self._share()
        for fault in [each for each in self._by_share if (each.at.share or 0.0) <= share]:
            self._by_share.remove(fault)
            self._hits.append(Hit(text=fault.text, at_s=now_s))
            for delay_s, act in fault.acts:
                if delay_s:
                    self._schedule(now_s + delay_s, act)
                else:
                    self._cluster.do(act)

    def _schedule_acts(self, fault: Fault) -> None:
        for delay_s, act in fault.acts:
            self._schedule((fault.at.after_s or 0.0) + delay_s, act)

    def _schedule(self, after_s: float, act: OutsideEvent) -> None:
        self._last_act_s = max(self._last_act_s, after_s)
        began_s = self._began_s - self._cluster.began_s
        self._cluster.schedule(ScheduledEvent(began_s + after_s, act))

    def _share(self) -> float:
        """Return the share of the plan's bytes that is copied; of its partitions, without bytes."""
        whole = self._run.copies.whole
        if whole:
            return (self._run.copies.done + self._under_way()) / whole
        return self._run.over / max(1, len(self._run.tracks))

    def _under_way(self) -> int:
        """Return the bytes that the steps in flight have copied, at most those of the plan."""
        size = self._cluster.replication.size
        return sum(
            min(size(tp, broker), track.planned.size)
            for tp, track in self._run.tracks_in_flight.items()
            if track.step is not None
            for broker in track.step.begun.adding
        )

    def _watch(self) -> None:
        self._cluster.catch_up()
        self._note_peaks()
        self._note_stalls()
        self._note_headway()

    def _note_peaks(self) -> None:
        """Note what was copied into each broker since the last second or longer, and its room."""
        replication, now_s = self._cluster.replication, self._cluster.now_s
        since_s, before = self._measured
        passed_s = now_s - since_s
        if passed_s < _WINDOW_S:
            return
        copied = dict(replication.copied_into)
        self._measured = now_s, copied
        for broker, peak in self._peaks.items():
            inflow = (copied.get(broker, 0.0) - before.get(broker, 0.0)) / passed_s
            room = peak.disk - replication.used(broker)
            if inflow > peak.inflow or room < peak.room:
                most, least = max(peak.inflow, inflow), max(0, min(peak.room, room))
                self._peaks[broker] = BrokerPeak(broker, most, least, peak.disk)

    def _note_stalls(self) -> None:
        seen: dict[_StallKey, list[Stall]] = {}
        for timeline in self._timelines().values():
            stall = timeline.stall
            if stall is not None and stall.alarm:
                seen.setdefault((stall.kind, stall.cause, stall.broker), []).append(stall)
        now_s = self.now_s
        for key, stalls in seen.items():
            number = self._open.get(key)
            before = None if number is None else self._stalls[number]
            if before is None or now_s - (before.since_s + before.lasted_s) > _GAP_S:
                self._open[key] = len(self._stalls)
                self._stalls.append(_new_stall(stalls, now_s))
            elif number is not None:
                self._stalls[number] = msgspec.structs.replace(
                    before,
                    lasted_s=now_s - before.since_s,
                    partitions=max(before.partitions, len(stalls)),
                )

    def _note_headway(self) -> None:
        """Note headway: fewer partitions are left, or a noticeable part less is to be copied."""
        run = self._run
        partitions = len(run.tracks) - run.over
        copied = run.copies.whole - run.copies.done - self._under_way()
        waits = run.gate.until is not None and not run.tracks_in_flight
        best = self._least_left
        if best is not None and not waits:
            noticeable = run.copies.whole * _NOTICEABLE
            if partitions >= best[0] and copied > best[1] - max(1.0, noticeable):
                return
        self._last_headway_s = self._cluster.clock.monotonic()
        before = best or (partitions, copied)
        self._least_left = min(before[0], partitions), min(before[1], copied)

    async def _judge_health(self) -> None:
        """Count unhealthy partitions a minute after each fault.

        Where the cluster does not answer, the count comes with a later poll.
        """
        now_s = self.now_s
        for number, hit in enumerate(self._hits):
            if hit.health is None and now_s - hit.at_s >= AFTERWARDS_S:
                with suppress(ClusterError):
                    counted = await self._unhealthy()
                    self._hits[number] = msgspec.structs.replace(hit, health=counted)

    async def _unhealthy(self) -> HealthCounts:
        reader, names = self._cluster.reader(), set(self._cluster.controller.topics)
        states = (await reader.describe_topics(names)).partitions
        configs = (await reader.topic_configs(names)).configs
        found = [health(state, configs.get(tp.topic)) for tp, state in states.items()]
        return HealthCounts(
            found.count(Health.OFFLINE),
            found.count(Health.UNDER_MIN_ISR),
            found.count(Health.UNDER_REPLICATED),
        )


def _new_stall(stalls: list[Stall], now_s: float) -> SeenStall:
    first = stalls[0]
    return SeenStall(
        kind=first.kind,
        cause=first.cause,
        broker=first.broker,
        detail=first.detail,
        since_s=now_s,
        lasted_s=0.0,
        partitions=len(stalls),
    )
