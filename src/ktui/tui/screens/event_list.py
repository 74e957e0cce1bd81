"""The events of the view, as rows: kinds, the filter, groups of like ones, and their words."""

from __future__ import annotations

import enum
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import NamedTuple

import msgspec
from rich.cells import cell_len
from textual.content import Content

from ktui.progress.timeline import Event


class Topic(enum.Enum):
    """What an event is about: moves, throttles and settings, or what fails or comes back."""

    STEP = enum.auto()
    SETTING = enum.auto()
    HEALTH = enum.auto()
    OTHER = enum.auto()


class EventKind(NamedTuple):
    """What an event is about, and the words that count it with others of its kind."""

    topic: Topic
    words: str = ""  # with `{s}` where the plural of a noun has an s

    def counted(self, count: int) -> str:
        return f"{count:,} {self.words.format(s='' if count == 1 else 's')}"


_SENTENCES: tuple[tuple[str, Topic, str], ...] = (
    (r"step finished\b", Topic.STEP, "step{s} finished"),
    (r"batch [\d,]+: ", Topic.STEP, "step{s} begun"),
    (r"step (given up|cancelled)\b", Topic.STEP, "step{s} given up"),
    (r"electing leader", Topic.STEP, "election{s}"),
    (r"reassignment (started|under way)", Topic.STEP, "reassignment{s} started"),
    (r"re-targeted", Topic.STEP, "re-targeted"),
    (r"completed\b", Topic.STEP, "reassignment{s} completed"),
    (r"cancelled\b", Topic.STEP, "cancelled"),
    (r"changed elsewhere\b", Topic.STEP, "changed elsewhere"),
    (r"adding replica caught up", Topic.STEP, "replica{s} caught up"),
    (r"retiring broker \d+ left the ISR", Topic.STEP, "replica{s} retired"),
    (r"replicas changed from", Topic.STEP, "list{s} of replicas changed"),
    (r"done\b", Topic.STEP, "partition{s} done"),
    (r"stopped\b", Topic.STEP, "partition{s} stopped"),
    (r"rolled back\b", Topic.STEP, "partition{s} rolled back"),
    (r"(stopping|rolling back)\b", Topic.STEP, "partition{s} called off"),
    (r"(the (alter|election|cancel)|Kafka accepted)\b", Topic.STEP, "answer{s}"),
    (r"limits: ", Topic.SETTING, "change{s} of limits"),
    (r"throttle: ", Topic.SETTING, "change{s} of the throttle"),
    (r"setting: ", Topic.SETTING, "setting{s} written"),
    (r"restoring: ", Topic.SETTING, "setting{s} restored"),
    (r"values? before the run", Topic.SETTING, "setting{s} read"),
    (r"(topic|broker) \S+: someone else has", Topic.SETTING, "changed by someone else"),
    (r"(topic|broker) \S+: (Kafka has set|the answer was lost)", Topic.SETTING, "answer{s}"),
    (r"(topic|broker) \S+: (was refused|could not be sent)", Topic.SETTING, "refused"),
    (r"(topic|broker) \S+: .* left as it is", Topic.SETTING, "left alone"),
    (r"\S+ \S+ are copied into broker", Topic.SETTING, "above the throttle"),
    (r"broker \d+ is within its throttle", Topic.SETTING, "within the throttle again"),
    (r"under-replicated", Topic.HEALTH, "under-replicated"),
    (r"under min ISR", Topic.HEALTH, "under min ISR"),
    (r"partition offline", Topic.HEALTH, "offline"),
    (r"fully replicated again", Topic.HEALTH, "fully replicated again"),
    (r"lost its leader", Topic.HEALTH, "without a leader"),
    (r"(leader moved|broker \d+ leads)", Topic.HEALTH, "leader{s} moved"),
    (r"broker \d+ left the ISR", Topic.HEALTH, "out of the ISR"),
    (r"broker \d+ joined the ISR", Topic.HEALTH, "back in the ISR"),
    (r"(replica \d+ )?stalled\b", Topic.HEALTH, "stalled"),
    (r"replica \d+ (is no longer|can copy|makes headway)", Topic.HEALTH, "copying again"),
    (r"replica \d+ ", Topic.HEALTH, "replica{s} with an alarm"),
    (r"broker \d+: \d+ replicas", Topic.HEALTH, "broker{s} with alarms"),
    (r"blocked\b", Topic.HEALTH, "blocked"),
    (r"refused\b", Topic.HEALTH, "refused"),
    (r"broker \d+ is down", Topic.HEALTH, "broker{s} down"),
    (r"broker \d+ (is back|joined the cluster)", Topic.HEALTH, "broker{s} back"),
    (r".* are missing: ", Topic.HEALTH, "figures missing"),
    (r".* are back$", Topic.HEALTH, "figures back"),
)
"""The beginnings of sentences, each with what it is about and the words that count it."""
_KINDS = tuple(EventKind(topic, words) for _, topic, words in _SENTENCES)
_OTHER = EventKind(Topic.OTHER)
BROKER_DOWN = next(kind for kind in _KINDS if kind.words == "broker{s} down")
STALLED = next(kind for kind in _KINDS if kind.words == "stalled")
_OUTCOMES = frozenset(
    kind
    for kind in _KINDS
    if kind.words
    in (
        "partition{s} done", "partition{s} stopped", "partition{s} rolled back",
        "reassignment{s} completed", "fully replicated again", "broker{s} back",
    )
)  # fmt: skip
"""What was wanted and has come about."""
_BY_EVERY_STEP = next(kind for kind in _KINDS if kind.words == "list{s} of replicas changed")
"""What every step does: named where nothing else is."""
_BEGINNING = re.compile(
    r"(?:run [^\s:]+: )?(?:" + "|".join(f"(?P<k{i}>{s[0]})" for i, s in enumerate(_SENTENCES)) + ")"
)


def event_kind(event: Event) -> EventKind:
    """Return what an event is about."""
    return _kind(event.what)


@lru_cache(maxsize=65_536)
def _kind(what: str) -> EventKind:
    match = _BEGINNING.match(what)
    if match is None:
        return _OTHER
    named = next(name for name, found in match.groupdict().items() if found is not None)
    return _KINDS[int(named[1:])]


class Tone(enum.Enum):
    """How loud an event is that is no trouble."""

    SETTING = enum.auto()
    NEWS = enum.auto()
    OUTCOME = enum.auto()


def _tone(events: Sequence[Event]) -> Tone:
    kinds = {event_kind(event) for event in events}
    if kinds & _OUTCOMES:
        return Tone.OUTCOME
    quiet = all(kind.topic is Topic.SETTING for kind in kinds)
    return Tone.SETTING if quiet else Tone.NEWS


class EventChoice(enum.StrEnum):
    """The events that a key chooses; trouble is warnings and trouble, whatever they are about."""

    ALL = "all"
    STEPS = "steps"
    SETTINGS = "settings"
    TROUBLE = "trouble"

    def includes(self, event: Event) -> bool:
        match self:
            case EventChoice.ALL:
                return True
            case EventChoice.STEPS:
                return event_kind(event).topic is Topic.STEP
            case EventChoice.SETTINGS:
                return event_kind(event).topic is Topic.SETTING
            case EventChoice.TROUBLE:
                return event.severity > 0


class EventFilter:
    """Applies a choice and words to events; each is looked at once, unless the filter changes."""

    def __init__(self, text: Callable[[Event], str]) -> None:
        self._text = text
        self._events: Sequence[Event] = ()
        self._shown: list[Event] = []
        self.choice = EventChoice.ALL
        self._words: tuple[str, ...] = ()
        self.counts: Counter[EventChoice] = Counter()

    @property
    def shown(self) -> Sequence[Event]:
        return self._events if self._passes_all else tuple(self._shown)

    @property
    def _passes_all(self) -> bool:
        return self.choice is EventChoice.ALL and not self._words

    def choose(self, choice: EventChoice) -> None:
        self.choice = choice
        self._filter_again()

    def look_for(self, text: str) -> None:
        self._words = tuple(text.casefold().split())
        self._filter_again()

    def _filter_again(self) -> None:
        self._shown = [] if self._passes_all else list(filter(self._passes, self._events))

    def update(self, events: Sequence[Event]) -> None:
        dropped, kept = splice(self._events, events)
        front, back = self._events[:dropped], self._events[dropped + kept :]
        added = events[kept:]
        self._events = events
        for event in (*front, *back):
            self.counts.subtract(choice for choice in EventChoice if choice.includes(event))
        for event in added:
            self.counts.update(choice for choice in EventChoice if choice.includes(event))
        if not self._passes_all:
            del self._shown[: sum(map(self._passes, front))]
            self._shown[len(self._shown) - sum(map(self._passes, back)) :] = []
            self._shown += filter(self._passes, added)

    def _passes(self, event: Event) -> bool:
        if not self.choice.includes(event):
            return False
        if not self._words:
            return True
        text = self._text(event).casefold()
        return all(word in text for word in self._words)


FEWEST = 3  # fewer events stand alone: one line would save nothing
_SPAN = timedelta(seconds=5)
_MOST_NAMED = 4
_BLOCK = 1_024


class Splice(NamedTuple):
    """How a sequence of events follows from an earlier one."""

    dropped: int
    kept: int


def splice(old: Sequence[Event], new: Sequence[Event]) -> Splice:
    """Find the longest part of the old events that the new ones begin with."""
    if not old or not new:
        return Splice(len(old), 0)
    first = new[0]
    dropped = next((i for i, event in enumerate(old) if event is first), None)
    if dropped is None:
        return Splice(len(old), 0)
    most, kept = min(len(old) - dropped, len(new)), 0
    while kept < most and _same(old, new, dropped, kept, block := min(_BLOCK, most - kept)):
        kept += block
    while kept < most and old[dropped + kept] is new[kept]:
        kept += 1
    return Splice(dropped, kept)


def _same(old: Sequence[Event], new: Sequence[Event], dropped: int, start: int, block: int) -> bool:
    before = old[dropped + start : dropped + start + block]
    return all(map(operator.is_, before, new[start : start + block]))


def extend_groups(groups: list[list[Event]], events: Iterable[Event]) -> None:
    """Add events to groups. Each event joins the last group if it belongs there.

    The groups have every event once and in order, so that the groups of more events are those of
    fewer with the others added.
    """
    for event in events:
        if groups and _belongs(event, groups[-1][0]):
            groups[-1].append(event)
        else:
            groups.append([event])


def _belongs(event: Event, first: Event) -> bool:
    if not timedelta(0) <= event.at - first.at <= _SPAN:
        return False
    topic = event_kind(first).topic
    return topic is not Topic.OTHER and event_kind(event).topic is topic


def group_words(events: Sequence[Event]) -> str:
    """Summarise a group: what caused it, then how many of each kind, the worst first."""
    causes = [event for event in events if event.tp is None and event.broker is not None]
    down = [event for event in causes if event_kind(event) == BROKER_DOWN]
    cause = f"{_down(down)}: " if down and len(down) < len(events) else ""
    counted = [event for event in events if not (cause and event in down)]
    worst: dict[EventKind, int] = {}
    for event in counted:
        kind = event_kind(event)
        worst[kind] = max(worst.get(kind, 0), event.severity)
    counts = _counts(counted)
    if len(counts) > 1:
        counts.pop(_BY_EVERY_STEP, None)
    kinds = sorted(counts, key=lambda kind: (-worst[kind], kind not in _OUTCOMES))
    named = [kind.counted(counts[kind]) for kind in kinds[:_MOST_NAMED]]
    rest = sum(counts[kind] for kind in kinds[_MOST_NAMED:])
    return cause + ", ".join([*named, *([f"{rest:,} more"] if rest else [])])


def _counts(events: Sequence[Event]) -> Counter[EventKind]:
    """Count events by kind; of stalls, which the view and the run both report, the partitions."""
    whole = Counter(map(event_kind, events))
    if STALLED in whole:
        stalled = {
            e.tp if e.tp is not None else n
            for n, e in enumerate(events)
            if event_kind(e) == STALLED
        }
        whole[STALLED] = len(stalled)
    return whole


def _down(events: Sequence[Event]) -> str:
    brokers = sorted({event.broker for event in events if event.broker is not None})
    noun = "broker" if len(brokers) == 1 else "brokers"
    return f"{noun} {', '.join(map(str, brokers))} down"


def group_severity(events: Sequence[Event]) -> int:
    """Return the severity of the worst event."""
    return max(event.severity for event in events)


def group_subject(events: Sequence[Event]) -> str:
    """Return what a group is about: its only partition, topic or broker; else how many there are.

    Empty where the events are about nothing of these.
    """
    partitions = {event.tp for event in events if event.tp is not None}
    if len(partitions) == 1:
        return str(next(iter(partitions)))
    if partitions:
        topics = {tp.topic for tp in partitions}
        return next(iter(topics)) if len(topics) == 1 else f"{len(partitions):,} partitions"
    brokers = {event.broker for event in events}
    if brokers == {None}:
        return "cluster"
    return f"broker {brokers.pop()}" if len(brokers) == 1 else f"{len(brokers):,} brokers"


_INDENT = "  "


class EventRow(msgspec.Struct, frozen=True):
    """One line on the screen."""

    event: Event
    text: str
    first: bool
    severity: int
    subject: str = ""
    unfolds: bool | None = None
    tone: Tone = Tone.NEWS

    def begins_as(self, other: EventRow) -> bool:
        same = self.event is other.event and (self.unfolds is None) is (other.unfolds is None)
        return same and self.first


class EventRows:
    """Keeps the lines while events come and go: only what changes is grouped and wrapped again."""

    def __init__(self) -> None:
        self._events: Sequence[Event] = ()
        self._groups: list[list[Event]] = []
        self._heights: list[int] = []
        self._unfolded: dict[int, Event] = {}
        self.rows: list[EventRow] = []
        self._width = 0
        self._of_run = ""

    def wrap(self, width: int, run: str = "") -> None:
        """Wrap all lines; those of a run, where it is the only one, are shown without its name.

        With an infinite width each event has one line, whatever it takes.
        """
        self._width, self._of_run = width, f"run {run}: " if run else ""
        self.rows, self._heights = [], []
        self._append(self._groups)

    def update(self, events: Sequence[Event]) -> int:
        dropped, kept = splice(self._events, events)
        if not kept:
            self._unfolded.clear()
        self._events = events
        before = len(self.rows)
        self._drop(dropped)
        gone = before - len(self.rows)
        last, grouped = len(self._groups), sum(map(len, self._groups))
        while last and (grouped > kept or last == len(self._groups)):  # the last one may grow
            last -= 1
            grouped -= len(self._groups[last])
        self._replace(last, len(self._groups) - last, [])
        new: list[list[Event]] = []
        extend_groups(new, events[grouped:])
        self._append(new)
        self._groups += new
        return gone if kept else 0

    def _drop(self, count: int) -> None:
        whole = 0
        while whole < len(self._groups) and count >= len(self._groups[whole]):
            count -= len(self._groups[whole])
            whole += 1
        self._replace(0, whole, [])
        if count:
            rest = self._groups[0][count:]
            if id(self._groups[0][0]) in self._unfolded:
                self._unfolded[id(rest[0])] = rest[0]
            self._replace(0, 1, [rest])

    def _replace(self, at: int, count: int, groups: list[list[Event]]) -> None:
        start = sum(self._heights[:at])
        end = start + sum(self._heights[at : at + count])
        made = [list(self._lines(group)) for group in groups]
        self.rows[start:end] = [row for lines in made for row in lines]
        self._heights[at : at + count] = map(len, made)
        self._groups[at : at + count] = groups

    def _append(self, groups: Sequence[list[Event]]) -> None:
        for group in groups:
            before = len(self.rows)
            self.rows += self._lines(group)
            self._heights.append(len(self.rows) - before)

    def fold(self, line: int, *, unfolds: bool | None) -> int:
        """Fold or unfold the group at a line, None for the other way; return its first line."""
        at, start = self._group_at(line)
        if at is None or len(self._groups[at]) < FEWEST:
            return line
        first = self._groups[at][0]
        is_unfolded = id(first) in self._unfolded
        if (not is_unfolded if unfolds is None else unfolds) is is_unfolded:
            return line
        if is_unfolded:
            del self._unfolded[id(first)]
        else:
            self._unfolded[id(first)] = first
        self._replace(at, 1, [self._groups[at]])
        return start

    def _group_at(self, line: int) -> tuple[int | None, int]:
        start = 0
        for at, height in enumerate(self._heights):
            if line < start + height:
                return at, start
            start += height
        return None, 0

    def _lines(self, group: list[Event]) -> Iterator[EventRow]:
        if not self._width:
            return
        if len(group) < FEWEST:
            for event in group:
                yield from self._event_lines(event)
            return
        unfolded = id(group[0]) in self._unfolded
        words = f"{group_words(group)} {'▾' if unfolded else '▸'}"
        severity, subject = group_severity(group), group_subject(group)
        for number, line in enumerate(_wrapped(words, self._width)):
            tone = _tone(group)
            yield EventRow(group[0], line, number == 0, severity, subject, not unfolded, tone)
        if unfolded:
            for event in group:
                yield from self._event_lines(event, _INDENT)

    def _event_lines(self, event: Event, indent: str = "") -> Iterator[EventRow]:
        tone, words = _tone([event]), event.what
        ours = self._of_run and words.startswith(self._of_run)
        subject = "run" if ours and event.tp is None and event.broker is None else ""
        words = words.removeprefix(self._of_run) if ours else words
        for number, line in enumerate(_wrapped(words, self._width - len(indent))):
            text = f"{indent}{line}"
            yield EventRow(event, text, number == 0, event.severity, subject, tone=tone)


def _wrapped(text: str, width: int) -> Sequence[str]:
    if cell_len(text) <= width:
        return [text]
    return [line.plain for line in Content(text).wrap(width)]
