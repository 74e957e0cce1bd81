"""An objective: how much of the copying others may feel, such as `p99<150ms`."""

from __future__ import annotations

import re
from math import inf
from typing import Literal

import msgspec

CANARY_PREFIX = "ktui-canary-"
"""What the names of topics begin with by which a run measures what producers feel."""
CANARY_RECORDS_S = 20
"""The records that a canary writes to each broker in a second."""
EXPECTED = "use an objective such as p99<150ms or lag<5000, or none"
_OBJECTIVE = re.compile(r"([A-Za-z][A-Za-z0-9._-]{0,30})\s*<\s*(\d{1,12}(?:\.\d{1,6})?)\s*(ms|s)?")
_PERCENTILE = re.compile(r"p([1-9][0-9](?:\.[0-9]{1,3})?)")


def canary_topic(run: str) -> str:
    """Return the name of the topic of a run's canary."""
    return f"{CANARY_PREFIX}{run}"


def canary_in_words(run: str) -> str:
    """Return what the canary of a run does: "writes 20 records a second ..."."""
    return (
        f"writes {CANARY_RECORDS_S} records a second to each broker, to the topic "
        f"{canary_topic(run)}, removed at the end"
    )


def is_canary(topic: str) -> bool:
    """Return whether a topic is the canary of some run."""
    return topic.startswith(CANARY_PREFIX)


class ObjectiveProblem(ValueError):
    """A text that is no objective. The message has the text and the fix."""


class Objective(msgspec.Struct, frozen=True, omit_defaults=True):
    """A figure that has to stay below a value."""

    name: str
    """The name of the figure, such as `p99`: only people read it."""
    below: float
    """The value, in the unit of the figure."""
    unit: Literal["", "ms", "s"] = ""

    def __post_init__(self) -> None:
        """Reject an objective that nobody could show or keep.

        Raises:
            ValueError: it is such a one.
        """
        if not self.name.isprintable() or not 0 < self.below < inf:
            raise ValueError("not an objective")

    @property
    def percent(self) -> float | None:
        """The percentile that the figure is by its name: 99.9 for `p99.9`; None for another one."""
        match = _PERCENTILE.fullmatch(self.name)
        return None if match is None else float(match[1])

    def __str__(self) -> str:
        """Return the objective as it is typed."""
        return f"{self.name}<{self.value(self.below)}"

    def value(self, figure: float) -> str:
        """Return a figure with the unit of the objective: "143ms"."""
        shown = f"{figure:.6f}".rstrip("0").rstrip(".")
        return f"{shown}{self.unit}"


def not_measured_by_canary(objective: Objective) -> str:
    """Return why a canary has no figure for an objective that names no percentile."""
    return f"the canary measures p50 to p99.9, and no {objective.name}"


def parse_objective(text: str) -> Objective:
    """Parse an objective as operators write it.

    Raises:
        ObjectiveProblem: the text is not one.
    """
    match = _OBJECTIVE.fullmatch(text.strip())
    if match is None or not float(match[2]) > 0:
        raise ObjectiveProblem(f"{text.strip()!r:.60} is not an objective; {EXPECTED}")
    unit: Literal["", "ms", "s"] = "ms" if match[3] == "ms" else "s" if match[3] == "s" else ""
    return Objective(match[1], float(match[2]), unit)
