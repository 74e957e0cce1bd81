"""The limits and throttles under which a recorded run is simulated: near its own, or a file's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path

import msgspec

from ktui.pacing.limits import FIELDS, Limits, LimitsProblem, parse_limits
from ktui.planning.throttle_rates import (
    NO_THROTTLE,
    BrokerRate,
    ThrottleProblem,
    ThrottleRates,
    parse_throttle_rates,
)
from ktui.yamlfile import YamlFile, read_yaml

MOST = 1_000
"""The most cells of a grid."""
Value = str | int | None


class RateSpan(msgspec.Struct, frozen=True):
    """Rates, and how long steps were in flight under them."""

    seconds: float
    rates: ThrottleRates


class GridCell(msgspec.Struct, frozen=True):
    """One combination of limits and throttle."""

    limits: Limits
    throttle: ThrottleRates = NO_THROTTLE
    driven: tuple[RateSpan, ...] = ()
    """The rates over time that a run's promises chose, in place of the throttle."""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    limits: dict[str, list[Value] | Value]
    throttle: list[str] | str = "none"


FACTORS = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
"""What is multiplied: what a run has at once, and its throttle."""
_AT_ONCE = tuple(field for field, limit in FIELDS.items() if limit.bounds_copies)


_MOST_BYTES_S = 2**63 - 2
"""Kafka treats the next number as no throttle."""


def relative_grid(own: GridCell, partitions: int, bytes_s: float) -> tuple[GridCell, ...]:
    """Return the grid for when no file names one: multiples of a run's own limits and throttle.

    All limits of how much is copied at once change together; `replicas` is the run's, 1, or none.

    Args:
        own: the run's limits and throttle.
        partitions: how many move. Without limits of how much is copied at once, the run counts as
            limited to these.
        bytes_s: the rate into a broker without a throttle, which stands for the throttle of a run
            that has none.
    """
    limits = msgspec.structs.replace(own.limits, brokers=())
    if all(getattr(limits, name) is None for name in _AT_ONCE):
        scaled = {"partitions": partitions}
    else:
        scaled = {name: of for name in _AT_ONCE if (of := getattr(limits, name)) is not None}
    replicas = dict.fromkeys((limits.replicas, 1, None))
    throttle = own.throttle or ThrottleRates(_two_digits(bytes_s))
    throttles = [_times(throttle, factor) for factor in FACTORS if own.throttle or factor < 1]
    each = [
        msgspec.structs.replace(
            limits, replicas=count, **{n: max(1, int(of * factor)) for n, of in scaled.items()}
        )
        for factor in FACTORS
        for count in replicas
    ]
    cells = (GridCell(one, rates) for one in each for rates in (*throttles, NO_THROTTLE))
    return tuple(dict.fromkeys(cells))


def _times(rates: ThrottleRates, factor: Fraction) -> ThrottleRates:
    def times(rate: int | None) -> int | None:
        return None if rate is None else max(1, min(_MOST_BYTES_S, int(rate * factor)))

    brokers = tuple(BrokerRate(each.broker, times(each.bytes_s)) for each in rates.brokers)
    return ThrottleRates(times(rates.every), brokers, times(rates.budget))


def _two_digits(bytes_s: float) -> int:
    """Return a rate rounded to two digits, as an operator would type it; at least 1."""
    return max(1, int(float(f"{bytes_s:.1e}")))


def read_grid(path: Path) -> tuple[GridCell, ...]:
    """Read a grid: every combination of the limits and throttles in a file.

    Raises:
        FileProblem: the file cannot be read, or has something that is no limit or throttle; names
            the line.
    """
    file = read_yaml(path)
    content = file.convert((), file.data, _File)
    limits = {name: _as_list(values) for name, values in content.limits.items()}
    for name, values in limits.items():
        for number, value in enumerate(values):
            _check(file, name, number, value)
    throttles = list(_throttles(file, _as_list(content.throttle)))
    cells = len(throttles)
    for values in limits.values():
        cells *= len(values)
    if not 1 <= cells <= MOST:
        raise file.problem((), f"{cells:,} cells. A grid has 1 to {MOST:,}")
    try:
        return tuple(_cells(limits, throttles))
    except LimitsProblem as problem:
        raise file.problem(("limits",), f"limits: {problem}") from None


def _as_list(values: list[Value] | list[str] | Value) -> list[Value]:
    return [*values] if isinstance(values, list) else [values]


def _check(file: YamlFile, name: str, number: int, value: Value) -> None:
    try:
        parse_limits({name: value})
    except LimitsProblem as problem:
        raise file.problem(("limits", name, number), f"limits.{problem}") from None


def _throttles(file: YamlFile, texts: list[Value]) -> Iterator[ThrottleRates]:
    for number, text in enumerate(texts):
        try:
            yield parse_throttle_rates(str(text))
        except ThrottleProblem as problem:
            raise file.problem(("throttle", number), f"throttle: {problem}") from None


def _cells(limits: Mapping[str, list[Value]], throttles: list[ThrottleRates]) -> Iterator[GridCell]:
    for values in itertools.product(*limits.values()):
        chosen = parse_limits(dict(zip(limits, values, strict=True)))
        yield from (GridCell(chosen, throttle) for throttle in throttles)
