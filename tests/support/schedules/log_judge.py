"""A real run, checked by the controllers' own log and by the rules of pacing and of cancels."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
from msgspec.structs import replace

from ktui.cluster.clock import SystemClock
from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict
from ktui.cluster.settings import FOLLOWER_REPLICAS
from ktui.execution.run.events import (
    Answered,
    Cancel,
    Ended,
    JournalEntry,
    Owned,
    Request,
    Started,
    StepBegun,
)
from ktui.execution.run.run import Run
from ktui.inputfile import FileProblem
from ktui.lab.layout import Lab
from ktui.recording.reading import PlayedPoll as Poll
from ktui.recording.reading import find_sessions, play_session
from support import rule_book
from support.kafka.metadata_log import PartitionRecord, ThrottleLog, dumped_with_times
from support.rule_book import cancel_loses, loses, may_still_come, not_as_begun
from support.runs.cancel_stories import CancelRules
from support.runs.held_to_rules import Rules
from support.runs.witnessed import cordoned_after

WINDOW_MS = 15_000
"""The longest time from a request's read: 5 s until it leaves, then until it is given up."""
_CLOCKS_MS = 20

Replicas = tuple[int, ...]


class Standing(msgspec.Struct, frozen=True):
    """One partition at one moment, as the controllers have it."""

    replicas: Replicas = ()
    adding: Replicas = ()
    removing: Replicas = ()
    isr: Replicas = ()
    leader: int = -1
    last_isr: Replicas = ()
    """The last ISR that was not empty: the first of its members to come back may lead."""

    @property
    def moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> Replicas:
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def assigned(self) -> tuple[Replicas, Replicas, Replicas]:
        return self.replicas, self.adding, self.removing

    def after(self, record: PartitionRecord) -> Standing:
        return Standing(
            self.replicas if record.replicas is None else record.replicas,
            self.adding if record.adding is None else record.adding,
            self.removing if record.removing is None else record.removing,
            self.isr if record.isr is None else record.isr,
            self.leader if record.leader is None else record.leader,
            record.isr or self.last_isr,
        )


class Effect(msgspec.Struct, frozen=True):
    """A request that took effect: an alter, or a cancel, whose target is None."""

    offset: int
    tp: TopicPartition
    at_ms: int
    target: Replicas | None
    before: Standing
    after: Standing
    listed: frozenset[str] = frozenset()
    """The entries of its topic's throttled list, just before the effect."""
    rates: Mapping[int, str | None] = {}  # the rate of each added broker then


class Intent(msgspec.Struct):
    """A request in the journal, with its answer."""

    tp: TopicPartition
    at_ms: int
    target: Replicas | None
    answer: Answered | None = None


class TopicLog(msgspec.Struct):
    """The history of a topic's partitions.

    Attributes:
        effects: the requests that took effect, in order.
        unclean: elections by Kafka of a replica out of sync: the partition, and the time in ms.
        shrunk: the times in ms at which each partition's ISR lost a member.
    """

    effects: list[Effect] = []
    unclean: list[tuple[TopicPartition, int]] = []
    shrunk: defaultdict[TopicPartition, list[int]] = msgspec.field(
        default_factory=lambda: defaultdict(list)
    )
    problems: list[str] = []


def read_log(lab: Lab, topics: Iterable[str]) -> dict[str, TopicLog]:
    """Read the history of topics from the log."""
    records = list(dumped_with_times(lab))
    times = {offset: at_ms for offset, at_ms, _ in records}
    untimed = [(offset, record) for offset, _, record in records]
    return {topic: followed(ThrottleLog.among(untimed, topic), times) for topic in topics}


def followed(throttles: ThrottleLog, times: Mapping[int, int]) -> TopicLog:
    """Follow the partitions of a topic.

    Args:
        throttles: the records about the topic.
        times: the time of each offset in ms.
    """
    log = TopicLog()
    standing: dict[TopicPartition, Standing] = {}
    for record in throttles.partitions:
        if record.created and record.tp in standing:  # there was an earlier topic of that name
            log, standing = TopicLog(), {}
        before = standing.get(record.tp, Standing())
        now = standing[record.tp] = before.after(record)
        if not record.created:
            _take(log, record, times[record.offset], before, now)
            _see_throttles(log, record, throttles)
    return log


def _take(
    log: TopicLog, record: PartitionRecord, at_ms: int, before: Standing, now: Standing
) -> None:
    tp = record.tp
    if {*before.isr} - {*now.isr}:
        log.shrunk[tp].append(at_ms)
    effect = _effect(record, at_ms, before, now)
    if effect is not None:
        log.effects.append(effect)
    elected_out_of_sync = record.unclean and now.leader not in before.last_isr
    if elected_out_of_sync and effect is None:
        log.unclean.append((tp, at_ms))
    elif elected_out_of_sync:
        log.problems.append(f"{tp}: a request gave the lead to a replica out of sync: {effect}")


def _see_throttles(log: TopicLog, record: PartitionRecord, throttles: ThrottleLog) -> None:
    """Note the throttles of the brokers that the last effect adds, if this record made it."""
    effect = log.effects[-1] if log.effects else None
    if effect is None or effect.offset != record.offset or not effect.after.adding:
        return
    listed = throttles.listed(record.offset, FOLLOWER_REPLICAS, record.tp.partition)
    rates = {broker: throttles.rate(record.offset, broker) for broker in effect.after.adding}
    log.effects[-1] = replace(effect, listed=frozenset(listed), rates=rates)


def _effect(record: PartitionRecord, at_ms: int, before: Standing, now: Standing) -> Effect | None:
    """Recognise a request in a record; None for changes that Kafka makes by itself."""
    if now.assigned == before.assigned:
        return None
    cancels = before.moving and not now.moving
    if cancels and now.replicas == before.target:
        return None  # the reassignment is complete
    target = None if cancels else now.target
    return Effect(record.offset, record.tp, at_ms, target, before, now)


def intents(entries: Iterable[JournalEntry]) -> dict[TopicPartition, list[Intent]]:
    """Return the alters and cancels of a journal, each with its answer."""
    found: defaultdict[TopicPartition, list[Intent]] = defaultdict(list)
    for entry in entries:
        match entry.event:
            case StepBegun(alters=True) as step:
                found[step.tp].append(Intent(step.tp, _ms(entry.at), step.replicas))
            case Cancel() as cancel:
                found[cancel.tp].append(Intent(cancel.tp, _ms(entry.at), None))
            case Answered(request=Request.ALTER | Request.CANCEL) as answer:
                cancels = answer.request is Request.CANCEL
                mine = [i for i in found[answer.tp] if (i.target is None) is cancels]
                if mine:
                    mine[-1].answer = answer
    return found


def against_intents(log: TopicLog, meant: Mapping[TopicPartition, Sequence[Intent]]) -> list[str]:
    """List the effects that were not the last request sent for their partition."""
    wrong = list(log.problems)
    for effect in log.effects:
        sent = [i for i in meant.get(effect.tp, ()) if i.at_ms <= effect.at_ms + _CLOCKS_MS]
        mine = [i for i in sent if i.target == effect.target]
        if not mine:
            wrong.append(f"{effect.tp}: nobody meant to send this: {effect}")
            continue
        later = [i for i in sent[sent.index(mine[-1]) + 1 :] if not _without_effect(i)]
        if later:
            wrong.append(f"{effect.tp}: {mine[-1]} took effect after {later}: {effect}")
        why = not_as_begun(effect.before, effect.before.replicas)
        if effect.target is not None and why:
            wrong.append(f"{effect.tp}: {why}")
    return wrong


def late_s(log: TopicLog, meant: Mapping[TopicPartition, Sequence[Intent]]) -> list[float]:
    """Return the seconds from intent to effect of each request."""
    found = []
    for effect in log.effects:
        sent = (i.at_ms for i in meant.get(effect.tp, ()) if i.target == effect.target)
        delays = [(effect.at_ms - at_ms) / 1000 for at_ms in sent]
        found.append(min((s for s in delays if s >= -_CLOCKS_MS / 1000), default=0.0))
    return found


def _without_effect(intent: Intent) -> bool:
    return intent.answer is not None and intent.answer.verdict is Verdict.REFUSED


def lost_in_sync(log: TopicLog, least: int) -> tuple[list[str], list[str]]:
    """List the effects that left too few in sync: those against the rules, and those in the window.

    Args:
        log: the log of a topic.
        least: the topic's min.insync.replicas.

    Returns:
        The effects against the rules; those excused by a change between read and effect.
    """
    wrong: list[str] = []
    window: list[str] = []
    for effect in log.effects:
        target, before = effect.target, effect.before
        needed = min(least, len(target or ()))
        why = cancel_loses(before) if target is None else loses(before, target, needed)
        if not why:
            continue
        sentence = f"{effect.tp}: {why}, {effect.after}"
        shrunk = [at for at in log.shrunk[effect.tp] if 0 < effect.at_ms - at <= WINDOW_MS]
        (window if shrunk else wrong).append(sentence)
    return wrong, window


def unthrottled(log: TopicLog, rates: Collection[str]) -> list[str]:
    """List the alters that added replicas without one of the rates in force."""
    return [
        f"{why}: {effect}"
        for effect in log.effects
        for broker, rate in effect.rates.items()
        if (why := rule_book.unthrottled(effect.tp, broker, effect.listed, rate, rates))
    ]


def after_the_end(log: TopicLog, entries: Sequence[JournalEntry]) -> list[str]:
    """List the effects after the end of a run that the end did not name as open."""
    if not entries or not isinstance((last := entries[-1]).event, Ended):
        return []
    open_still = may_still_come(last.event)
    late = (effect for effect in log.effects if effect.at_ms > _ms(last.at) + _CLOCKS_MS)
    return [f"{e.tp}: it came after the end: {e}" for e in late if e.tp not in open_still]


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


Seen = tuple[datetime, Observation]

_OLD = timedelta(seconds=35)
"""A decision rests on a poll of the last 30 s; without one the recording was cut off."""


class Replayed:
    """A past run, replayed entry by entry in place of the live run that the rules expect.

    Args:
        entries: the run's journal.
        looks: the observations of the run's engines, each with the time when its poll was over.
        brokers: the brokers of the cluster.
        least: the least min.insync.replicas of all topics.
    """

    def __init__(
        self,
        entries: Sequence[JournalEntry],
        looks: Sequence[Seen],
        brokers: Sequence[int],
        least: int,
    ) -> None:
        self._entries = entries
        self._looks = looks
        self._times = [at for at, _ in self._looks]
        self.folded = Run("replayed")
        self.seen: Observation | None = None
        self.engines = 0
        self.read_cordoned = frozenset[int]()
        """The brokers that the engine has read as cordoned, and not as uncordoned since."""
        self._read = 0  # the number of looks that `read_cordoned` is from
        self.gate_shut: str | None = None
        self.checks: list[Callable[[Sequence[JournalEntry]], None]] = []
        self.clock = SystemClock()
        self.witness = SimpleNamespace(departures=[])
        self.cluster = SimpleNamespace(
            spec=SimpleNamespace(
                brokers=[SimpleNamespace(id=broker, rack=None) for broker in brokers]
            )
        )
        self.targets: dict[Any, Any] = {}
        self.unseen = 0  # decisions whose poll was lost with the engine that made it
        watched: Any = self
        self.rules = Rules(watched, least)
        self._cancels = CancelRules(watched)

    def problems(self) -> Iterator[str]:
        """Replay the run, and yield each decision that breaks a rule."""
        for _, group in itertools.groupby(self._entries, key=lambda entry: entry.at):
            written = list(group)
            yield from self._held(written)
            for entry in written:
                self.folded.apply(entry)
                if isinstance(entry.event, Owned):
                    self.engines += 1
                    self.read_cordoned = frozenset()
            self.targets = {tp: track.target for tp, track in self.folded.tracks.items()}

    def _held(self, written: Sequence[JournalEntry]) -> Iterator[str]:
        self.seen = self._look_before(written[0].at)
        decides = any(isinstance(entry.event, StepBegun) for entry in written)
        if isinstance(written[0].event, Started):
            return
        if self.seen is None and decides:
            self.unseen += 1
            return
        for check in self.checks:
            try:
                check(written)
            except AssertionError as error:
                events = [entry.event for entry in written]
                yield f"against a rule at {written[0].at:%T.%f}: {error!r} {error} in {events}"

    def _look_before(self, at: datetime) -> Observation | None:
        index = bisect_right(self._times, at)
        for _, seen in self._looks[self._read : index]:
            self.read_cordoned = cordoned_after(self.read_cordoned, seen)
        self._read = index
        if not index or at - self._times[index - 1] > _OLD:
            return None
        return self._looks[index - 1][1]


def recorded_looks(folder: Path) -> list[Seen]:
    """Return the observations that a run's engines have recorded."""
    try:
        sessions = find_sessions(folder)
    except FileProblem:
        return []
    found = [each for session in sessions for each in play_session(session)]
    looks = [(each.observation.at, each.observation) for each in found if isinstance(each, Poll)]
    return sorted(looks, key=lambda look: look[0])
