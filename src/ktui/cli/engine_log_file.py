"""The file of an engine's log: how it is kept small, and how a follower reads it."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from ktui.cluster.text import clean

MOST_BYTES = 1 << 20
"""A longer log is put aside, and a new one begun."""
_ASIDE = (".2", ".1")
"""What is put aside is named so, the older one first; what is older still is gone."""
_WARNING = " WARNING "


class LogFile(logging.StreamHandler[TextIO]):
    """Writes a line a record, in UTC; what repeats is told once, with how often it came.

    The process' standard output and error are the log, so that nothing that a library or the
    interpreter has to say is lost. With the log they are turned to the new file.

    Args:
        path: of the log.
        stream: what is written to; standard error by default.
        outputs: the numbers of the files to be turned to the new log.
        most_bytes: how long the log may become.
    """

    def __init__(
        self,
        path: Path,
        stream: TextIO | None = None,
        outputs: Sequence[int] = (1, 2),
        most_bytes: int = MOST_BYTES,
    ) -> None:
        super().__init__(stream or sys.stderr)
        self._path = path
        self._outputs = outputs
        self._most_bytes = most_bytes
        self._last: tuple[int, str] | None = None
        self._again: logging.LogRecord | None = None
        """The newest record that says what the line before says, and is not written."""
        self._count = 0
        """How many there were."""
        form = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s")
        form.default_time_format, form.datefmt = "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S"
        form.converter = time.gmtime
        self.setFormatter(form)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, unless it says what the one before it said."""
        told = (record.levelno, record.getMessage())
        if told == self._last:
            self._again, self._count = record, self._count + 1
            return
        self._tell_again()
        self._last = told
        self._rotate()
        super().emit(record)

    def close(self) -> None:
        """Tell how often the last line came; the process ends."""
        self._tell_again()
        super().close()

    def _tell_again(self) -> None:
        """Tell how often the line before was to be written again, at the time of the last one."""
        if self._again is not None:
            times = "once" if self._count == 1 else f"{self._count:,} times"
            words = f"the same {times} more: {self._again.getMessage()}"
            again = {**self._again.__dict__, "msg": words, "args": ()}
            super().emit(logging.makeLogRecord(again))
        self._again, self._count = None, 0

    def _rotate(self) -> None:
        """Put a log aside that is too long; where that is not possible, it goes on as it is."""
        with suppress(OSError):
            written = os.fstat(self.stream.fileno())
            if written.st_size < self._most_bytes or not _is_at(self._path, written):
                return
            older, old = (self._path.with_name(f"{self._path.name}{end}") for end in _ASIDE)
            if old.exists():
                old.replace(older)
            self._path.replace(old)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
            new = os.open(self._path, flags, 0o600)
            for output in self._outputs:
                os.dup2(new, output)
            os.close(new)


class Warnings:
    """The warnings that come to stand in an engine's log from now on."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._read: os.stat_result | None = log.stat() if log.exists() else None
        self._at = 0 if self._read is None else self._read.st_size

    def new(self) -> list[str]:
        """Give those since the last call, in whole lines and without their times."""
        whole: list[bytes] = []
        with suppress(OSError):
            if self._read is not None and not _is_at(self._log, self._read):
                aside = self._log.with_name(f"{self._log.name}{_ASIDE[-1]}")
                if _is_at(aside, self._read):
                    whole += self._lines(aside)
                self._at = 0
            whole += self._lines(self._log)
        told = (line.decode(errors="replace").strip().partition(_WARNING) for line in whole)
        return [clean(words) for _, sign, words in told if sign]

    def _lines(self, log: Path) -> list[bytes]:
        with log.open("rb") as file:
            self._read = os.fstat(file.fileno())
            file.seek(self._at)
            lines = file.read().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith(b"\n")]
        self._at += sum(map(len, whole))
        return whole


def _is_at(path: Path, file: os.stat_result) -> bool:
    """Whether a file is the one of that name."""
    try:
        found = path.stat()
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (file.st_dev, file.st_ino)
