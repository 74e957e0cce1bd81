"""Recordings of drains on simulated clusters, as observed and journalled by the engine."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from ktui.cluster.observation import Observation
from ktui.cluster.observer import NO_INTEREST, Interest, Observer
from ktui.cluster.partition import TopicPartition
from ktui.execution.journal.commands import Command
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import AnyRunEvent, JournalEntry, encode
from ktui.execution.run.options import Schedule
from ktui.execution.run.run import Run
from ktui.execution.throttle.objective import Figure
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.recording.recorder import Recorder
from ktui.simulated.clock import FIRST_MOMENT, VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import BrokerSpec, ClusterSpec, TopicSpec
from support.runs.engine_runs import PlannedRun, Replicas

MB = 1_000_000


class _Looks(Observer):
    """Polls that are recorded."""

    recorder: Recorder

    async def poll(self, interest: Interest = NO_INTEREST) -> Observation:
        seen = await super().poll(interest)
        self.recorder.poll(seen)
        return seen


class RecordedRun(PlannedRun):
    """A run whose polls and events go into a recording."""

    name: str
    recorder: Recorder
    asked: Mapping[float, Command]  # the commands by the second of the run

    async def to_its_end(self) -> Run:
        asking = [asyncio.create_task(self._ask(*each)) for each in self.asked.items()]
        try:
            return await super().to_its_end()
        finally:
            for task in asking:
                task.cancel()

    async def _ask(self, at_s: float, command: Command) -> None:
        await self.clock.sleep(at_s)
        self.ask(command)

    def observer(self) -> Observer:
        looks = _Looks(self.reader, self.clock)
        looks.recorder = self.recorder
        return looks

    def opened(self) -> Journal:
        journal = super().opened()
        self._record(journal.entries())
        append = journal.append

        def recorded(events: Sequence[AnyRunEvent]) -> list[JournalEntry]:
            entries = append(events)
            self._record(entries)
            return entries

        journal.append = recorded  # type: ignore[method-assign]  # the tap, as in an engine's process
        return journal

    def _record(self, entries: Iterable[JournalEntry]) -> None:
        for entry in entries:
            run_id = f"{self.name}@1"
            self.recorder.run_event(self.name, run_id, entry.seq, entry.at, encode(entry.event))


def drained(  # noqa: PLR0913 - keyword-only, and each is varied by some test
    folder: Path,
    *,
    sizes: Collection[int],
    limits: Limits,
    name: str = "run",
    cluster: str = "simulated",
    net_in: float = 40.0 * MB,
    inbound: float = 0.0,
    hours: float = 0.0,
    program: str = "tests",
    asked: Mapping[float, Command] | None = None,
    figure: Callable[[Run], Figure] | None = None,
    **options: Any,
) -> Run:
    """Drain brokers 1 to 3 of partitions of these sizes, one per topic, and record the run.

    Args:
        folder: the parent of a new folder, named after the run, for journal and recording.
        sizes: the partitions' sizes in bytes.
        limits: the limits in force.
        name: the run's name.
        cluster: the cluster's id.
        net_in: the bytes per second that each broker can receive.
        inbound: the bytes per second that are written to each partition.
        hours: the delay of the start, so that runs of one cluster follow each other.
        program: the one that records, as its name and version.
        asked: the commands to the run, by the second of the run.
        figure: returns the figure of the run's objective.
        options: further options of the run.
    """
    folder = folder / name
    folder.mkdir(parents=True)
    clock = VirtualClock(leaping=True)
    clock.pass_time(3600 * hours)
    spec = ClusterSpec(
        name=cluster,
        brokers=tuple(BrokerSpec(id=b, net_in=net_in) for b in range(1, 10)),
        topics=tuple(
            TopicSpec(
                name=f"t{n}",
                replicas=((1 + n % 3, 4 + n % 3),),
                bytes_each=size,
                message_bytes=1_000,
                inbound=inbound,
            )
            for n, size in enumerate(sizes)
        ),
        auto_leader_rebalance=False,
    )
    targets: dict[TopicPartition, Replicas] = {
        TopicPartition(f"t{n}", 0): (7 + n % 3, 4 + n % 3) for n in range(len(sizes))
    }
    run = RecordedRun(SimulatedCluster(spec, clock), folder, targets, limits, **options)
    run.name, run.recorder = name, Recorder(folder, clock, program=program)
    run.asked = asked or {}
    if figure is not None:
        run.figure = lambda _objective: figure(run.run)
    try:
        return asyncio.run(run.to_its_end())
    finally:
        run.recorder.close()


def driven(folder: Path, *, within_s: float, sizes: Collection[int], **how: Any) -> Run:
    """Record a drain that has to keep `load<8`, and to end within some seconds.

    The figure is the rate into broker 7 in MB/s. There is none at rates of 3 to 4 MB/s.
    """

    def load(run: Run) -> Figure:
        rate = (run.throttled.in_force.of(7) or 0) / MB
        return Figure(None, "no metrics") if 3 <= rate < 4 else Figure(rate)

    return drained(
        folder,
        sizes=sizes,
        limits=Limits(partitions=4, replicas=1),
        figure=load,
        throttle=parse_throttle_rates("slo=load<8"),
        sli_command="/bin/load",
        schedule=Schedule(by=FIRST_MOMENT + timedelta(seconds=within_s)),
        **how,
    )
