"""A session's items, kept in memory so that they can be written to files in several ways."""

from __future__ import annotations

import gzip
import random
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ktui.cluster.observation import Observation
from ktui.execution.run.events import JournalEntry, encode
from ktui.recording import lines
from ktui.recording.codec import Encoder
from ktui.recording.lines import AnyLine, End, Head, LostPollLine, PollLine, RunLine, to_ms, wall_ms

NOTHING: Mapping[int, int] = {}
GARBAGE = (
    b"",
    b"\xff\xfe\x00",
    b"{",
    b'{"kind":"look","seq":"1"}',
    b'{"kind":"nobody knows","seq":3,"at":0,"ms":0}',
    b"[1,2,3]",
)


class Item(NamedTuple):
    """One line without its number, and when it was recorded."""

    at: int
    ms: int
    what: Observation | AnyLine


class Tape:
    """The items of one session, in order.

    Args:
        cluster_id: the id of the cluster.
        session: the session's name.
        ms: milliseconds by which the session's monotonic clock is ahead of the simulation's.
        at: milliseconds by which the session's wall clock is ahead.
    """

    def __init__(self, cluster_id: str, session: str, *, ms: int = 0, at: int = 0) -> None:
        self.cluster_id, self.session = cluster_id, session
        self._ms, self._at = ms, at
        self.items: list[Item] = []

    def look(self, seen: Observation) -> None:
        """Record a poll that was answered."""
        self._add(wall_ms(seen.at), to_ms(seen.monotonic_s), seen)

    def lost(self, clock: Any, reason: str) -> None:
        """Record a poll that failed."""
        at, ms = _now(clock)
        self._add(at, ms, LostPollLine(seq=0, at=at, ms=ms, reason=reason))

    def happened(self, clock: Any, run: tuple[str, str], entry: JournalEntry) -> None:
        """Record an entry of the journal of a run, given by name and id."""
        at, ms = _now(clock)
        line = RunLine(
            seq=0,
            at=wall_ms(entry.at),
            ms=ms,
            run=run[0],
            run_id=run[1],
            entry=entry.seq,
            event=msgspec.Raw(encode(entry.event)),
        )
        self._add(at, ms, line)

    def end(self) -> None:
        """Record that the session was closed cleanly."""
        if self.items:
            at, ms, _ = self.items[-1]
            self.items.append(Item(at, ms, End(seq=0, at=at, ms=ms)))

    def _add(self, at: int, ms: int, what: Observation | AnyLine) -> None:
        self.items.append(Item(at + self._at, ms + self._ms, what))

    def segments(
        self,
        cuts: Collection[int] = (),
        wholes: Collection[int] = (),
        steps: Mapping[int, int] = NOTHING,
    ) -> list[list[bytes]]:
        """Return the lines of each segment.

        Args:
            cuts: the items before which a new segment begins.
            wholes: the items that are written whole, not as a delta.
            steps: by item, the milliseconds by which the wall clock jumps there.
        """
        found: list[list[bytes]] = []
        encoder, seq, ahead = Encoder(), 0, 0
        for number, item in enumerate(self.items):
            ahead += steps.get(number, 0)
            if number == 0 or number in cuts:
                head = self._head(len(found), seq, item, ahead)
                found.append([lines.encode(head)])
                encoder, seq = Encoder(), seq + 1
            line = _line(item, encoder, seq, whole=number in wholes, ahead=ahead)
            found[-1].append(lines.encode(line))
            seq += 1
        return found

    def _head(self, segment: int, seq: int, item: Item, ahead: int) -> Head:
        return Head(
            seq=seq,
            at=item.at + ahead,
            ms=item.ms,
            schema_version=lines.SCHEMA_VERSION,
            session=self.session,
            segment=segment,
            cluster_id=self.cluster_id,
        )


def _now(clock: Any) -> tuple[int, int]:
    return wall_ms(clock.now()), to_ms(clock.monotonic())


def _line(item: Item, encoder: Encoder, seq: int, *, whole: bool, ahead: int) -> AnyLine:
    at, ms, what = item
    if isinstance(what, Observation):
        look: PollLine = encoder.poll(what, seq=seq, whole=whole)
        return msgspec.structs.replace(look, at=at + ahead, ms=ms)
    wall = what.at if isinstance(what, RunLine) else at + ahead
    return msgspec.structs.replace(what, seq=seq, at=wall, ms=ms)


class Recording(NamedTuple):
    """A file of a recording: its name under the folder, and its lines with their newlines."""

    name: str
    lines: list[bytes]


def cut_at_random(tape: Tape, dice: random.Random) -> list[Recording]:
    """Encode a tape in random segments, with some of its polls whole."""
    count = len(tape.items)
    cuts = {dice.randrange(count) for _ in range(dice.choice((0, 0, 1, 2)))} if count else ()
    wholes = {n for n in range(count) if dice.random() < 0.1}
    return files_of(tape, tape.segments(cuts, wholes))


def files_of(tape: Tape, segments: list[list[bytes]]) -> list[Recording]:
    """Name the files of a tape's segments."""
    return [
        Recording(f"{tape.cluster_id}/{tape.session}/{number:06}.jsonl.gz", segment)
        for number, segment in enumerate(segments)
    ]


def with_garbage(files: list[Recording], dice: random.Random) -> Iterator[Recording]:
    """Insert garbage lines between the others, after the head."""
    for name, segment in files:
        held = list(segment)
        for _ in range(dice.choice((0, 1, 3))):
            held.insert(dice.randint(1, len(held)), dice.choice(GARBAGE) + b"\n")
        yield Recording(name, held)


def with_losses(files: list[Recording], dice: random.Random) -> Iterator[Recording]:
    """Lose, spoil or repeat a line of some files, or cut a file short."""
    for name, segment in files:
        held = list(segment)
        fate, number = dice.random(), dice.randrange(len(held))
        if fate < 0.2:
            del held[number]
        elif fate < 0.3:
            held[number] = held[number][: len(held[number]) // 2] + b"\n"
        elif fate < 0.4:
            held.insert(number + 1, held[number])
        elif fate < 0.5:
            del held[number + 1 :]
        yield Recording(name, held)


def write(folder: Path, files: Collection[Recording]) -> None:
    """Write files of recordings under a folder."""
    for name, segment in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(b"".join(segment), compresslevel=1, mtime=0))
