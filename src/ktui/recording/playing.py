"""A session, played from its beginning: each observation as it was seen, and what is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from ktui.cluster.observation import Observation
from ktui.fileproblem import FileProblem
from ktui.quantities import as_count
from ktui.recording.decoding import Decoder, Incoherent
from ktui.recording.lines import End, Head, LostPollLine, PollLine, RunLine
from ktui.recording.reading import Bad, Good, Session, lines


class PlayedPoll(msgspec.Struct, frozen=True):
    """A poll that was answered."""

    line: PollLine
    observation: Observation


class Damage(msgspec.Struct, frozen=True):
    """What a session does not tell, and where."""

    file: Path
    number: int
    """Of the line, from 1."""
    reason: str

    def __str__(self) -> str:
        """Name the place first."""
        return f"{self.file}:{self.number}: {self.reason}"


Happening = PlayedPoll | LostPollLine | RunLine | End | Damage


def observations(session: Session) -> Iterator[Happening]:
    """Give what a session tells, in its order; what comes twice, once.

    After a damaged line the looks that build on it are left out, up to the next whole one. Never
    raises because of what is in a file, or because there is none any more.
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
    """Plays one segment's file, of which the first lines may have come from another."""

    def __init__(self, file: Path, cluster_id: str, next_seq: int) -> None:
        self.next_seq = next_seq
        self._file = file
        self._decoder = Decoder(cluster_id)
        self._last_seq = -1
        """Of this file."""
        self._damaged = 0
        """Lines since the last good one that were told as damaged."""
        self._left_out = 0
        """Looks since the last one that could be told."""

    def play(self) -> Iterator[Happening]:
        number = 1
        for each in lines(self._file):
            number = each.number
            if isinstance(each, Bad):
                self._damaged += 1
                yield Damage(self._file, number, each.reason)
            else:
                yield from self._good(each)
        yield from self._told_left_out(number)

    def _good(self, good: Good) -> Iterator[Happening]:
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
            yield from self._look(line, number, new=new)
        elif new and not isinstance(line, Head):
            yield line

    def _look(self, look: PollLine, number: int, *, new: bool) -> Iterator[Happening]:
        try:
            observation = self._decoder.observation(look)
        except Incoherent:
            self._left_out += 1
            return
        yield from self._told_left_out(number)
        if new:
            yield PlayedPoll(look, observation)

    def _told_left_out(self, number: int) -> Iterator[Damage]:
        if self._left_out:
            looks = as_count(self._left_out, "look")
            yield Damage(self._file, number, f"{looks} left out up to here: one before is missing")
            self._left_out = 0
