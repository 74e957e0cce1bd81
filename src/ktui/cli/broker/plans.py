"""The plans on the way out of a broker: demote it, drain it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import aclosing

import msgspec

from ktui.cli.context.cluster import Cluster
from ktui.cli.context.terminal import print_note
from ktui.cluster.text import clean
from ktui.planning.intents.demote import demote
from ktui.planning.intents.drain import drain
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.layout_warnings import unread_warnings, without_rack
from ktui.planning.intents.left_text import left_lines
from ktui.planning.intents.made_plan import MadePlan
from ktui.planning.intents.read_layout import LayoutAnswer, read_layout
from ktui.planning.intents.wishes import Wishes
from ktui.quantities import as_bytes, as_count

Intent = Callable[[Layout, Collection[int], Wishes], MadePlan]


class Purpose(msgspec.Struct, frozen=True):
    """What a run does to a broker."""

    verb: str
    """As the name of a run begins: demote, drain."""
    intent: Intent

    def words(self, broker: int) -> str:
        """Return the purpose with its broker: "demote broker 4"."""
        return f"{self.verb} broker {broker}"

    def words_in_removal(self, broker: int) -> str:
        """Return the purpose as a part of a removal, which `ktui broker undo` leaves alone."""
        return f"{self.words(broker)}, to remove it"

    def run_name(self, broker: int) -> str:
        """Return the first choice for the name of a run: "demote-4"."""
        return f"{self.verb}-{broker}"


DEMOTE = Purpose("demote", demote)
DRAIN = Purpose("drain", drain)


def read_plan_layout(cluster: Cluster) -> Layout:
    """Read what the plans are made from; what could not be read is a warning.

    Raises:
        ClusterError: the cluster cannot be read.
    """
    answer = asyncio.run(_read(cluster))
    for line in unread_warnings(answer.failures):
        print_note(line)
    return answer.layout


async def _read(cluster: Cluster) -> LayoutAnswer:
    async with aclosing(cluster.reader()) as reader:
        return await read_layout(reader)


def make(
    purpose: Purpose,
    broker: int,
    layout: Layout,
    *,
    rack_aware: bool | None = None,
    exclude: tuple[str, ...] = (),
) -> MadePlan:
    """Return the plan of a purpose, which may be empty.

    Args:
        purpose: what to do.
        broker: the broker.
        layout: the cluster.
        rack_aware: whether partitions stay on as many racks; None for where brokers have racks.
        exclude: the topics that are left as they are, as names or shell patterns.

    Raises:
        CannotMake: there is nothing to do, or no other broker can take anything.
    """
    racks = not without_rack(layout) if rack_aware is None else rack_aware
    wishes = Wishes(rack_aware=racks, exclude=exclude)
    return purpose.intent(layout, (broker,), wishes)


def plan_text(made: MadePlan) -> str:
    """Describe a plan in one line: how much it copies, and how many leaders it changes."""
    partitions = as_count(len(made.plan.partitions), "partition")
    copied = (
        f"{as_count(made.moves, 'replica')} to copy ({as_bytes(made.bytes)})"
        if made.moves
        else "nothing to copy"
    )
    return f"{partitions}, {copied}, {as_count(made.leader_changes, 'preferred leader')} to change"


def left_text(made: MadePlan) -> list[str]:
    """Return a sentence for each reason why something stays as it is."""
    return [clean(line) for line in left_lines(made.left)]
