"""The summary of a rehearsal: a pure function of what was played."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import timedelta

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.cancel_scope import CancelScope
from ktui.execution.run.event_text import describe_event
from ktui.execution.run.events import JournalEntry, StateEntered, StepBegun, StepOver
from ktui.execution.run.notices import notice_kind
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.track import Track
from ktui.planning.names import join_some
from ktui.progress.causes import advice
from ktui.progress.health import HealthCounts
from ktui.quantities import as_count
from ktui.rehearsal.played import AFTERWARDS_S, EndedBy, Hit, Played, SeenStall

PARTS = 10
"""The moments at which a stop is looked at: so many, equally far apart, without start and end."""
_MOST_WORDS = 6
"""The most sentences about one fault."""


class BrokerUse(msgspec.Struct, frozen=True):
    """What the plan asks of one broker at most; inflow is the mean of a second, or of a poll."""

    broker: int
    inflow: float
    """Bytes a second that are copied into it."""
    room: int
    """The least free bytes on its disk."""
    disk: int
    extra_replicas: int
    """The most replicas at one time that it still holds beside all those that replace them."""


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """What a stop at one moment would leave, and what a rollback would cost then."""

    at_s: float
    done: int
    """Partitions at their target."""
    left: int
    """Partitions that have not ended."""
    bytes_left: int
    """Bytes that are still to be copied for them; a copy in flight counts as a whole."""
    in_flight: int
    """Bytes of the replicas being added: a stop drops them."""
    back_partitions: int
    """Partitions that a rollback moves back."""
    back_bytes: int
    """Bytes that a rollback copies again."""


class FaultOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What followed a fault within a minute."""

    event: str
    at_s: float
    did: tuple[str, ...]
    """What ktui did, in plain words."""
    do: tuple[str, ...]
    """What an operator should do."""
    stop: Stop
    """What a stop or a rollback would have cost then."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan would do to a cluster, by one twin."""

    time_s: float
    ended_by: EndedBy
    why: tuple[str, ...]
    """Why the plan did not end; empty if every partition came to its target."""
    partitions: int
    done: int
    bytes_copied: int
    batches: int
    leader_epoch_bumps: int
    brokers: tuple[BrokerUse, ...]
    stalls: tuple[SeenStall, ...]
    stops: tuple[Stop, ...]
    faults: tuple[FaultOutcome, ...]
    missed: tuple[str, ...]
    """The faults whose moment never came."""

    @property
    def complete(self) -> bool:
        """Whether every partition came to its target."""
        return self.done == self.partitions


def summarise(played: Played) -> Summary:
    """Summarise a rehearsal."""
    parts = [played.lasted_s * part / PARTS for part in range(1, PARTS)]
    moments = [*parts, *(hit.at_s for hit in played.hits)]
    fold = _Fold(played, moments)
    run, extra = fold.run, fold.extra
    concerned = {b for track in run.tracks.values() for b in (*track.original, *track.target)}
    return Summary(
        time_s=played.lasted_s,
        ended_by=played.ended_by,
        why=tuple(_why_not_done(played, run)),
        partitions=len(run.tracks),
        done=run.counts[State.DONE],
        bytes_copied=run.copies.done,
        batches=run.batch,
        leader_epoch_bumps=played.leader_epoch_bumps,
        brokers=tuple(
            BrokerUse(each.broker, each.inflow, each.room, each.disk, extra[each.broker])
            for each in played.peaks
            if each.inflow or each.broker in concerned
        ),
        stalls=played.stalls,
        stops=tuple(fold.stops[at_s] for at_s in parts),
        faults=tuple(_outcome(hit, played, fold.stops[hit.at_s]) for hit in played.hits),
        missed=played.missed,
    )


class _Fold:
    """One pass over the journal: the run at its end, at some moments, and its extra replicas."""

    def __init__(self, played: Played, moments: Iterable[float]) -> None:
        self.run = Run("rehearsal")
        self.stops: dict[float, Stop] = {}
        waiting = list(moments)
        heapq.heapify(waiting)
        extras = _Extras()
        for entry in played.entries:
            after_s = (entry.at - played.began).total_seconds()
            while waiting and waiting[0] < after_s:
                self._stop(heapq.heappop(waiting))
            self.run.apply(entry)
            extras.apply(entry, self.run)
        for at_s in waiting:
            self._stop(at_s)
        self.extra = extras.most

    def _stop(self, at_s: float) -> None:
        run = self.run
        back = CancelScope(run, CancelKind.ROLLBACK)
        self.stops[at_s] = Stop(
            at_s=at_s,
            done=run.counts[State.DONE],
            left=len(run.tracks) - run.over,
            bytes_left=run.copies.whole - run.copies.done,
            in_flight=sum(
                track.planned.size * len(track.step.begun.adding)
                for track in run.tracks_in_flight.values()
                if track.step is not None
            ),
            back_partitions=back.undone,
            back_bytes=back.to_copy,
        )


class _Extras:
    """The replicas on each broker that stay only until their partition is cut: the most at once."""

    def __init__(self) -> None:
        self._now: dict[TopicPartition, frozenset[int]] = {}
        self._count: Counter[int] = Counter()
        self.most: Counter[int] = Counter()

    def apply(self, entry: JournalEntry, run: Run) -> None:
        """Apply an entry of the journal, which the run has applied already."""
        match entry.event:
            case StepBegun() as step:
                self._set(run.tracks[step.tp], {*step.before, *step.replicas})
            case StepOver() as over:
                self._set(run.tracks[over.tp], over.replicas)

    def _set(self, track: Track, held: Collection[int]) -> None:
        longer = len(held) > max(len(track.original), len(track.target))
        now = frozenset(held) - frozenset(track.target) if longer else frozenset[int]()
        before = self._now.get(track.tp, frozenset())
        self._now[track.tp] = now
        self._count.subtract(before - now)
        for broker in now - before:
            self._count[broker] += 1
            self.most[broker] = max(self.most[broker], self._count[broker])


def _why_not_done(played: Played, run: Run) -> Iterator[str]:
    if run.counts[State.DONE] == len(run.tracks):
        return
    if played.ended_by is not EndedBy.RUN:
        yield played.why
    elif not run.ended:
        yield "the run has not ended"
    reasons = Counter(
        f"{track.state.words}{f': {track.reason}' if track.reason else ''}"
        for track in run.troubled.values()
    )
    for reason, count in _most_common(reasons):
        yield f"{as_count(count, 'partition')} {reason}"


def _most_common(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MOST_WORDS]


def _outcome(hit: Hit, played: Played, stop: Stop) -> FaultOutcome:
    since = played.began + timedelta(seconds=hit.at_s)
    until = since + timedelta(seconds=AFTERWARDS_S)
    after = [entry for entry in played.entries if since <= entry.at < until]
    stalls = [
        stall for stall in played.stalls if hit.at_s <= stall.since_s < hit.at_s + AFTERWARDS_S
    ]
    return FaultOutcome(
        event=hit.text,
        at_s=hit.at_s,
        did=tuple(_what_ktui_did(after)),
        do=tuple(_what_to_do(stalls, hit.health)),
        stop=stop,
    )


def _what_ktui_did(entries: Sequence[JournalEntry]) -> Iterator[str]:
    """Describe the entries that are news; the routine of steps is only counted."""
    begun = sum(isinstance(entry.event, StepBegun) for entry in entries)
    over = sum(isinstance(e.event, StepOver) and e.event.reached for e in entries)
    if begun or over:
        yield f"it began {as_count(begun, 'step')}, and {over:,} ended well"
    else:
        yield "it began nothing, and nothing ended"
    news: Counter[str] = Counter()
    first: dict[str, list[str]] = {}
    for entry in entries:
        if not _is_news(entry):
            continue
        words = describe_event(entry.event)
        tp = getattr(entry.event, "tp", None)
        news[words] += 1
        first.setdefault(words, []).append("" if tp is None else str(tp))
    for number, words in enumerate(first):
        if number == _MOST_WORDS:
            yield f"{as_count(len(first) - number, 'more change')}"
            return
        names = list(dict.fromkeys(filter(None, first[words])))
        yield f"{join_some(names, most=2)}: {words}" if names else words


def _is_news(entry: JournalEntry) -> bool:
    event = entry.event
    if isinstance(event, StepOver):
        return not event.reached
    is_state = isinstance(event, StateEntered) and event.state in _TROUBLE
    return is_state or notice_kind(event) is not None


_TROUBLE = (State.BLOCKED, State.STALLED, State.FOREIGN)


def _what_to_do(stalls: Sequence[SeenStall], health: HealthCounts | None) -> Iterator[str]:
    yield from dict.fromkeys(advice(stall.cause, stall.broker) for stall in stalls)
    if health is not None and health.unhealthy:
        counts = (
            (health.offline, "offline"),
            (health.under_min_isr, "under min ISR"),
            (health.under_replicated, "under-replicated"),
        )
        words = ", ".join(f"{count:,} {name}" for count, name in counts if count)
        yield f"Bring their brokers back: of the cluster's partitions, {words} afterwards."
    elif not stalls:
        yield "Nothing: the run goes on by itself."
