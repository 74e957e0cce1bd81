"""A broker that is suspended while it holds a request of ours; lost answers show which one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict
from ktui.execution.run.events import Answered
from support.schedules.schedule import BROKERS, HELD_S, Fault

if TYPE_CHECKING:
    from support.schedules.play import Play

_KNOWN_AFTER_S = 30.0
"""Seconds after which a request has been answered or given up."""


class Held:
    """Suspends brokers at the moment when requests leave, until one holds a request of ours."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._broker: int | None = None
        self._since_s = 0.0
        self._asked: list[TopicPartition] = []
        self._seq = 0
        self._holds = False
        self._not: set[int] = set()

    def looked(self) -> bool:
        """Take the next action, and return whether all is over."""
        if self._broker is None:
            self._suspend()
        elif self._holds:
            return self._released()
        else:
            self._judge(self._broker)
        return False

    def _suspend(self) -> None:
        play = self._play
        flying = play.leaving()
        if not (flying and _connected(play)):
            return
        if len(self._not) == len(BROKERS):
            self._not.clear()
        left = [broker for broker in BROKERS if broker not in self._not]
        broker = play.dice.choice(left)
        self._asked, self._seq = [track.tp for track in flying], play.run.seq
        if play.nodes.break_down(broker, suspend=True):
            self._broker, self._since_s = broker, play.now_s

    def _judge(self, broker: int) -> None:
        """Find out from the answers whether this broker holds a request; resume it if not."""
        play = self._play
        answers = {
            entry.event.tp: entry.event
            for entry in play.entries
            if entry.seq > self._seq and isinstance(entry.event, Answered)
        }
        lost = [a for a in answers.values() if a.verdict is Verdict.UNKNOWN and a.node == broker]
        if lost:
            self._holds = play.holding = True
            play.note(f"broker {broker} has {len(lost)} requests, and stays suspended")
        elif answers.keys() >= {*self._asked} or play.now_s - self._since_s > _KNOWN_AFTER_S:
            if all(answer.verdict is Verdict.ACCEPTED for answer in answers.values()):
                self._not.add(broker)
            self._broker = None
            play.nodes.resume(broker)
            play.note(f"broker {broker} was suspended a moment, and had no request")

    def _released(self) -> bool:
        if self._broker is None or self._play.now_s < self._since_s + HELD_S:
            return False
        self._play.nodes.resume(self._broker)
        self._play.note(f"broker {self._broker} goes on")
        self._play.fired[Fault.HOLDER_SUSPENDED] += 1
        self._play.holding = False
        return True


def _connected(play: Play) -> bool:
    """Return whether the engine has a connection for its changes; it stays with one broker."""
    answers = (entry.event for entry in play.entries if isinstance(entry.event, Answered))
    return any(answer.verdict is Verdict.ACCEPTED for answer in answers)
