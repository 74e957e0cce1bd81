"""Recordings decided by a seed: runs in trouble, and clusters on which others move partitions."""

import asyncio
import gzip
import random
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ktui.cluster.errors import ClusterError
from ktui.cluster.observation import Observation
from ktui.cluster.observer import NO_INTEREST, Interest, Observer
from ktui.cluster.partition import TopicPartition
from ktui.cluster.settings import FOLLOWER_REPLICAS, LEADER_REPLICAS
from ktui.execution.run.events import JournalEntry, Owned, encode
from ktui.execution.run.run import Run
from ktui.recording import segments as lines
from ktui.recording.codec import Encoder
from ktui.recording.segments import (
    AnyLine,
    End,
    Head,
    LostPollLine,
    PollLine,
    RunLine,
    to_ms,
    wall_ms,
)
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import (
    VERSIONS,
    BrokerSpec,
    ClusterSpec,
    OutsideEvent,
    ScheduledEvent,
    TopicSpec,
)
from support.runs.engine_runs import OWNER
from support.runs.troubled import ThrottledAndCalledOff
from support.simulated.moving_clusters import Replicas, throttle

NOTHING: Mapping[int, int] = {}
GARBAGE = (
    b"",
    b"\xff\xfe\x00",
    b"{",
    b'{"kind":"look","seq":"1"}',
    b'{"kind":"nobody knows","seq":3,"at":0,"ms":0}',
    b"[1,2,3]",
)


class Item(NamedTuple):
    """One line without its number, and when it was recorded."""

    at: int
    ms: int
    what: Observation | AnyLine


class Tape:
    """The items of one session, in order.

    Args:
        cluster_id: the id of the cluster.
        session: the session's name.
        ms: milliseconds by which the session's monotonic clock is ahead of the simulation's.
        at: milliseconds by which the session's wall clock is ahead.
    """

    def __init__(self, cluster_id: str, session: str, *, ms: int = 0, at: int = 0) -> None:
        self.cluster_id, self.session = cluster_id, session
        self.program = ""  # what recorded it
        self._ms, self._at = ms, at
        self.items: list[Item] = []
        self._last_look_ms: int | None = None

    def look(self, seen: Observation) -> None:
        """Record a poll that was answered."""
        self._last_look_ms = to_ms(seen.monotonic_s)
        self._add(wall_ms(seen.at), self._last_look_ms, seen)

    def lost(self, clock: Any, reason: str) -> None:
        """Record a poll that failed."""
        at, ms = _now(clock)
        self._add(at, ms, LostPollLine(seq=0, at=at, ms=ms, reason=reason))

    def happened(self, clock: Any, run: tuple[str, str], entry: JournalEntry) -> None:
        """Record an entry of the journal of a run on this machine, given by name and id."""
        at, ms = _now(clock)
        if self._last_look_ms is None:
            self._last_look_ms = ms
        ms = max(self._last_look_ms, ms - (at - wall_ms(entry.at)))
        line = RunLine(
            seq=0,
            at=wall_ms(entry.at) + self._at,
            ms=ms,
            run=run[0],
            run_id=run[1],
            entry=entry.seq,
            event=msgspec.Raw(encode(entry.event)),
        )
        self._add(at, ms, line)

    @property
    def looks(self) -> list[int]:
        """The numbers of the items that are answered polls."""
        return [n for n, item in enumerate(self.items) if isinstance(item.what, Observation)]

    def end(self) -> None:
        """Record that the session was closed cleanly."""
        if self.items:
            at, ms, _ = self.items[-1]
            self.items.append(Item(at, ms, End(seq=0, at=at, ms=ms)))

    def _add(self, at: int, ms: int, what: Observation | AnyLine) -> None:
        self.items.append(Item(at + self._at, ms + self._ms, what))

    def segments(
        self,
        cuts: Collection[int] = (),
        wholes: Collection[int] = (),
        steps: Mapping[int, int] = NOTHING,
    ) -> list[list[bytes]]:
        """Return the lines of each segment.

        Args:
            cuts: the items before which a new segment begins.
            wholes: the items that are written whole, not as a delta.
            steps: by look, its item's number, the milliseconds by which the wall clock jumps there.
        """
        found: list[list[bytes]] = []
        encoder, seq, ahead = Encoder(), 0, 0
        for number, item in enumerate(self.items):
            ahead += steps.get(number, 0)
            if number == 0 or number in cuts:
                head = self._head(len(found), seq, item, ahead)
                found.append([lines.encode(head)])
                encoder, seq = Encoder(), seq + 1
            line = _line(item, encoder, seq, whole=number in wholes, ahead=ahead)
            found[-1].append(lines.encode(line))
            seq += 1
        return found

    def _head(self, segment: int, seq: int, item: Item, ahead: int) -> Head:
        return Head(
            seq=seq,
            at=item.at + ahead,
            ms=item.ms,
            schema_version=lines.SCHEMA_VERSION,
            session=self.session,
            segment=segment,
            cluster_id=self.cluster_id,
            program=self.program,
        )


def _now(clock: Any) -> tuple[int, int]:
    return wall_ms(clock.now()), to_ms(clock.monotonic())


def _line(item: Item, encoder: Encoder, seq: int, *, whole: bool, ahead: int) -> AnyLine:
    at, ms, what = item
    if isinstance(what, Observation):
        look: PollLine = encoder.poll(what, seq=seq, whole=whole)
        return msgspec.structs.replace(look, at=at + ahead, ms=ms)
    wall = what.at if isinstance(what, RunLine) else at
    return msgspec.structs.replace(what, seq=seq, at=wall + ahead, ms=ms)


class Recording(NamedTuple):
    """A file of a recording: its name under the folder, and its lines with their newlines."""

    name: str
    lines: list[bytes]


def cut_at_random(tape: Tape, dice: random.Random) -> list[Recording]:
    """Encode a tape in random segments, with some of its polls whole."""
    count = len(tape.items)
    cuts = {dice.randrange(count) for _ in range(dice.choice((0, 0, 1, 2)))} if count else ()
    wholes = {n for n in range(count) if dice.random() < 0.1}
    return files_of(tape, tape.segments(cuts, wholes))


def files_of(tape: Tape, segments: list[list[bytes]]) -> list[Recording]:
    """Name the files of a tape's segments."""
    return [
        Recording(f"{tape.cluster_id}/{tape.session}/{number:06}.jsonl.gz", segment)
        for number, segment in enumerate(segments)
    ]


def with_garbage(files: list[Recording], dice: random.Random) -> Iterator[Recording]:
    """Insert garbage lines between the others, after the head."""
    for name, segment in files:
        held = list(segment)
        for _ in range(dice.choice((0, 1, 3))):
            held.insert(dice.randint(1, len(held)), dice.choice(GARBAGE) + b"\n")
        yield Recording(name, held)


def with_losses(files: list[Recording], dice: random.Random) -> Iterator[Recording]:
    """Lose, spoil or repeat a line of some files, or cut a file short."""
    for name, segment in files:
        held = list(segment)
        fate, number = dice.random(), dice.randrange(len(held))
        if fate < 0.2:
            del held[number]
        elif fate < 0.3:
            held[number] = held[number][: len(held[number]) // 2] + b"\n"
        elif fate < 0.4:
            held.insert(number + 1, held[number])
        elif fate < 0.5:
            del held[number + 1 :]
        yield Recording(name, held)


def write(folder: Path, files: Collection[Recording]) -> None:
    for name, segment in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(b"".join(segment), compresslevel=1, mtime=0))


class RecordedRun(ThrottledAndCalledOff):
    """A run of which every engine records a session, and which views may observe, too.

    Args:
        seed: decides everything.
        folder: the folder of the journal.
    """

    longest_s = 250.0  # steps in flight stay open then

    def __init__(self, seed: int, folder: Path) -> None:
        self.chosen = random.Random(f"tapes {seed}")  # noqa: S311 - a test's dice
        super().__init__(seed, folder, killed=self.chosen.random() < 0.4)
        self.cluster_id = f"run-{seed:05}"
        self.cluster.spec = msgspec.structs.replace(self.cluster.spec, name=self.cluster_id)
        self.tapes: list[Tape] = []
        self._mine: Tape | None = None  # the tape of the engine

    def _options(self) -> dict[str, Any]:
        poll_s = self.chosen.choice((3.0, 5.0, 8.0, 15.0))
        return {**super()._options(), "poll_s": poll_s}

    @property
    def named(self) -> tuple[str, str]:
        """The run's name and id."""
        return "drain", f"{self.cluster_id}-drain"

    def tape(self, program: str = "ktui watch") -> Tape:
        """Begin a session, on a machine whose clocks differ from the cluster's."""
        dice = self.chosen
        ahead = {"ms": dice.randint(0, 10**9), "at": dice.choice((0, 0, 0, -2_500, 40_000))}
        self.tapes.append(Tape(self.cluster_id, f"{dice.getrandbits(128):032x}", **ahead))
        self.tapes[-1].program = program
        return self.tapes[-1]

    async def execute(self, owner: Owned = OWNER) -> Run:
        if self.chosen.random() < 0.9 or self._mine is None:
            tape = self._mine = self.tape("ktui engine")
            if (
                self.chosen.random() < 0.9
            ):  # otherwise the journal's beginning is missing, or in another session
                for entry in self.entries():
                    tape.happened(self.clock, self.named, entry)
        return await super().execute(owner)

    def written(self, entries: Sequence[JournalEntry]) -> None:
        super().written(entries)
        if self._mine is not None:
            for entry in entries:
                self._mine.happened(self.clock, self.named, entry)

    def observer(self) -> Observer:
        assert self._mine is not None
        return _Taped(self, self._mine)

    async def _ask(self) -> None:
        """Send the operators' commands, let views poll, and have the engine leave the run last."""
        views = [asyncio.create_task(self._view()) for _ in range(self.chosen.choice((0, 1, 2)))]
        try:
            await super()._ask()
        finally:
            for view in views:
                view.cancel()

    async def _view(self) -> None:
        """Poll from another machine for a while."""
        dice, tape = self.chosen, self.tape()
        interest = dice.choice((NO_INTEREST, Interest(topics=frozenset({"orders"}))))
        observer = Observer(self.cluster.reader(), self.clock)
        poll_s, takes_events = dice.choice((4.0, 9.0, 20.0, 70.0)), dice.random() < 0.5
        await self.clock.sleep(dice.uniform(0.0, 60.0))
        taken = 0
        try:
            for _ in range(dice.randint(1, 25)):
                new = [*self.entries()][taken:] if takes_events else []
                for entry in new:
                    tape.happened(self.clock, self.named, entry)
                taken += len(new)
                await _polled(tape, observer, interest, self.clock)
                await self.clock.sleep(poll_s)
            tape.end()
        finally:
            await observer.aclose()


class _Taped(Observer):
    """Records what an engine sees, and passes it to the run."""

    def __init__(self, run: RecordedRun, tape: Tape) -> None:
        super().__init__(run.reader, run.clock)
        self._run, self._tape = run, tape

    async def poll(self, interest: Interest = NO_INTEREST) -> Observation:
        self._run.looks += 1
        try:
            seen = await super().poll(interest)
        except ClusterError as error:
            self._tape.lost(self._run.clock, str(error))
            raise
        self._tape.look(seen)
        self._run.seen = seen
        return seen

    async def aclose(self) -> None:
        await asyncio.sleep(
            0
        )  # a request made at the instant of a kill begins, and is then cancelled
        await super().aclose()


async def _polled(tape: Tape, observer: Observer, interest: Interest, clock: Any) -> None:
    try:
        tape.look(await observer.poll(interest))
    except ClusterError as error:
        tape.lost(clock, str(error))


def recorded(seed: int, folder: Path) -> list[Tape]:
    """Execute a run to its end, and return what each session recorded."""
    run = RecordedRun(seed, folder)
    asyncio.run(run.to_its_end())
    return [tape for tape in run.tapes if tape.items]


def tapes_of_runs(seeds: Iterable[int]) -> list[Tape]:
    """Return the recordings of some runs."""
    found: list[Tape] = []
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            found += recorded(seed, Path(folder))
    return found


BROKERS = range(1, 7)
TOPICS = ("orders", "payments")
_DENIED = ("describe_topics", "list_reassignments", "log_offsets", "log_dirs", "describe_cluster")
_GAPS = (*(1.0, 2.0, 3.0, 5.0, 5.0) * 8, *(10.0, 15.0) * 3, 29.0, 30.0, 31.0, 59.0, 60.0, 61.0)
"""Seconds between polls, on both sides of the limits for stalled and for near."""


class World:
    """A cluster of a few partitions, all its events, and the sessions that observe it.

    Args:
        seed: decides everything.
    """

    def __init__(self, seed: int) -> None:
        self.dice = dice = random.Random(f"world {seed}")  # noqa: S311 - a test's dice
        self.cluster_id = f"world-{seed:05}"
        topics = {name: self._some_partitions() for name in TOPICS}
        self._partitions = [
            TopicPartition(name, n) for name, found in topics.items() for n in range(len(found))
        ]
        self.clock = VirtualClock()
        self.cluster = SimulatedCluster(self._spec(topics), self.clock, seed=seed)
        for _ in range(dice.randint(4, 16)):
            self._schedule(float(dice.randint(0, 200)), self._act(topics))
        self.polls = dice.randint(10, 45)
        self.tapes = [self._tape(number) for number in range(dice.choice((1, 1, 2, 2, 3)))]

    def _tape(self, number: int) -> Tape:
        """Begin a session, on a machine whose clocks differ from the cluster's."""
        dice = self.dice
        ahead = {"ms": dice.randint(0, 10**9), "at": dice.choice((0, 0, -40_000, 3_500))}
        return Tape(self.cluster_id, f"{dice.getrandbits(128):032x}-{number}", **ahead)

    def _schedule(self, at_s: float, act: OutsideEvent) -> None:
        self.cluster.schedule(ScheduledEvent(at_s, act))
        if isinstance(act, layout.Deny):
            self.cluster.schedule(ScheduledEvent(at_s + 25.0, layout.Allow(act.call)))

    def _some_partitions(self) -> tuple[Replicas, ...]:
        return tuple(self._some_brokers() for _ in range(self.dice.randint(1, 2)))

    def _some_brokers(self) -> Replicas:
        return tuple(self.dice.sample(BROKERS, self.dice.choice((1, 2, 3, 3))))

    def _spec(self, topics: dict[str, tuple[Replicas, ...]]) -> ClusterSpec:
        dice = self.dice
        return ClusterSpec(
            name=self.cluster_id,
            version=dice.choice(VERSIONS),
            brokers=tuple(BrokerSpec(id=b, net_in=1e6) for b in BROKERS),
            topics=tuple(
                TopicSpec(
                    name=name,
                    replicas=replicas,
                    bytes_each=dice.choice((0, 20_000_000, 50_000_000, 90_000_000)),
                    message_bytes=dice.choice((100, 1_000)),
                    inbound=dice.choice((0.0, 0.0, 20_000.0)),
                    configs=dice.choice(({}, {FOLLOWER_REPLICAS: "*", LEADER_REPLICAS: "*"})),
                )
                for name, replicas in topics.items()
            ),
            auto_leader_rebalance=dice.random() < 0.5,
            rebalance_interval_s=20.0,
            lag_time_max_s=dice.choice((3.0, 30.0)),
        )

    def _act(self, topics: dict[str, tuple[Replicas, ...]]) -> OutsideEvent:
        dice, broker = self.dice, self.dice.choice(BROKERS)
        tp, topic, call = dice.choice(self._partitions), dice.choice(TOPICS), dice.choice(_DENIED)
        some: tuple[OutsideEvent, ...] = (
            *(layout.Alter({tp: self._some_brokers()}) for _ in range(8)),
            layout.Alter({tp: None}), layout.Alter({tp: None}),
            layout.Kill(broker), layout.Start(broker),
            layout.Slow(broker, dice.choice((0.0001, 1.0))),
            throttle("follower", broker, dice.choice((1, 10_000, 300_000))),
            throttle("leader", broker, 500_000),
            layout.Deny(call), layout.ElectLeaders((tp,)),
            layout.DeleteTopic(topic),
            layout.CreateTopic(TopicSpec(name=topic, replicas=topics[topic], bytes_each=10**6)),
        )  # fmt: skip
        return dice.choice(some)

    def recorded(self) -> list[Tape]:
        """Play everything, and return what each session recorded."""
        asyncio.run(self._record())
        return [tape for tape in self.tapes if tape.items]

    async def _record(self) -> None:
        looking = [(tape, *self._eyes()) for tape in self.tapes]
        for _ in range(self.polls):
            for tape, observer, interest in looking:
                if len(looking) == 1 or self.dice.random() < 0.6:
                    await self._look(tape, observer, interest)
                    self._pass(self.dice.choice((0.0, 0.0, 0.25)))
            self._pass(self.dice.choice(_GAPS))
        for tape, observer, _ in looking:
            await observer.aclose()
            if self.dice.random() < 0.7:
                tape.end()

    def _eyes(self) -> tuple[Observer, Interest]:
        interest = self.dice.choice((NO_INTEREST, Interest(topics=frozenset(TOPICS))))
        return Observer(self.cluster.reader(), self.clock), interest

    async def _look(self, tape: Tape, observer: Observer, interest: Interest) -> None:
        looking = asyncio.create_task(observer.poll(interest))
        while not looking.done():
            await self.clock.advance(0.0)
            if not looking.done():
                await self.clock.advance(0.25)
        try:
            tape.look(await looking)
        except ClusterError as error:
            tape.lost(self.clock, str(error))

    def _pass(self, seconds: float) -> None:
        self.clock.pass_time(seconds)


def tapes_of(seeds: Iterable[int]) -> list[Tape]:
    """Return the recordings of some worlds."""
    return [tape for seed in seeds for tape in World(seed).recorded()]
