"""What a removal of a broker has to remember: all that the cluster and its runs do not say.

One small file in the state directory for each broker that is being removed. It is on the disk
before anything that it is about is sent or made.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Literal

import msgspec

from ktui.execution import RunProblem, RunRefused
from ktui.execution.host.ownership import lock_file
from ktui.execution.host.state_dir import NoteFile, StateDir
from ktui.json_text import Dated

_PATIENCE_S = 0.5


class CordonMemory(msgspec.Struct, frozen=True):
    """The cordon that a removal has set, or is about to set."""

    before: str | None  # the broker's own, in Kafka's text; None for none
    value: str  # of the removal


class Removal(Dated, frozen=True, kw_only=True):
    """A removal of a broker, from its first change to its last."""

    schema_version: Literal[1] = 1
    cluster_id: str
    broker: int
    begun_at: datetime
    cordon: CordonMemory | None = None
    demotes: tuple[str, ...] = ()  # runs that take the leadership off it, oldest first
    drains: tuple[str, ...] = ()  # take the replicas off it, oldest first, after `demotes`
    warned_after: int = 0  # of `drains`, when the operator was last warned of what came back
    undoing: bool = False  # on its way back: undone runs are no longer named
    unregistered_at: datetime | None = None

    @property
    def runs(self) -> tuple[str, ...]:
        return (*self.demotes, *self.drains)


class RemovalFile(NoteFile[Removal]):
    """The file of a removal."""

    def __init__(self, state: StateDir, cluster_id: str, broker: int) -> None:
        self._broker = broker
        path = state.cluster_note("removals", f"{cluster_id}-{broker}")
        super().__init__(state, path, Removal, self._cannot_be)

    def load(self) -> Removal | None:
        try:
            return super().load()
        except msgspec.DecodeError as error:
            raise self._cannot_be(f"read: {error}") from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes away. RunRefused: one is at it; RunProblem."""
        self._state.check()
        self._state.make(self._state.locks)
        file = lock_file(self._state.locks / f"removal-{self.path.stem}.lock", _PATIENCE_S)
        if file is None:
            raise RunRefused(
                f"another ktui is removing broker {self._broker} just now. See its runs: ktui runs"
            )
        try:
            yield
        finally:
            os.close(file)

    def _cannot_be(self, what: str) -> RunProblem:
        return RunProblem(f"{self.path}: the removal of broker {self._broker} cannot be {what}")
