"""The cancel gate of a cluster (KIP-236's reassign_cancel): while shut, nothing new is submitted.

The gate is a file in the state directory. So it binds every process that uses that directory, and
outlives them all. Cancels and rollbacks pass the gate.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import msgspec

from ktui.cluster.text import clean
from ktui.durable import sync_folder, write_whole
from ktui.execution.errors import RunRefused
from ktui.execution.host.state_dir import StateDir
from ktui.execution.regular_files import read_note
from ktui.json_text import checked_moment, decode_untrusted


class ShutGate(msgspec.Struct, frozen=True):
    """Who shut the gate of a cluster, when, and why."""

    cluster_id: str
    at: datetime
    who: str  # user@host (pid)
    reason: str  # what was cancelled

    def __post_init__(self) -> None:
        checked_moment(self.at)

    @property
    def words(self) -> str:
        at = self.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        return clean(f"{self.who} at {at}, to {self.reason}")


_DECODER = msgspec.json.Decoder(ShutGate)


class CancelGateFile:
    """The cancel gate of one cluster."""

    def __init__(self, folder: StateDir, cluster_id: str) -> None:
        self._folder = folder
        self._cluster_id = cluster_id
        self.path = folder.cluster_note("gates", cluster_id)

    def shut(self, at: datetime, who: str, reason: str) -> ShutGate:
        """A gate that is shut already now names this operator. Raises RunRefused: not writable."""
        shut = ShutGate(self._cluster_id, at, who, reason)
        self._folder.check()
        self._folder.make(self.path.parent)
        try:
            write_whole(self.path, msgspec.json.encode(shut))
        except OSError as error:
            raise _gate_problem(self.path, "written", error) from None
        return shut

    def open(self) -> ShutGate | None:
        """Return who had shut it. Raises RunRefused: the file cannot be removed."""
        before = self.state()
        try:
            if before is not None:
                self.path.unlink(missing_ok=True)
                sync_folder(self.path.parent)
        except OSError as error:
            raise _gate_problem(self.path, "removed", error) from None
        return before

    def state(self) -> ShutGate | None:
        """None while it is open; unreadable counts as shut. Raises RunRefused."""
        try:
            body, modified_s = read_note(self.path), self.path.stat().st_mtime
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _gate_problem(self.path, "read", error) from None
        try:
            return decode_untrusted(_DECODER, body)
        except msgspec.DecodeError:
            at = datetime.fromtimestamp(modified_s).astimezone()
            return ShutGate(
                self._cluster_id, at, "someone", f"cancel something: {self.path} cannot be read"
            )

    def words(self) -> str | None:
        """Who has shut it; for engines, an unreadable gate is shut, for that reason."""
        try:
            shut = self.state()
        except RunRefused as refused:
            return str(refused)
        return None if shut is None else shut.words


def shut_gate_in_words(shut: ShutGate) -> str:
    """Return in words which cluster's gate is shut, and by whom."""
    return f"the cancel gate of cluster {clean(shut.cluster_id)} is shut, by {shut.words}"


def _gate_problem(path: Path, what: str, error: OSError) -> RunRefused:
    return RunRefused(f"{path}: the cancel gate cannot be {what}: {error.strerror}")
