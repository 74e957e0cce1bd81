"""Max-min fair sharing of capacity among flows of data, as in networks."""

from __future__ import annotations

from collections.abc import Sequence


def max_min_rates(
    capacities: Sequence[float], classes: Sequence[tuple[tuple[int, ...], int]]
) -> list[float]:
    """Share capacities max-min fairly, by progressive filling.

    No flow can get more unless another flow, of the same rate or a lower one, gets less.
    Capacities, in bytes per second, are infinite where they never bind. A class is the resources'
    indexes, at least one of finite capacity, and its number of flows, at least one. Returns the
    rate of one flow of each class.
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
    users: list[list[int]] = [[] for _ in range(resources)]
    flows = [0] * resources
    for number, (used, count) in enumerate(classes):
        for resource in used:
            users[resource].append(number)
            flows[resource] += count
    return users, flows
