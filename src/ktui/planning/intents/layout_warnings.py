"""What a plan cannot take into account, because brokers do not report it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktui.cluster.errors import Failure
from ktui.planning.intents.layout import Layout
from ktui.planning.names import join_named


def unread_warnings(failures: Sequence[Failure]) -> Iterator[str]:
    """Warn of brokers whose log dirs could not be read, with the reason of the first."""
    if failures:
        brokers = [each.broker for each in failures]
        yield (
            f"warning: the log dirs of {join_named('broker', brokers)} could not be read, so the "
            "room there is unknown, and so are sizes that no other broker reports: "
            f"{failures[0].answer}"
        )


def rack_warnings(layout: Layout) -> Iterator[str]:
    """Warn where racks are not kept because only some brokers have one."""
    unracked = without_rack(layout)
    if 0 < len(unracked) < len(layout.pool.online):
        yield (
            f"warning: no rack is known of {join_named('broker', unracked)}, so the plan does not "
            "keep partitions on their racks"
        )


def without_rack(layout: Layout) -> Sequence[int]:
    """Return the live brokers whose rack is not known."""
    racks = layout.pool.racks
    return [broker for broker in sorted(layout.pool.online) if racks.get(broker) is None]
