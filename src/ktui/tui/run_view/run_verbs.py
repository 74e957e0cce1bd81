"""The verbs of the command line that change a run, as the view needs them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from ktui.execution.journal.commands import (
    CancelMoves,
    Continue,
    Pause,
    SetLimits,
    SetSchedule,
    SetThrottle,
)
from ktui.execution.run.run import Run


class BadCommand(Exception):
    """A command line that cannot be carried out; the message names the problem and the fix."""


class OpenGate(msgspec.Struct, frozen=True):
    """Open the cancel gate of the cluster."""


RunChange = SetLimits | SetThrottle | SetSchedule | Pause | Continue | CancelMoves | OpenGate


class RunVerbs(Protocol):
    """Parses these verbs as `ktui` does in a shell."""

    @property
    def usage(self) -> Mapping[str, str]:
        """Each verb with a line of help."""
        ...

    def parse(self, verb: str, words: Sequence[str], run: Run) -> RunChange:
        """Return what a verb asks for.

        Raises:
            BadCommand: the shell would refuse the words, too.
        """
        ...

    def complete(self, verb: str, begun: str, run: Run) -> Iterable[str]:
        """Return the words that may stand where one was begun."""
        ...
