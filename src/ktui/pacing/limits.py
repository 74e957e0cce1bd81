"""The operator's limits, one table: how much may move at once, and how (KIP-435, KIP-1335).

A limit is a field of `Limits` and a row of `NUMBERS`: its option, keys, use, words and part in
forecasts follow from that. The rule itself is `costs`, which decides by a `Demand`, so what a rule
needs to know of a step must be a fact of it. What a run knows of its cluster comes from its
journal's first events, and reaches `Demand` through the `Roster`.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

import msgspec
from msgspec import UNSET, UnsetType

from ktui.pacing.situation import At, Demand, Place
from ktui.quantities import Size, as_bytes, as_count, as_size, parse_quantity


class Shape(enum.StrEnum):
    """The way in which a partition's reassignment is cut into steps."""

    GENTLE = "gentle"  # add first, then drop everything at once
    KIP_435 = "kip-435"  # add and elect the preferred leader first, then drop and add together
    WHOLE = "whole"  # all in one request, as kafka-reassign-partitions: may break min ISR


class Mode(enum.StrEnum):
    """When further partitions begin (KIP-1335)."""

    ROLLING = "rolling"
    WAVE = "wave"


class Order(enum.StrEnum):
    """The order in which partitions begin."""

    LONG_FIRST = "long-first"  # The few with the longest copies, then as `TOPIC`. Gentle.
    TOPIC = "topic"
    SIZE_DESC = "size-desc"
    SIZE_ASC = "size-asc"
    PLAN = "plan"


class InternalOrder(enum.StrEnum):
    """When partitions of Kafka's own topics begin; unless `NONE`, one leader moves at a time."""

    FIRST = "first"
    LAST = "last"
    NONE = "none"


class Full(msgspec.Struct, frozen=True):
    """A limit that leaves no room for a step."""

    limit: str
    used: int  # a count, or bytes
    most: int
    at: Place = None  # the full broker, for a limit of brokers; None for the cluster's
    others: int = 0  # the part of `used` that other people's reassignments take
    among_urgent: bool = False  # whether `used` is what urgent partitions alone use
    among_internal: bool = False  # whether `used` counts internal leaders, of which one moves
    own: bool = False  # whether the limit is the broker's own, in the place of the run's


class FullWords(msgspec.Struct, frozen=True):
    """The parts of the words when a limit is full.

    For a cell: "broker 3: 2 of 2 (B)". In full: "Its next step adds a replica on broker 3: B lets 2
    replicas be added on one broker, and 2 are there."
    """

    step: str  # what the step does; `{at}` is the place that is full
    unit: str  # what is counted; not used for bytes
    lets: str
    one: str = ""  # where that many may, unless the limit is the broker's own
    now: str = "{are}"  # what those in use do; `{are}` and `{have}` agree with the number
    cell_words: str = "{used}"  # the words of a cell around "2 of 2"
    where: str = ""  # the word before the place

    def cell(self, letter: str, full: Full, figure: Callable[[int], str]) -> str:
        foreign = f", {full.others:,} foreign" if full.others else ""
        used = f"{figure(full.used)} of {figure(full.most)}"
        return f"{self.cell_words.format(used=used, at=full.at)} ({letter}){foreign}"

    def sentence(self, letter: str, full: Full, figure: Callable[[int], str] | None) -> str:
        own = "its own " if full.own else ""
        most = as_count(full.most, self.unit) if figure is None else figure(full.most)
        used = f"{full.used:,}" if figure is None else figure(full.used)
        one = figure is None and full.used == 1
        now = self.now.format(are="is" if one else "are", have="has" if one else "have")
        theirs = f", {full.others:,} of them by others" if full.others else ""
        step, lets = self.step.format(at=full.at), f"{self.lets}{'' if own else self.one}"
        return f"{step}: {own}{letter} lets {most} {lets}, and {used} {now}{theirs}."


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that is a number or `none`."""

    letter: str
    """KIP-435's, or ours."""
    meaning: str
    """What is counted, or measured in bytes: its help."""
    kip: str = ""
    default: str = ""
    """The default of a new run, for the help."""
    at: tuple[At, ...] = ()
    """The places on each of which it is counted; none for the cluster, a partition, a request."""
    costs: Costs | None = None
    """What a step in flight takes, and where; None for P, K and limits of one partition."""
    in_bytes: bool = False
    """Full once so many bytes are in use: the last may exceed it."""
    counts_others: bool = False
    """Whether what other people's reassignments add counts, too."""
    binds_urgent: bool = False
    """Whether it binds steps for min ISR, as producers wait."""
    may_exceed: bool = False
    """Whether one step may take more than there is: it goes alone then."""
    gentle_only: bool = False
    bounds_copies: bool = False
    """Whether it bounds copies at once: what-if scales it."""
    replaces_default: bool = False
    """Whether naming it leaves out W's default."""
    full: FullWords | None = None

    def in_use(self, most: int, place: Place) -> str:
        """Return how much is in use where it is most: `2 on broker 3`."""
        where = self.full.where if self.full is not None else ""
        figure = self.figure(most)
        return f"{figure} {where} {place}" if most and where else figure

    def figure(self, value: int) -> str:
        return as_bytes(value) if self.in_bytes else f"{value:,}"

    def why_full(self, full: Full) -> tuple[str, str]:
        assert self.full is not None, self.letter  # noqa: S101 - a limit that can be full
        size = self.figure if self.in_bytes else None
        cell = self.full.cell(self.letter, full, self.figure)
        return cell, self.full.sentence(self.letter, full, size)


Costs = Callable[[Demand], Sequence[tuple[Place, int]]]


_LEADER, _RECEIVER, _RACK = (kind.value for kind in At)  # bare, as the costs are asked for often


def _bytes_at_brokers(of: Demand) -> Sequence[tuple[Place, int]]:
    places, weight = of.places, of.weight
    received = [(broker, weight) for broker in places[_RECEIVER]]
    return [(places[_LEADER][0], of.adds * weight), *received] if places[_LEADER] else received


USUAL_BYTES = 32 * 1024 * 1024  # W by default
USUAL_CUTS = 6_000  # K by default
USUAL_CUT_TOGETHER = 100  # C without a limit on C and P

NUMBERS: Mapping[str, Limit] = {
    "replicas": Limit(
        letter="R",
        meaning="replicas of one partition added at once",
        kip="reassignment.parallel.replica.count",
        default="1",
    ),
    "partitions": Limit(
        letter="P",
        meaning="partitions begun but not ended",
        kip="reassignment.parallel.partition.count",
        bounds_copies=True,
        replaces_default=True,
    ),
    "leader-movements": Limit(
        letter="L",
        meaning="leader movements in flight",
        kip="reassignment.parallel.leader.movements",
        costs=lambda of: ((None, 1),) if of.moves_leader else (),
        binds_urgent=True,
        full=FullWords(
            "Its next step moves its leader",
            "leader movement",
            "be in flight",
            cell_words="{used} leader movements",
        ),
    ),
    "replica-movements": Limit(
        letter="M",
        meaning="replicas being added in the cluster",
        kip="reassignment.max.concurrent.replica.movements",
        costs=lambda of: ((None, of.adds),) if of.adds else (),
        counts_others=True,
        may_exceed=True,
        bounds_copies=True,
        replaces_default=True,
        full=FullWords(
            "Its next step adds to the cluster",
            "replica",
            "be added at once",
            cell_words="{used} replicas",
        ),
    ),
    "per-broker": Limit(
        letter="B",
        meaning="replicas being added on one broker",
        at=(At.RECEIVER,),
        costs=lambda of: [(broker, 1) for broker in of.places[_RECEIVER]],
        counts_others=True,
        binds_urgent=True,
        bounds_copies=True,
        replaces_default=True,
        full=FullWords(
            "Its next step adds a replica on broker {at}",
            "replica",
            "be added",
            one=" on one broker",
            now="{are} there",
            cell_words="broker {at}: {used}",
            where="on broker",
        ),
    ),
    "per-leader": Limit(
        letter="S",
        meaning="replicas being copied from one leader",
        at=(At.LEADER,),
        costs=lambda of: ((at[0], of.adds),) if (at := of.places[_LEADER]) else (),
        counts_others=True,
        may_exceed=True,
        bounds_copies=True,
        full=FullWords(
            "Its next step copies from broker {at}",
            "replica",
            "be copied",
            one=" from one leader",
            cell_words="leader {at}: {used}",
            where="on broker",
        ),
    ),
    "cuts-per-minute": Limit(
        letter="K",
        meaning="steps a minute that raise a leader epoch, as dropping replicas does",
        default=str(USUAL_CUTS),
        full=FullWords(
            "Its next step raises its leader epoch",
            "step",
            "do so in a minute",
            now="{have}",
            cell_words="{used} this minute",
        ),
    ),
    "bytes-in-flight": Limit(
        letter="V",
        meaning="bytes being copied in the cluster",
        costs=lambda of: ((None, of.adds * of.weight),) if of.adds else (),
        in_bytes=True,
        bounds_copies=True,
        replaces_default=True,
        full=FullWords("Its next step copies", "", "be in flight in the cluster"),
    ),
    "bytes-per-broker": Limit(
        letter="W",
        meaning="bytes being copied at once to and from one broker; the last begun may exceed it",
        default=f"{as_size(USUAL_BYTES)}, unless P, M, B or V is given",
        at=(At.LEADER, At.RECEIVER),
        costs=_bytes_at_brokers,
        in_bytes=True,
        bounds_copies=True,
        replaces_default=True,
        full=FullWords(
            "Its next step copies to or from broker {at}",
            "",
            "be in flight",
            one=" at one broker",
            now="are there",
            cell_words="broker {at}: {used}",
            where="at",
        ),
    ),
    "per-rack": Limit(
        letter="Z",
        meaning="partitions with a replica being added in one rack",
        at=(At.RACK,),
        costs=lambda of: [(rack, 1) for rack in of.places[_RACK]],
        counts_others=True,
        bounds_copies=True,
        full=FullWords(
            "Its next step adds a replica in rack {at}",
            "partition",
            "be adding",
            one=" in one rack",
            cell_words="rack {at}: {used}",
            where="in rack",
        ),
    ),
    "extra-replicas": Limit(
        letter="E",
        meaning="replicas beyond a partition's final number",
        gentle_only=True,
    ),
    "cut-together": Limit(
        letter="C",
        meaning="partitions that drop replicas in one request",
        default=f"P, or up to {USUAL_CUT_TOGETHER} without P",
        gentle_only=True,
    ),
}
"""The limits that are numbers, by their options as the command line names them, without dashes."""

LETTERS = {option: limit.letter for option, limit in NUMBERS.items()}
FIELDS = {option.replace("-", "_"): limit for option, limit in NUMBERS.items()}
COUNTED = tuple((field, limit) for field, limit in FIELDS.items() if limit.costs is not None)


class BrokerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one broker alone, in the place of the run's; unset where the run's bind."""

    broker: int
    per_broker: int | UnsetType | None = UNSET
    per_leader: int | UnsetType | None = UNSET
    bytes_per_broker: int | UnsetType | None = UNSET


class Limits(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """The limits in force: `NUMBERS` says what each counts. None is no limit; counts are from 1."""

    replicas: int | None = None
    partitions: int | None = None
    leader_movements: int | None = None
    replica_movements: int | None = None
    per_broker: int | None = None
    per_leader: int | None = None
    cuts_per_minute: int | None = None
    bytes_in_flight: int | None = None
    bytes_per_broker: int | None = None
    per_rack: int | None = None
    extra_replicas: int | None = None
    cut_together: int | None = None  # None means as many as P, or up to 100
    shape: Shape = Shape.GENTLE
    mode: Mode = Mode.ROLLING
    order: Order = Order.TOPIC
    internal: InternalOrder = InternalOrder.NONE
    brokers: tuple[BrokerLimits, ...] = ()
    """The brokers that have B, S or W of their own, by id."""

    def most_at(self, field: str, place: Place) -> int | None:
        for each in self.brokers:
            if each.broker == place and (own := getattr(each, field, UNSET)) is not UNSET:
                return own  # type: ignore[no-any-return] # by the name of one of its fields
        return getattr(self, field)  # type: ignore[no-any-return] # the same

    def own_of(self, option: str) -> dict[int, int | None]:
        values = {each.broker: getattr(each, _field(option), UNSET) for each in self.brokers}
        return {broker: value for broker, value in values.items() if value is not UNSET}

    @property
    def by_size(self) -> bool:
        return self.is_set("bytes_per_broker")

    @property
    def counts_at(self) -> Sequence[bool]:
        """Whether a limit is counted on each place of a kind, by its `At`."""
        return _counted_at(self)

    def is_set(self, field: str) -> bool:
        if getattr(self, field) is not None:
            return True
        return any(getattr(each, field, UNSET) not in (UNSET, None) for each in self.brokers)

    def relevant(self, of: Demand) -> Demand:
        """Return a demand without what none of the limits counts."""
        coordinates = of.moves_coordinator and self.internal is not InternalOrder.NONE
        places = of.places
        if of.adds:
            counted = zip(places, self.counts_at, strict=True)
            places = tuple([at if one else () for at, one in counted])
        return Demand(
            of.moves_leader,
            of.urgent,
            of.adds,
            of.raises_epoch and self.cuts_per_minute is not None,
            places,
            of.among_urgent,
            coordinates,
        )

    @property
    def in_batches(self) -> bool:
        """Whether partitions are submitted as by KIP-1335: whole, and so many at a time."""
        return self.shape is Shape.WHOLE and self.partitions is not None


class LimitsProblem(Exception):
    """A limit cannot be used. The message names the option, the problem and the fix."""

    def __init__(self, option: str, problem: str, fix: str) -> None:
        self.option = option
        self.problem = problem
        self.fix = fix
        super().__init__(f"{option}: {problem}. {fix}")


def limit_text(option: str, value: object) -> str:
    """Return the value of a limit as an operator types it: `8`, `64MiB`, `none`, `rolling`."""
    if value is None:
        return "none"
    in_bytes = option in NUMBERS and NUMBERS[option].in_bytes
    return as_size(value) if in_bytes and isinstance(value, int) else str(value)


def limit_figure(option: str, value: int | None) -> str:
    """Return a limit that is a number as it is shown: `6,000`, `64 MiB`, `none`."""
    if value is None:
        return "none"
    return NUMBERS[option].figure(value)


def full_limit_figure(limits: Limits, option: str) -> str:
    """Return a limit that is a number, with the brokers' own: `4 (broker 3: 1, broker 5: none)`."""
    own = [
        f"broker {broker}: {limit_figure(option, value)}"
        for broker, value in limits.own_of(option).items()
    ]
    of_run = limit_figure(option, getattr(limits, _field(option)))
    return f"{of_run} ({', '.join(own)})" if own else of_run


def is_limited(limits: Limits, option: str) -> bool:
    """Whether a limit that is a number is set, for the run or for one broker."""
    return getattr(limits, _field(option)) is not None or bool(limits.own_of(option))


def _field(option: str) -> str:
    return option.replace("-", "_")


OF_ONE_BROKER = tuple(each.replace("_", "-") for each in BrokerLimits.__struct_fields__[1:])
OF_RUN = "run"  # the value that lifts a broker's own limit

SHAPES = (Shape.GENTLE, Shape.KIP_435)
"""The shapes to choose from. `ktui reassign` alone uses `whole`, and knows its runs by it."""

Word = Shape | Mode | Order | InternalOrder

MEANINGS: Mapping[Word, str] = {
    Shape.GENTLE: "add all new replicas, then remove the old ones together",
    Shape.KIP_435: "add and remove in turns",
    Shape.WHOLE: "add and remove in one request",
    Mode.ROLLING: "begin a partition as soon as there is room",
    Mode.WAVE: "begin the next ones when all have ended",
    Order.LONG_FIRST: "begin with those that take long, then by topic",
    Order.TOPIC: "begin by topic and partition",
    Order.SIZE_DESC: "begin with the largest",
    Order.SIZE_ASC: "begin with the smallest",
    Order.PLAN: "begin as the plan lists them",
}

CHOICES: Mapping[str, tuple[Word, ...]] = {
    "shape": SHAPES,
    "mode": tuple(Mode),
    "order": tuple(Order),
    "internal": tuple(InternalOrder),
}
KIP_435_NAMES = {limit.kip: option for option, limit in NUMBERS.items() if limit.kip}
"""KIP-435's names for four of the options."""

INTERNAL = "internal"
PACE = "pace"
PACES: Mapping[str, Mapping[str, int | None]] = {
    "quiet": {
        "replicas": 1,
        "bytes-per-broker": USUAL_BYTES,
        "bytes-in-flight": 2 * USUAL_BYTES,
        "cuts-per-minute": USUAL_CUTS // 10,
    },
    "balanced": {
        "replicas": 1,
        "bytes-per-broker": USUAL_BYTES,
        "bytes-in-flight": None,
        "cuts-per-minute": USUAL_CUTS,
    },
    "fast": {
        "replicas": 3,
        "bytes-per-broker": 16 * USUAL_BYTES,
        "bytes-in-flight": None,
        "cuts-per-minute": None,
    },
}
"""Words for some limits together; `balanced` is the default. The other limits stay as they are."""

_LARGEST = 999_999_999
_DIGITS = re.compile(r"[0-9]{1,9}")
_AT_ONCE = {option for option, limit in NUMBERS.items() if limit.replaces_default}
"""The limits of how much is copied at once. Naming one of them leaves out the default."""


def default_limits(named: Mapping[str, object] = MappingProxyType({})) -> Limits:
    """Return the default limits: one replica of a partition at a time, W and K.

    Gentle runs begin with partitions that take long, and leave internal topics to the end. Large
    partitions are copied one or two at a time to and from a broker, small ones by the hundred. A
    limit in `named` that bounds how much is copied at once replaces W.
    """
    options = {_option(name): value for name, value in without_pace(named).items()}
    gentle = options.get("shape", Shape.GENTLE) == Shape.GENTLE
    limits = Limits(
        replicas=1,
        cuts_per_minute=USUAL_CUTS,
        order=Order.LONG_FIRST if gentle else Order.TOPIC,
        internal=InternalOrder.LAST if gentle else InternalOrder.NONE,
    )
    if not options.keys().isdisjoint(_AT_ONCE):
        return limits
    return msgspec.structs.replace(limits, bytes_per_broker=USUAL_BYTES)


def parse_limits(options: Mapping[str, object], base: Limits | None = None) -> Limits:
    """Parse limits by options, with or without dashes, or KIP-435's names, over those of `base`.

    Also `pace`, for the limits of one of `PACES` that are not named. Values are whole numbers or
    their text, `none` or None to lift a limit, and words. LimitsProblem is about the first option
    that cannot be used.
    """
    options = without_pace(options)
    values = {_option(name): _value(name, value) for name, value in options.items()}
    fields = {_field(option): value for option, value in values.items()}
    limits = msgspec.structs.replace(base or Limits(), **fields)
    if limits.shape is Shape.GENTLE:
        return limits
    for option in (option for option, limit in NUMBERS.items() if limit.gentle_only):
        if getattr(limits, _field(option)):
            raise _without_effect(option, limits.shape)
    if values.get(INTERNAL, InternalOrder.NONE) != InternalOrder.NONE:
        raise _without_effect(INTERNAL, limits.shape)
    if values.get("order") == Order.LONG_FIRST:
        raise _without_effect("order", limits.shape, instead=Order.TOPIC)
    order = order_without_gentle(limits.order)
    return msgspec.structs.replace(limits, order=order, internal=InternalOrder.NONE)


def order_without_gentle(order: Order) -> Order:
    """Return an order as it is in the other shapes."""
    return Order.TOPIC if order is Order.LONG_FIRST else order


def parse_broker_limits(
    brokers: Mapping[int, Mapping[str, int | str | None]], base: Limits
) -> Limits:
    """Parse B, S and W of single brokers as `parse_limits` does; `run` lifts an own limit."""
    own = {each.broker: each for each in base.brokers}
    for broker, options in brokers.items():
        values = dict(_own(name, value) for name, value in options.items())
        before = own.get(broker, BrokerLimits(broker=broker))
        own[broker] = msgspec.structs.replace(before, **values)
    kept = (own[broker] for broker in sorted(own) if own[broker] != BrokerLimits(broker=broker))
    return msgspec.structs.replace(base, brokers=tuple(kept))


def _own(name: str, value: object) -> tuple[str, int | str | UnsetType | None]:
    option = name.removeprefix("--")
    if option not in OF_ONE_BROKER:
        shown = [f"--{each}" for each in OF_ONE_BROKER]
        raise LimitsProblem(
            f"--{option}",
            "it is not a limit of one broker",
            f"Give it without --broker; with it, give {', '.join(shown[:-1])} or {shown[-1]}",
        )
    if value == OF_RUN:
        return _field(option), UNSET
    try:
        return _field(option), _value(option, value)
    except LimitsProblem as problem:
        fix = f"{problem.fix}, or {OF_RUN} for that of the run"
        raise LimitsProblem(problem.option, problem.problem, fix) from None


def _without_effect(option: str, shape: Shape, instead: str = "none") -> LimitsProblem:
    fix = f"Use --{option} {instead}, or --shape gentle"
    return LimitsProblem(f"--{option}", f"it has no effect in shape {shape}", fix)


def without_pace(options: Mapping[str, object]) -> Mapping[str, object]:
    """Return options with the limits of a pace instead of its name, or LimitsProblem."""
    name = next((name for name in options if name.removeprefix("--") == PACE), None)
    if name is None:
        return options
    pace = options[name]
    if not isinstance(pace, str) or pace not in PACES:
        raise LimitsProblem(
            f"--{PACE}", f"{pace!r} is not a valid value", f"Use {' or '.join(PACES)}"
        )
    others = {_option(each): value for each, value in options.items() if each != name}
    return {**PACES[pace], **others}


def _option(name: str) -> str:
    option = KIP_435_NAMES.get(name, name.removeprefix("--"))
    if option not in NUMBERS and option not in CHOICES:
        known = ", ".join(f"--{known}" for known in (*NUMBERS, *CHOICES, PACE))
        raise LimitsProblem(name, "there is no such limit", f"The limits are {known}")
    return option


def _value(name: str, value: object) -> int | str | None:
    option = _option(name)
    shown = name if name in KIP_435_NAMES else f"--{option}"
    if option in CHOICES:
        return _choice(shown, CHOICES[option], value)
    if value is None or value == "none":
        return None
    return _parse_bytes(shown, value) if NUMBERS[option].in_bytes else _count(shown, value)


def _choice(shown: str, words: tuple[Word, ...], value: object) -> str:
    for word in words:
        if word == value:
            return word
    raise LimitsProblem(shown, f"{value!r} is not a valid value", f"Use {' or '.join(words)}")


def _parse_bytes(shown: str, value: object) -> int:
    fix = "Use a size such as 64MiB, or none to lift the limit"
    try:
        if isinstance(value, str) and value.strip().isdecimal():
            value = int(value)
        size = int(parse_quantity(Size, value))
    except ValueError:
        raise LimitsProblem(shown, f"{value!r} is not a size", fix) from None
    if size < 1:
        raise LimitsProblem(shown, f"{value!r} is too small", fix)
    return size


def _count(shown: str, value: object) -> int:
    fix = "Use a whole number from 1, or none to lift the limit"
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise LimitsProblem(shown, f"{value!r} is not a whole number", fix)
    if value < 1:
        raise LimitsProblem(shown, f"{value} is too small", fix)
    if value > _LARGEST:
        raise LimitsProblem(shown, f"more than {_LARGEST:,} is too large", fix)
    return value


@lru_cache(64)
def _counted_at(limits: Limits) -> tuple[bool, ...]:
    # asked for each step that is decided on: without the cache, a third of a forecast's time
    found = {at for field, limit in COUNTED if limits.is_set(field) for at in limit.at}
    return tuple(at in found for at in At)
