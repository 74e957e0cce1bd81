"""A plan to be made, in the words of `ktui plan`: "drain 3 --max-moves 6"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ktui.planning.intents.spread import By
from ktui.planning.names import closest_names
from ktui.tui.run_view.plan_request import NEEDED, OPTIONAL, PlanRequest, PlanSource
from ktui.tui.run_view.run_verbs import BadCommand

_OPTIONS = {
    "--topics": "only",
    "--exclude": "exclude",
    "--max-moves": "max_moves",
    "--max-bytes": "max_bytes",
    "--max-leader-changes": "max_leader_changes",
    "--keep-order": "keep_order",
    "--by": "by",
    "--within": "within",
    "--brokers": "among",
    "--below": "until",
    "--free": "until",
}
"""The field that each option of the shell fills."""
_MANY = ("brokers", "topics")
"""The fields that take all words that are left."""


def plan_verbs() -> tuple[str, ...]:
    """Return the intentions, as the shell names them."""
    return tuple(source.value for source in PlanSource if source is not PlanSource.FILE)


def parse_plan_words(words: Sequence[str]) -> PlanRequest:
    """Return the plan that words ask for. What is missing is left to be typed.

    Raises:
        BadCommand: there is no such intention or option, or there are too many words.
    """
    verb, *rest = words or [""]
    if verb not in plan_verbs():
        near = closest_names(verb, plan_verbs())
        hint = f"Did you mean {near[0]}?" if near else f"Use {' or '.join(plan_verbs())}"
        raise BadCommand(f"there is no plan {verb!r}. {hint}")
    source = PlanSource(verb)
    bare, fields = _split(source, rest)
    fields |= _needed(source, bare)
    by = fields.pop("by", By.BYTES.value)
    if by not in [*By]:
        raise BadCommand(f"--by: {by!r} is none of {', '.join(By)}")
    keeps = fields.pop("keep_order", "") == "yes"
    return PlanRequest(source=source, by=By(by), keep_order=keeps, **fields)


def _split(source: PlanSource, words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the bare words, and what options say, by field."""
    bare: list[str] = []
    fields: dict[str, str] = {}
    left = iter(words)
    for word in left:
        option, equals, value = word.partition("=")
        if not option.startswith("--"):
            bare.append(word)
            continue
        field = _OPTIONS.get(option)
        if field is None or field not in (*NEEDED[source], *OPTIONAL[source]):
            known = ", ".join(_options_of(source))
            raise BadCommand(f"{source.value} has no option {option} here. It has {known}")
        fields[field] = "yes" if field == "keep_order" else value if equals else next(left, "")
        if not fields[field]:
            raise BadCommand(f"{option} needs a value")
    return bare, fields


def _options_of(source: PlanSource) -> Iterator[str]:
    fields = (*NEEDED[source], *OPTIONAL[source])
    return (option for option, field in _OPTIONS.items() if field in fields)


def _needed(source: PlanSource, bare: Sequence[str]) -> Mapping[str, str]:
    """Return what bare words say, by field, in the order of the shell."""
    names = [name for name in NEEDED[source] if name not in _OPTIONS.values()]
    if source is PlanSource.FACTOR:
        names.reverse()  # the number stands before the topics
    fields = dict(zip(names, bare, strict=False))
    more = bare[len(names) :]
    if more and not (names and names[-1] in _MANY):
        raise BadCommand(f"{source.value} takes nothing behind {' '.join(bare[: len(names)])}")
    if more:
        fields[names[-1]] = ",".join([fields[names[-1]], *more])
    return fields
