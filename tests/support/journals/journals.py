"""Journals with events in them, also after a crash; their owners; runs played step by step."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ktui.cluster.clock import Clock, SystemClock
from ktui.cluster.group_claim import SESSIONS, GroupClaim, Sessions
from ktui.cluster.ownership import (
    ClaimPreview,
    ClaimStatus,
    ClusterOwner,
    GroupMembership,
    Member,
    OwnedHere,
)
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import Verdict
from ktui.execution import JournalProblem
from ktui.execution.forecast.estimate import Estimate
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import (
    Answered,
    AnyRunEvent,
    Ended,
    JournalEntry,
    Owned,
    Planned,
    PlannedPart,
    Request,
    Started,
    StateEntered,
    StepBegun,
    StepOver,
)
from ktui.execution.run.options import RunOptions
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.insights import Prior
from ktui.pacing.limits import Limits
from ktui.progress.timeline import Lane, Phase, Role, Slots, Timeline
from ktui.simulated.clock import VirtualClock

CLUSTER = "cFlPpHqxRmOaCrPxQZu1bA"


def started(partitions: int, cluster_id: str = CLUSTER) -> Started:
    return Started(
        cluster_id=cluster_id,
        plan="drain.json",
        plan_sha256="0" * 64,
        partitions=partitions,
        limits=Limits(replicas=1, partitions=2),
        options=RunOptions(),
        version="0.1.0",
    )


def planned(partitions: int) -> PlannedPart:
    """Plan `orders-0` and so on, each to be moved from broker 3 to broker 4."""
    return PlannedPart(
        partitions=tuple(
            Planned("orders", n, "id", (1, 2, 4), (1, 2, 3), 1) for n in range(partitions)
        )
    )


def step(partition: int, batch: int = 1) -> StepBegun:
    return StepBegun(
        topic="orders",
        partition=partition,
        batch=batch,
        replicas=(1, 2, 3, 4),
        adding=(4,),
        removing=(),
        elect=None,
        before=(1, 2, 3),
        leader=1,
    )


def accepted(partition: int) -> Answered:
    return Answered(
        topic="orders", partition=partition, request=Request.ALTER, verdict=Verdict.ACCEPTED
    )


def over(partition: int) -> StepOver:
    return StepOver(topic="orders", partition=partition, replicas=(1, 2, 3, 4), leader=1)


def owned() -> Owned:
    return Owned(pid=4711, host="ops1", user="ada")


def ended(done: int) -> Ended:
    return Ended(counts={State.DONE: done})


def a_start(partitions: int = 3) -> list[AnyRunEvent]:
    return [started(partitions), planned(partitions), owned()]


def many_events(count: int) -> list[AnyRunEvent]:
    """Return the events of a run of one step after another."""
    course = [event for n in range(count) for event in (step(n, n + 1), accepted(n), over(n))]
    return [*a_start(count), *course][:count]


def written(path: Path, events: Sequence[AnyRunEvent], *, at_once: int = 7) -> Journal:
    """Write a journal of events, and leave it open, so that the latest events are in the log."""
    journal = Journal.create(path, VirtualClock())
    for n in range(0, len(events), at_once):
        journal.append(events[n : n + at_once])
    return journal


def crashed(journal: Path, folder: Path) -> Path:
    """Return a copy of a journal in use, as a power cut would leave it."""
    folder.mkdir()
    for suffix in ("", "-wal", "-head"):
        shutil.copy(f"{journal}{suffix}", folder)
    return folder / journal.name


def read(path: Path) -> tuple[list[JournalEntry], str | None]:
    """Return the intact entries of a journal, and the problem with the rest."""
    try:
        with Journal.open(path, VirtualClock(), read_only=True) as journal:
            return list(journal.entries()), journal.damage
    except JournalProblem as problem:
        return [], str(problem)


SINCE = datetime(2026, 11, 22, 9, 30, tzinfo=UTC)


def owner(user: str, *, run: str = "orders", since: datetime = SINCE) -> ClusterOwner:
    """Return the state directory of a user as the owner of a cluster."""
    return ClusterOwner(
        state_dir=f"directory-of-{user}", user=user, host="ops1", run=run, since=since
    )


class GoodClaim:
    """A claim on a cluster that nobody else ever claims."""

    def __init__(self, me: ClusterOwner) -> None:
        self._me = me

    async def preview(self) -> ClaimPreview:
        return ClaimPreview(
            ("ktui-id",), "__consumer_offsets", makes_topic=False, permission="Read", permitted=True
        )

    async def read(self) -> ClaimStatus:
        return OwnedHere(self._me)

    async def claim(self, *, take_over: bool) -> ClaimStatus:
        del take_over
        return OwnedHere(self._me)

    async def check(self) -> ClaimStatus:
        return OwnedHere(self._me)

    async def release(self) -> str | None:
        return None

    async def aclose(self) -> None:
        pass


class Owners:
    """Makes claims on one cluster, and closes them all."""

    def __init__(
        self, memberships: Callable[[], GroupMembership], clock: Clock, cluster_id: str
    ) -> None:
        self._memberships = memberships
        self._clock = clock
        self._cluster_id = cluster_id
        self._made: list[GroupClaim] = []

    def claim_of(
        self, me: ClusterOwner, sessions: Sessions = SESSIONS, *, cluster_id: str = ""
    ) -> GroupClaim:
        """Return the claim of another engine of a state directory."""
        name = cluster_id or self._cluster_id
        claim = GroupClaim(self._memberships(), name, me, self._clock, sessions)
        self._made.append(claim)
        return claim

    async def aclose(self) -> None:
        for claim in self._made:
            await claim.aclose()


async def release(groups: GroupMembership, cluster_id: str) -> None:
    """Free a cluster of its owner, as an operator does by hand: remove its groups' members."""
    anyone = Member("", -1)
    if await groups.stores_groups():
        for group in (f"ktui-{cluster_id}", f"ktui-{cluster_id}-engine"):
            await groups.leave(group, anyone)


class SeenJournal:
    """Keeps a journal open, with its entries as of the last write to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version: int | None = None
        self._entries: list[JournalEntry] = []
        self._open()

    def entries(self) -> list[JournalEntry]:
        """Return all entries, also of a journal that has taken the place of the first."""
        if self._path.stat().st_ino != self._file:
            self.close()
            self._open()
            self._version = None
        version = self._journal.data_version()
        if version != self._version:
            self._version, self._entries = version, list(self._journal.entries())
        return self._entries

    def close(self) -> None:
        self._journal.close()

    def _open(self) -> None:
        self._file = self._path.stat().st_ino if self._path.exists() else None
        self._journal = Journal.open(self._path, SystemClock(), read_only=True)


AT = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)
GB = 10**9
BESIDE = 3  # seconds that a step or two take besides copying, because of polls
TWO_AT_ONCE = 4 / 3  # how many times as much two copies at once bring a broker as one does
MANY_AT_ONCE = 2.0  # the same of very many copies


class ScriptedRun:
    """A run, and an estimate that follows the run event by event."""

    def __init__(
        self,
        *sizes: int,
        target: tuple[int, ...] = (4, 2, 3),
        targets: tuple[tuple[int, ...], ...] = (),
        original: tuple[int, ...] = (1, 2, 3),
        prior: Prior | None = None,
    ) -> None:
        self.run = Run("run")
        self.estimate = Estimate(self.run, lambda _cluster_id: prior)
        self.now, self.seq = AT, 0
        self.entries: list[JournalEntry] = []
        planned = [
            Planned(
                topic="a", partition=n, topic_id=None, original=original,
                target=targets[n] if targets else target,
                leader=1, size=size,
            )
            for n, size in enumerate(sizes)
        ]  # fmt: skip
        self.happen(started(len(planned)), PlannedPart(partitions=tuple(planned)), owned())

    def happen(self, *events: AnyRunEvent) -> None:
        new = []
        for event in events:
            self.seq += 1
            new.append(JournalEntry(self.seq, self.now, event))
            self.run.apply(new[-1])
        self.entries += new
        self.estimate.take(new)

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def look(self, share: float | None = None, partition: int = 0) -> None:
        """Show the estimate how far a partition's step is; without a share, only the journal."""
        tp = TopicPartition("a", partition)
        self.estimate.update(self.now, {} if share is None else {tp: _copying(tp, share)})

    def look_at(self, shares: Mapping[int, float]) -> None:
        """Show the estimate how far the steps of several partitions are."""
        seen = {}
        for partition, share in shares.items():
            tp = TopicPartition("a", partition)
            seen[tp] = _copying(tp, share, self.run.tracks[tp].planned.target[0])
        self.estimate.update(self.now, seen)

    def begin(self, partition: int = 0) -> None:
        tracks = self.run.tracks
        self.happen(_adds(partition, tracks[TopicPartition("a", partition)].planned.target[0]))

    def over(self, partition: int = 0) -> None:
        self.happen(StepOver(topic="a", partition=partition, replicas=(1, 2, 3, 4), leader=1))

    def add(self, partition: int = 0) -> None:
        self.begin(partition)
        self.over(partition)

    def finish(self, partition: int = 0) -> None:
        self.add(partition)
        self.happen(StateEntered(topic="a", partition=partition, state=State.DONE))

    def left_s(self) -> float | None:
        left = self.estimate.copied.left_s
        return None if left is None else left.middle

    def afresh(self) -> float | None:
        """Return the time left of an estimate that reads the whole journal now."""
        estimate = Estimate(self.run)
        estimate.take(self.entries)
        estimate.update(self.now)
        left = estimate.copied.left_s
        return None if left is None else left.middle


def _adds(partition: int, broker: int) -> StepBegun:
    return StepBegun(
        topic="a", partition=partition, batch=1, replicas=(1, 2, 3, broker), adding=(broker,),
        removing=(),
        elect=None, before=(1, 2, 3), leader=1,
    )  # fmt: skip


def _copying(tp: TopicPartition, share: float, broker: int = 4) -> Timeline:
    return Timeline(
        state=PartitionState(tp, None, (1, 2, 3, broker), (1, 2, 3), 1),
        phase=Phase.MOVING,
        began_at=AT,
        began_s=0.0,
        ended_at=None,
        original=(1, 2, 3),
        original_ordered=True,
        target=(1, 2, 3, broker),
        lanes={broker: Lane(broker, Role.ADDING, share=share)},
        recent=Slots(5.0, 0.0, b"\x00"),
    )


def copied_for(run: ScriptedRun, seconds: int, bytes_s: float) -> None:
    """Let the first partition be copied at this rate, and poll as often as a view does."""
    size = run.run.tracks[TopicPartition("a", 0)].planned.size
    for second in range(0, seconds, 5):
        run.look(bytes_s * second / size)
        run.left_s()
        run.pass_time(5)
    run.look(bytes_s * seconds / size)
