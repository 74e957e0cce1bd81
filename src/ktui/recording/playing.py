"""Play a session from its beginning: each observation as recorded, and each damage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from ktui.cluster.observation import Observation
from ktui.inputfile import FileProblem
from ktui.quantities import as_count
from ktui.recording.decoding import BrokenSequence, Decoder
from ktui.recording.lines import End, Head, LostPollLine, PollLine, RunLine
from ktui.recording.reading import BadLine, GoodLine, Session, read_lines


class PlayedPoll(msgspec.Struct, frozen=True):
    """An answered poll and its observation."""

    line: PollLine
    observation: Observation


class Damage(msgspec.Struct, frozen=True):
    """A part of a session that is missing or unreadable, and its place."""

    file: Path
    number: int
    """The number of the line, from 1."""
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}: {self.reason}"


PlayedItem = PlayedPoll | LostPollLine | RunLine | End | Damage


def play_session(session: Session) -> Iterator[PlayedItem]:
    """Yield the content of a session in its order, repeated lines only once.

    After a damaged line, the polls that build on it are skipped, up to the next whole one. Never
    raises because of a file's content, or because a file is gone.
    """
    next_seq = 0
    for file in session.files:
        player = _FilePlayer(file, session.head.cluster_id, next_seq)
        try:
            yield from player.play()
        except FileProblem as problem:
            yield Damage(file, 1, problem.problem)
        next_seq = player.next_seq


class _FilePlayer:
    """Plays one segment's file; another file may have had its first lines already."""

    def __init__(self, file: Path, cluster_id: str, next_seq: int) -> None:
        self.next_seq = next_seq
        self._file = file
        self._decoder = Decoder(cluster_id)
        self._last_seq = -1
        """The last good `seq` of this file."""
        self._damaged = 0
        """Lines reported as damaged since the last good one."""
        self._skipped = 0
        """Polls skipped since the last decoded one."""

    def play(self) -> Iterator[PlayedItem]:
        number = 1
        for each in read_lines(self._file):
            number = each.number
            if isinstance(each, BadLine):
                self._damaged += 1
                yield Damage(self._file, number, each.reason)
            else:
                yield from self._good(each)
        yield from self._report_skipped(number)

    def _good(self, good: GoodLine) -> Iterator[PlayedItem]:
        line, number = good.line, good.number
        if line.seq <= self._last_seq:
            return
        self._last_seq = line.seq
        new = line.seq >= self.next_seq
        if line.seq > self.next_seq + self._damaged:
            missing = as_count(line.seq - self.next_seq - self._damaged, "line")
            yield Damage(self._file, number, f"{missing} of the session missing before this one")
        self.next_seq = max(self.next_seq, line.seq + 1)
        self._damaged = 0
        if isinstance(line, PollLine):
            yield from self._decoded(line, number, new=new)
        elif new and not isinstance(line, Head):
            yield line

    def _decoded(self, poll: PollLine, number: int, *, new: bool) -> Iterator[PlayedItem]:
        try:
            observation = self._decoder.observation(poll)
        except BrokenSequence:
            self._skipped += 1
            return
        yield from self._report_skipped(number)
        if new:
            yield PlayedPoll(poll, observation)

    def _report_skipped(self, number: int) -> Iterator[Damage]:
        if self._skipped:
            polls = as_count(self._skipped, "poll")
            yield Damage(
                self._file, number, f"{polls} skipped up to here: an earlier one is missing"
            )
            self._skipped = 0
