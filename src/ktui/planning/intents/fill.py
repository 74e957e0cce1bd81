"""Brokers that have less than their share of the replicas get it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from ktui.cluster.partition import TopicPartition
from ktui.planning.intents.arguments import check_targets
from ktui.planning.intents.draft import Draft
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.made_plan import CannotMake, MadePlan, Why, Wishes
from ktui.planning.intents.shares import BySize, floor_of, weighted_shares
from ktui.planning.names import join_named


def fill(layout: Layout, brokers: Collection[int], wishes: Wishes) -> MadePlan:
    """Make a plan by which brokers get their weighted share of the replicas, and no more.

    The share is that of the replicas on live brokers in the topics that the plan may change.
    Replicas go only onto these brokers, from those with the most bytes by weight, and their sizes
    are chosen so that bytes even out too.

    Args:
        layout: the cluster.
        brokers: the brokers to fill.
        wishes: what may be changed, and how much.

    Raises:
        CannotMake: a broker is unknown, down or cordoned, or all have their share already.
    """
    filled = check_targets(layout, brokers)
    filling = _Filling(Draft(layout, wishes), filled)
    if not filling.needs:
        has = "has its" if len(filled) == 1 else "have their"
        names = join_named("broker", sorted(filled)).capitalize()
        raise CannotMake(f"{names} {has} share of the replicas already.")
    return filling.made()


class _Filling:
    """Replicas that go to brokers, one after the other.

    Args:
        draft: the draft, which this changes.
        filled: the brokers that replicas go to.
    """

    def __init__(self, draft: Draft, filled: frozenset[int]) -> None:
        self._draft = draft
        online = draft.layout.pool.online
        held: Counter[int] = Counter()
        self._bytes: Counter[int] = Counter()
        for tp in draft.in_scope():
            for broker in draft.lists[tp]:
                if broker in online:
                    held[broker] += 1
                    self._bytes[broker] += draft.layout.size(tp)
        shares = weighted_shares(draft.layout, sorted(online), held)
        self._bytes_shares = weighted_shares(draft.layout, sorted(online), self._bytes)
        short = {broker: floor_of(shares[broker]) - held[broker] for broker in sorted(filled)}
        self.needs = {broker: need for broker, need in short.items() if need > 0}
        """The replicas that each broker still lacks."""
        self._sources = sorted(online - filled)
        self._by_size = BySize(draft, self._sources)
        self._hopeless: set[tuple[int, int]] = set()

    def made(self) -> MadePlan:
        """Move replicas until each broker has its share or nothing more can be moved."""
        needs = self.needs
        while needs:
            broker = max(needs, key=lambda each: (needs[each], -each))
            if (why := self._draft.budget.lacks(0)) or not self._fill_one(broker):
                self._draft.leave(None, broker, why or self._obstacle(broker), needs[broker])
                del needs[broker]
            else:
                needs[broker] -= 1
                if not needs[broker]:
                    del needs[broker]
        return self._draft.made()

    def _fill_one(self, new: int) -> bool:
        """Move one replica to a broker, and return whether there is one."""
        draft, weight = self._draft, self._draft.layout.weight
        wanted = max(self._bytes_shares[new] - self._bytes[new], 0) / self.needs[new]
        if (left := draft.budget.bytes_left) is not None:
            wanted = min(wanted, left / sum(self.needs.values()))
        for old in sorted(
            self._sources, key=lambda each: (-self._bytes[each] / (weight(each) or 1), each)
        ):
            if (old, new) in self._hopeless:
                continue
            tp = self._by_size.near(old, wanted, lambda tp, old=old: self._fits(tp, old, new))  # type: ignore[misc]
            if tp is None:
                self._hopeless.add((old, new))
                continue
            size = draft.layout.size(tp)
            draft.move(tp, old, new)
            self._by_size.remove(old, tp, size)
            self._bytes[old] -= size
            self._bytes[new] += size
            return True
        return False

    def _fits(self, tp: TopicPartition, old: int, new: int) -> bool:
        draft = self._draft
        if draft.why_not(tp, old, new):
            return False
        size, leader = draft.cost(tp, old)
        return draft.budget.lacks(size, leader=leader) is None

    def _obstacle(self, new: int) -> Why:
        """Return what most of the replicas lack that could go to a broker."""
        draft, found = self._draft, Counter[Why]()
        for old in self._sources:
            for _, _, _, tp in self._by_size[old]:
                size, leader = draft.cost(tp, old)
                if why := draft.why_not(tp, old, new) or draft.budget.lacks(size, leader=leader):
                    found[why] += 1
        return max(found, key=lambda why: (found[why], why), default=Why.NO_REPLICA)
