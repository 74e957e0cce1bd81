"""The stage of a rehearsal: lets faults happen, watches what comes of it, and skips idle polls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, ObservationSource, SourceWrapper
from ktui.cluster.partition import TopicPartition
from ktui.execution.engine.decider import QUICK_S
from ktui.execution.engine.in_flight import WORTH
from ktui.execution.run.run import Run
from ktui.progress.timeline import Cause, Stall, StallKind, Timeline
from ktui.rehearsal.aftermath import AFTERWARDS_S, BrokerUse, Hit, SeenStall, look_around
from ktui.rehearsal.twin import Fault
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.controller.records import RecordChange
from ktui.simulated.layout import OutsideEvent, ScheduledEvent

MOST_S = 5.0  # between two polls: rates and stalls rest on what is copied in between


class Foresight(SourceWrapper):
    """Polls through another source, and knows when the next poll can show news."""

    def __init__(self, source: ObservationSource, cluster: SimulatedCluster) -> None:
        super().__init__(source)
        self._cluster = cluster
        self._changes = self._shown = 0  # decisions of the controller, and those polled
        cluster.listen(self._count)

    def _count(self, _: RecordChange) -> None:
        self._changes += 1

    async def poll(self, interest: Interest) -> Observation:
        self._cluster.catch_up()
        shown = self._changes
        seen = await super().poll(interest)
        self._shown = shown
        return seen

    def pause_s(self, usual_s: float) -> float:
        """The next poll comes as long after the first news as an engine's own would."""
        self._cluster.catch_up()
        if self._changes > self._shown:
            return usual_s
        quiet_s = self._cluster.next_event_s - self._cluster.now_s
        late_s = max(QUICK_S / 2, quiet_s / WORTH)
        return max(usual_s, min(quiet_s + late_s, MOST_S))


_GAP_S = 15.0  # a stall that is seen again within so many seconds has lasted all the time
_WINDOW_S = 1.0  # inflow is the mean over a time at least as long
_NOTICEABLE = 1 / 2_000  # the share of the plan's bytes that counts as progress
_StallKey = tuple[StallKind, Cause, int]


class FaultStage(SourceWrapper):
    """Polls through another source, and lets faults happen: those of a share before a poll."""

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
        self._hits: list[Hit] = []  # before the last ones
        self._last: list[str] = []  # the last faults, all at the same moment
        self._last_s = 0.0
        self._over = False  # nothing more happens, for the run is over
        configs = cluster.controller.configs
        self._min_isr = {topic: configs.min_isr(topic) for topic in cluster.controller.topics}
        self._peaks = {
            broker.id: BrokerUse(broker.id, 0.0, broker.disk_bytes, broker.disk_bytes)
            for broker in cluster.spec.brokers
        }
        self._stalls: list[SeenStall] = []
        self._open: dict[_StallKey, int] = {}  # the number of the last of a kind, cause and broker
        self._least_left: tuple[int, int] | None = None  # partitions and bytes, at most progress
        self._began_s = cluster.clock.monotonic()
        self.last_headway_s = 0.0  # when less was left than ever before, from the start
        self._last_act_s = 0.0  # of a fault's scheduled acts, from the start
        self._measured = cluster.now_s, dict(cluster.replication.copied_into)
        for fault in self._by_time:
            self._await_moment(fault)

    async def poll(self, interest: Interest) -> Observation:
        self._let_faults_happen()
        try:
            return await super().poll(interest)
        finally:
            self._watch()

    async def outlast_faults(self) -> None:
        """Let nothing more happen, and watch on until trouble of the last fault would show."""
        self._over = True
        rest_s = self._last_s + AFTERWARDS_S - self.now_s
        if self._last and rest_s > 0:
            await self._cluster.clock.sleep(rest_s)
        self._hits, self._last = list(self.hits), []

    def add(self, fault: Fault) -> None:
        """While the plan is carried out; its moment has not passed yet."""
        if fault.at.share is not None:
            self._by_share.append(fault)
            return
        self._by_time.append(fault)
        self._await_moment(fault)

    @property
    def now_s(self) -> float:
        return self._cluster.clock.monotonic() - self._began_s

    @property
    def peaks(self) -> tuple[BrokerUse, ...]:
        return tuple(self._peaks.values())

    @property
    def stalls(self) -> tuple[SeenStall, ...]:
        return tuple(self._stalls)

    @property
    def hits(self) -> tuple[Hit, ...]:
        self._cluster.catch_up()
        return self._hits_until(self.now_s)

    @property
    def missed(self) -> tuple[str, ...]:
        return tuple(fault.text for fault in (*self._by_share, *self._by_time))

    @property
    def awaits_faults(self) -> bool:
        """Something is still to happen at its time, which may set the run going again."""
        return self.now_s < self._last_act_s

    def _hits_until(self, until_s: float) -> tuple[Hit, ...]:
        if not self._last:
            return tuple(self._hits)
        stalls = [some[0] for some in self._alarms().values()]
        after = look_around(self._cluster, stalls=stalls, min_isr=self._min_isr, until_s=until_s)
        last = (Hit(text=text, at_s=self._last_s, after=after) for text in self._last)
        return (*self._hits, *last)

    def _let_faults_happen(self) -> None:
        if not self._by_share:
            return
        share = self._share()
        due = [each for each in self._by_share if (each.at.share or 0.0) <= share]
        if due:
            self._cluster.catch_up()
        for fault in due:
            self._by_share.remove(fault)
            self._happen(fault, self.now_s)
            self._cluster.note_members()

    def _await_moment(self, fault: Fault) -> None:
        at_s = fault.at.after_s or 0.0

        def happen() -> None:
            if not self._over:
                self._by_time.remove(fault)
                self._happen(fault, at_s)

        self._last_act_s = max((self._last_act_s, *(at_s + delay_s for delay_s, _ in fault.acts)))
        self._cluster.at(self._began_s - self._cluster.began_s + at_s, happen)

    def _happen(self, fault: Fault, at_s: float) -> None:
        if not self._last or at_s > self._last_s:
            self._hits, self._last, self._last_s = list(self._hits_until(at_s)), [], at_s
        self._last.append(fault.text)
        for delay_s, act in fault.acts:
            if delay_s:
                self._schedule(at_s + delay_s, act)
            else:
                self._cluster.perform(act)

    def _schedule(self, after_s: float, act: OutsideEvent) -> None:
        self._last_act_s = max(self._last_act_s, after_s)
        began_s = self._began_s - self._cluster.began_s
        self._cluster.schedule(ScheduledEvent(began_s + after_s, act))

    def _share(self) -> float:
        """Of the bytes of the plan copied; of its partitions, without bytes."""
        whole = self._run.copies.whole
        if whole:
            return (self._run.copies.done + self._under_way()) / whole
        return self._run.over / max(1, len(self._run.tracks))

    def _under_way(self) -> int:
        """Bytes that the steps in flight have copied, at most those of the plan."""
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
                self._peaks[broker] = BrokerUse(broker, most, least, peak.disk)

    def _alarms(self) -> Mapping[_StallKey, list[Stall]]:
        seen: dict[_StallKey, list[Stall]] = {}
        for timeline in self._timelines().values():
            stall = timeline.stall
            if stall is not None and stall.alarm:
                seen.setdefault((stall.kind, stall.cause, stall.broker), []).append(stall)
        return seen

    def _note_stalls(self) -> None:
        now_s = self.now_s
        for key, stalls in self._alarms().items():
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
        run = self._run
        partitions = len(run.tracks) - run.over
        copied = run.copies.whole - run.copies.done - self._under_way()
        waits = run.gate.until is not None and not run.tracks_in_flight
        best = self._least_left
        if best is not None and not waits:
            noticeable = run.copies.whole * _NOTICEABLE
            if partitions >= best[0] and copied > best[1] - max(1.0, noticeable):
                return
        self.last_headway_s = self.now_s
        before = best or (partitions, copied)
        self._least_left = min(before[0], partitions), min(before[1], copied)


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
