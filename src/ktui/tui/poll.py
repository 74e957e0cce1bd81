"""The polling loop: polls, how fresh they are, and the history that is read beside them."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from itertools import chain

import msgspec
from textual.message import Message

from ktui.cluster.asking import LONGEST_BACKOFF_S
from ktui.cluster.clock import Clock, wait_for_first
from ktui.cluster.errors import ClusterError, Unreachable
from ktui.cluster.observation import Census, Observation
from ktui.cluster.observer import Interest, ObservationSource
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigScope
from ktui.cluster.settings import SettingKey, set_throttles, unneeded_throttles
from ktui.cluster.text import clean
from ktui.execution.host.kept import replay_recording
from ktui.execution.host.state_dir import RunDir
from ktui.execution.journal.journal import Journal
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.track import Track
from ktui.progress.flows import RESTART_S, merge_flows
from ktui.progress.fold import ENDED_FOR_S, fold
from ktui.progress.memory import HealthCounts, MoveMemory, count_unhealthy
from ktui.progress.news import EventSeverity
from ktui.progress.row import recent_grid, start_slots
from ktui.progress.summary import BrokerLoad, Totals, broker_loads, totals
from ktui.progress.timeline import Event, Mark, Phase, Progress, Timeline, in_time_order
from ktui.tui.draw import format as figures


class Overview(msgspec.Struct, frozen=True):
    """The totals, the number of brokers, those that are down, and partitions in trouble."""

    totals: Totals = Totals()
    brokers: int = 0
    down: tuple[int, ...] = ()
    health: HealthCounts = HealthCounts()
    stalled: tuple[TopicPartition, ...] = ()
    loads: Mapping[int, BrokerLoad] = msgspec.field(default_factory=dict)

    @property
    def open(self) -> int:
        return self.totals.moving + self.totals.stalled


def overview(progress: Progress) -> Overview:
    """Summarize a progress. A broker that only a replica list names counts as down."""
    last = progress.last
    if last is None:
        return Overview()
    known = set(last.brokers).union(*(state.replicas for state in last.partitions.values()))
    down = tuple(sorted(broker for broker in known if not last.alive(broker)))
    return Overview(
        totals(_without_long_over(progress, last.at)),
        len(known),
        down,
        count_unhealthy(last),
        _stalled(progress),
        broker_loads(progress),
    )


def _stalled(progress: Progress) -> tuple[TopicPartition, ...]:
    found = [t for t in progress.timelines.values() if t.phase is Phase.STALLED]
    return tuple(t.tp for t in sorted(found, key=lambda t: t.stall.since_s if t.stall else 0.0))


def ended_long_ago(timeline: Timeline, now: datetime) -> bool:
    """Return whether a move ended so long ago that only its run's recording still shows it."""
    return timeline.ended_at is not None and now - timeline.ended_at > timedelta(
        seconds=ENDED_FOR_S
    )


def _without_long_over(progress: Progress, now: datetime) -> Progress:
    kept = {tp: t for tp, t in progress.timelines.items() if not ended_long_ago(t, now)}
    return msgspec.structs.replace(progress, timelines=kept)


class DownBrokers:
    """Tracks for each broker that is down since when; unknown for those down at the first poll."""

    def __init__(self) -> None:
        self._polled = False
        self._since_s: dict[int, float | None] = {}

    @property
    def since_s(self) -> Mapping[int, float | None]:
        return self._since_s

    def note(self, down: Iterable[int], at_s: float) -> None:
        first = at_s if self._polled else None
        self._since_s = {broker: self._since_s.get(broker, first) for broker in down}
        self._polled = True


_KEPT = 1_000


class ClusterOutage(msgspec.Struct, frozen=True):
    """Why the whole cluster does not answer."""

    reason: str  # a short reason that stays the same from attempt to attempt: "connection refused"
    details: str


class Outages:
    """Records outages as they begin and end."""

    def __init__(self) -> None:
        self.current: ClusterOutage | None = None
        self._since_s = 0.0
        self._events: deque[Event] = deque(maxlen=_KEPT)
        self._merged: tuple[Event, ...] | None = None
        self._merged_with: tuple[Event, ...] = ()

    def lost(
        self, outage: ClusterOutage, at: datetime, since_s: float | None, now_s: float
    ) -> None:
        if self.current is None:
            verb = "not reached" if since_s is None else "lost"
            self._since_s = now_s if since_s is None else since_s
            words = f"cluster {verb}: {outage.reason}"
            self.note(Event(at, words, severity=EventSeverity.TROUBLE))
        self.current = outage

    def answered(self, at: datetime, now_s: float) -> None:
        if self.current is not None:
            lasted = figures.as_duration(now_s - self._since_s)
            self.note(Event(at, f"cluster answers again after {lasted}"))
        self.current = None

    def note(self, event: Event) -> None:
        self._events.append(event)
        self._merged = None

    def copy(self) -> Outages:
        other = Outages()
        other.current, other._since_s = self.current, self._since_s
        other._events.extend(self._events)
        return other

    def merge(self, events: tuple[Event, ...]) -> tuple[Event, ...]:
        if not self._events:
            return events
        if self._merged is None or self._merged_with is not events:
            self._merged_with = events
            self._merged = tuple(in_time_order(self._events, events))
        return self._merged


STALE_S = 65.0
"""Seconds after which a throttle counts as left behind that nothing has needed since.

Settings are read every 30 s, and forgotten after 60. Those read before a move ended do not count:
the owner of a move removes its throttle only after that.
"""


class StaleThrottles:
    """Counts the throttle settings that nothing has needed for a while."""

    def __init__(self) -> None:
        self._moved_s = -math.inf
        self._others_moved_s = -math.inf
        """When moves of others went on last: they may still need all of their throttles."""
        self._topic_moved_s: dict[str, float] = {}
        self._needed_s: dict[SettingKey, float] = {}
        """When each throttle last had a replica that catches up under it, or a move."""
        self.count = 0

    def note(self, last: Observation, ours: Mapping[SettingKey, frozenset[str]]) -> None:
        moving = last.reassigning
        if moving or ours:
            self._moved_s = last.monotonic_s
        our_topics = {r.name for r, _ in ours}
        if any(tp.topic not in our_topics for tp in moving):
            self._others_moved_s = last.monotonic_s
        topics = {tp.topic for tp in moving} | our_topics
        self._topic_moved_s |= dict.fromkeys(topics, last.monotonic_s)
        unneeded = unneeded_throttles(last, ours)
        self._needed_s |= dict.fromkeys(set_throttles(last) - unneeded, last.monotonic_s)
        self.count = sum(self._is_stale(key, last.monotonic_s) for key in unneeded)

    def _is_stale(self, key: SettingKey, now_s: float) -> bool:
        moved_s = self._moved_s
        needed_s = self._needed_s.get(key, -math.inf)
        if key[0].scope is ConfigScope.TOPIC:
            topic_moved_s = self._topic_moved_s.get(key[0].name, -math.inf)
            moved_s = max(topic_moved_s, self._others_moved_s)
        return now_s - max(moved_s, needed_s) > STALE_S


class Freshness:
    """Tracks from poll to poll since when nothing moves, and since when brokers are the same."""

    def __init__(self) -> None:
        self._alive: frozenset[int] | None = None
        self._alive_since_s = -math.inf
        """The second since which the same brokers are alive; an older census reflects others."""
        self.quiet_since_s: float | None = None

    def note(self, progress: Progress) -> None:
        if progress.last is None:
            self.quiet_since_s = None
            return
        self._note_quiet(progress, progress.last)
        self._note_alive(progress.last)

    def _note_alive(self, last: Observation) -> None:
        alive = last.online
        if self._alive not in (None, alive):
            self._alive_since_s = last.monotonic_s - last.took_s
        self._alive = alive

    def _note_quiet(self, progress: Progress, last: Observation) -> None:
        if any(
            not t.phase.ended and t.phase is not Phase.SETTLED for t in progress.timelines.values()
        ):
            self.quiet_since_s = None
        elif self.quiet_since_s is None:
            self.quiet_since_s = last.monotonic_s

    def is_current(self, census: Census | None) -> bool:
        return census is not None and census.monotonic_s - census.took_s >= self._alive_since_s

    def as_at(self, census: Census | None) -> str:
        if census is None or not self.is_current(census):
            return "looking at all partitions …"
        return f"as at {figures.as_time(census.at)}"


def missing_topics(
    topics: frozenset[str], asked_at_s: float, last: Observation | None
) -> frozenset[str]:
    """Return the topics that the cluster lacks; a poll begun before `asked_at_s` shows nothing."""
    if not topics or last is None or last.monotonic_s - last.took_s < asked_at_s:
        return frozenset()
    unread = {failure.topic for failure in last.failures if failure.topic is not None}
    return topics - unread - {tp.topic for tp in last.partitions}


MOST_LOOKS = 100_000
"""The most partition states to fold, the newest; a poll of ten partitions counts as ten."""


def load_history(folder: RunDir, clock: Clock, most: int = MOST_LOOKS) -> Progress | None:
    """Return the progress folded from a run's recording up to now; None where there is none.

    Moves that have ended are included, however long ago, as if they ended now. Of all partition
    states of all polls the last `most` are folded. Raises FileProblem and JournalProblem.
    """
    if not folder.recording.is_dir():
        return None
    with Journal.open(folder.journal, clock, read_only=True) as journal:
        entries = list(journal.entries())
    progress, ended = Progress(), dict[TopicPartition, Timeline]()
    run = Run(folder.name)
    for seen in replay_recording(folder, run, entries, clock, most):
        progress = seen.progress
        ended |= _dropped(seen.before, progress, clock.monotonic())
    if progress.last is None:
        return None
    for entry in entries:
        if entry.seq > run.seq:
            run.apply(entry)
    timelines = {**ended, **progress.timelines}
    for tp, track in run.tracks.items():
        unseen = track.since is not None and track.since > progress.last.at
        if unseen and track.state in _ENDED_HERE and tp in timelines:
            timelines[tp] = _with_last_step(timelines[tp], track)
    kept = {tp: _keep_longer(timeline, clock.monotonic()) for tp, timeline in timelines.items()}
    return msgspec.structs.replace(progress, timelines=kept)


_ENDED_HERE = (State.DONE, State.ROLLED_BACK, State.STOPPED)


def _with_last_step(timeline: Timeline, track: Track) -> Timeline:
    """Return the timeline with the replicas that the run left, which no poll saw."""
    state = timeline.state
    left = msgspec.structs.replace(
        state,
        replicas=track.replicas,
        isr=tuple(broker for broker in state.isr if broker in track.replicas),
        leader=state.leader if state.leader in track.replicas else None,
        adding=(),
        removing=(),
    )
    return msgspec.structs.replace(timeline, state=left)


def _dropped(
    before: Progress, after: Progress, now_s: float
) -> Iterator[tuple[TopicPartition, Timeline]]:
    no_marks = start_slots(recent_grid(now_s), Mark.NOTHING)
    for tp in before.timelines.keys() - after.timelines.keys():
        if (timeline := before.timelines[tp]).phase.ended:
            yield tp, msgspec.structs.replace(timeline, recent=no_marks)


def _keep_longer(timeline: Timeline, now_s: float) -> Timeline:
    if not timeline.phase.ended:
        return timeline
    memory = msgspec.structs.replace(timeline.memory or MoveMemory(), ended_s=now_s)
    return msgspec.structs.replace(timeline, memory=memory)


def merge_history(
    past: Progress,
    own: Progress,
    first: Observation | None,
    polls: Iterable[Observation] = (),
    complete: Callable[[Progress], Progress] = lambda progress: progress,
) -> Progress:
    """Merge the `past`, from before the view was opened, into its `own` progress.

    The view's first poll reported as new what was there already. `polls` are those that came while
    the past was read. `complete` adds to a progress what only a run knows.
    """
    if own.last is None or first is None or past.last is None:
        return past if own.last is None else own
    read_s = past.last.monotonic_s
    since = [poll for poll in (*polls, own.last) if poll.monotonic_s > read_s]
    goes_on = not since or since[0].monotonic_s - read_s <= RESTART_S
    for poll in since:
        if past.last is not poll:
            past = fold(complete(past), poll)
    older = {
        tp: timeline
        for tp, timeline in past.timelines.items()
        if tp not in own.timelines or timeline.began_s < own.timelines[tp].began_s
    }
    own_news = (e for e in own.events if e.at > first.at and e.tp not in older)
    past_news = (e for e in past.events if e.at <= first.at or e.tp in older or e.at > own.last.at)
    return msgspec.structs.replace(
        own,
        timelines={**own.timelines, **older},
        events=tuple(in_time_order(past_news, own_news)),
        flows=merge_flows(past.flows, own.flows, goes_on=goes_on),
    )


_MANY = 200  # with more partitions than this a fold would delay key presses, so it runs in a thread

_MOST_KEPT = 300  # the most polls kept while a history is read

log = logging.getLogger(__name__)


class Polled(Message):
    """A poll was folded, or has failed as a whole; the loop has the result."""


class PollLoop:
    """The loop by which an app gets what its cluster shows, and the only holder of that."""

    def __init__(self) -> None:
        self.progress, self.overview, self.outages = Progress(), Overview(), Outages()

    async def run(self) -> None:
        raise NotImplementedError

    # without a live cluster there is nothing to do for these

    async def poll_once(self) -> None: ...

    def poll_now(self) -> None: ...

    def expect_history(self) -> None: ...

    def add_history(self, past: Progress | None) -> None: ...

    def poll_every(self, interval_s: float) -> None: ...

    def settings_changed(self, topics: Collection[str], brokers: Collection[int]) -> None: ...


class Polling(PollLoop):
    """Polls what is of `interest`, folds, and posts `Polled`; ends only when cancelled.

    It backs off while the cluster is lost. `complete` adds to a progress what only a run knows.
    """

    def __init__(
        self,
        source: ObservationSource,
        clock: Clock,
        interval_s: float,
        *,
        interest: Callable[[], Interest],
        post: Callable[[Message], object],
        complete: Callable[[Progress], Progress] = lambda progress: progress,
    ) -> None:
        super().__init__()
        self._source = source
        self._clock = clock
        self._interval_s = interval_s
        self._interest = interest
        self._post = post
        self._complete = complete
        self._first: Observation | None = None
        self._past: Progress | None = None
        self._kept: deque[Observation] | None = None
        """The polls since a history is being read; None while none is."""
        self._failures = 0
        self._wake = asyncio.Event()

    def poll_now(self) -> None:
        self._wake.set()

    def expect_history(self) -> None:
        if self._kept is None:
            last = self.progress.last
            self._kept = deque(() if last is None else (last,), maxlen=_MOST_KEPT)

    def add_history(self, past: Progress | None) -> None:
        if past is None:
            self._kept = None
            return
        self._past = past
        self.poll_now()

    def poll_every(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self.poll_now()

    def settings_changed(self, topics: Collection[str], brokers: Collection[int]) -> None:
        self._source.settings_changed(topics, brokers)

    async def run(self) -> None:
        while True:
            started = self._clock.monotonic()
            self._wake.clear()
            await self.poll_once()
            took = self._clock.monotonic() - started
            await self._wait(max(0.0, self._pause_s - took))

    @property
    def _pause_s(self) -> float:
        return max(
            self._interval_s,
            min(LONGEST_BACKOFF_S, self._interval_s * 2.0 ** min(self._failures, 16)),
        )

    async def poll_once(self) -> None:
        try:
            observation = await self._source.poll(self._interest())
            past = self._past
            before = self._complete(await self._merged(past))
            folded = await self._fold(before, observation)
        except ClusterError as error:
            self._lose(_reason(error), str(error))
        except Exception as error:  # a defect does not end the view, which reports it
            log.exception("the poll failed in a way that was not foreseen")
            words = f"ktui's own error: {type(error).__name__}: {error}"
            self._lose(words, words)
        else:
            self._first = self._first or observation
            if past is not None and self._past is past:
                self._past = self._kept = None
            elif self._kept is not None:  # a history is being read, or came during this poll
                self._kept.append(observation)
            self._failures = 0
            self.progress, self.overview = folded
            self.outages.answered(observation.at, observation.monotonic_s)
            self._post(Polled())

    async def _merged(self, past: Progress | None) -> Progress:
        if past is None:
            return self.progress
        polls = tuple(self._kept or ())
        merged = partial(
            merge_history, past, self.progress, self._first, polls, complete=self._complete
        )
        if len(polls) * len(past.timelines) > _MANY:
            return await asyncio.to_thread(merged)
        return merged()

    @staticmethod
    async def _fold(before: Progress, observation: Observation) -> tuple[Progress, Overview]:
        if len(observation.partitions) + len(before.timelines) > _MANY:
            return await asyncio.to_thread(_fold_poll, before, observation)
        return _fold_poll(before, observation)

    def _lose(self, reason: str, details: str) -> None:
        self._failures += 1
        last = self.progress.last
        self.outages.lost(
            ClusterOutage(_in_one_line(reason), _in_one_line(details)),
            self._clock.now(),
            None if last is None else last.monotonic_s,
            self._clock.monotonic(),
        )
        self._post(Polled())

    async def _wait(self, seconds: float) -> None:
        await wait_for_first(self._clock.sleep(seconds), self._wake.wait())


def _reason(error: ClusterError) -> str:
    # what stays the same from poll to poll, unlike the address
    if isinstance(error, Unreachable) and error.answer:
        return error.answer
    return ": ".join(filter(None, (error.summary, error.answer)))


def _in_one_line(words: str) -> str:
    return clean(" ".join(words.split()))


def _fold_poll(progress: Progress, observation: Observation) -> tuple[Progress, Overview]:
    folded = fold(progress, observation)
    return folded, overview(folded)


def unite(interests: Iterable[Interest]) -> Interest:
    """Return the interest in everything that any of these covers."""
    every = list(interests)
    return Interest(
        topics=frozenset(chain.from_iterable(each.topics for each in every)),
        partitions=frozenset(chain.from_iterable(each.partitions for each in every)),
        fresh=any(each.fresh for each in every),
        unhealthy=any(each.unhealthy for each in every),
        census=any(each.census for each in every),
        log_dirs=any(each.log_dirs for each in every),
        health=any(each.health for each in every),
    )
