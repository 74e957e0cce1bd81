"""The log of cancelled foreign reassignments: a file of JSON lines in the state directory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.partition import Brokers
from ktui.durable import sync_folder
from ktui.execution.cancel.foreign_outcome import ListedReassignment, Settled
from ktui.execution.errors import RunProblem
from ktui.execution.host.state_dir import StateDir
from ktui.execution.regular_files import open_regular
from ktui.json_text import decode_untrusted

ASKED = "asked"
"""The value of `outcome` in the line that is written just before a cancel is sent."""

FILE = "cancels.jsonl"
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND
_ENCODER = msgspec.json.Encoder()


class ForeignCancelLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the file."""

    at: datetime
    who: str
    """user@host (pid)."""
    cluster_id: str
    topic: str
    topic_id: str | None
    partition: int
    original: Brokers = msgspec.field(name="from")
    """The original replicas as Kafka listed them; Kafka has forgotten their earlier order."""
    target: Brokers = msgspec.field(name="to")
    outcome: str
    replicas: Brokers | None = None
    """The replicas after the cancel, if they are known."""
    detail: str = ""


_DECODER = msgspec.json.Decoder(ForeignCancelLine)


def read_cancels(state: StateDir, cluster_id: str) -> list[ForeignCancelLine]:
    """Read the log of cancels of a cluster, oldest first. Lines that are no such line are skipped.

    Raises:
        RunProblem: the file cannot be read.
    """
    path = state.path / FILE
    try:
        with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
            body = file.read()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunProblem(f"{path}: cannot be read: {error.strerror}") from None
    lines: list[ForeignCancelLine] = []
    for line in body.splitlines():
        with suppress(msgspec.DecodeError):
            lines.append(decode_untrusted(_DECODER, line))
    return [line for line in lines if line.cluster_id == cluster_id]


class CancelLog:
    """The file `cancels.jsonl` of a state directory; every write is synced to the disk."""

    def __init__(self, folder: StateDir, cluster_id: str, who: str, clock: Clock) -> None:
        self.path = folder.path / FILE
        self._folder = folder
        self._cluster_id = cluster_id
        self._who = who
        self._clock = clock
        self._settled: list[ForeignCancelLine] = []

    def write_asked(self, moves: Iterable[ListedReassignment]) -> None:
        self._write_settled()
        self._write([self._line(move, ASKED) for move in moves])

    def note_outcome(self, move: ListedReassignment, settled: Settled) -> None:
        """Record the outcome of a reassignment. The next write includes it."""
        base = self._line(move, settled.outcome.value)
        replicas = settled.replicas or None
        line = msgspec.structs.replace(base, replicas=replicas, detail=settled.detail)
        self._settled.append(line)

    def write_outcomes(self) -> str:
        """Write the last outcomes. Return the problem if they cannot be written, else ""."""
        try:
            self._write_settled()
        except RunProblem as problem:
            return str(problem)
        return ""

    def _write_settled(self) -> None:
        if self._settled:
            self._write(self._settled)
            self._settled = []

    def _line(self, move: ListedReassignment, outcome: str) -> ForeignCancelLine:
        return ForeignCancelLine(
            at=self._clock.now().astimezone(UTC),
            who=self._who,
            cluster_id=self._cluster_id,
            topic=move.tp.topic,
            topic_id=move.topic_id,
            partition=move.tp.partition,
            original=move.original,
            target=move.target,
            outcome=outcome,
        )

    def _write(self, lines: Iterable[ForeignCancelLine]) -> None:
        body = _ENCODER.encode_lines(lines)
        self._folder.check()
        self._folder.make(self._folder.path)
        try:
            with os.fdopen(open_regular(self.path, _FLAGS), "ab") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            sync_folder(self.path.parent)
        except OSError as error:
            raise RunProblem(f"{self.path}: cannot be written: {error.strerror}") from None
