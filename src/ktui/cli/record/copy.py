"""Copy a recording without its names, so that the copy can be shared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from ktui.cli.context.redaction_key import redaction
from ktui.cli.context.terminal import print_note
from ktui.cli.output.json_form import SCHEMA_VERSION
from ktui.cli.output.json_form import encode as as_json
from ktui.durable import make_folder
from ktui.execution.host.state_dir import StateDir
from ktui.fileproblem import FileProblem
from ktui.quantities import as_count
from ktui.recording.lines import AnyLine, encode
from ktui.recording.reading import BadLine, find_segments, find_sessions, read_lines
from ktui.recording.redact import Redaction
from ktui.recording.segments import UNFINISHED, segment_path, session_folder
from ktui.recording.writing import SegmentWriter

MOST_TOLD = 10
"""The most damaged places to print."""


class CopyJson(msgspec.Struct, kw_only=True):
    """The output of `ktui record --from --json`."""

    schema_version: int = SCHEMA_VERSION
    to: str
    sessions: int = 0
    files: int = 0
    lines: int = 0
    left_out: list[str] = msgspec.field(default_factory=list)
    """The places that could not be read, and why."""


def copy_redacted(source: Path, to: Path, state: StateDir, *, json: bool) -> None:
    """Copy every session in a file or a folder, with names hidden, and print a summary.

    Damaged lines are left out of the copy, and reported.

    Raises:
        FileProblem: there is no recording, the copy exists already, or the key cannot be used.
        StateDirProblem: the state directory cannot be used.
    """
    copied = CopyJson(to=str(to.absolute()))
    segments, problems = find_segments(source)
    numbers = {file.path: file.head.segment for file in segments}
    copied.left_out += map(str, problems)
    hide = redaction(state)
    for session in find_sessions(source):
        folder = session_folder(to, hide.head(session.head))
        make_folder(folder)
        for file in session.files:
            _copy_file(file, segment_path(folder, numbers[file]), hide, copied)
        copied.sessions += 1
    _print_summary(copied, json=json)


def _copy_file(file: Path, to: Path, hide: Redaction, copied: CopyJson) -> None:
    if to.exists():
        raise FileProblem(to, None, "already exists. Name another folder with --to DIR")
    writer = SegmentWriter(to, UNFINISHED)
    try:
        for number, line in _whole_lines(file, copied):
            try:
                hidden = hide(line)
            except msgspec.DecodeError as error:
                copied.left_out.append(f"{file}:{number}: the line cannot be read: {error}")
                continue
            writer.write(encode(hidden), at_once=False)
            copied.lines += 1
        writer.close()
    finally:
        writer.abandon()
    copied.files += 1


def _whole_lines(file: Path, copied: CopyJson) -> Iterator[tuple[int, AnyLine]]:
    try:
        for found in read_lines(file):
            if isinstance(found, BadLine):
                copied.left_out.append(f"{file}:{found.number}: {found.reason}")
            else:
                yield found.number, found.line
    except FileProblem as problem:  # gone meanwhile, or not readable to its end
        copied.left_out.append(str(problem))


def _print_summary(copied: CopyJson, *, json: bool) -> None:
    for place in copied.left_out[:MOST_TOLD]:
        print_note(f"left out: {place}")
    if len(copied.left_out) > MOST_TOLD:
        print_note(f"left out: {len(copied.left_out) - MOST_TOLD:,} more places")
    if json:
        click.echo(as_json(copied))
        return
    sessions, written = as_count(copied.sessions, "session"), as_count(copied.lines, "line")
    click.echo(f"copied {sessions}, {written}, with names hidden: {copied.to}")
