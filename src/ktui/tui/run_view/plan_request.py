"""The plan that an operator asks for: that of a file, or one that is made of an intention."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ktui.fileproblem import FileProblem
from ktui.inputfile import expand_home
from ktui.planning.intents.arguments import check_brokers, check_targets
from ktui.planning.intents.demote import demote
from ktui.planning.intents.disk_use import bytes_above
from ktui.planning.intents.drain import drain
from ktui.planning.intents.fill import fill
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.layout_warnings import without_rack
from ktui.planning.intents.leaders import leaders
from ktui.planning.intents.left_text import left_lines
from ktui.planning.intents.made_plan import CannotMake, MadePlan
from ktui.planning.intents.placement import placement
from ktui.planning.intents.rack_repair import rack_repair
from ktui.planning.intents.replication_factor import replication_factor
from ktui.planning.intents.rules_file import read_rules
from ktui.planning.intents.shed import shed
from ktui.planning.intents.spread import By, spread
from ktui.planning.intents.swap import swap
from ktui.planning.intents.wishes import Wishes
from ktui.quantities import as_bytes
from ktui.tui.run_view.typed_fields import (
    about,
    matching_topics,
    number,
    numbers,
    parts,
    patterns,
    quantity,
)
from ktui.units import Share, Size


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
    PLACEMENT = "placement"


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
    PlanSource.PLACEMENT: ("rules",),
}
"""The fields without which a source is no plan."""
_TOPICS = ("only", "exclude")
_BUDGET = ("max_moves", "max_bytes", "max_leader_changes")
_COPIES = (*_TOPICS, *_BUDGET, "keep_order")
_LEADS = (*_TOPICS, "max_leader_changes")
OPTIONAL: Mapping[PlanSource, tuple[str, ...]] = {
    PlanSource.FILE: (),
    PlanSource.DRAIN: _COPIES,
    PlanSource.FILL: _COPIES,
    PlanSource.SWAP: _COPIES,
    PlanSource.FACTOR: ("exclude", *_BUDGET),
    PlanSource.SPREAD: ("by", "among", *_COPIES),
    PlanSource.SHED: _COPIES,
    PlanSource.LEADERS: _LEADS,
    PlanSource.DEMOTE: _LEADS,
    PlanSource.RACK_REPAIR: _COPIES,
    PlanSource.PLACEMENT: _COPIES,
}
"""The fields that a source has besides. What is typed in others does not count for it."""


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
    rules: str = ""
    """The path of a file of placement rules."""
    only: str = ""
    """The topics that may change, as names or shell patterns; empty for all."""
    exclude: str = ""
    """The topics that stay as they are."""
    max_moves: str = ""
    """The most replicas to copy; empty for no bound, as in all budgets."""
    max_bytes: str = ""
    max_leader_changes: str = ""
    keep_order: bool = False
    """Whether a new replica takes the place of the old one in the list."""

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
            PlanSource.PLACEMENT: self.rules,
        }[self.source]

    @property
    def file(self) -> Path:
        """The plan's file. A plan that is made has a name as if it were read from one."""
        verb = self.source.value
        names: Mapping[PlanSource, Sequence[str]] = {
            PlanSource.SWAP: [self.old, self.new],
            PlanSource.SPREAD: [self.by, *parts(self.among)],
            PlanSource.SHED: [self.broker],
            PlanSource.LEADERS: [],
            PlanSource.RACK_REPAIR: [],
            PlanSource.PLACEMENT: [],
        }
        if self.source is PlanSource.FILE:
            return expand_home(self.path)
        if self.source is PlanSource.FACTOR:
            return Path(f"{'-'.join(parts(self.topics))}-{self.factor}-replicas.json")
        named = names.get(self.source, parts(self.brokers))
        return Path(f"{'-'.join([verb, *named])}.json")

    def generate(self, layout: Layout) -> MadePlan:
        """Make the plan from the cluster as it is.

        Raises:
            WrongField: what was typed does not fit the cluster, or is no number.
            CannotMake: there is nothing to do, or nothing can be done.
        """
        made = self._make(layout, self._wishes(layout))
        if not made.plan.partitions:
            raise CannotMake(" ".join(left_lines(made.left)))
        return made

    def budget(self, made: MadePlan) -> str:
        """Return how much of each budget a plan uses; empty without any."""
        used = {
            "max_moves": (f"{made.moves:,}", "moves"),
            "max_bytes": (as_bytes(made.bytes), "copied"),
            "max_leader_changes": (f"{made.leader_changes:,}", "leader changes"),
        }
        figures = [
            f"{figure} of {most} {what}"
            for field, (figure, what) in used.items()
            if (most := self._typed(field))
        ]
        return f"within the budget: {', '.join(figures)}" if figures else ""

    def _typed(self, field: str) -> str:
        """Return the text of an optional field; empty where the source does not have it."""
        text: str = getattr(self, field)
        return text if field in OPTIONAL[self.source] else ""

    def _wishes(self, layout: Layout) -> Wishes:
        moves, size, led = map(self._typed, _BUDGET)
        return Wishes(
            topics=patterns("only", layout, self._typed("only")),
            exclude=patterns("exclude", layout, self._typed("exclude")),
            max_moves=number("max_moves", moves) if moves else None,
            max_bytes=int(quantity("max_bytes", Size, size)) if size else None,
            max_leader_changes=number("max_leader_changes", led) if led else None,
            rack_aware=not without_rack(layout),
            keep_order=self.keep_order and "keep_order" in OPTIONAL[self.source],
        )

    def _make(self, layout: Layout, wishes: Wishes) -> MadePlan:
        if self.source in _OF_BROKERS:
            brokers = numbers("brokers", self.brokers)
            with about("brokers"):
                return _OF_BROKERS[self.source](layout, brokers, wishes)
        make = {
            PlanSource.SWAP: self._swap,
            PlanSource.FACTOR: self._factor,
            PlanSource.SPREAD: self._spread,
            PlanSource.SHED: self._shed,
            PlanSource.LEADERS: leaders,
            PlanSource.RACK_REPAIR: rack_repair,
            PlanSource.PLACEMENT: self._placement,
        }[self.source]
        return make(layout, wishes)

    def _swap(self, layout: Layout, wishes: Wishes) -> MadePlan:
        old, new = number("old", self.old), number("new", self.new)
        with about("old"):
            check_brokers(layout, [old], leaving=True)
        with about("new"):
            check_targets(layout, [new])
            return swap(layout, old, new, wishes)

    def _factor(self, layout: Layout, wishes: Wishes) -> MadePlan:
        with about("topics"):
            topics = matching_topics(layout, parts(self.topics))
        factor = number("factor", self.factor, 1)
        with about("factor"):
            return replication_factor(layout, topics, factor, wishes)

    def _spread(self, layout: Layout, wishes: Wishes) -> MadePlan:
        tolerance = quantity("within", Share, self.within)
        among = numbers("among", self.among)
        with about("among" if among else "within"):
            return spread(layout, wishes, among or None, self.by, tolerance)

    def _shed(self, layout: Layout, wishes: Wishes) -> MadePlan:
        broker = number("broker", self.broker)
        with about("broker"):
            check_brokers(layout, [broker])
        with about("until"):
            if self.until.endswith("%"):
                freed = bytes_above(layout, broker, quantity("until", Share, self.until))
            else:
                freed = int(quantity("until", Size, self.until))
            return shed(layout, broker, freed, wishes)

    def _placement(self, layout: Layout, wishes: Wishes) -> MadePlan:
        with about("rules"):
            try:
                rules = read_rules(Path(self.rules))
            except FileProblem as problem:
                raise CannotMake(str(problem)) from None
            return placement(layout, rules, wishes)


_OF_BROKERS = {PlanSource.DRAIN: drain, PlanSource.FILL: fill, PlanSource.DEMOTE: demote}
"""The sources that need brokers, and nothing else."""
