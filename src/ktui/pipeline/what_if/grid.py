"""The limits and throttles under which recorded runs are simulated: the usual ones, or a file's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from ktui.pacing.limits import Limits, LimitsProblem, parse_limits
from ktui.pipeline.what_if.driven import RateSpan
from ktui.planning.throttle_rates import (
    NO_THROTTLE,
    ThrottleProblem,
    ThrottleRates,
    parse_throttle_rates,
)
from ktui.yamlfile import YamlFile, read_yaml

MOST = 1_000
"""The most cells of a grid."""
Value = str | int | None


class GridCell(msgspec.Struct, frozen=True):
    """One combination of limits and throttle."""

    limits: Limits
    throttle: ThrottleRates = NO_THROTTLE
    driven: tuple[RateSpan, ...] = ()
    """The rates over time that a run's promises chose, in place of the throttle."""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    limits: dict[str, list[Value] | Value]
    throttle: list[str] | str = "none"


USUAL: Mapping[str, list[Value]] = {
    "partitions": [1, 2, 5, 10, 20, 50],
    "replicas": [1, "none"],
    "per-broker": [2, "none"],
}
USUAL_THROTTLES = ("none", "20MB/s", "50MB/s", "100MB/s")


def usual_grid() -> tuple[GridCell, ...]:
    """Return the grid for when no file names one: 96 cells."""
    return tuple(_cells(USUAL, [parse_throttle_rates(text) for text in USUAL_THROTTLES]))


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
