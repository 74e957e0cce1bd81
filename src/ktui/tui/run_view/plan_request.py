"""The plan that an operator asks for: that of a file, or one that is made of an intention."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from ktui.inputfile import expand_home
from ktui.planning.intents.arguments import check_brokers, check_targets, check_topics
from ktui.planning.intents.demote import demote
from ktui.planning.intents.disk_use import bytes_above
from ktui.planning.intents.drain import drain
from ktui.planning.intents.fill import fill
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.layout_warnings import without_rack
from ktui.planning.intents.leaders import leaders
from ktui.planning.intents.left_text import left_lines
from ktui.planning.intents.made_plan import CannotMake, MadePlan
from ktui.planning.intents.rack_repair import rack_repair
from ktui.planning.intents.replication_factor import replication_factor
from ktui.planning.intents.shed import shed
from ktui.planning.intents.spread import By, spread
from ktui.planning.intents.swap import swap
from ktui.planning.intents.wishes import Wishes
from ktui.planning.names import join_all, shortened
from ktui.planning.plan import LARGEST
from ktui.units import Share, Size, parse_quantity

_NUMBER = re.compile(r"[0-9]{1,10}")
_PATTERN = re.compile(r"[*?\[]")


class PlanSource(enum.Enum):
    """Where a plan comes from: a file, or an intention as `ktui plan` has it."""

    FILE = "file"
    DRAIN = "drain"
    FILL = "fill"
    SWAP = "swap"
    FACTOR = "replication-factor"
    SPREAD = "spread"
    SHED = "shed"
    LEADERS = "leaders"
    DEMOTE = "demote"
    RACK_REPAIR = "rack-repair"


class WrongField(CannotMake):
    """What is typed in a field is wrong, or does not fit the cluster.

    Args:
        field: the name of the field in a `PlanRequest`.
        problem: the problem and its fix.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field


NEEDED: Mapping[PlanSource, tuple[str, ...]] = {
    PlanSource.FILE: ("path",),
    PlanSource.DRAIN: ("brokers",),
    PlanSource.FILL: ("brokers",),
    PlanSource.SWAP: ("old", "new"),
    PlanSource.FACTOR: ("topics", "factor"),
    PlanSource.SPREAD: ("within",),
    PlanSource.SHED: ("broker", "until"),
    PlanSource.LEADERS: (),
    PlanSource.DEMOTE: ("brokers",),
    PlanSource.RACK_REPAIR: (),
}
"""The fields without which a source is no plan."""


class PlanRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What was chosen and typed, valid or not."""

    source: PlanSource = PlanSource.FILE
    path: str = ""
    brokers: str = ""
    old: str = ""
    new: str = ""
    broker: str = ""
    until: str = ""
    """A share of a broker's disks, such as 80%, or the bytes that it gives up, such as 200GB."""
    topics: str = ""
    factor: str = ""
    by: By = By.BYTES
    within: str = "10%"
    among: str = ""
    """The brokers that are made even; empty for all."""

    @property
    def words(self) -> str:
        """What is read, as the screen names it; empty where a field is."""
        if not all(getattr(self, field) for field in NEEDED[self.source]):
            return ""
        among = f" among {self.among}" if self.among else ""
        return {
            PlanSource.FILE: self.path,
            PlanSource.DRAIN: f"what is on {self.brokers}",
            PlanSource.FILL: f"what {self.brokers} could hold",
            PlanSource.SWAP: f"what is on {self.old}",
            PlanSource.FACTOR: self.topics,
            PlanSource.SPREAD: f"all {self.by}{among}",
            PlanSource.SHED: f"what is on {self.broker}",
            PlanSource.LEADERS: "all leaders",
            PlanSource.DEMOTE: f"what {self.brokers} leads",
            PlanSource.RACK_REPAIR: "all racks",
        }[self.source]

    @property
    def file(self) -> Path:
        """The plan's file. A plan that is made has a name as if it were read from one."""
        verb = self.source.value
        names: Mapping[PlanSource, Sequence[str]] = {
            PlanSource.SWAP: [self.old, self.new],
            PlanSource.SPREAD: [self.by, *_parts(self.among)],
            PlanSource.SHED: [self.broker],
            PlanSource.LEADERS: [],
            PlanSource.RACK_REPAIR: [],
        }
        if self.source is PlanSource.FILE:
            return expand_home(self.path)
        if self.source is PlanSource.FACTOR:
            return Path(f"{'-'.join(_parts(self.topics))}-{self.factor}-replicas.json")
        named = names.get(self.source, _parts(self.brokers))
        return Path(f"{'-'.join([verb, *named])}.json")

    def generate(self, layout: Layout) -> MadePlan:
        """Make the plan from the cluster as it is.

        Raises:
            WrongField: what was typed does not fit the cluster, or is no number.
            CannotMake: there is nothing to do, or nothing can be done.
        """
        made = self._make(layout, Wishes(rack_aware=not without_rack(layout)))
        if not made.plan.partitions:
            raise CannotMake(" ".join(left_lines(made.left)))
        return made

    def _make(self, layout: Layout, wishes: Wishes) -> MadePlan:
        if self.source in _OF_BROKERS:
            brokers = _numbers("brokers", self.brokers)
            with _about("brokers"):
                return _OF_BROKERS[self.source](layout, brokers, wishes)
        make = {
            PlanSource.SWAP: self._swap,
            PlanSource.FACTOR: self._factor,
            PlanSource.SPREAD: self._spread,
            PlanSource.SHED: self._shed,
            PlanSource.LEADERS: leaders,
            PlanSource.RACK_REPAIR: rack_repair,
        }[self.source]
        return make(layout, wishes)

    def _swap(self, layout: Layout, wishes: Wishes) -> MadePlan:
        old, new = _number("old", self.old), _number("new", self.new)
        with _about("old"):
            check_brokers(layout, [old])
        with _about("new"):
            check_targets(layout, [new])
            return swap(layout, old, new, wishes)

    def _factor(self, layout: Layout, wishes: Wishes) -> MadePlan:
        with _about("topics"):
            topics = _matching(layout, _parts(self.topics))
        factor = _number("factor", self.factor, 1)
        with _about("factor"):
            return replication_factor(layout, topics, factor, wishes)

    def _spread(self, layout: Layout, wishes: Wishes) -> MadePlan:
        tolerance = _quantity("within", Share, self.within)
        among = _numbers("among", self.among)
        with _about("among" if among else "within"):
            return spread(layout, wishes, among or None, self.by, tolerance)

    def _shed(self, layout: Layout, wishes: Wishes) -> MadePlan:
        broker = _number("broker", self.broker)
        with _about("broker"):
            check_brokers(layout, [broker])
        with _about("until"):
            if self.until.endswith("%"):
                freed = bytes_above(layout, broker, _quantity("until", Share, self.until))
            else:
                freed = int(_quantity("until", Size, self.until))
            return shed(layout, broker, freed, wishes)


_OF_BROKERS = {PlanSource.DRAIN: drain, PlanSource.FILL: fill, PlanSource.DEMOTE: demote}
"""The sources that need brokers, and nothing else."""
_LABELS = {
    "brokers": "brokers",
    "among": "brokers",
    "old": "old broker",
    "new": "new broker",
    "broker": "broker",
    "factor": "replicas",
}


@contextmanager
def _about(field: str) -> Iterator[None]:
    """Let a problem name the field that it is about."""
    try:
        yield
    except WrongField:
        raise
    except CannotMake as problem:
        raise WrongField(field, str(problem)) from None


def _parts(text: str) -> list[str]:
    return [part for part in re.split(r"[,\s]+", text) if part]


def _numbers(field: str, text: str) -> list[int]:
    return sorted({_number(field, part) for part in _parts(text)})


def _number(field: str, text: str, least: int = 0) -> int:
    if _NUMBER.fullmatch(text) is None or not least <= int(text) <= LARGEST:
        many = field in {"brokers", "among"}
        example = join_all(["3", "3,7"], "or") if many else "3"
        raise WrongField(
            field,
            f"{_LABELS[field]}: {shortened(text)!r} is not a whole number from {least}. "
            f"Type {example}.",
        )
    return int(text)


def _quantity(field: str, kind: type, text: str) -> float:
    """Read a number with a unit, or one in the base unit."""
    try:
        value: float | str = float(text)
    except ValueError:
        value = text
    try:
        quantity: float = parse_quantity(kind, value)
    except ValueError:
        expected = {
            "within": "no share from 0 to 100%. Type 10%.",
            "until": "neither a share of its disks, such as 80%, nor a size, such as 200GB.",
        }
        raise WrongField(field, f"{field}: {shortened(text)!r} is {expected[field]}") from None
    return quantity


def _matching(layout: Layout, patterns: Sequence[str]) -> list[str]:
    """Return the topics that have one of the names, or match one of the shell patterns."""
    topics = sorted({tp.topic for tp in layout.partitions})
    check_topics(layout, [each for each in patterns if _PATTERN.search(each) is None])
    for pattern in patterns:
        if not any(fnmatchcase(topic, pattern) for topic in topics):
            raise CannotMake(f"No topic matches {shortened(pattern)!r}.")
    return [topic for topic in topics if any(fnmatchcase(topic, each) for each in patterns)]
