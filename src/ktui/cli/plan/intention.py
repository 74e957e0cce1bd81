"""What an operator wants of a cluster, and a plan that was made of it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ktui.cluster.errors import Failure
from ktui.planning.check.findings import Allowances
from ktui.planning.intents.before_after import BeforeAfter
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.made_plan import MadePlan
from ktui.planning.intents.wishes import Wishes
from ktui.preview.preview import PlanPreview
from ktui.quantities import as_bytes

NOTHING_ALLOWED = Allowances()


class Intention(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator wants, as one call of a verb says it."""

    name: str
    """As a run or a file can have it: drain-3."""
    words: str
    """As a person says it: drain broker 3."""
    make: Callable[[Layout, Wishes], MadePlan]
    """Raises CannotMake where there is no such plan, or nothing to do."""
    allowed: Allowances = NOTHING_ALLOWED
    """What a plan of this kind may do without being asked."""
    topics_by: str = "--topics"
    """The option or argument that names topics."""
    amount: Callable[[int], str] = as_bytes
    """Formats how far a broker stays off what is wanted of it."""


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that was made and checked."""

    intention: Intention
    wishes: Wishes
    made: MadePlan
    failures: tuple[Failure, ...]
    """The brokers whose log dirs could not be read."""
    change: BeforeAfter
    preview: PlanPreview
    start: str
    """The command that starts a run of the plan."""
