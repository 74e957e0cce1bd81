"""What a plan leaves undone, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ktui.planning.intents.made_plan import Left, Why
from ktui.planning.names import join_some
from ktui.quantities import as_count

REASONS = {
    Why.NO_BROKER: "every broker that may get replicas has one of the partition already",
    Why.NO_REPLICA: "no replica is where one would have to be moved from, or to lead",
    Why.RACK: "the partition would be on fewer racks",
    Why.ROOM: "no broker has room",
    Why.MAX_MOVES: "the most moves are reached",
    Why.MAX_BYTES: "the most bytes are reached",
    Why.MAX_LEADER_CHANGES: "the most leader changes are reached",
    Why.LAST_REPLICA: "no other replica is in sync",
    Why.REASSIGNING: "a reassignment is under way",
    Why.UNREGISTERED: "it has a replica on a broker that is no longer registered, and Kafka takes "
    "no list with such a broker; drain that one first",
    Why.CORDONED: "its list would name a cordoned broker, and Kafka refuses every such list; lift "
    "the cordon first: {uncordon}",
    Why.UNREADABLE: "metadata cannot be read",
}
"""Each reason, as it follows a colon; `reason_of` fills it in."""


def reason_of(left: Left, reasons: Mapping[Why, str] = REASONS) -> str:
    """Return why something stays as it is, as it follows a colon."""
    uncordon = " and ".join(f"ktui broker uncordon {broker}" for broker in left.cordoned)
    return reasons[left.why].format(uncordon=uncordon)


def left_name(left: Left) -> str:
    """Name a broker, a partition, or a replica."""
    if left.tp is None:
        return f"broker {left.broker}"
    return str(left.tp) if left.broker is None else f"{left.tp} on broker {left.broker}"


def left_lines(left: Iterable[Left]) -> Iterator[str]:
    """Yield a sentence for each reason: what stays as it is, and why."""
    by_reason: dict[tuple[Why, str, str], list[str]] = {}
    for each in left:
        noun = "broker" if each.tp is None else "partition" if each.broker is None else "replica"
        by_reason.setdefault((each.why, noun, reason_of(each)), []).append(left_name(each))
    for (_, noun, reason), names in sorted(by_reason.items()):
        one = len(names) == 1
        if noun == "broker":
            verb = "misses its goal" if one else "miss their goal"
        else:
            verb = "stays as it is" if one else "stay as they are"
        yield f"{as_count(len(names), noun)} {verb}: {reason} ({join_some(names)})."
