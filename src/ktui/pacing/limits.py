"""The operator's limits: how much may move at once, and how (KIP-435, KIP-1335)."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from ktui.quantities import as_bytes, as_size
from ktui.units import Size, parse_quantity


class Shape(enum.StrEnum):
    """The way in which a partition's reassignment is cut into steps."""

    GENTLE = "gentle"
    """Add first, then drop everything at once."""
    KIP_435 = "kip-435"
    """Add and elect the preferred leader first, then drop and add together."""
    WHOLE = "whole"
    """The whole change in one request and without an election, as kafka-reassign-partitions asks
    for it. The rules of the other shapes do not hold: a partition may fall below min ISR."""


class Mode(enum.StrEnum):
    """When further partitions begin (KIP-1335)."""

    ROLLING = "rolling"
    """As soon as a place is free."""
    WAVE = "wave"
    """When all partitions that began together have ended."""


class Order(enum.StrEnum):
    """The order in which partitions begin."""

    LONG_FIRST = "long-first"
    """First the few partitions whose copies take long, the longest first; then as `TOPIC`. Gentle
    only."""
    TOPIC = "topic"
    """By topic and partition, as in KIP-1335."""
    SIZE_DESC = "size-desc"
    SIZE_ASC = "size-asc"
    PLAN = "plan"
    """In the order of the plan's file."""


class InternalOrder(enum.StrEnum):
    """When the partitions of Kafka's own topics begin, as against all others. Gentle only.

    With `FIRST` and `LAST`, one leader of such a partition moves at a time, whatever L is.
    """

    FIRST = "first"
    LAST = "last"
    """Once no other partition waits to begin."""
    NONE = "none"
    """As all others, without a limit of their own."""


class BrokerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one broker alone, in the place of the run's; unset where the run's bind."""

    broker: int
    per_broker: int | UnsetType | None = UNSET
    per_leader: int | UnsetType | None = UNSET
    bytes_per_broker: int | UnsetType | None = UNSET


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits in force; None means no limit. Counts are at least 1."""

    replicas: int | None = None
    """R: replicas of one partition being added at once (reassignment.parallel.replica.count)."""
    partitions: int | None = None
    """P: partitions begun and not ended (reassignment.parallel.partition.count)."""
    leader_movements: int | None = None
    """L: leader movements in flight (reassignment.parallel.leader.movements)."""
    replica_movements: int | None = None
    """M: replicas being added in the cluster (reassignment.max.concurrent.replica.movements)."""
    per_broker: int | None = None
    """B: replicas being added on one broker."""
    per_leader: int | None = None
    """S: replicas being copied from one leader."""
    cuts_per_minute: int | None = None
    """K: steps begun within a minute that raise a leader epoch, as every last step does."""
    bytes_in_flight: int | None = None
    """V: bytes of replicas being added in the cluster, from which on no further step adds."""
    bytes_per_broker: int | None = None
    """W: bytes of replicas being copied to and from one broker, from which on nothing more is."""
    extra_replicas: int | None = None
    """E: replicas that a partition holds after a step beyond its final number. Gentle only."""
    cut_together: int | None = None
    """C: partitions cut in one request; None means as many as P, or up to 100. Gentle only."""
    shape: Shape = Shape.GENTLE
    mode: Mode = Mode.ROLLING
    order: Order = Order.TOPIC
    internal: InternalOrder = InternalOrder.NONE
    brokers: tuple[BrokerLimits, ...] = ()
    """The brokers that have B, S or W of their own, by id."""

    def per_broker_at(self, broker: int) -> int | None:
        """Return B as it binds on a broker."""
        for each in self.brokers:
            if each.broker == broker and each.per_broker is not UNSET:
                return each.per_broker
        return self.per_broker

    def per_leader_at(self, broker: int) -> int | None:
        """Return S as it binds on a broker."""
        for each in self.brokers:
            if each.broker == broker and each.per_leader is not UNSET:
                return each.per_leader
        return self.per_leader

    def bytes_per_broker_at(self, broker: int) -> int | None:
        """Return W as it binds on a broker."""
        for each in self.brokers:
            if each.broker == broker and each.bytes_per_broker is not UNSET:
                return each.bytes_per_broker
        return self.bytes_per_broker

    def own_of(self, option: str) -> dict[int, int | None]:
        """Return the brokers' own limits of an option: of B, S or W, by broker."""
        values = {each.broker: getattr(each, _field(option), UNSET) for each in self.brokers}
        return {broker: value for broker, value in values.items() if value is not UNSET}

    @property
    def by_size(self) -> bool:
        """Whether W is set, for the run or for one broker."""
        of_run = self.bytes_per_broker is not None
        return of_run or (bool(self.brokers) and self._some_own("bytes-per-broker"))

    @property
    def by_receiver(self) -> bool:
        """Whether the brokers that copies go to matter: B or W is set."""
        of_run = self.bytes_per_broker is not None or self.per_broker is not None
        return of_run or (bool(self.brokers) and self._some_own("bytes-per-broker", "per-broker"))

    @property
    def by_leader(self) -> bool:
        """Whether the brokers that copies come from matter: S or W is set."""
        of_run = self.bytes_per_broker is not None or self.per_leader is not None
        return of_run or (bool(self.brokers) and self._some_own("bytes-per-broker", "per-leader"))

    def _some_own(self, *options: str) -> bool:
        return any(value is not None for each in options for value in self.own_of(each).values())

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


class Number(NamedTuple):
    """A limit that is a number or `none`."""

    letter: str
    """KIP-435's, or ours."""
    meaning: str
    """What is counted, or measured in bytes."""
    gentle_only: bool = False
    in_bytes: bool = False


NUMBERS: Mapping[str, Number] = {
    "replicas": Number("R", "replicas of one partition added at once"),
    "partitions": Number("P", "partitions begun but not ended"),
    "leader-movements": Number("L", "leader movements in flight"),
    "replica-movements": Number("M", "replicas being added in the cluster"),
    "per-broker": Number("B", "replicas being added on one broker"),
    "per-leader": Number("S", "replicas being copied from one leader"),
    "cuts-per-minute": Number("K", "steps a minute that raise a leader epoch, as cuts do"),
    "bytes-in-flight": Number("V", "bytes being copied in the cluster", in_bytes=True),
    "bytes-per-broker": Number("W", "bytes copied to and from one broker", in_bytes=True),
    "extra-replicas": Number("E", "replicas beyond a partition's final number", gentle_only=True),
    "cut-together": Number("C", "partitions that drop replicas in one request", gentle_only=True),
}
"""The limits that are numbers, by their options as the command line names them, without dashes."""


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
    return as_bytes(value) if NUMBERS[option].in_bytes else f"{value:,}"


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


LETTERS = {option: number.letter for option, number in NUMBERS.items()}

OF_ONE_BROKER = ("per-broker", "per-leader", "bytes-per-broker")
"""The limits that a broker may have of its own: B, S and W."""
OF_RUN = "run"
"""The value that lifts a broker's own limit."""

SHAPES = (Shape.GENTLE, Shape.KIP_435)
"""The shapes to choose from. `ktui reassign` alone uses `whole`, and knows its runs by it."""

Word = Shape | Mode | Order | InternalOrder

CHOICES: Mapping[str, tuple[Word, ...]] = {
    "shape": SHAPES,
    "mode": tuple(Mode),
    "order": tuple(Order),
    "internal": tuple(InternalOrder),
}
"""The options that take one of several words."""

KIP_435_NAMES = {
    "reassignment.parallel.replica.count": "replicas",
    "reassignment.parallel.partition.count": "partitions",
    "reassignment.parallel.leader.movements": "leader-movements",
    "reassignment.max.concurrent.replica.movements": "replica-movements",
}
"""KIP-435's names for four of the options."""

USUAL_BYTES = 32 * 1024 * 1024
"""W by default."""
USUAL_CUTS = 6_000
"""K by default."""
USUAL_CUT_TOGETHER = 100
"""C without a limit on C and P."""

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
_AT_ONCE = (
    "partitions", "replica-movements", "per-broker", "bytes-in-flight", "bytes-per-broker"
)  # fmt: skip
"""The limits of how much is copied at once. Naming one of them leaves out the default."""


def default_limits(
    named: Mapping[str, object] = MappingProxyType({}),
) -> Limits:
    """Return the default limits: one replica of a partition at a time, W and K.

    Gentle runs begin with the partitions that take long, and leave internal topics to the end.

    Large partitions are copied one or two at a time to and from a broker, and small ones by the
    hundred.

    Args:
        named: the limits that options or a config file name; one that bounds how much is copied at
            once replaces W.
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
    """Parse limits from options by name, over those of `base`.

    Args:
        options: names as on the command line, with or without the leading dashes, or KIP-435's;
            also `pace`, for the limits of one of `PACES` that are not named. Values
            are whole numbers or their text, `none` or None to lift a limit, and words.
        base: the limits for options that are absent.

    Raises:
        LimitsProblem: an option cannot be used; the error is about the first such option.
    """
    options = without_pace(options)
    values = {_option(name): _value(name, value) for name, value in options.items()}
    fields = {_field(option): value for option, value in values.items()}
    limits = msgspec.structs.replace(base or Limits(), **fields)
    if limits.shape is Shape.GENTLE:
        return limits
    for option in (option for option, number in NUMBERS.items() if number.gentle_only):
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
    """Parse limits of single brokers, over those of `base`.

    Args:
        brokers: by broker, options as `parse_limits` takes them, of B, S and W alone; `run` lifts
            the broker's own limit, so that the run's binds there again.
        base: the limits of the run, and of brokers that are absent.

    Raises:
        LimitsProblem: an option cannot be used; the error is about the first such option.
    """
    own = {each.broker: each for each in base.brokers}
    for broker, options in brokers.items():
        values = dict(_own(name, value) for name, value in options.items())
        before = own.get(broker, BrokerLimits(broker=broker))
        own[broker] = msgspec.structs.replace(before, **values)
    kept = (own[broker] for broker in sorted(own) if own[broker] != BrokerLimits(broker=broker))
    return msgspec.structs.replace(base, brokers=tuple(kept))


def _own(name: str, value: object) -> tuple[str, int | str | UnsetType | None]:
    """Return the field and the value of a limit of one broker."""
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
    """Return options with the limits of a pace in the place of its name.

    Raises:
        LimitsProblem: there is no such pace.
    """
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
    return _bytes(shown, value) if NUMBERS[option].in_bytes else _count(shown, value)


def _choice(shown: str, words: tuple[Word, ...], value: object) -> str:
    for word in words:
        if word == value:
            return word
    raise LimitsProblem(shown, f"{value!r} is not a valid value", f"Use {' or '.join(words)}")


def _bytes(shown: str, value: object) -> int:
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
