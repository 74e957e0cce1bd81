"""How many bytes a broker has to give up until its disks are less full."""

from __future__ import annotations

from math import ceil

from ktui.planning.intents.arguments import check_brokers
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.made_plan import CannotMake


def bytes_above(layout: Layout, broker: int, share: float) -> int:
    """Return the bytes in use on a broker's disks above a share of them.

    Args:
        layout: the cluster.
        broker: the broker.
        share: the part of its disks that may be in use, 0 to 1.

    Raises:
        CannotMake: the broker is unknown or does not report its disks, or less is in use.
    """
    check_brokers(layout, [broker])
    total, room = layout.disks.get(broker), layout.room.get(broker)
    if not total or room is None:
        raise CannotMake(
            f"Broker {broker} does not report how large its disks are: give the bytes to free."
        )
    used = total - room
    above = ceil(used - share * total)
    if above <= 0:
        raise CannotMake(
            f"{used / total:.0%} of the disks of broker {broker} is in use, not more than "
            f"{share:.0%}: there is nothing to move."
        )
    return above
