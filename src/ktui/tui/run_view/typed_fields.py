"""What an operator types into the fields of a plan, parsed: brokers, topics, numbers and sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase

from ktui.planning.intents.arguments import check_patterns, check_topics
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.made_plan import CannotMake
from ktui.planning.names import join_all, shortened
from ktui.planning.plan import LARGEST
from ktui.units import parse_quantity

_NUMBER = re.compile(r"[0-9]{1,10}")
_PATTERN = re.compile(r"[*?\[]")
_LABELS = {
    "brokers": "brokers",
    "among": "brokers",
    "old": "old broker",
    "new": "new broker",
    "broker": "broker",
    "factor": "replicas",
    "only": "only these topics",
    "exclude": "not these topics",
    "max_moves": "moves",
    "max_bytes": "bytes",
    "max_leader_changes": "leader changes",
}
_QUANTITIES = {
    "within": "no share from 0 to 100%. Type 10%.",
    "until": "neither a share of its disks, such as 80%, nor a size, such as 200GB.",
    "max_bytes": "no size. Type 500GB.",
}
"""What the text of a field with a unit is not, and what to type."""


class WrongField(CannotMake):
    """What is typed in a field is wrong, or does not fit the cluster.

    Args:
        field: the name of the field in a `PlanRequest`.
        problem: the problem and its fix.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field


@contextmanager
def about(field: str) -> Iterator[None]:
    """Let a problem name the field that it is about."""
    try:
        yield
    except WrongField:
        raise
    except CannotMake as problem:
        raise WrongField(field, str(problem)) from None


def parts(text: str) -> list[str]:
    """Split a list with commas or blanks."""
    return [part for part in re.split(r"[,\s]+", text) if part]


def numbers(field: str, text: str) -> list[int]:
    """Parse the ids of brokers, each once.

    Raises:
        WrongField: one of them is no id.
    """
    return sorted({number(field, part) for part in parts(text)})


def number(field: str, text: str, least: int = 0) -> int:
    """Parse a whole number.

    Raises:
        WrongField: the text is none, or the number is less than `least`.
    """
    if _NUMBER.fullmatch(text) is None or not least <= int(text) <= LARGEST:
        many = field in {"brokers", "among"}
        example = join_all(["3", "3,7"], "or") if many else "3"
        raise WrongField(
            field,
            f"{_LABELS[field]}: {shortened(text)!r} is not a whole number from {least}. "
            f"Type {example}.",
        )
    return int(text)


def quantity(field: str, kind: type, text: str) -> float:
    """Parse a number with a unit, or one in the base unit.

    Raises:
        WrongField: the text is none of this kind.
    """
    try:
        value: float | str = float(text)
    except ValueError:
        value = text
    try:
        parsed: float = parse_quantity(kind, value)
    except ValueError:
        label = _LABELS.get(field, field)
        problem = f"{label}: {shortened(text)!r} is {_QUANTITIES[field]}"
        raise WrongField(field, problem) from None
    return parsed


def patterns(field: str, layout: Layout, text: str) -> tuple[str, ...]:
    """Parse names of topics and shell patterns.

    Raises:
        WrongField: one of them matches no topic of the cluster.
    """
    typed = tuple(parts(text))
    try:
        check_patterns(layout, typed)
    except CannotMake as problem:
        raise WrongField(field, f"{_LABELS[field]}: {problem}") from None
    return typed


def matching_topics(layout: Layout, typed: Sequence[str]) -> list[str]:
    """Return the topics that have one of the names, or match one of the shell patterns.

    Raises:
        CannotMake: the cluster does not have one of them.
    """
    topics = sorted({tp.topic for tp in layout.partitions})
    check_topics(layout, [each for each in typed if _PATTERN.search(each) is None])
    for pattern in typed:
        if not any(fnmatchcase(topic, pattern) for topic in topics):
            raise CannotMake(f"No topic matches {shortened(pattern)!r}.")
    return [topic for topic in topics if any(fnmatchcase(topic, each) for each in typed)]
