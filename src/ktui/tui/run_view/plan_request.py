"""The plan that an operator asks for: that of a file, or one that is generated."""

from __future__ import annotations

import enum
import re
from pathlib import Path

import msgspec

from ktui.inputfile import expand_home
from ktui.planning.check.placement import Placement
from ktui.planning.intents.drain import drain
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.left_text import left_lines
from ktui.planning.intents.made_plan import CannotMake, MadePlan
from ktui.planning.intents.replication_factor import replication_factor
from ktui.planning.intents.wishes import Wishes
from ktui.planning.names import join_all, shortened
from ktui.planning.plan import LARGEST

_NUMBER = re.compile(r"[0-9]{1,10}")


class PlanSource(enum.Enum):
    """Where a plan comes from."""

    FILE = enum.auto()
    DRAIN = enum.auto()
    FACTOR = enum.auto()


class PlanRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What was chosen and typed, valid or not."""

    source: PlanSource = PlanSource.FILE
    path: str = ""
    brokers: str = ""
    topics: str = ""
    factor: str = ""

    @property
    def words(self) -> str:
        """What is read, as the screen names it; empty where nothing was typed."""
        if self.source is PlanSource.FILE:
            return self.path
        if self.source is PlanSource.DRAIN:
            return f"what is on {self.brokers}" if self.brokers else ""
        return f"{self.topics}" if self.topics and self.factor else ""

    @property
    def file(self) -> Path:
        """The plan's file. A generated plan has a name as if it were read from one."""
        if self.source is PlanSource.FILE:
            return expand_home(self.path)
        if self.source is PlanSource.DRAIN:
            return Path(f"drain-{'-'.join(_parts(self.brokers))}.json")
        return Path(f"{'-'.join(_parts(self.topics))}-{self.factor}-replicas.json")

    def generate(self, placement: Placement) -> MadePlan:
        """Generate the plan from the cluster as it is.

        Raises:
            CannotMake: what was typed does not fit the cluster, or is no number.
        """
        made = self._make(placement)
        if not made.plan.partitions:
            raise CannotMake(" ".join(left_lines(made.left)))
        return made

    def _make(self, placement: Placement) -> MadePlan:
        layout = Layout(
            partitions=placement.partitions, pool=placement.pool, known=placement.brokers
        )
        if self.source is PlanSource.DRAIN:
            drained = {_number("brokers", part, 0) for part in _parts(self.brokers)}
            return drain(layout, drained, Wishes())
        factor = _number("replicas", self.factor, 1)
        return replication_factor(layout, _parts(self.topics), factor, Wishes())


def _parts(text: str) -> list[str]:
    return [part for part in re.split(r"[,\s]+", text) if part]


def _number(field: str, text: str, least: int) -> int:
    if _NUMBER.fullmatch(text) is None or not least <= int(text) <= LARGEST:
        example = join_all(["3", "3,7"], "or") if field == "brokers" else "3"
        raise CannotMake(
            f"{field}: {shortened(text)!r} is not a whole number from {least}. Type {example}."
        )
    return int(text)
