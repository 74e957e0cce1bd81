"""A run with impossible recorded events costs no other run its rows."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from typing import Any, NoReturn

import msgspec
import pyarrow as pa
import pytest

from ktui.execution.run.events import AnyRunEvent, Planned, PlannedPart, encode
from ktui.insights.prior import RateCurve
from ktui.pipeline.forecast import backtest, replay
from ktui.pipeline.tables import runs
from ktui.pipeline.what_if import table as what_if
from ktui.pipeline.what_if.model import Model
from ktui.pipeline.what_if.play import GridCell
from ktui.recording import lines
from ktui.recording.codec import Encoder
from ktui.recording.lines import AnyLine, Head, RunLine
from support.journals.journals import started
from support.pipeline.lake_recordings import looks

MODEL = Model(
    curve=RateCurve(most_bytes_s=1e6, half_at=0.0, most_at_once=1), joining_s=0, other_s=1
)


def planned(partition: int = 0, *, original: tuple[int, ...] = (1,), **more: Any) -> PlannedPart:
    part = Planned(
        topic="orders", partition=partition, topic_id=None, target=(4,), original=original,
        leader=None, **{"size": 1_000, **more},
    )  # fmt: skip
    return PlannedPart(partitions=(part,))


def rows(events: Sequence[AnyRunEvent]) -> list[dict[str, Any]]:
    return [
        {"cluster_id": "c", "run": "r", "run_id": "r@1", "entry": n, "t": n, "lot": 0,
         "event": encode(event).decode(), "done": False, "lasted_ms": None,
         "by_ms": None, "rates": None}
        for n, event in enumerate(events, start=1)
    ]  # fmt: skip


def key(*parts: object) -> tuple[pa.Scalar, ...]:
    return tuple(map(pa.scalar, parts))


def test_a_run_with_a_partition_without_replicas_is_skipped_without_an_error() -> None:
    play = what_if._lot((GridCell(started(1).limits),), 1, what_if.Models({"c": MODEL}, {}))
    for original, count in (((1,), 1), ((), 0)):
        events = pa.Table.from_pylist(rows([started(1), planned(original=original)]))
        table = play(key("c", "r@1", 0), events)
        assert table.num_rows == count
        tested = table.append_column("tested", pa.array([0] * count, pa.int64()))
        assert what_if._advised(None)(tested).num_rows == count


def test_a_run_with_figures_too_large_for_a_table_is_left_out() -> None:
    fold = runs._folded()
    for partition, count in ((0, 1), (2**40, 0)):
        events = pa.Table.from_pylist(rows([started(1), planned(partition)]))
        assert fold(key("c", "r@1"), events).num_rows == count


def test_invalid_and_repeated_events_are_left_out_of_a_run() -> None:
    recorded = rows([started(1), planned(), planned()])
    recorded[1:1] = [
        {**recorded[0], "event": text} for text in ("", "[" * 5_000, "{}", '{"event":"x"}')
    ]

    facts = runs.fold(recorded)

    assert [part.topic for part in facts.partitions] == ["orders"]


def test_a_session_that_fails_to_fold_has_no_forecasts_and_raises_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = segments_of_a_session()
    assert forecasts(table) > 0

    def stumbles(_fold: object, _progress: object) -> NoReturn:
        raise IndexError("of a partition without replicas")

    monkeypatch.setattr(replay, "fold", stumbles)

    assert forecasts(table) == 0


def test_each_row_of_a_replay_has_what_its_table_requires() -> None:
    rows = backtest._replayed(segments_of_a_session()).to_pylist()
    assert {kind for row in rows for kind in backtest._KINDS if row[kind]} == {*backtest._KINDS}
    for kind, table in backtest._KINDS.items():
        of_kind = [row[kind] for row in rows if row[kind] is not None]
        required = [field.name for field in table.schema if not field.nullable]
        assert all(row[name] is not None for row in of_kind for name in required), kind


def test_a_damaged_state_stops_no_other_session() -> None:
    table = segments_of_a_session().set_column(2, "state", [[b"damaged"]])
    assert not backtest._replayed(table).num_rows


def segments_of_a_session() -> pa.Table:
    return pa.table(
        {
            "cluster_id": ["c"],
            "session": ["s"],
            "state": pa.nulls(1, pa.binary()),
            "content": [a_session()],
        }
    )


def forecasts(table: pa.Table) -> int:
    rows = backtest._replayed(table).to_pylist()
    return sum(row["forecast"] is not None for row in rows)


def a_session() -> bytes:
    """Return a session with a run of one partition, caught up in the last of five polls."""
    head = Head(seq=0, at=0, ms=0, schema_version=1, session="s", segment=0, cluster_id="c")
    events: list[AnyRunEvent] = [started(1), planned()]
    of_run = [
        RunLine(seq=n, at=0, ms=0, run="r", run_id="r@1", entry=n, event=msgspec.Raw(encode(event)))
        for n, event in enumerate(events, start=1)
    ]
    encoder = Encoder()
    *copied, last = looks(5)
    in_sync = {
        tp: msgspec.structs.replace(state, isr=state.replicas)
        for tp, state in last.partitions.items()
    }
    copied.append(msgspec.structs.replace(last, partitions=in_sync))
    seen = [encoder.poll(look, seq=3 + n) for n, look in enumerate(copied)]
    recorded: list[AnyLine] = [head, *of_run, *seen]
    return gzip.compress(b"".join(map(lines.encode, recorded)))
