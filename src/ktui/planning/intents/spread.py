"""Brokers become even: in bytes, replicas or preferred leaders."""

from __future__ import annotations

import enum
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from math import inf

from ktui.cluster.partition import TopicPartition
from ktui.planning.intents.draft import Draft, ReplicaOn
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.leader_flow import even_leaders
from ktui.planning.intents.made_plan import (
    CannotMake,
    MadePlan,
    Why,
    Wishes,
    check_brokers,
    check_tolerance,
)
from ktui.planning.intents.shares import Band, BySize, Move, main_obstacle, weighted_shares

Cost = tuple[float, int]
"""How far brokers stay outside of their bands together, and the bytes that are copied."""
MOST_REPLICAS = 60  # with more replicas that can move, most cases would not be tried
_MOST_TRIED = 40_000
_MOST_RECONSIDERED = 500  # with more moves, one that is larger than need be makes no difference

_SAMPLE = 100  # the replicas of a broker that are asked why they do not move
_MOST_CHECKS = 600_000  # the moves that a plan looks at, at most; more find next to nothing


class By(enum.StrEnum):
    """What brokers are to have an even share of."""

    BYTES = "bytes"
    REPLICAS = "replicas"
    LEADERS = "leaders"


def spread(
    layout: Layout,
    wishes: Wishes,
    brokers: Collection[int] | None = None,
    by: By = By.BYTES,
    tolerance: float = 0.1,
) -> MadePlan:
    """Make a plan by which each broker is within a tolerance (0 to 1) of its weighted share.

    As few bytes as possible are copied; for leaders none, as only orders change. The share is of
    what the brokers (None: all live ones) hold together in the topics that the plan may change. A
    cordoned broker gives, and gets nothing. Raises CannotMake.
    """
    check_tolerance(tolerance)
    among = layout.pool.online if brokers is None else check_brokers(layout, brokers)
    if by is By.LEADERS:
        return even_leaders(layout, wishes, among, tolerance=tolerance)
    evening = _Evening(Draft(layout, wishes), sorted(among & layout.pool.online), by, tolerance)
    if not evening.any_off():
        raise CannotMake(
            f"Every broker is within {tolerance:.0%} of its share of the {by.value} already."
        )
    return evening.made()


class _Evening:
    """Moves a draft's replicas of bytes or number between brokers until all are in their bands."""

    def __init__(self, draft: Draft, among: list[int], by: By, tolerance: float) -> None:
        self.draft = draft
        self._among = among
        self.counts = by is By.REPLICAS
        self.loads: Counter[int] = Counter(dict.fromkeys(among, 0))
        members = frozenset(among)
        for tp in draft.in_scope():
            for broker in draft.lists[tp]:
                if broker in members:
                    self.loads[broker] += self.load(tp)
        self._shares = weighted_shares(draft.layout, among, self.loads)
        self.bands = {
            broker: Band.around(share, tolerance, whole=self.counts)
            for broker, share in self._shares.items()
        }
        open_ = frozenset(draft.targets)
        for broker in among:
            if broker not in open_:
                self.bands[broker] = Band(0, self.bands[broker].high)
        self.targets = [broker for broker in among if broker in open_]
        self._by_size = BySize(draft, among)
        self._moves: list[Move] = []
        self._checks = 0
        self._moving = True

    def load(self, tp: TopicPartition) -> int:
        return 1 if self.counts else self.draft.layout.size(tp)

    def _off(self, broker: int) -> float:
        return self.bands[broker].off(self.loads[broker])

    def any_off(self) -> bool:
        return any(self._off(broker) for broker in self._among)

    def made(self) -> MadePlan:
        replicas = [(each[1], broker) for broker in self._among for each in self._by_size[broker]]
        while self.any_off() and self._step():
            pass
        if not self.counts and len(self._moves) <= _MOST_RECONSIDERED:
            while self._reconsider():
                pass
        if len(replicas) <= MOST_REPLICAS:
            self._search(replicas)
        self._checks, self._moving = 0, False
        why: Why | None = None
        for broker in self._among:
            if by := self._off(broker):
                why = self._obstacle() if why is None else why
                self.draft.leave(None, broker, why, round(by))
        return self.draft.made()

    def _reconsider(self) -> bool:
        """Undo moves, or make smaller ones instead, and return whether any bytes were saved."""
        size, saved = self.draft.layout.size, False
        for move in sorted(self._moves, key=lambda each: (-size(each[0]), each)):
            tp, old, new = move
            off = sum(map(self._off, self._among))
            self._moves.remove(move)
            self.shift(tp, new, old)
            self._by_size.put(old, tp, size(tp))
            if len(self.draft.racks(self.draft.lists[tp])) < self.draft.floor(tp):
                self._make(*move)
            elif sum(map(self._off, self._among)) <= off:
                saved = True
            elif (better := self._smaller(move, off)) is not None:
                saved = True
                self._make(*better)
            else:
                self._make(*move)
        return saved

    def _smaller(self, move: Move, off: float) -> Move | None:
        tp, old, new = move
        size = self.draft.layout.size(tp)
        rest = sum(self._off(each) for each in self._among if each not in (old, new))
        least = max(self._off(old), self._off(new)) + rest - off
        sized = self._by_size[old]
        for place in range(bisect_left(sized, least, key=lambda each: each[0]), len(sized)):
            load, other = sized[place][0], sized[place][1]
            if load >= size:
                return None
            after = (
                self.bands[old].off(self.loads[old] - load)
                + self.bands[new].off(self.loads[new] + load)
                + rest
            )
            if after <= off and self.fits(other, old, new):
                return other, old, new
        return None

    def _make(self, tp: TopicPartition, old: int, new: int) -> None:
        self.shift(tp, old, new)
        self._moves.append((tp, old, new))
        self._by_size.remove(old, tp, self.draft.layout.size(tp))

    def shift(self, tp: TopicPartition, old: int, new: int) -> None:
        load = self.load(tp)
        self.draft.move(tp, old, new)
        self.loads[old] -= load
        self.loads[new] += load

    def _search(self, replicas: list[ReplicaOn]) -> None:
        """Make other moves instead, if they copy less or bring more brokers into their bands."""
        cost = (sum(map(self._off, self._among)), self.draft.budget.bytes)
        for tp, old, new in reversed(self._moves):
            self.shift(tp, new, old)
        better = _Search(self, replicas).better_than(cost)
        for move in self._moves if better is None else better:
            self.shift(*move)

    def _relative(self, broker: int) -> tuple[float, int]:
        share = self._shares[broker]
        return self.loads[broker] / share if share else float(self.loads[broker]), broker

    def _step(self) -> bool:
        if self._checks > _MOST_CHECKS or self.draft.budget.lacks(0):
            return False
        full = sorted(self._among, key=self._relative, reverse=True)
        empty = sorted(self.targets, key=self._relative)
        return any(
            self._move(old, new, strict=strict)
            for strict in (True, False)
            for old in full
            for new in empty
            if old != new and (self._off(old) or self._off(new))
        )

    def _move(self, old: int, new: int, *, strict: bool) -> bool:
        for tp in self._candidates(old, new, strict=strict):
            if self._checks > _MOST_CHECKS:
                return False
            if self.fits(tp, old, new):
                self._make(tp, old, new)
                return True
        return False

    def _candidates(self, old: int, new: int, *, strict: bool) -> Iterator[TopicPartition]:
        """Yield the replicas whose move helps (if strict, nothing gets worse), best first."""
        low, high = self.bands[old], self.bands[new]
        from_old, to_new = self.loads[old], self.loads[new]
        most = min(from_old - low.low, high.high - to_new)
        needed = max(from_old - low.high, high.low - to_new)
        sized = self._by_size[old]
        if self.counts:
            if (most >= 1) if strict else (needed >= 1 and from_old > to_new + 1):
                yield from (each[1] for each in sized)
            return
        if not strict:
            most = max(from_old - low.low, high.high - to_new, needed)
        enough = bisect_left(sized, needed, key=lambda each: each[0])
        if self._moving and (left := self.draft.budget.bytes_left) is not None:
            most = min(most, left)
        end = bisect_right(sized, most, key=lambda each: each[0])
        for place in (*range(enough, end), *range(min(enough, end) - 1, -1, -1)):
            size, tp = sized[place][0], sized[place][1]
            self._checks += 1
            if self._checks > _MOST_CHECKS:
                return
            if size and (strict or self._helps(size, old, new)):
                yield tp

    def _helps(self, load: int, old: int, new: int) -> bool:
        low, high = self.bands[old], self.bands[new]
        after = low.off(self.loads[old] - load) + high.off(self.loads[new] + load)
        return after < self._off(old) + self._off(new) - 1e-6 * load

    def fits(self, tp: TopicPartition, old: int, new: int) -> bool:
        self._checks += 1
        return new not in self.draft.original(tp) and not self.draft.forbids(tp, old, new)

    def _obstacle(self) -> Why:
        pairs = ((old, new) for old in self._among for new in self.targets)
        return main_obstacle(
            self.draft,
            (
                (tp, old, new)
                for old, new in pairs
                if old != new and (self._off(old) or self._off(new))
                for tp in islice(self._candidates(old, new, strict=False), _SAMPLE)
            ),
        )


class _Search:
    """A search from a draft as it was, which it leaves so."""

    def __init__(self, evening: _Evening, replicas: Sequence[ReplicaOn]) -> None:
        load, size = evening.load, evening.draft.layout.size
        self._evening = evening
        self._replicas = sorted(replicas, key=lambda each: (-load(each[0]), size(each[0]), each))
        self._movable = dict.fromkeys(evening.bands, 0)
        for tp, broker in self._replicas:
            self._movable[broker] += load(tp)
        self._tried = 0
        self._moves: list[Move] = []
        self._best: tuple[Cost, list[Move]] = ((inf, 0), [])

    def better_than(self, cost: Cost) -> list[Move] | None:
        self._best = (cost, [])
        self._search(0, 0)
        return self._best[1] or None

    def _search(self, place: int, copied: int) -> None:
        self._tried += 1
        if self._tried > _MOST_TRIED or self._hopeless(copied):
            return
        evening = self._evening
        off = sum(band.off(evening.loads[broker]) for broker, band in evening.bands.items())
        if (off, copied) < self._best[0]:
            self._best = ((off, copied), [*self._moves])
        if off == 0 or place == len(self._replicas):
            return
        tp, old = self._replicas[place]
        load = evening.load(tp)
        self._movable[old] -= load
        room = {new: evening.bands[new].high - evening.loads[new] for new in evening.targets}
        for new in sorted(room, key=lambda each: (room[each], each), reverse=True):
            if evening.fits(tp, old, new):
                evening.shift(tp, old, new)
                self._moves.append((tp, old, new))
                self._search(place + 1, copied + evening.draft.layout.size(tp))
                self._moves.pop()
                evening.shift(tp, new, old)
        self._search(place + 1, copied)
        self._movable[old] += load

    def _hopeless(self, copied: int) -> bool:
        over = under = never = 0.0
        for broker, band in self._evening.bands.items():
            load = self._evening.loads[broker]
            over += max(load - band.high, 0)
            under += max(band.low - load, 0)
            never += max(load - band.high - self._movable[broker], 0)
        (best_off, best_copied), _ = self._best
        in_bytes = not self._evening.counts
        needed = max(over, under) if in_bytes and best_off == 0 else 0
        return never > best_off or (never == best_off and copied + needed >= best_copied)
