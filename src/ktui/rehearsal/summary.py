"""The summary of a rehearsal: a pure function of what was played."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from operator import itemgetter

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.execution.run import events
from ktui.execution.run.notices import notice_kind
from ktui.execution.run.options import Schedule
from ktui.execution.run.run import Run
from ktui.execution.run.scope import CancelScope
from ktui.execution.run.states import CancelKind, State
from ktui.execution.run.text import describe_event
from ktui.execution.run.track import Track
from ktui.pacing.limits import Limits
from ktui.planning.plan import join_some
from ktui.quantities import as_count, as_duration
from ktui.rehearsal.aftermath import BrokerUse, EndedBy, Hit, Played, SeenStall, reasons, what_to_do

PARTS = 10  # a stop is looked at at so many moments, equally far apart, without start and end
_MOST_WORDS = 6  # the most sentences about one fault


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """What a stop at one moment would leave, and what a rollback would cost then."""

    at_s: float
    done: int  # at their target
    left: int  # not ended
    bytes_left: int  # still to be copied; a copy in flight counts as a whole
    in_flight: int  # of the replicas being added: a stop drops them
    back_partitions: int  # moved back by a rollback
    back_bytes: int  # copied again by a rollback


class FaultOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What followed a fault until the next one, or for as long as the twin was watched."""

    event: str
    at_s: float
    until_s: float
    did: tuple[str, ...]  # by ktui, in plain words
    do: tuple[str, ...]  # by an operator, by what is true at that time
    stop: Stop  # or a rollback, then


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan was carried out with, as of the end."""

    limits: Limits
    throttle: str  # as `--throttle` takes it: `30MB,3=20MB`, or `none`
    schedule: Schedule
    changes: tuple[str, ...]  # while the run went on, in words


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan would do to a cluster, by one twin."""

    settings: Settings
    time_s: float
    ended_by: EndedBy
    why: tuple[str, ...]  # why the plan did not end; empty if every partition came to its target
    partitions: int
    done: int
    bytes_copied: int
    batches: int
    leader_epoch_bumps: int
    brokers: tuple[BrokerUse, ...]
    stalls: tuple[SeenStall, ...]
    stops: tuple[Stop, ...]
    faults: tuple[FaultOutcome, ...]
    missed: tuple[str, ...]  # faults whose moment never came

    @property
    def complete(self) -> bool:
        return self.done == self.partitions


def summarise(played: Played) -> Summary:
    """Summarise a rehearsal."""
    parts = [played.lasted_s * part / PARTS for part in range(1, PARTS)]
    fold = _Fold(played, parts)
    run, extra = fold.run, fold.extra
    changes = (
        f"after {as_duration((entry.at - played.began).total_seconds())}: "
        f"{describe_event(entry.event)}"
        for entry in played.entries
        if isinstance(
            entry.event, events.LimitsChanged | events.ThrottleChanged | events.ScheduleChanged
        )
    )
    concerned = {b for track in run.tracks.values() for b in (*track.original, *track.target)}
    return Summary(
        settings=Settings(
            limits=run.limits,
            throttle=run.throttled.rates.typed,
            schedule=run.schedule,
            changes=tuple(changes),
        ),
        time_s=played.lasted_s,
        ended_by=played.ended_by,
        why=tuple(_why_not_done(played, run)),
        partitions=len(run.tracks),
        done=run.counts[State.DONE],
        bytes_copied=run.copies.done,
        batches=run.batch,
        leader_epoch_bumps=played.leader_epoch_bumps,
        brokers=tuple(
            msgspec.structs.replace(each, extra_replicas=extra[each.broker])
            for each in played.peaks
            if each.inflow or each.broker in concerned
        ),
        stalls=played.stalls,
        stops=tuple(fold.stops[at_s] for at_s in parts),
        faults=tuple(
            _outcome(hit, played, do, fold.stops[hit.at_s])
            for hit, do in zip(played.hits, fold.advice, strict=True)
        ),
        missed=played.missed,
    )


class _Fold:
    """One pass over the journal: the run at its end and at some moments, and its extra replicas."""

    def __init__(self, played: Played, parts: Iterable[float]) -> None:
        self.run = Run("rehearsal")
        self.stops: dict[float, Stop] = {}
        self.advice: list[tuple[str, ...]] = []  # what to do after each fault
        looks: list[tuple[float, Callable[[float], None]]] = [
            *((at_s, self._stop) for at_s in parts),
            *((hit.at_s, self._stop) for hit in played.hits),
            *((hit.after.until_s, partial(self._advise, hit)) for hit in played.hits),
        ]
        waiting = deque(sorted(looks, key=itemgetter(0)))
        extras = _Extras()
        for entry in played.entries:
            after_s = (entry.at - played.began).total_seconds()
            while waiting and waiting[0][0] < after_s:
                at_s, look = waiting.popleft()
                look(at_s)
            self.run.apply(entry)
            extras.apply(entry, self.run)
        for at_s, look in waiting:
            look(at_s)
        self.extra = extras.most

    def _advise(self, hit: Hit, _at_s: float) -> None:
        self.advice.append(tuple(what_to_do(hit, self.run)))

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

    def apply(self, entry: events.JournalEntry, run: Run) -> None:
        match entry.event:
            case events.StepBegun() as step:
                self._set(run.tracks[step.tp], {*step.before, *step.replicas})
            case events.StepOver() as over:
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
    yield from reasons(run)


def _outcome(hit: Hit, played: Played, do: tuple[str, ...], stop: Stop) -> FaultOutcome:
    since = played.began + timedelta(seconds=hit.at_s)
    until = played.began + timedelta(seconds=hit.after.until_s)
    after = [entry for entry in played.entries if since <= entry.at <= until]
    return FaultOutcome(
        event=hit.text,
        at_s=hit.at_s,
        until_s=hit.after.until_s,
        did=tuple(_what_ktui_did(after)),
        do=do,
        stop=stop,
    )


def _what_ktui_did(entries: Sequence[events.JournalEntry]) -> Iterator[str]:
    """Describe the entries that are news; the routine of steps is only counted.

    Why the run was left stands elsewhere, for it is no answer to a fault. Nor are the rates that
    --by chooses from minute to minute, as long as it can be kept.
    """
    begun = sum(isinstance(entry.event, events.StepBegun) for entry in entries)
    over = sum(isinstance(e.event, events.StepOver) and e.event.reached for e in entries)
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


def _is_news(entry: events.JournalEntry) -> bool:
    event = entry.event
    if isinstance(event, events.StepOver):
        return not event.reached
    is_state = isinstance(event, events.StateEntered) and event.state in _TROUBLE
    routine = isinstance(event, events.EngineLeft) or (
        isinstance(event, events.RateChosen) and not event.late
    )
    return is_state or (notice_kind(event) is not None and not routine)


_TROUBLE = (State.BLOCKED, State.STALLED, State.FOREIGN)
