"""What a broker holds, with the runs that take it away: as it was read, and in words. Pure."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

import msgspec

from ktui.cluster.asking import read_cluster_and_reassignments, with_reassignments
from ktui.cluster.broker import Broker, LogDir, all_cordoned
from ktui.cluster.errors import ClusterError
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import ClusterReader, LogDirsAnswer
from ktui.cluster.text import clean
from ktui.columns import Column
from ktui.execution.broker.removal import Removal
from ktui.execution.run.run import Run
from ktui.execution.run.track import Track, find_goal
from ktui.planning.plan import join_all, join_named, join_some
from ktui.planning.throttle_rates import CANARY_PREFIX, is_canary
from ktui.quantities import as_bytes, as_count

States = Mapping[TopicPartition, PartitionState]


class BrokerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What was read of one broker."""

    id: int
    cluster_id: str
    brokers: Mapping[int, Broker]  # registered; before Kafka 4.1, one that is down may be missing
    states: States  # with a replica on the broker, or one that comes to it
    on_disk: LogDirsAnswer | None  # with all of its replicas; None without an answer, or not asked
    unread: tuple[str, ...] = ()  # what could not be read, and why, as sentences

    @property
    def broker(self) -> Broker | None:
        return self.brokers.get(self.id)

    @property
    def known(self) -> bool:
        return self.broker is not None or bool(self.states)

    @property
    def log_dirs(self) -> tuple[LogDir, ...]:
        return () if self.on_disk is None else self.on_disk.log_dirs


async def read_broker(reader: ClusterReader, broker: int, *, fresh: bool = False) -> BrokerFacts:
    """Read what a broker holds, according to the cluster and to the broker itself.

    The log dirs are read last, to see a replica that comes meanwhile. Metadata leaves out topics
    that the principal may not describe; the log dirs have their replicas. Raises ClusterError: the
    cluster cannot be read, or (`fresh`) has no proof of the metadata's age.
    """
    known = await read_metadata(reader, broker, fresh=fresh)
    on_disk, problems = await _on_disk(reader, broker)
    return msgspec.structs.replace(known, on_disk=on_disk, unread=(*known.unread, *problems))


async def read_metadata(reader: ClusterReader, broker: int, *, fresh: bool = False) -> BrokerFacts:
    """The same without asking the broker itself. Args, Raises: as `read_broker`."""
    cluster, listed = await read_cluster_and_reassignments(reader)
    found: dict[TopicPartition, PartitionState] = {}
    unread: list[str] = []
    async for page in reader.scan_topics(fresh=fresh):
        found.update((tp, s) for tp, s in page.partitions.items() if broker in s.replicas)
        unread.extend(failure.sentence for failure in page.failures)
    moving = {tp: m for tp, m in listed.items() if tp in found or broker in m.replicas}
    return BrokerFacts(
        id=broker,
        cluster_id=cluster.cluster_id,
        brokers=cluster.brokers,
        states=with_reassignments(found, moving),
        on_disk=None,
        unread=tuple(dict.fromkeys(unread)),
    )


async def _on_disk(
    reader: ClusterReader, broker: int
) -> tuple[LogDirsAnswer | None, tuple[str, ...]]:
    try:
        answer = await reader.log_dirs(broker, None)
    except ClusterError as error:
        return None, (str(error),)
    failed = (each for each in answer.log_dirs if each.error is not None)
    return answer, tuple(
        f"log dir {each.path} is offline ({each.error}), so what is in it cannot be read"
        for each in failed
    )


class Stay(enum.StrEnum):
    """Why a replica is on a broker."""

    LEAVING = "leaving"  # a reassignment in flight removes it
    ARRIVING = "arriving"  # a reassignment in flight adds it
    PLANNED = "planned"  # an unfinished run takes it away, but has no step of it in flight
    KEPT = "kept"  # an unfinished run has the partition, and keeps or brings it here
    CANARY = "canary"  # of an unfinished run, which deletes its topic when its engine exits
    LEFT_CANARY = "left_canary"  # the canary of a run that is not among the unfinished ones here
    UNPLANNED = "unplanned"  # no run of this state directory takes it away
    STRAY = "stray"  # on the broker's disk, and not named by the metadata

    @property
    def leaves(self) -> bool:
        return self in (Stay.LEAVING, Stay.PLANNED, Stay.CANARY)


class HeldReplica(msgspec.Struct, frozen=True, kw_only=True):
    """One replica on a broker, or on its way to it."""

    tp: TopicPartition
    why: Stay
    run: str = ""  # that moves, takes or keeps it; empty for none of this state directory
    size: int | None = None  # bytes, with those of a copy in another log dir; None where not known
    moves_dirs: bool = False  # to another log dir of the broker
    leads: bool = False
    preferred: bool = False  # the first replica, which Kafka prefers as the leader
    only_in_sync: bool = False  # without this broker, the partition is offline
    offline: bool = False  # no leader: nothing can be copied from it


class RunClaim(msgspec.Struct, frozen=True):
    """What an unfinished run means to do with a replica."""

    run: str
    in_flight: bool
    keeps: bool  # the broker has a replica once the run is over


Claims = Mapping[TopicPartition, RunClaim]


class Holdings(msgspec.Struct, frozen=True):
    """All replicas of a broker, ordered by partition."""

    replicas: tuple[HeldReplica, ...]

    @property
    def bytes(self) -> int | None:
        return total(each.size for each in self.replicas)

    def count(self, *whys: Stay) -> int:
        return sum(each.why in whys for each in self.replicas)

    def split(self, exclude: Collection[str]) -> tuple[Holdings, Holdings]:
        if not exclude:
            return self, Holdings(())
        out = {
            each.tp for each in self.replicas if any(fnmatchcase(each.tp.topic, p) for p in exclude)
        }
        leaving = tuple(each for each in self.replicas if each.tp not in out)
        return Holdings(leaving), Holdings(tuple(e for e in self.replicas if e.tp in out))

    def topics(self) -> list[TopicHoldings]:
        by_topic: dict[str, list[HeldReplica]] = {}
        for each in self.replicas:
            by_topic.setdefault(each.tp.topic, []).append(each)
        topics = [TopicHoldings(tuple(some), name) for name, some in by_topic.items()]
        return sorted(topics, key=lambda t: (-(t.bytes or 0), -len(t.replicas), t.topic))


class TopicHoldings(Holdings, frozen=True):
    """The replicas of one topic on a broker."""

    topic: str

    def reasons(self) -> list[tuple[Stay, str, int]]:
        counted = Counter((each.why, each.run) for each in self.replicas)
        order = [*Stay]
        ranked = sorted(counted.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))
        return [(why, run, count) for (why, run), count in ranked]


def total(sizes: Iterable[int | None]) -> int | None:
    """Add up sizes; None where one of them is not known."""
    summed = 0
    for size in sizes:
        if size is None:
            return None
        summed += size
    return summed


def claims_on(
    broker: int, runs: Iterable[Run], states: Mapping[TopicPartition, PartitionState]
) -> dict[TopicPartition, RunClaim]:
    """Return what unfinished runs mean to do with the replicas on a broker."""
    claims: dict[TopicPartition, RunClaim] = {}
    for run in runs:
        if run.exported is not None:
            continue
        for tp, state in states.items():
            track = run.tracks.get(tp)
            if track is None or track.state.ended:
                continue
            claim = RunClaim(run.name, track.step is not None, broker in _goal(track, state))
            if tp not in claims or claim.in_flight:
                claims[tp] = claim
    return claims


def _goal(track: Track, state: PartitionState) -> tuple[int, ...]:
    if track.cancel is None:
        return track.target
    return find_goal(track, state.replicas, state.isr, state.leader).replicas


def find_holdings(facts: BrokerFacts, claims: Claims, runs: Collection[str] = ()) -> Holdings:
    """Return all replicas of a broker, and why each is there."""
    return Holdings(tuple(sorted(_held(facts, claims, runs), key=lambda each: each.tp)))


def _held(facts: BrokerFacts, claims: Claims, runs: Collection[str]) -> Iterator[HeldReplica]:
    on_disk = {} if facts.on_disk is None else facts.on_disk.replicas
    for tp, state in facts.states.items():
        why, run = _why(facts.id, state, claims.get(tp))
        if why is Stay.CANARY and run not in runs:
            why = Stay.LEFT_CANARY
        held = on_disk.get(tp)
        absent = 0 if facts.on_disk is not None and facts.id in state.adding else None
        yield HeldReplica(
            tp=tp,
            why=why,
            run=run,
            size=absent if held is None else held.total_size,
            moves_dirs=held is not None and held.future is not None,
            leads=state.leader == facts.id,
            preferred=state.target[:1] == (facts.id,),
            only_in_sync=state.described and state.isr == (facts.id,),
            offline=state.described and state.leader is None,
        )
    for tp in on_disk.keys() - facts.states.keys():
        yield HeldReplica(tp=tp, why=Stay.STRAY, size=on_disk[tp].total_size)


def _why(broker: int, state: PartitionState, claim: RunClaim | None) -> tuple[Stay, str]:
    mover = claim.run if claim is not None and claim.in_flight else ""
    if broker in state.removing:
        return Stay.LEAVING, mover
    if broker in state.adding:
        return Stay.ARRIVING, mover
    if claim is not None:
        return Stay.KEPT if claim.keeps else Stay.PLANNED, claim.run
    if is_canary(state.tp.topic):
        return Stay.CANARY, state.tp.topic.removeprefix(CANARY_PREFIX)
    return Stay.UNPLANNED, ""


NOTHING = "it holds no replica, and none is being moved to it"
EMPTY = f"empty: {NOTHING}"
_WHYS = {
    Stay.LEAVING: "being moved away by {by}",
    Stay.ARRIVING: "being moved here by {by}",
    Stay.PLANNED: "in the plan of {by}, to leave",
    Stay.KEPT: "in the plan of {by}, to stay",
    Stay.CANARY: "of the canary of {by}, which goes with it",
    Stay.LEFT_CANARY: "left by the canary of {by}",
    Stay.UNPLANNED: "in no plan",
    Stay.STRAY: "only on disk, unknown to the metadata",
}
_CANARIES = {
    Stay.CANARY: "{} of the canary of {}, which goes with it",
    Stay.LEFT_CANARY: "{} left by the canary of {}",
}


class BrokerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A broker, its replicas, and the runs that have to do with them."""

    facts: BrokerFacts
    holdings: Holdings
    excluded: Holdings = Holdings(())  # of topics that are left out: not in `holdings`
    without_engine: tuple[str, ...] = ()  # concerned by its replicas, and carried on by no engine
    fresh: bool  # the metadata was proven to be no older than the call
    removal: Removal | None = None  # by the state directory; None also where nobody looked

    @property
    def proven_empty(self) -> bool:
        read = self.facts.on_disk is not None and not self.facts.unread
        return self.fresh and read and not self.holdings.replicas


def find_status(
    facts: BrokerFacts,
    runs: Collection[tuple[Run, bool]],
    *,
    fresh: bool,
    removal: Removal | None = None,
    exclude: Collection[str] = (),
) -> BrokerStatus:
    """Return what a broker holds, and why; each run comes with whether an engine carries it on."""
    claims = claims_on(facts.id, [run for run, _ in runs], facts.states)
    holdings, excluded = find_holdings(facts, claims, {run.name for run, _ in runs}).split(exclude)
    concerned = {each.run for each in holdings.replicas}
    idle = (run.name for run, owned in runs if not owned and run.name in concerned)
    return BrokerStatus(
        facts=facts,
        holdings=holdings,
        excluded=excluded,
        without_engine=tuple(sorted(idle)),
        fresh=fresh,
        removal=removal,
    )


def unknown_broker(broker: int, known: Collection[int]) -> str:
    """Return the sentence that the cluster has no such broker."""
    return (
        f"the cluster has {join_named('broker', sorted(known), most=20)}, no broker {broker}. "
        "Before 4.0, Kafka does not name a broker that is down"
    )


def state_words(facts: BrokerFacts) -> str:
    """Describe the state of a broker: alive, its rack, its cordon, and log dirs that fail."""
    broker = facts.broker
    if broker is None:
        return "not registered, or down"
    words = ["alive" if broker.alive else "fenced"]
    if broker.rack is not None:
        words.append(f"rack {broker.rack}")
    if facts.on_disk is None:
        words.append("its log dirs cannot be read")
    elif all_cordoned(facts.log_dirs):
        words.append("cordoned")
    elif cordoned := sum(each.cordoned for each in facts.log_dirs):
        words.append(f"{cordoned} of {as_count(len(facts.log_dirs), 'log dir')} cordoned")
    if failed := sum(each.error is not None for each in facts.log_dirs):
        words.append(f"{as_count(failed, 'log dir')} offline")
    return ", ".join(words)


def held_words(holdings: Holdings) -> Iterator[str]:
    """Yield how much a broker holds and leads, and how much of that nothing takes away."""
    held = holdings.replicas
    if not held:
        yield "holds no replica"
        return
    leads = sum(each.leads for each in held)
    preferred = sum(each.preferred for each in held)
    yield (
        f"holds {as_count(len(held), 'replica')}, {as_bytes(holdings.bytes)}; leads {leads:,}, is "
        f"the preferred leader of {preferred:,}"
    )
    if stays := sum(not each.why.leaves for each in held):
        stay = "stays unless a plan takes it" if stays == 1 else "stay unless a plan takes them"
        yield f"{stays:,} of them {stay} away"


def dir_words(log_dir: LogDir) -> str:
    """Describe the state of a log dir."""
    if log_dir.error:
        return f"offline: {log_dir.error}"
    return "cordoned" if log_dir.cordoned else "open"


def why_words(topic: TopicHoldings) -> str:
    """Describe why the replicas of a topic are on the broker, and what depends on them."""
    whys = (
        f"{count:,} {_WHYS[why].format(by=f'run {run}' if run else 'somebody else')}"
        for why, run, count in topic.reasons()
    )
    return "; ".join((", ".join(whys), *_remarks(topic.replicas)))


def _remarks(held: Sequence[HeldReplica]) -> Iterator[str]:
    if alone := sum(each.only_in_sync for each in held):
        yield f"{alone:,} the only in sync"
    if offline := sum(each.offline for each in held):
        yield f"{offline:,} without a leader"
    if moving := sum(each.moves_dirs for each in held):
        yield f"{moving:,} moving between log dirs"


LOG_DIR_COLUMNS: tuple[Column[str], ...] = (
    Column(heading="LOG DIR", cell=lambda each: each.path),
    Column(heading="STATE", cell=dir_words),
    Column(heading="FREE", cell=lambda each: as_bytes(each.usable_bytes), right=True),
    Column(heading="OF", cell=lambda each: as_bytes(each.total_bytes), right=True),
)


def _count(heading: str, field: str) -> Column[str]:
    return Column(
        heading=heading,
        cell=lambda topic: f"{sum(getattr(each, field) for each in topic.replicas):,}",
        right=True,
    )


TOPIC_COLUMNS: tuple[Column[str], ...] = (
    Column(heading="TOPIC", cell=lambda topic: topic.topic),
    Column(heading="REPLICAS", cell=lambda topic: f"{len(topic.replicas):,}", right=True),
    Column(heading="SIZE", cell=lambda topic: as_bytes(topic.bytes), right=True),
    _count("LEADS", "leads"),
    _count("PREFERRED", "preferred"),
    Column(heading="WHY THEY ARE THERE", cell=why_words),
)
"""The last one is a sentence, which a screen puts below the others."""


def advice_lines(status: BrokerStatus, topics: Iterable[TopicHoldings]) -> Iterator[str]:
    """Yield what to do about runs without an engine and left canaries, and what was not read."""
    for run in status.without_engine:
        yield f"run {run} has no engine. Go on with it: ktui resume {run}"
    left = (topic.topic for topic in topics if topic.replicas[0].why is Stay.LEFT_CANARY)
    for name in left:
        yield (
            f"topic {name}: no unfinished run of this state directory has it. If none of another "
            f"one does, delete it: kafka-topics.sh --delete --topic {name}"
        )
    for sentence in status.facts.unread:
        yield f"could not read: {sentence}"


def why_unknown(view: BrokerStatus) -> str:
    """Return why a broker without known replicas is not known to be empty."""
    unread = view.facts.unread
    return f"the metadata names no replica on it, but {join_some(unread)}"


def but_for(view: BrokerStatus) -> str:
    """Return that a broker is empty but for what is left out; empty where nothing is left out."""
    if not view.excluded.replicas:
        return ""
    topics = (
        f"{as_count(len(each.replicas), 'replica')} of {each.topic}"
        for each in view.excluded.topics()
    )
    return f"empty but for these: {join_some(topics, most=8)}"


def held_line(view: BrokerStatus) -> str:
    """Describe in one line how much a broker holds, and which of that is on its way."""
    holdings = view.holdings
    replicas, topics = as_count(len(holdings.replicas), "replica"), holdings.topics()
    size = f", {as_bytes(holdings.bytes)}" if holdings.bytes is not None else ""
    line = f"broker {view.facts.id} holds {replicas} of {as_count(len(topics), 'topic')}{size}"
    parts = [*_on_their_way(view)]
    for why, text in _CANARIES.items():
        if runs := sorted({each.run for each in holdings.replicas if each.why is why}):
            parts.append(text.format(f"{holdings.count(why):,}", join_named("run", runs)))
    if view.facts.unread:
        parts.append(f"not all could be read: {join_some(view.facts.unread)}")
    return clean(f"{line}: {'; '.join(parts)}" if parts else line)


def _on_their_way(view: BrokerStatus) -> list[str]:
    templates = {
        Stay.LEAVING: "{} leaving",
        Stay.ARRIVING: "{} arriving",
        Stay.STRAY: "{} only on its disk, unknown to the metadata",
    }
    counted = ((text, view.holdings.count(why)) for why, text in templates.items())
    parts = [text.format(f"{count:,}") for text, count in counted if count]
    moving = sum(each.moves_dirs for each in view.holdings.replicas)
    if moving:
        parts.append(f"{moving:,} moving to another of its log dirs")
    return [join_all(parts)] if parts else []
