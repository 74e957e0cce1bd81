"""The engine of a run that another process has started, as one that is followed."""

from __future__ import annotations

import time

from ktui.execution.host.client import RunClient
from ktui.execution.host.ownership import Holder
from ktui.execution.host.state_dir import RunDir
from ktui.execution.journal.commands import StopEngine

_PAUSE_S = 0.1


class AttachedEngine:
    """An engine that owns a run already, and that ends whether or not somebody follows it.

    Args:
        run: the folder of its run.
        holder: its process, as the run's lock names it.
    """

    killed = False
    """How the process of somebody else has ended is not known."""

    def __init__(self, run: RunDir, holder: Holder) -> None:
        self.run = run
        self.pid = holder.pid
        self._client = RunClient(run)

    @property
    def gone(self) -> bool:
        """Whether no process owns the run any more."""
        return self._client.owner is None

    @property
    def last_words(self) -> str:
        """Where the end of the process is to be read."""
        return f"its log is {self.run.log}"

    def leave(self) -> None:
        """Ask the engine to leave the run at once; what is in flight goes on."""
        self._client.ask(StopEngine())

    def wait(self, seconds: float) -> bool:
        """Wait until no process owns the run; return whether none does."""
        until = time.monotonic() + seconds
        while not self.gone:
            if time.monotonic() >= until:
                return False
            time.sleep(_PAUSE_S)
        return True
