"""One schedule: a plan, faults, and commands of operators, all decided by a number."""

from __future__ import annotations

import enum
import random
from collections.abc import Iterator

import msgspec

from ktui.pacing.limits import Shape
from support.kafka.acked_messages import Writing

BROKERS = (1, 2, 3)
PARTITIONS = 4  # partitions of each topic
COUNT = 50
HOLDER_EVERY, HOLDER_AT = 10, 3
HELD_S = 90.0  # seconds for which the broker with a request of ours is suspended

Replicas = tuple[int, ...]


class Fault(enum.StrEnum):
    """A kind of fault."""

    BROKER_KILLED = "broker killed"
    CONTROLLER_KILLED = "active controller killed with a request in flight"
    BROKER_SUSPENDED = "broker suspended"
    HOLDER_SUSPENDED = "broker that has a request suspended for 90 s"
    LAST_COPY_KILLED = "last copy in sync killed, another one elected"
    ENGINE_KILLED = "engine killed"


class Asked(enum.StrEnum):
    """A kind of command that operators may send."""

    PAUSE = "pause"
    CONTINUE = "continue"
    LIMITS = "limits"
    THROTTLE = "throttle"
    STOP_PARTITION = "stop of a partition"
    STOP_TOPIC = "stop of a topic"
    STOP_ALL = "stop of everything"
    ROLLBACK = "rollback"


_TURNS = (
    Fault.BROKER_KILLED,
    Fault.CONTROLLER_KILLED,
    Fault.BROKER_SUSPENDED,
    Fault.ENGINE_KILLED,
    Fault.LAST_COPY_KILLED,
)
_COMMANDS = (
    Asked.ROLLBACK,
    Asked.PAUSE,
    Asked.STOP_PARTITION,
    Asked.THROTTLE,
    Asked.STOP_TOPIC,
    Asked.LIMITS,
    Asked.STOP_ALL,
)


class Topic(msgspec.Struct, frozen=True):
    """A topic with data, its moves, and how its producer writes."""

    name: str
    writing: Writing
    ways: tuple[tuple[Replicas, Replicas], ...]
    settings: dict[str, str]


class Event(msgspec.Struct, frozen=True):
    """A fault or a command, due `at_s` seconds after the run has begun."""

    at_s: float
    what: Fault | Asked
    lasts_s: float = 0.0
    words: tuple[str, ...] = ()  # the words of a command after its verb and the run's name


class Schedule(msgspec.Struct, frozen=True):
    """All that is decided in advance; the brokers decide the outcome."""

    number: int
    topics: tuple[Topic, ...]
    words: tuple[str, ...]  # the options of `ktui start`
    events: tuple[Event, ...]

    @property
    def run(self) -> str:
        return f"s{self.number}"

    @property
    def holds(self) -> bool:
        """Whether a broker is suspended while it holds a request."""
        return _holds(self.number)

    @property
    def over_s(self) -> float:
        """Second at which the last event is over."""
        return max(event.at_s + event.lasts_s for event in self.events)


def schedule(number: int) -> Schedule:
    """Make the schedule of a number; five in fifty suspend the broker that holds a request."""
    dice = random.Random(f"schedule {number}")  # noqa: S311 - a test's dice
    topics = tuple(_topics(number, dice))
    faults = tuple(_faults(number, dice))
    over_s = max(fault.at_s + fault.lasts_s for fault in faults)
    commands = tuple(_commands(number, dice, topics, over_s))
    events = tuple(sorted((*faults, *commands), key=lambda event: event.at_s))
    return Schedule(number, topics, _options(number, dice), events)


def _topics(number: int, dice: random.Random) -> Iterator[Topic]:
    """Yield a topic per way of writing: one needs two in sync, one allows unclean elections."""
    settings = {
        Writing.PLAIN: {"min.insync.replicas": "1"},
        Writing.TRANSACTIONAL: {"min.insync.replicas": "2"},
        Writing.IDEMPOTENT: {"unclean.leader.election.enable": "true"},
    }
    for place, (writing, chosen) in enumerate(settings.items()):
        factors = (2, 3) if writing is Writing.TRANSACTIONAL else (2,)
        ways = tuple(_way(dice, factors) for _ in range(PARTITIONS))
        yield Topic(f"s{number}-{place}-{writing.value}", writing, ways, chosen)


def _way(dice: random.Random, factors: tuple[int, ...]) -> tuple[Replicas, Replicas]:
    before = tuple(dice.sample(BROKERS, 2))
    while {*(after := tuple(dice.sample(BROKERS, dice.choice(factors))))} == {*before}:
        pass
    return before, after


def _options(number: int, dice: random.Random) -> tuple[str, ...]:
    """Choose the options; without a throttle if a broker should be caught with a request."""
    shape = dice.choice([Shape.GENTLE, Shape.GENTLE, Shape.KIP_435])
    at_once = 1 if _holds(number) else dice.choice((2, 3, 4))
    limits = ("--partitions", str(at_once), "--replicas", "1")
    rate = "none" if _holds(number) else f"{dice.choice((300, 400, 600))}kB"
    paced = (*limits, "--throttle", rate, "--poll", "500ms")
    return ("--shape", shape.value, *paced, "--allow-replication-factor-change")


def _holds(number: int) -> bool:
    return number % HOLDER_EVERY == HOLDER_AT


def _faults(number: int, dice: random.Random) -> Iterator[Event]:
    """Yield the fault that the number selects, and others: brokers in turn, the rest beside."""
    if _holds(number):
        yield Event(0.0, Fault.HOLDER_SUSPENDED, HELD_S)
        if dice.random() < 0.5:
            yield Event(dice.uniform(50.0, 80.0), Fault.ENGINE_KILLED, 1.0)
        return
    kinds = [_TURNS[number % len(_TURNS)]]
    kinds += [kind for kind in _TURNS if kind not in kinds and dice.random() < 0.3]
    free_s = dice.uniform(2.0, 5.0)
    for kind in kinds:
        match kind:
            case Fault.CONTROLLER_KILLED:
                yield Event(dice.uniform(1.0, 10.0), kind, dice.uniform(3.0, 10.0))
            case Fault.ENGINE_KILLED:
                yield Event(dice.uniform(2.0, 25.0), kind, dice.uniform(0.0, 3.0))
            case _:
                lasts_s = 18.0 if kind is Fault.LAST_COPY_KILLED else dice.uniform(4.0, 10.0)
                yield Event(free_s, kind, lasts_s)
                free_s += lasts_s + dice.uniform(3.0, 6.0)


def _commands(
    number: int, dice: random.Random, topics: tuple[Topic, ...], over_s: float
) -> Iterator[Event]:
    """Yield the command that the number selects, and others; a stop of everything comes late."""
    last_s = max(15.0, min(over_s, 40.0))
    first = _COMMANDS[number % len(_COMMANDS)]
    others = [kind for kind in _COMMANDS if kind is not Asked.STOP_ALL]
    kinds = [first, *dice.sample(others, 2)]
    if _holds(number):
        last_s = HELD_S
        kinds = [kind for kind in kinds if kind not in (Asked.THROTTLE, Asked.STOP_ALL)]
    for kind in kinds:
        at_s = dice.uniform(15.0 if _holds(number) else 3.0, last_s)
        if kind is Asked.STOP_ALL:
            at_s = dice.uniform(8.0, last_s)
        yield Event(at_s, kind, 0.0, tuple(_words(kind, dice, topics)))
        if kind is Asked.PAUSE:
            yield Event(at_s + dice.uniform(2.0, 8.0), Asked.CONTINUE)


def _words(kind: Asked, dice: random.Random, topics: tuple[Topic, ...]) -> Iterator[str]:
    topic, partition = dice.choice(topics).name, dice.randrange(PARTITIONS)
    match kind:
        case Asked.LIMITS:
            yield from ("--partitions", str(dice.choice((1, 2, 5, 8))))
        case Asked.THROTTLE:
            yield f"{dice.choice((250, 500, 900))}kB"
        case Asked.STOP_PARTITION:
            yield from ("--stop", "--partition", f"{topic}:{partition}")
        case Asked.STOP_TOPIC:
            yield from ("--stop", "--topic", topic)
        case Asked.STOP_ALL:
            yield from ("--stop", "--all")
        case Asked.ROLLBACK:
            yield from ("--rollback", *dice.choice((("--topic", topic), ("--all",))))
        case Asked.PAUSE:
            yield from dice.choice(((), ("--topic", topic)))
