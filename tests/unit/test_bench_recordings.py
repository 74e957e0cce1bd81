"""The recordings that the pipeline's benchmark measures."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from bench.pipeline.session import SessionSpec, record

from ktui.execution.run.events import Ended, JournalEntry, decode
from ktui.execution.run.run import Run
from ktui.recording.lines import RunLine, from_wall_ms
from ktui.recording.reading import GoodLine, PlayedPoll, find_sessions, play_session, read_lines
from ktui.recording.segments import files_under

RUN = SessionSpec(
    cluster="prod", story="story", session="0" * 32, began=datetime(2026, 1, 1, tzinfo=UTC),
    samples=1_500, in_flight=6, by_run=True,
)  # fmt: skip


def test_a_session_has_exactly_the_samples_asked_for_and_a_run_that_ktui_folds_to_its_end(
    tmp_path: Path,
) -> None:
    polls = record(tmp_path, RUN)

    seen = [
        each.observation.partitions
        for each in play_session(find_sessions(tmp_path)[0])
        if isinstance(each, PlayedPoll)
    ]
    assert (len(seen), sum(map(len, seen))) == (polls, RUN.samples)
    run = Run("drain")
    events = [line for line in _lines(tmp_path) if isinstance(line, RunLine)]
    for line in events:
        run.apply(JournalEntry(line.entry, from_wall_ms(line.at), decode(bytes(line.event))))
    assert run.ended
    assert run.over == len(run.tracks) > 10
    assert isinstance(decode(bytes(events[-1].event)), Ended)


def test_the_same_spec_records_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "other"):
        record(tmp_path / name, RUN)

    one, other = (
        [file.read_bytes() for file in files_under(tmp_path / name)] for name in ("one", "other")
    )
    assert one == other


def _lines(folder: Path) -> list[object]:
    return [
        each.line
        for file in files_under(folder)
        for each in read_lines(file.read_bytes())
        if isinstance(each, GoodLine)
    ]
