"""What a simulated cluster has gone through while a story was played, and what is let happen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ktui.cluster.partition import TopicPartition
from ktui.quantities import as_duration
from ktui.rehearsal.twin import FAULT_VERBS, Fault, FaultProblem, parse_fault
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.controller.records import RecordChange, Registration
from ktui.simulated.layout import OutsideEvent, ScheduledEvent
from ktui.simulated.producers import Producers, rank
from ktui.tui.run_view.launchers import BadCommand
from ktui.tui.story import ProduceTimes, StoryFacts, Unhealthy

_MOST_PRODUCED = 2_000
"""Partitions up to which producers are simulated: they are asked each second of the cluster."""


class _Spell:
    """How long, and of how many partitions at most, something has been true."""

    def __init__(self) -> None:
        self._now: set[TopicPartition] = set()
        self._most = 0
        self._before_s = self._since_s = 0.0

    def note(self, tp: TopicPartition, now_s: float, *, holds: bool) -> None:
        if holds and not self._now:
            self._since_s = now_s
        if not holds and self._now == {tp}:
            self._before_s += now_s - self._since_s
        (self._now.add if holds else self._now.discard)(tp)
        self._most = max(self._most, len(self._now))

    def until(self, now_s: float) -> Unhealthy:
        going_on_s = now_s - self._since_s if self._now else 0.0
        return Unhealthy(self._before_s + going_on_s, self._most, len(self._now))


class StoryLedger:
    """Counts the decisions of a controller, bytes copied, and what producers wait for."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._began_s: float | None = None
        self._ended_s = 0.0
        self._first: dict[TopicPartition, Registration] = {}  # of what has ever moved
        self._moving: set[TopicPartition] = set()
        self._gone: set[TopicPartition] = set()  # a topic of the same name is another one
        self._elected = 0
        self._lacking, self._below = _Spell(), _Spell()
        self._producers = Producers(cluster)
        self._times: list[ProduceTimes] = []  # before the first move, and since
        self._looked_s = 0.0
        if sum(len(topic.replicas) for topic in cluster.spec.topics) <= _MOST_PRODUCED:
            self._producers.start()
        cluster.listen(self._decided)

    def _decided(self, change: RecordChange) -> None:
        before, after, tp = change.before, change.after, change.tp
        now_s = self._cluster.now_s
        if before is not None and after is not None:
            if after.reassigning or before.reassigning:
                self._note_move(tp, before, after, now_s)
            self._elected += after.leader not in (None, before.leader)
        old = () if after is None else [b for b in after.replicas if b not in after.adding]
        isr = () if after is None else after.isr
        self._lacking.note(tp, now_s, holds=not {*old} <= {*isr})
        min_isr = 0 if after is None else self._cluster.controller.configs.min_isr(tp.topic)
        self._below.note(tp, now_s, holds=len(isr) < min(min_isr, len(old)))
        if after is None and tp in self._first:
            self._gone.add(tp)
            self._moving.discard(tp)

    def _note_move(
        self, tp: TopicPartition, before: Registration, after: Registration, now_s: float
    ) -> None:
        if self._began_s is None:
            self._began_s = now_s
        self._first.setdefault(tp, before)
        (self._moving.add if after.reassigning else self._moving.discard)(tp)
        self._ended_s = now_s

    def look(self) -> None:
        """Note what producers felt since the last look, of at most the last ten seconds."""
        self._cluster.catch_up()
        seconds = [each for each in self._producers.seconds if each.at_s > self._looked_s]
        took = [record.took_s for each in seconds for of in each.records.values() for record in of]
        if not took:
            return
        self._looked_s = seconds[-1].at_s
        seen = ProduceTimes(rank(took, 99), max(took))
        rests = self._began_s is None
        if len(self._times) < (1 if rests else 2):
            self._times.append(seen)
        else:
            worst = self._times[-1]
            self._times[-1] = ProduceTimes(*map(max, zip(worst, seen, strict=True)))

    def facts(self) -> StoryFacts:
        self._cluster.catch_up()
        cluster, first = self._cluster, self._first
        still = first.keys() - self._gone - self._moving
        now = {tp: cluster.controller.get(tp) for tp in still}
        back = sum(
            at is not None and {*at.replicas} == {*first[tp].replicas} for tp, at in now.items()
        )
        return StoryFacts(
            moved=len(still) - back,
            back=back,
            gone=len(self._gone),
            moving=len(self._moving),
            elected=self._elected,
            copied=int(sum(cluster.replication.copied_into.values())),
            took_s=self._ended_s - (self._began_s or 0.0),
            produced=tuple(self._times) if self._began_s is not None else (),
            lacking=self._lacking.until(cluster.now_s),
            below_min=self._below.until(cluster.now_s),
        )


class BreakableStory:
    """Lets something happen to the cluster of a story, now or at a time of the story."""

    name = "story"
    outcome = ""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    @property
    def verbs(self) -> Sequence[str]:
        return FAULT_VERBS

    def check(self, event: str) -> None:
        self._parse(event)

    def let_happen(self, event: str) -> str:
        fault = self._parse(event)
        at_s = fault.at.after_s or 0.0
        self._do((at_s + delay_s, act) for delay_s, act in fault.acts)
        waits_s = at_s - self._cluster.now_s
        when = f"it happens in {as_duration(waits_s)}" if waits_s > 0 else "it has happened"
        return f"{fault.text}: {when}"

    async def report(self) -> str:
        return ""

    def _do(self, acts: Iterable[tuple[float, OutsideEvent]]) -> None:
        for at_s, act in acts:
            if at_s > self._cluster.now_s:
                self._cluster.schedule(ScheduledEvent(at_s, act))
            else:
                self._cluster.do(act)

    def _parse(self, event: str) -> Fault:
        self._cluster.catch_up()
        now_s = self._cluster.now_s
        try:
            fault = parse_fault(event, self._cluster.spec, now_s=now_s)
        except FaultProblem as problem:
            raise BadCommand(str(problem)) from None
        if fault.at.share is not None:
            raise BadCommand("a demo counts no share of the work. End it with a time, `at 10m`")
        if (fault.at.after_s or 0.0) < now_s:
            raise BadCommand(f"that is past: the story began {as_duration(now_s)} ago")
        return fault
