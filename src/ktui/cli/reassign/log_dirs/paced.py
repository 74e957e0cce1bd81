"""Moves between log dirs at a pace: each begins when the answers of its broker allow it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from ktui.cli.reassign.log_dirs.book import MovesBook
from ktui.cli.reassign.log_dirs.check import shortage_text
from ktui.cli.reassign.log_dirs.pacing import Pace, Standing, brokers_of, moves_to_begin
from ktui.cli.reassign.log_dirs.report import MovesReport
from ktui.cli.reassign.log_dirs.room import offline_dirs
from ktui.cli.reassign.printed import lines
from ktui.cluster.clock import Clock
from ktui.cluster.errors import ClusterError
from ktui.cluster.fresh_read import LEAVES_WITHIN_S
from ktui.cluster.partition import Replica
from ktui.cluster.ports import ClusterReader, ClusterWriter, LogDirsAnswer, Verdict, WriteResult
from ktui.cluster.text import clean
from ktui.execution.errors import RunRefused

GONE_S = 60.0
"""Seconds without an answer after which a broker is given up: a restart takes less."""
ROOM_COMES_S = 90.0
"""Seconds to wait for the room of a replica that has left its log dir.

Kafka deletes the old files only after `log.segment.delete.delay.ms`, a minute by default.
"""
_NO_REPLICA = ("REPLICA_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION")


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """Times of paced moves, in seconds."""

    poll_s: float
    """Between two reads of a broker's log dirs."""
    absent_s: float
    """Until a replica that its broker does not have yet is given up."""


class PacedMoves:
    """Moves between log dirs that begin at a pace, and are followed until all are complete.

    Args:
        reader: reads log dirs.
        writer: sends the moves.
        clock: time.
        pace: the limits.
        patience: how often to read, and how long to wait.
        allowed: raises `RunRefused` when nothing more may be sent to the cluster.
        report: takes what is to be printed.
    """

    def __init__(
        self,
        reader: ClusterReader,
        writer: ClusterWriter,
        clock: Clock,
        *,
        pace: Pace,
        patience: Patience,
        allowed: Callable[[], Awaitable[None]],
        report: MovesReport,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._clock = clock
        self._pace = pace
        self._patience = patience
        self._allowed = allowed
        self._report = report
        self._book = MovesBook({})
        self._answers: dict[int, LogDirsAnswer] = {}
        """The last answer of each broker."""
        self._offline: dict[int, dict[str, str]] = {}
        """The log dirs that were offline at first."""
        self._failed: dict[int, str] = {}
        """The brokers on which a log dir has failed since, each with a sentence about it."""
        self._silent_from_s: dict[int, float] = {}
        self._barred_from_s: float | None = None
        self._completed_s: dict[int, float] = {}
        """When a move of a broker was last seen complete."""
        self._short: set[Replica] = set()
        """The moves that were named for lack of room."""
        self._absent_until_s = 0.0

    async def move(self, wanted: Mapping[Replica, str]) -> dict[Replica, str]:
        """Begin moves and follow them, until all are complete or given up.

        Replicas that are in their log dir, and those on their way to it, are not sent again.

        Returns:
            Why moves were given up; empty if all are complete.
        """
        self._book = book = MovesBook(wanted)
        self._absent_until_s = self._clock.monotonic() + self._patience.absent_s
        try:
            await asyncio.gather(*(self._follow(broker) for broker in brokers_of(wanted)))
        except asyncio.CancelledError:  # Ctrl-C
            self._report.note(book.interrupted)
            raise
        return book.left

    async def _follow(self, broker: int) -> None:
        """Begin and follow the moves of one broker."""
        while self._book.of(broker):
            if await self._look(broker):
                if await self._begin(broker):
                    continue  # what has begun shows at once
                self._give_up_without_room(broker)
            if self._book.of(broker):
                self._report.waiting(self._book.progress)
                await self._clock.sleep(self._patience.poll_s)

    async def _look(self, broker: int) -> bool:
        """Read the log dirs of a broker; return whether it has answered."""
        try:
            answer = await self._reader.log_dirs(broker, None)
        except ClusterError as error:
            self._take_silence(broker, error)
            return False
        if self._silent_from_s.pop(broker, None) is not None:
            self._report.note(f"broker {broker} answers again")
        self._answers[broker] = answer
        self._take_failed_dirs(broker, answer)
        for replica in self._book.of(broker):
            self._take_in(replica, answer)
        return True

    def _take_in(self, replica: Replica, answer: LogDirsAnswer) -> None:
        book, path = self._book, self._book.open[replica]
        asked, now_s = replica in book.asked, self._clock.monotonic()
        held, failed = answer.replicas.get(replica.tp), self._failed.get(replica.broker)
        now = book.take_in(replica, held, now_s, failed)
        if asked and replica in book.begun:
            self._report.begun(lines.log_dir_moves_started({replica: path}))
        if now is Standing.COMPLETE:
            self._completed_s[replica.broker] = now_s
        elif now is Standing.ABSENT:
            self._give_up_absent(replica)

    def _give_up_absent(self, replica: Replica) -> None:
        """Stop waiting for a replica that has not appeared on its broker in time."""
        waits = replica in self._book.not_begun(replica.broker)
        if waits and self._clock.monotonic() >= self._absent_until_s:
            why = f"its broker does not have it after {self._patience.absent_s:g} s (--timeout)"
            self._book.give_up(replica, f"was not begun: {why}")

    async def _begin(self, broker: int) -> bool:
        """Begin the moves whose turn it is; return whether the broker has to be read at once.

        Only the answer that is read last decides, and nothing is awaited before the request.
        """
        if not self._chosen(broker) or not await self._is_allowed():
            return False
        if not await self._look(broker) or not (chosen := self._chosen(broker)):
            return False
        self._book.asked.update(chosen)
        paths = {replica.tp: path for replica, path in chosen.items()}
        try:
            results = await self._writer.alter_log_dirs(
                broker, paths, leaves_within_s=LEAVES_WITHIN_S
            )
        except ClusterError as error:  # nothing was sent
            self._book.asked.difference_update(chosen)
            self._take_silence(broker, error)
            return False
        begun = [self._take_result(replica, results[replica.tp]) for replica in chosen]
        return any(begun)

    def _take_result(self, replica: Replica, result: WriteResult) -> bool:
        """Process the answer to a request; return whether the move has begun or was refused."""
        if result.verdict is Verdict.UNKNOWN:  # the next read of the broker shows it
            return False
        self._book.asked.discard(replica)
        if result.verdict is Verdict.ACCEPTED:
            self._report.begun(lines.log_dir_moves_started({replica: self._book.open[replica]}))
            self._book.begun.add(replica)
            return True
        if result.code in _NO_REPLICA:  # it has left since it was read, or may come again
            return False
        why = result.message or result.code or "no reason given"
        self._book.give_up(replica, f"was refused: {why}")
        return True

    def _chosen(self, broker: int) -> dict[Replica, str]:
        """Return the moves of a broker that may begin now."""
        book, decision = self._book, moves_to_begin(self._book.open, self._answers, self._pace)
        mine = (each for each in decision.begin if each.broker == broker)
        return {replica: book.open[replica] for replica in mine if replica not in book.begun}

    async def _is_allowed(self) -> bool:
        """Whether moves may be sent; if not for good, those that have not begun are given up."""
        try:
            await self._allowed()
        except (RunRefused, ClusterError) as problem:
            now_s = self._clock.monotonic()
            if self._barred_from_s is None:
                self._barred_from_s = now_s
                self._report.note(f"no move begins: {problem}")
            if isinstance(problem, RunRefused) or now_s >= self._barred_from_s + GONE_S:
                for replica in self._book.not_begun():
                    self._book.give_up(replica, "was not begun: nothing more may be sent")
            return False
        self._barred_from_s = None
        return True

    def _give_up_without_room(self, broker: int) -> None:
        """Name moves without room, and give them up once nothing can free any more."""
        book, decision = self._book, moves_to_begin(self._book.open, self._answers, self._pace)
        short = {
            replica: shortage_text(broker, lack)
            for replica, lack in decision.short.items()
            if replica.broker == broker and replica not in book.begun
        }
        for replica in [each for each in short if each not in self._short]:
            self._short.add(replica)
            self._report.note(
                f"warning: {lines.replica_name(replica)} {short[replica]}: it waits for room"
            )
        moving = any(held.future is not None for held in self._answers[broker].replicas.values())
        due_s = self._completed_s.get(broker, float("-inf")) + ROOM_COMES_S
        if not moving and {*book.of(broker)} == short.keys() and self._clock.monotonic() >= due_s:
            for replica, lack in short.items():
                book.give_up(replica, f"was not begun: it {lack}")

    def _take_silence(self, broker: int, error: ClusterError) -> None:
        now_s = self._clock.monotonic()
        if broker not in self._silent_from_s:
            self._silent_from_s[broker] = now_s
            self._report.note(f"warning: nothing begins on broker {broker}: {error}")
        if now_s >= self._silent_from_s[broker] + GONE_S:
            waiting = self._book.not_begun(broker)
            for replica in self._book.of(broker):
                what = "was not begun" if replica in waiting else "its state is unknown"
                self._book.give_up(replica, f"{what}: broker {broker} does not answer")

    def _take_failed_dirs(self, broker: int, answer: LogDirsAnswer) -> None:
        """Begin nothing more on a broker that has lost a log dir."""
        lost = self._newly_lost(broker, answer)
        if lost and broker not in self._failed:
            path, error = min(lost.items())
            self._failed[broker] = f"log dir {clean(path)} of broker {broker} has failed ({error})"
            self._report.note(
                f"warning: {self._failed[broker]}. Nothing more begins on this broker"
            )
        if broker in self._failed:
            for replica in self._book.not_begun(broker):
                self._book.give_up(replica, f"was not begun: {self._failed[broker]}")

    def _newly_lost(self, broker: int, answer: LogDirsAnswer) -> dict[str, str]:
        """Return the log dirs that went offline since the first answer, and wanted ones."""
        offline, wanted = offline_dirs(answer), self._book.paths(broker)
        before = self._offline.setdefault(broker, offline)
        absent = wanted - {each.path for each in answer.log_dirs}
        lost = dict.fromkeys(absent, "its broker does not report it")
        return lost | {p: e for p, e in offline.items() if p not in before or p in wanted}
