"""A note of a journal's last event in a file beside it, to detect events lost from the end.

An SQLite file whose write-ahead log is gone, or cut short, is intact and merely older: nothing in
the file shows that. The note is written after each commit and not synced. So after a power cut it
may be behind the journal, and never ahead of it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from ktui.execution.regular_files import open_regular, read_note

_NOTE = re.compile(rb"([0-9]{1,18}) ([0-9a-f]{64})\n")


class TailMarker(msgspec.Struct, frozen=True):
    """The number and SHA-256 of the last event that was certainly written."""

    seq: int
    hash: bytes


def tail_marker_path(journal: Path) -> Path:
    """Return the path of a journal's note."""
    return journal.with_name(f"{journal.name}-head")


def read_tail_marker(journal: Path) -> TailMarker | None:
    """Read the note; None if it is missing or unreadable."""
    try:
        match = _NOTE.fullmatch(read_note(tail_marker_path(journal)))
    except OSError:
        return None
    return None if match is None else TailMarker(int(match[1]), bytes.fromhex(match[2].decode()))


def write_tail_marker(journal: Path, head: TailMarker) -> None:
    """Write the note in one write over the one before it, which is never longer.

    Raises:
        OSError: the note cannot be written.
    """
    note = b"%d %s\n" % (head.seq, head.hash.hex().encode())
    file = open_regular(tail_marker_path(journal), os.O_WRONLY | os.O_CREAT)
    try:
        os.pwrite(file, note, 0)
        os.ftruncate(file, len(note))
    finally:
        os.close(file)
