"""A note beside a journal of its last event: by it, events that are lost from the end are missed.

A SQLite file whose write-ahead log is gone, or cut short, is whole and merely older: nothing in
it tells. The note is written after each commit and not synced, so that after a power cut it may be
behind the journal, and never before it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from ktui.execution.regular_files import open_regular, read_note

_NOTE = re.compile(rb"([0-9]{1,18}) ([0-9a-f]{64})\n")


class TailMarker(msgspec.Struct, frozen=True):
    """The last event that was written for certain."""

    seq: int
    hash: bytes


def head_path(journal: Path) -> Path:
    """Say where the note of a journal is."""
    return journal.with_name(f"{journal.name}-head")


def read_head(journal: Path) -> TailMarker | None:
    """Read the note; None where there is none, or none that can be read."""
    try:
        match = _NOTE.fullmatch(read_note(head_path(journal)))
    except OSError:
        return None
    return None if match is None else TailMarker(int(match[1]), bytes.fromhex(match[2].decode()))


def write_head(journal: Path, head: TailMarker) -> None:
    """Write the note, in one write over the one before it, which is never longer.

    Raises:
        OSError: it cannot be written.
    """
    note = b"%d %s\n" % (head.seq, head.hash.hex().encode())
    file = open_regular(head_path(journal), os.O_WRONLY | os.O_CREAT)
    try:
        os.pwrite(file, note, 0)
        os.ftruncate(file, len(note))
    finally:
        os.close(file)
