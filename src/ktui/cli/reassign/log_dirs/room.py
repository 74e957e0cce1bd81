"""The room in the log dirs of a broker, and what moves into them need."""

from __future__ import annotations

import msgspec

from ktui.cluster.broker import LogDir, ReplicaDir
from ktui.cluster.ports import LogDirsAnswer


class Shortage(msgspec.Struct, frozen=True):
    """A move for which its log dir has no room. Bytes."""

    path: str
    needed: int
    there: int


class DirRoom:
    """The free bytes of one broker's log dirs, less what moves into them still have to copy.

    Args:
        answer: the broker's log dirs, and all of its replicas.
    """

    def __init__(self, answer: LogDirsAnswer) -> None:
        self._free = {each.path: each.usable_bytes for each in answer.log_dirs}
        for held in answer.replicas.values():
            if held.future is not None:
                self._take(held.future.path, left_to_copy(held))

    def shortage(self, path: str, needed: int) -> Shortage | None:
        """Return what lacks for `needed` more bytes; None also where the broker does not say."""
        free = self._free.get(path)
        return None if free is None or needed <= free else Shortage(path, needed, max(0, free))

    def begin(self, held: ReplicaDir | None, path: str, needed: int) -> None:
        """Reserve the bytes of a move; the one that it replaces needs no more of its own."""
        if held is not None and held.future is not None:
            self._take(held.future.path, -left_to_copy(held))
        self._take(path, needed)

    def _take(self, path: str, count: int) -> None:
        free = self._free.get(path)
        if free is not None:
            self._free[path] = free - count


def left_to_copy(held: ReplicaDir) -> int:
    """Return the bytes that a replica's move still has to copy; 0 if it does not move."""
    return 0 if held.future is None else max(0, held.size - held.future.size)


def offline_dirs(answer: LogDirsAnswer) -> dict[str, str]:
    """Return the error of each log dir that has failed."""
    return {each.path: each.error for each in answer.log_dirs if each.error is not None}


def working_dirs(answer: LogDirsAnswer) -> list[LogDir]:
    """Return the log dirs that work."""
    return [each for each in answer.log_dirs if each.error is None]
