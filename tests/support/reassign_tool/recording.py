"""Apache's answers, as they were recorded, and the files that keep them."""

from __future__ import annotations

import gzip
import shlex
from pathlib import Path

import msgspec

from ktui.lab.layout import DEFAULT_VERSION
from support.reassign_tool.answer import Answer, ClusterState

_RECORDED = Path(__file__).parent / "recorded"
SCHEMA_VERSION = 1


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of a step: the program's answer, and the cluster after it."""

    answer: Answer | None = None
    state: ClusterState | None = None


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The tool that was recorded."""

    schema_version: int = SCHEMA_VERSION
    jar: str
    """The file name of the jar that holds the tool, with its version."""
    help: str
    """The help text, which the answers have as a sign."""


class RecordedList(msgspec.Struct, frozen=True, tag="list"):
    """The answer to an argument list."""

    words: tuple[str, ...]
    answer: Answer
    state: ClusterState | None = None

    @property
    def name(self) -> str:
        """The words as a shell has them."""
        return shlex.join(self.words)


class RecordedFlow(msgspec.Struct, frozen=True, tag="flow"):
    """The outcome of each step of a flow."""

    name: str
    outcomes: tuple[Outcome, ...]


class Recording(msgspec.Struct, frozen=True):
    """All that was recorded of one version."""

    header: Header
    lists: tuple[RecordedList, ...]
    flows: tuple[RecordedFlow, ...]


def file_of(version: str) -> Path:
    return _RECORDED / f"kafka-{version}.jsonl.gz"


def save(recording: Recording, path: Path) -> None:
    """Write a recording, the same bytes for the same content."""
    rows = (recording.header, *recording.lists, *recording.flows)
    lines = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    path.write_bytes(gzip.compress(lines, mtime=0))


def load(version: str = DEFAULT_VERSION) -> Recording:
    first, *rest = gzip.decompress(file_of(version).read_bytes()).splitlines()
    rows = [msgspec.json.decode(row, type=RecordedList | RecordedFlow) for row in rest]
    return Recording(
        msgspec.json.decode(first, type=Header),
        tuple(row for row in rows if isinstance(row, RecordedList)),
        tuple(row for row in rows if isinstance(row, RecordedFlow)),
    )
