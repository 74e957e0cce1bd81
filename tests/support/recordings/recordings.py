"""Recordings of hand-made observations, and helpers to read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ktui.cluster.observation import Observation, Reading
from ktui.recording.lines import PollLine, to_ms, to_s
from ktui.recording.reading import (
    BadLine,
    Damage,
    GoodLine,
    PlayedItem,
    PlayedPoll,
    Session,
    find_sessions,
    play_session,
    read_lines,
)
from ktui.recording.recorder import Recorder
from ktui.simulated.clock import VirtualClock
from support.simulated.observations import START, T0, T1, a_move, an_observation

K = TypeVar("K")


class Recording:
    """A recorder, its clock, and the observations it was shown."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.clock = VirtualClock(START)
        self.recorder = Recorder(folder, self.clock, **{"program": "ktui of a test", **options})
        self.shown: list[Observation] = []

    def looks(self, count: int, every_s: float = 1.0, **more: Any) -> None:
        """Show the recorder `count` observations, `every_s` seconds apart."""
        for _ in range(count):
            seen = copying(self.clock.monotonic(), **more)
            self.shown.append(seen)
            self.recorder.poll(seen)
            self.clock.pass_time(every_s)

    def die(self) -> None:
        """Abandon the session, as if the recorder's process died."""
        if self.recorder._session is not None:
            self.recorder._session.abandon()


def copying(at_s: float, **more: Any) -> Observation:
    """Return an observation of two moving partitions; the data copied differs each second."""
    done = round(at_s * 1_000)
    return an_observation(
        [a_move(T0), a_move(T1)],
        at_s,
        ends={(tp, broker): 10_000_000 + done * broker for tp in (T0, T1) for broker in (1, 4)},
        **more,
    )


def the_session(path: Path) -> Session:
    """Return the only session in a folder."""
    (session,) = find_sessions(path)
    return session


def happenings(path: Path) -> list[PlayedItem]:
    """Return all items of the only session in a folder."""
    return list(play_session(the_session(path)))


def seen_in(path: Path) -> list[Observation]:
    """Return the observations of the only session in a folder; no line may be damaged."""
    happened = happenings(path)
    assert [each for each in happened if isinstance(each, Damage)] == []
    return [each.observation for each in happened if isinstance(each, PlayedPoll)]


def files_in(folder: Path) -> list[Path]:
    """Return the files anywhere under a folder, sorted by name."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def good(content: bytes | Path) -> list[GoodLine]:
    return [each for each in read_lines(content) if isinstance(each, GoodLine)]


def bad(content: bytes | Path) -> list[BadLine]:
    return [each for each in read_lines(content) if isinstance(each, BadLine)]


def look_lines(content: bytes | Path) -> Iterator[PollLine]:
    return (each.line for each in good(content) if isinstance(each.line, PollLine))


def to_the_millisecond(seen: Observation) -> Observation:
    """Return an observation as a recording keeps it."""

    def rounded(readings: Mapping[K, Reading]) -> dict[K, Reading]:
        return {key: Reading(r.value, to_s(to_ms(r.at_s))) for key, r in readings.items()}

    return msgspec.structs.replace(
        seen,
        ends=rounded(seen.ends),
        starts=rounded(seen.starts),
        sizes=rounded(seen.sizes),
        monotonic_s=to_s(to_ms(seen.monotonic_s)),
        took_s=to_s(to_ms(seen.took_s)),
        at=seen.at.replace(microsecond=round(seen.at.microsecond / 1000) % 1000 * 1000),
    )


def all_to_the_millisecond(seen: Iterable[Observation]) -> list[Observation]:
    return [to_the_millisecond(each) for each in seen]
