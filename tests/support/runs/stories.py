"""Stories of runs on a simulated cluster: events of the cluster and commands, and their times."""

import asyncio
from collections.abc import Callable, Mapping
from math import inf
from pathlib import Path
from typing import Any

from ktui.cluster.ports import Verdict, WriteResult
from ktui.execution.journal.commands import Command, StoredCommand
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import AnyRunEvent, Owned, Request, StateEntered
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.pacing.limits import Limits
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import OutsideEvent, ScheduledEvent
from support.runs.engine_runs import OWNER, Replicas
from support.runs.witnessed import DEAD_S, Killed, KilledRun, WitnessedRun
from support.simulated.moving_clusters import a_cluster, tp

LEFT = "left by the story"


class Story(WitnessedRun):
    """A run of partitions like "orders-0"; a replica is copied in 10 s by default.

    Args:
        folder: the folder of the journal.
        ways: each partition's replicas at first, and its target.
        limits: the limits in force at the start; one partition after the other by default.
        cluster: as for `moving_clusters.a_cluster`.
        options: the options of the run.
    """

    def __init__(
        self,
        folder: Path,
        ways: Mapping[str, tuple[Replicas, Replicas]],
        limits: Limits | None = None,
        cluster: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        topics: dict[str, list[Replicas]] = {}
        for name, (replicas, _) in sorted(ways.items()):
            topics.setdefault(tp(name).topic, []).append(replicas)
        spec = a_cluster(topics, **{"messages": 10_000, **(cluster or {})}).spec
        clock = VirtualClock(leaping=True)
        super().__init__(
            SimulatedCluster(spec, clock),
            folder,
            {tp(name): target for name, (_, target) in ways.items()},
            limits or Limits(replicas=1, partitions=1),
            **options,
        )
        self.clock: VirtualClock = clock
        self._asked: list[tuple[float, Command]] = []
        self._began_s = 0.0

    def already(self, *acts: OutsideEvent) -> None:
        """Apply acts to the cluster long enough before the story for every broker to know."""
        for act in acts:
            self.cluster.do(act)
        self.clock.pass_time(15.0)
        self._began_s = self.clock.monotonic()
        self.cluster.catch_up()

    def schedule(self, at_s: float, *acts: OutsideEvent) -> None:
        """Apply acts to the cluster at a second of the story."""
        for act in acts:
            self.cluster.schedule(ScheduledEvent(self._began_s + at_s, act))

    def late(self, by_s: float) -> None:
        """Let the first alter arrive ``by_s`` seconds late, when nobody waits for its answer."""
        self.sending.late_by_s = by_s

    def asked(self, at_s: float, *commands: Command) -> None:
        """Send commands at a second of the story, all at once."""
        self._asked += ((at_s, command) for command in commands)

    def played(self, until_s: float = 1_000.0) -> Run:
        """Execute the run to its end, or leave it at a second."""
        return asyncio.run(self._play(until_s, begin=True))

    def played_by(self, owner: Owned, until_s: float = 1_000.0) -> Run:
        """Let a certain process execute the run."""
        return asyncio.run(self._play(until_s, begin=True, owner=owner))

    def resumed(self, until_s: float = 1_000.0) -> Run:
        """Let another process resume the run."""
        return asyncio.run(self._play(until_s, begin=False))

    def reopened(self, *commands: Command, until_s: float = 1_000.0) -> Run:
        """Let another process execute commands, after the run has ended or was left."""
        self._began_s = self.clock.monotonic()
        for command in commands:
            self.ask(command)
        return self.resumed(until_s)

    async def _play(self, until_s: float, *, begin: bool, owner: Owned = OWNER) -> Run:
        if begin:
            await self.start()
        beside = [asyncio.create_task(self._ask(*one)) for one in self._asked]
        self._asked = []
        beside.append(asyncio.create_task(self._leave(until_s)))
        try:
            run = await self.execute(owner)
        finally:
            for task in beside:
                task.cancel()
        self.check_requests()
        return run

    async def _ask(self, at_s: float, command: Command) -> None:
        await self.clock.sleep(self._began_s + at_s - self.clock.monotonic())
        self.ask(command)

    async def _leave(self, until_s: float) -> None:
        await self.clock.sleep(self._began_s + until_s - self.clock.monotonic())
        assert self.engine is not None
        self.engine.leave(LEFT)

    @property
    def answers(self) -> list[StoredCommand]:
        with Journal.open(self.path, self.clock, read_only=True) as journal:
            return journal.asked(unanswered=False)

    def state(self, name: str) -> State:
        return self.folded.tracks[tp(name)].state

    def reason(self, name: str) -> str:
        return self.folded.tracks[tp(name)].reason

    def states(self, name: str) -> list[State]:
        """Return the states that a partition went through, by the journal."""
        run, states = Run("run"), [State.QUEUED]
        for entry in self.entries():
            run.apply(entry)
            if tp(name) in run.tracks and run.tracks[tp(name)].state is not states[-1]:
                states.append(run.tracks[tp(name)].state)
        return states

    def sent(self, name: str) -> list[Replicas | None]:
        """Return the targets requested for a partition that arrived, in order."""
        return [each.target for each in self.witness.alters if each.tp == tp(name)]

    def begun_at(self, name: str) -> list[float]:
        """Return the seconds at which steps of a partition were begun."""
        return self.seconds(lambda event: _is_step(event, name))

    def seconds(self, such: Any) -> list[float]:
        """Return the seconds of the matching events."""
        began = self.told_at(0)
        return [(entry.at - began).total_seconds() for entry in self.entries() if such(entry.event)]

    def told_at(self, number: int) -> Any:
        return self.entries()[number].at

    def said(self, name: str, state: State) -> list[str]:
        """Return the reasons that the journal has for a state of a partition."""
        return [
            event.reason
            for event in self.events
            if isinstance(event, StateEntered) and event.tp == tp(name) and event.state is state
        ]

    def at_target(self, *names: str) -> bool:
        """Return whether partitions have their targets, led by the first of them."""
        return all(
            (self.replicas(each), self.leader(each)) == (self.targets[each], self.targets[each][0])
            for each in map(tp, names)
        )


Such = Callable[[AnyRunEvent], bool]  # chooses the event after which something is done, at once


class EventStory(Story):
    """A story in which something is done as soon as an event has been written."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._waiting: list[tuple[Such, Callable[[], None]]] = []

    def then(self, such: Such, act: Callable[[], None]) -> None:
        """Act as soon as such an event has been written."""
        self._waiting.append((such, act))

    def written(self, entries: Any) -> None:
        super().written(entries)
        for entry in entries:
            for one in [one for one in self._waiting if one[0](entry.event)]:
                self._waiting.remove(one)
                one[1]()

    @property
    def all_came(self) -> bool:
        """Whether every event with a planned action has occurred."""
        return not self._waiting


class KilledStory(Story, KilledRun):
    """A story whose engine is killed at some instants."""

    def to_the_end(self, dead_s: float | None = None, until_s: float = 3_000.0) -> Run:
        """Execute the run to its end, with another engine after each death.

        Args:
            dead_s: how long no engine runs after a death; None: as the dice of the story decide.
            until_s: the second at which the run is left if it has not ended.
        """
        execute = self.played
        while True:
            try:
                return execute(until_s)
            except Killed:
                self.clock.pass_time(self.chance.choice(DEAD_S) if dead_s is None else dead_s)
                execute = self.resumed

    def late_ones_arrive(self) -> None:
        """Wait until no request of a killed engine can arrive any more."""
        self.clock.pass_time(70.0)
        self.cluster.catch_up()


def _is_step(event: AnyRunEvent, name: str) -> bool:
    return type(event).__name__ == "StepBegun" and getattr(event, "tp", None) == tp(name)


def refuses(
    story: Story,
    call: str = "alter_reassignments",
    for_s: float = inf,
    code: str = "POLICY_VIOLATION",
) -> None:
    """Have Kafka refuse a kind of request for a while."""
    sending, until_s = getattr(story.sending, call), story.clock.monotonic() + for_s
    no = WriteResult(Verdict.REFUSED, code, "not today")

    async def refusing(partitions: Any, **how: Any) -> Any:
        if story.clock.monotonic() < until_s:
            return dict.fromkeys(partitions, no)
        return await sending(partitions, **how)

    setattr(story.sending, call, refusing)


def of_request(request: Request, name: str) -> Any:
    """Choose the answers to a kind of request about a partition."""

    def such(event: AnyRunEvent) -> bool:
        return getattr(event, "request", None) is request and getattr(event, "tp", None) == tp(name)

    return such
