"""How flows of data share what networks, disks and throttles let through."""

from __future__ import annotations

from collections.abc import Sequence


def max_min_rates(
    capacities: Sequence[float], classes: Sequence[tuple[tuple[int, ...], int]]
) -> list[float]:
    """Share capacities max-min fair, by progressive filling.

    No flow can get more without one that has no more than it getting less.

    Args:
        capacities: of each resource, bytes a second; infinity for one that does not bind.
        classes: flows that use the same resources, at least one of them finite, by the resources'
            indexes, and how many flows there are of them (at least one).

    Returns:
        The rate of each single flow of each class, bytes a second.
    """
    users, flows = _users(len(capacities), classes)
    rates: list[float | None] = [None] * len(classes)
    left = [max(0.0, capacity) for capacity in capacities]
    level = [room / count if count else 0.0 for room, count in zip(left, flows, strict=True)]
    filling = [resource for resource, count in enumerate(flows) if count]
    while filling:
        tightest = min(filling, key=level.__getitem__)
        rate = level[tightest]
        for number in users[tightest]:
            if rates[number] is not None:
                continue
            rates[number] = rate
            resources, count = classes[number]
            for resource in resources:
                left[resource] -= rate * count
                flows[resource] -= count
                if flows[resource]:
                    share = left[resource] / flows[resource]
                    level[resource] = share if share > rate else rate  # noqa: FURB136 - hot
        filling = [resource for resource in filling if flows[resource]]
    return [rate or 0.0 for rate in rates]


def _users(
    resources: int, classes: Sequence[tuple[tuple[int, ...], int]]
) -> tuple[list[list[int]], list[int]]:
    """Tell the classes that use each resource, and how many flows these are."""
    users: list[list[int]] = [[] for _ in range(resources)]
    flows = [0] * resources
    for number, (used, count) in enumerate(classes):
        for resource in used:
            users[resource].append(number)
            flows[resource] += count
    return users, flows
