"""Preferred leaders: brokers lead their share, or nothing; nothing is copied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from ktui.cluster.partition import TopicPartition
from ktui.planning.intents.draft import Draft
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.made_plan import CannotMake, MadePlan, Why, Wishes, check_brokers
from ktui.planning.intents.shares import Band, weighted_shares
from ktui.planning.plan import join_named

_GAIN = 1_000_000  # what one leader less outside a band counts, in changes: more than any path has
_Edge = tuple[int, int]
_Path = list[tuple[int, int, int]]
"""Edges with their cost: from which broker, to which, for how many changes."""


class LeaderFlow:
    """Changes the preferred leaders of a draft, until each live broker leads as its band says."""

    def __init__(
        self,
        draft: Draft,
        partitions: Iterable[TopicPartition],
        bands: Mapping[int, Band],
        leads: Mapping[int, int],
    ) -> None:
        self._draft = draft
        self._bands = bands
        self.leads = Counter(leads)
        self._first: dict[TopicPartition, int] = {}
        self._leader: dict[TopicPartition, int] = {}
        self._able: dict[TopicPartition, tuple[int, ...]] = {}
        self._edges: dict[_Edge, dict[int, dict[TopicPartition, None]]] = {}
        self._next: dict[int, set[int]] = {broker: set() for broker in bands}
        for tp in partitions:
            leader = draft.lists[tp][0]
            if leader not in bands:
                continue
            self._first[tp] = draft.original(tp)[0]
            self._leader[tp] = leader
            self._able[tp] = tuple(
                broker
                for broker in draft.lists[tp]
                if broker in bands and (broker == leader or draft.may_lead(tp, broker))
            )
            self._link(tp)

    def even(self) -> Why | None:
        """Change leaders until no path helps any more; return what stopped it before that."""
        most, changes = self._draft.wishes.max_leader_changes, self._draft.budget.leader_changes
        stopped: Why | None = None
        while path := self._cheapest():
            cost = sum(edge[2] for edge in path)
            units = self._units(path)
            if most is not None and cost > 0:
                units = min(units, (most - changes) // cost)
            if units <= 0:
                stopped = Why.MAX_LEADER_CHANGES
                break
            changes += cost * units
            for _ in range(units):
                self._take(path)
        for tp, leader in self._leader.items():
            brokers = self._draft.lists[tp]
            if brokers[0] != leader:
                self._draft.reorder(
                    tp, (leader, *(broker for broker in brokers if broker != leader))
                )
        return stopped

    def off(self) -> dict[int, int]:
        found = {broker: band.off(self.leads[broker]) for broker, band in self._bands.items()}
        return {broker: round(by) for broker, by in found.items() if by > 0}

    # ------------------------------------------------------------------ the graph

    def _cost(self, tp: TopicPartition, new: int) -> int:
        first, leader = self._first[tp], self._leader[tp]
        return (new != first) - (leader != first)

    def _link(self, tp: TopicPartition) -> None:
        leader = self._leader[tp]
        for new in self._able[tp]:
            if new != leader:
                costs = self._edges.setdefault((leader, new), {})
                costs.setdefault(self._cost(tp, new), {})[tp] = None
                self._next[leader].add(new)

    def _unlink(self, tp: TopicPartition) -> None:
        leader = self._leader[tp]
        for new in self._able[tp]:
            if new != leader:
                costs, cost = self._edges[leader, new], self._cost(tp, new)
                del costs[cost][tp]
                if not costs[cost]:
                    del costs[cost]
                if not costs:
                    del self._edges[leader, new]
                    self._next[leader].discard(new)

    def _cheapest(self) -> _Path | None:
        dist = {broker: -self._gain(broker, -1) for broker in self._bands if self.leads[broker]}
        came: dict[int, tuple[int, int] | None] = dict.fromkeys(dist)
        queue = sorted(dist)
        waiting = {*queue}
        for node in queue:
            waiting.discard(node)
            for new in sorted(self._next[node]):
                cost = min(self._edges[node, new])
                if dist[node] + cost < dist.get(new, _GAIN * _GAIN):
                    dist[new] = dist[node] + cost
                    came[new] = (node, cost)
                    if new not in waiting:
                        waiting.add(new)
                        queue.append(new)
        ends = [
            (length - self._gain(broker, 1), broker)
            for broker, length in dist.items()
            if came[broker] is not None
        ]
        total, end = min(ends, default=(0, -1))
        return self._traced(came, end) if total < 0 else None

    def _gain(self, broker: int, change: int) -> int:
        band, leads = self._bands[broker], self.leads[broker]
        return round((band.off(leads) - band.off(leads + change)) * _GAIN)

    @staticmethod
    def _traced(came: Mapping[int, tuple[int, int] | None], end: int) -> _Path:
        path: _Path = []
        while (step := came[end]) is not None:
            path.append((step[0], end, step[1]))
            end = step[0]
        return path[::-1]

    def _units(self, path: _Path) -> int:
        """Return how often a path can be taken with the same gain."""
        start, end = path[0][0], path[-1][1]
        most = min(len(self._edges[old, new][cost]) for old, new, cost in path)
        band, leads = self._bands[start], self.leads[start]
        bounds = [leads - edge for edge in (band.high, band.low) if leads > edge]
        band, leads = self._bands[end], self.leads[end]
        bounds += [edge - leads for edge in (band.high, band.low) if leads < edge]
        return max(1, min(most, *(int(bound) for bound in bounds)) if bounds else most)

    def _take(self, path: _Path) -> None:
        chosen = [next(iter(self._edges[old, new][cost])) for old, new, cost in path]
        for tp, (_, new, _) in zip(chosen, path, strict=True):
            self._unlink(tp)
            self._leader[tp] = new
            self._link(tp)
        self.leads[path[0][0]] -= 1
        self.leads[path[-1][1]] += 1


def leaders(layout: Layout, wishes: Wishes) -> MadePlan:
    """Let each broker lead its weighted share of the wishes' topics, or raise CannotMake."""
    return even_leaders(layout, wishes, layout.pool.online, tolerance=0)


def even_leaders(
    layout: Layout, wishes: Wishes, brokers: Collection[int], *, tolerance: float
) -> MadePlan:
    """Make a plan by which some brokers lead as many partitions as each other, by weight."""
    draft = Draft(layout, wishes)
    flow = even_flow(draft, draft.in_scope(), {*brokers} & layout.pool.online, tolerance)
    if not flow.off():
        raise CannotMake("Every broker leads its share of the partitions already.")
    why = flow.even() or Why.NO_REPLICA
    for broker, by in flow.off().items():
        draft.leave(None, broker, why, by)
    return draft.made()


def even_flow(
    draft: Draft, partitions: Iterable[TopicPartition], brokers: Collection[int], tolerance: float
) -> LeaderFlow:
    """Return the flow by which some brokers lead their weighted share of partitions."""
    counted = [tp for tp in partitions if draft.lists[tp]]
    leads = Counter(draft.lists[tp][0] for tp in counted)
    among = sorted(brokers)
    free = [tp for tp in counted if not draft.fixed(tp)]
    most = Counter({broker: leads[broker] for broker in among})
    for tp in free:
        most.update(broker for broker in draft.lists[tp][1:] if draft.may_lead(tp, broker))
    shares = weighted_shares(draft.layout, among, leads, most)
    bands = {broker: Band.around(shares[broker], tolerance, whole=True) for broker in among}
    return LeaderFlow(draft, free, bands, leads)


def demote(layout: Layout, brokers: Collection[int], wishes: Wishes) -> MadePlan:
    """Make a plan by which brokers come last in the lists of replicas, and so lead nothing.

    Where one was the preferred leader, the replica in sync whose broker leads the fewest partitions
    by weight comes first. The sets of replicas stay. Raises CannotMake.
    """
    last = check_brokers(layout, brokers, leaving=True)
    draft = Draft(layout, wishes)
    found = False
    for tp in draft.in_scope():
        before = draft.lists[tp]
        kept = [broker for broker in before if broker not in last]
        after = (*kept, *(broker for broker in before if broker in last))
        if before == after and not (before and before[0] in last):
            continue
        found = True
        leads_now = before[0] in last
        able = [broker for broker in kept if draft.may_lead(tp, broker)]
        why = draft.fixed(tp)
        if not why and leads_now:
            why = draft.budget.lacks_leader_change() if able else Why.LAST_REPLICA
        if why:
            draft.leave(tp, before[0] if leads_now else None, why)
            continue
        if leads_now:
            share = {each: draft.leads[each] / (draft.layout.weight(each) or 1e-9) for each in able}
            leader = min(able, key=lambda broker: (share[broker], after.index(broker)))
            after = (leader, *(broker for broker in after if broker != leader))
        draft.reorder(tp, after)
    if not found:
        names = join_named("broker", sorted(last))
        raise CannotMake(f"No partition has a replica on {names} that is not last already.")
    return draft.made()
