"""Moves of partitions, second by second: they are read, copy, stall, get in sync, and end."""

from __future__ import annotations

import math
from random import Random
from typing import NamedTuple

from ktui.cluster.partition import Brokers, PartitionState, TopicPartition

BROKERS = tuple(range(1, 13))
MESSAGE_BYTES = 1_000
SHOWN_S = 5
"""How long a partition is still polled after its move."""
CANCELLED, DOWN, UNREAD, STALLED, HELD = 0.05, 0.02, 0.02, 0.08, 0.03
"""The shares of moves that are cancelled, whose new replica's broker goes down for a while, whose
metadata is not read once, that stall, and that go on for long once all is in sync."""
GROWTH = 100
"""Messages a second that producers write to a partition."""


class Stage(NamedTuple):
    """The state of a partition from one second of its move on."""

    from_s: int
    state: PartitionState


class Times(NamedTuple):
    """The seconds of a move, counted from its beginning, at which it goes on to the next stage."""

    read_s: int
    """The first log end offset of the new replica is read."""
    stands_s: int
    """The copy stands from here on."""
    goes_on_s: int
    sync_s: int
    """The new replica joins the ISR."""
    over_s: int
    """The controller no longer lists the move, or its first step."""
    cut_s: int
    """The old replica is dropped, by a step of its own; the same as `over_s` outside of runs."""
    done_s: int


class Move:
    """One move of a partition from `old` to `new`; call `pass_second` once a second.

    Args:
        tp: the partition.
        topic_id: the id of its topic.
        dice: decides everything.
        by_run: whether ktui moves it, which first adds and then drops; others do both at once.
    """

    def __init__(
        self, tp: TopicPartition, topic_id: str | None, dice: Random, *, by_run: bool
    ) -> None:
        self.tp, self.topic_id = tp, topic_id
        *kept, self.new = dice.sample(BROKERS, 4)
        self.original: Brokers = tuple(kept)
        self.old = self.original[dice.choice((0, 1, 2))]
        self.target = (self.new, *(broker for broker in self.original if broker != self.old))
        self.leader = self.original[0]
        self.elects = self.leader == self.old
        self.cancelled = dice.random() < CANCELLED
        self.is_new_down = dice.random() < DOWN
        self.times = _draw_times(
            dice, by_run=by_run, cancelled=self.cancelled, down=self.is_new_down
        )
        self.log_start = dice.randrange(10**6)
        self.leader_end = self.log_start + round(10 ** dice.uniform(4.5, 7.5))
        self.new_end = self.log_start
        self.second = 0
        self._dice = dice
        self._stages = self._gentle() if by_run else self._at_once()
        self._stage = 0

    @property
    def size(self) -> int:
        """Bytes of the leader's replica."""
        return (self.leader_end - self.log_start) * MESSAGE_BYTES

    @property
    def new_size(self) -> int:
        """Bytes of the new replica."""
        return (self.new_end - self.log_start) * MESSAGE_BYTES

    @property
    def state(self) -> PartitionState:
        """What a poll sees of the partition now."""
        return self._stages[self._stage].state

    @property
    def is_read(self) -> bool:
        """Whether log ends and sizes are read now, which they are while it is listed."""
        return self.times.read_s <= self.second < self.times.over_s

    @property
    def is_down(self) -> bool:
        """Whether the new replica's broker is down now."""
        return self.is_new_down and self.times.stands_s <= self.second < self.times.goes_on_s

    @property
    def is_gone(self) -> bool:
        """Whether no poll asks for the partition any more."""
        return self.second >= self.times.done_s + SHOWN_S

    def pass_second(self) -> None:
        """Go on by one second."""
        times = self.times
        self.second += 1
        self.leader_end += GROWTH
        if self._stage + 1 < len(self._stages):
            self._stage += self.second >= self._stages[self._stage + 1].from_s
        if times.read_s <= self.second < times.stands_s or self.second >= times.goes_on_s:
            stall_s = times.goes_on_s - times.stands_s if self.second < times.stands_s else 0
            left_s = times.sync_s - self.second - stall_s
            missing = self.leader_end - self.new_end
            share = self._dice.uniform(0.5, 1.5) / left_s if left_s > 1 else 1.0
            self.new_end += math.floor(missing * min(1.0, share))

    def _at_once(self) -> list[Stage]:
        moving = PartitionState(
            self.tp, self.topic_id, (*self.target, self.old), self.original, self.leader, 4,
            adding=(self.new,), removing=(self.old,),
        )  # fmt: skip
        return [*self._copying(moving), self._ended()]

    def _gentle(self) -> list[Stage]:
        wide, times = (self.new, *self.original), self.times
        adding = PartitionState(
            self.tp, self.topic_id, wide, self.original, self.leader, 4, adding=(self.new,)
        )
        stages = self._copying(adding)
        if self.cancelled:
            return [*stages, self._ended()]
        ready = PartitionState(self.tp, self.topic_id, wide, wide, self.leader, 5)
        cutting = PartitionState(
            self.tp, self.topic_id, (*self.target, self.old), wide, self.leader, 5,
            removing=(self.old,),
        )  # fmt: skip
        return [*stages, Stage(times.over_s, ready), Stage(times.cut_s, cutting), self._ended()]

    def _copying(self, moving: PartitionState) -> list[Stage]:
        stages = [Stage(0, moving)]
        if self._dice.random() < UNREAD:
            at_s = self._dice.randrange(1, max(2, min(self.times.sync_s, self.times.over_s) - 1))
            unread = PartitionState(
                self.tp, self.topic_id, moving.replicas, (), None, None,
                adding=moving.adding, removing=moving.removing, described=False,
            )  # fmt: skip
            stages += [Stage(at_s, unread), Stage(at_s + 1, moving)]
        if not self.cancelled:
            all_in_sync = (*moving.isr, self.new)
            stages.append(Stage(self.times.sync_s, _in_sync(moving, all_in_sync)))
        return stages

    def _ended(self) -> Stage:
        replicas = self.original if self.cancelled else self.target
        leader = self.leader if self.leader in replicas else replicas[0]
        return Stage(
            self.times.done_s,
            PartitionState(self.tp, self.topic_id, replicas, replicas, leader, 6),
        )


def _in_sync(moving: PartitionState, isr: Brokers) -> PartitionState:
    return PartitionState(
        moving.tp, moving.topic_id, moving.replicas, isr, moving.leader, 4,
        adding=moving.adding, removing=moving.removing,
    )  # fmt: skip


def _draw_times(dice: Random, *, by_run: bool, cancelled: bool, down: bool) -> Times:
    copy_s = round(15 * 10 ** dice.uniform(0, 1))
    stall_s = dice.randint(35, 70) if down or dice.random() < STALLED else 0
    read_s = dice.randint(1, 4)
    stands_s = read_s + 1 + copy_s // dice.choice((2, 3, 4))
    sync_s = read_s + 1 + copy_s + stall_s
    over_s = sync_s + (dice.randint(35, 60) if dice.random() < HELD else dice.randint(1, 4))
    if cancelled:
        over_s = stands_s + stall_s + 1
    is_gentle = by_run and not cancelled
    cut_s = over_s + (dice.randint(1, 5) if is_gentle else 0)
    done_s = cut_s + (dice.randint(1, 3) if is_gentle else 0)
    return Times(read_s, stands_s, stands_s + stall_s, sync_s, over_s, cut_s, done_s)
