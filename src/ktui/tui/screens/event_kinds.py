"""What an event is about: a step, a setting or the health of partitions, by its sentence."""

from __future__ import annotations

import enum
import re
from functools import lru_cache
from typing import NamedTuple

from ktui.progress.timeline import Event


class Topic(enum.Enum):
    """What an event is about."""

    STEP = enum.auto()
    """The moves of partitions: reassignments, and the steps of a run."""
    SETTING = enum.auto()
    """Limits, throttles, and settings of the cluster."""
    HEALTH = enum.auto()
    """Brokers and replicas that fail or come back."""
    OTHER = enum.auto()


class EventKind(NamedTuple):
    """What an event is about, and the words that count it with others of its kind."""

    topic: Topic
    words: str = ""
    """With `{s}` where the plural of a noun has an s."""

    def counted(self, count: int) -> str:
        """Count events of this kind: "1 leader moved", "12 leaders moved"."""
        return f"{count:,} {self.words.format(s='' if count == 1 else 's')}"


_SENTENCES: tuple[tuple[str, Topic, str], ...] = (
    (r"step finished\b", Topic.STEP, "step{s} finished"),
    (r"batch [\d,]+: ", Topic.STEP, "step{s} begun"),
    (r"step (given up|cancelled)\b", Topic.STEP, "step{s} given up"),
    (r"electing leader", Topic.STEP, "election{s}"),
    (r"reassignment (started|under way)", Topic.STEP, "reassignment{s} started"),
    (r"re-targeted", Topic.STEP, "re-targeted"),
    (r"completed\b", Topic.STEP, "completed"),
    (r"cancelled\b", Topic.STEP, "cancelled"),
    (r"changed elsewhere\b", Topic.STEP, "changed elsewhere"),
    (r"adding replica caught up", Topic.STEP, "caught up"),
    (r"retiring broker \d+ left the ISR", Topic.STEP, "retired"),
    (r"replicas changed from", Topic.STEP, "changed between two polls"),
    (r"(done|stopped|rolled back)\b", Topic.STEP, "ended"),
    (r"(stopping|rolling back)\b", Topic.STEP, "called off"),
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
