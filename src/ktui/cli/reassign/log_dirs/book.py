"""The moves that a command follows: which have begun, which are complete, which were given up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ktui.cli.reassign.log_dirs.pacing import Standing, standing
from ktui.cli.reassign.log_dirs.room import left_to_copy
from ktui.cli.reassign.printed.java_order import sorted_replicas
from ktui.cli.reassign.printed.lines import replica_name
from ktui.cluster.broker import ReplicaDir
from ktui.cluster.partition import Replica
from ktui.planning.names import join_some
from ktui.quantities import as_bytes, as_count

DOUBT_S = 2.0
"""Seconds for which answers have to lack a move that has begun.

A broker that replaces a replica by its copy reports the old log dir alone for some milliseconds, or
both as if neither were a copy.
"""


class MovesBook:
    """Moves between log dirs, as far as answers of brokers show them.

    Args:
        wanted: the log dirs of the replicas.
    """

    def __init__(self, wanted: Mapping[Replica, str]) -> None:
        self.open = {replica: wanted[replica] for replica in sorted_replicas(wanted)}
        """The moves that are neither complete nor given up."""
        self.begun: set[Replica] = set()
        self.asked: set[Replica] = set()
        """The moves that were sent, and whose answer is not known."""
        self.left: dict[Replica, str] = {}
        """Why moves were given up."""
        self._doubted_s: dict[Replica, float] = {}
        """Since when answers lack begun moves."""
        self._held: dict[Replica, ReplicaDir] = {}
        self._count = len(self.open)

    def of(self, broker: int) -> list[Replica]:
        """Return the open moves of a broker."""
        return [replica for replica in self.open if replica.broker == broker]

    def not_begun(self, broker: int | None = None) -> list[Replica]:
        """Return the open moves that were not sent, of one broker or of all."""
        mine = self.open if broker is None else self.of(broker)
        return [replica for replica in mine if replica not in self.begun | self.asked]

    def paths(self, broker: int) -> set[str]:
        """Return the log dirs into which replicas of a broker are still to move."""
        return {self.open[replica] for replica in self.of(broker)}

    def take_in(
        self, replica: Replica, held: ReplicaDir | None, now_s: float, failed: str | None
    ) -> Standing:
        """Compare an open move with the answer of its broker.

        Args:
            replica: the replica.
            held: where its broker has it; None if in no working log dir.
            now_s: the time of the answer.
            failed: the log dir of the broker that has failed, in a sentence.

        Returns:
            How the replica stands to its log dir; complete ones are open no more.
        """
        now = standing(held, self.open[replica])
        self._note(replica, held)
        self.asked.discard(replica)
        if now in {Standing.COMPLETE, Standing.UNDER_WAY}:
            self.begun.add(replica)
            self._doubted_s.pop(replica, None)
        elif (
            replica in self.begun and now_s >= self._doubted_s.setdefault(replica, now_s) + DOUBT_S
        ):
            self.give_up(replica, _why_ended(held, failed))
        if now is Standing.COMPLETE:
            del self.open[replica]
        return now

    def give_up(self, replica: Replica, why: str) -> None:
        """Follow a move no more."""
        self.left[replica] = why
        del self.open[replica]

    @property
    def progress(self) -> str:
        """What is complete, under way and waiting."""
        complete = self._count - len(self.open) - len(self.left)
        parts = [f"{complete:,} of {as_count(self._count, 'move')} between log dirs complete"]
        if moving := [replica for replica in self.open if replica in self.begun]:
            left = sum(left_to_copy(self._held[each]) for each in moving if each in self._held)
            parts.append(f"{len(moving):,} under way ({as_bytes(left)} left)")
        if waiting := len(self.open) - len(moving):
            parts.append(f"{waiting:,} waiting")
        return ", ".join(parts)

    @property
    def interrupted(self) -> str:
        """What goes on without the command, and what has not begun."""
        texts = (
            ("goes on by itself", (each for each in self.open if each in self.begun)),
            (
                "was asked for without an answer, and may have begun",
                (each for each in self.open if each in self.asked),
            ),
            ("has not begun", self.not_begun()),
        )
        named = [f"{what}: {names}" for what, replicas in texts if (names := _names(replicas))]
        again = "The same command goes on with the rest; --cancel ends what is under way"
        return "\n".join(("interrupted", *named, again))

    def _note(self, replica: Replica, held: ReplicaDir | None) -> None:
        if held is None:
            self._held.pop(replica, None)
        else:
            self._held[replica] = held


def _why_ended(held: ReplicaDir | None, failed: str | None) -> str:
    """Return why a move that had begun is no longer under way."""
    if held is None:
        return failed or "its broker does not have it any more"
    if failed is not None:
        return f"its move has ended, and it is in {held.path}: {failed}"
    to = "" if held.future is None else f", and moves to {held.future.path}"
    return f"was cancelled: it is in {held.path}{to}"


def _names(replicas: Iterable[Replica]) -> str:
    return join_some(map(replica_name, replicas), most=10)
