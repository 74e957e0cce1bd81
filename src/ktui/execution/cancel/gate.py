"""The cancel gate of a cluster (KIP-236's reassign_cancel): shut, no process submits anything.

It is a file in the state directory, so that it holds for every process that uses that directory,
and outlives them all; what cancels or rolls back goes through.
"""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import msgspec

from ktui.cluster.text import clean
from ktui.durable import sync_folder, write_whole
from ktui.execution.errors import RunRefused
from ktui.execution.host.state_dir import StateDir
from ktui.execution.regular_files import read_note
from ktui.json_input import checked_moment, decode_untrusted

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


class Shut(msgspec.Struct, frozen=True):
    """Who shut the gate of a cluster, when, and why."""

    cluster_id: str
    at: datetime
    who: str
    """user@host (pid)."""
    reason: str
    """What was cancelled."""

    def __post_init__(self) -> None:
        """Refuse a time that cannot be shown."""
        checked_moment(self.at)

    @property
    def words(self) -> str:
        """Say who, when and why."""
        at = self.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        return clean(f"{self.who} at {at}, to {self.reason}")


_DECODER = msgspec.json.Decoder(Shut)


class CancelGateFile:
    """The gate of one cluster.

    Args:
        folder: the state directory.
        cluster_id: as the cluster says it.
    """

    def __init__(self, folder: StateDir, cluster_id: str) -> None:
        self._folder = folder
        self._cluster_id = cluster_id
        self.path = folder.path / "gates" / f"{_UNSAFE.sub('-', cluster_id)}.json"

    def shut(self, at: datetime, who: str, reason: str) -> Shut:
        """Shut it; if it is shut already, it is now by this one.

        Raises:
            RunRefused: the state directory cannot be written to.
        """
        shut = Shut(self._cluster_id, at, who, reason)
        self._folder.check()
        self._folder.make(self.path.parent)
        try:
            write_whole(self.path, msgspec.json.encode(shut))
        except OSError as error:
            raise _cannot(self.path, "written", error) from None
        return shut

    def open(self) -> Shut | None:
        """Open it, and give who had shut it; None where it was open.

        Raises:
            RunRefused: the file cannot be removed.
        """
        before = self.state()
        try:
            if before is not None:
                self.path.unlink(missing_ok=True)
                sync_folder(self.path.parent)
        except OSError as error:
            raise _cannot(self.path, "removed", error) from None
        return before

    def state(self) -> Shut | None:
        """Say who has shut it; None while it is open.

        A file that cannot be read counts as shut: an operator has put it there.

        Raises:
            RunRefused: the state directory cannot be read.
        """
        try:
            body, written_s = read_note(self.path), self.path.stat().st_mtime
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _cannot(self.path, "read", error) from None
        try:
            return decode_untrusted(_DECODER, body)
        except msgspec.DecodeError:
            at = datetime.fromtimestamp(written_s).astimezone()
            return Shut(self._cluster_id, at, "someone", f"cancel what {self.path} fails to tell")

    def words(self) -> str | None:
        """Say who has shut it, for an engine, which stands still where that cannot be told.

        None while it is open.
        """
        try:
            shut = self.state()
        except RunRefused as refused:
            return str(refused)
        return None if shut is None else shut.words


def shut_in_words(shut: Shut) -> str:
    """Say of which cluster the gate is shut, and by whom."""
    return f"the cancel gate of cluster {clean(shut.cluster_id)} is shut, by {shut.words}"


def _cannot(path: Path, what: str, error: OSError) -> RunRefused:
    return RunRefused(f"{path}: the cancel gate cannot be {what}: {error.strerror}")
