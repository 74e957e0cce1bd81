"""The rows of the table `what_if`: those of one run at a time, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ktui.pacing.limits import Limits
from ktui.pipeline.what_if_evidence import too_far_off
from ktui.pipeline.what_if_grid import Cell
from ktui.pipeline.what_if_model import Model
from ktui.pipeline.what_if_play import Played, RecordedRun, advise, play
from ktui.planning.moves import Moves
from ktui.planning.throttle_rates import ThrottleRates, rates_from

_MEGA = 1_000_000


class Lasted(msgspec.Struct, frozen=True):
    """How long a run really took, and who may foretell it."""

    ms: int | None
    """From its first step to the end of its last; None where it has not ended."""
    held_out: Model | None
    """Fitted on all but this run; None where there is none, or the run did not do all of it."""


def played_rows(
    run: RecordedRun, cells: Sequence[Cell], model: Model, lasted: Lasted
) -> Iterator[dict[str, Any]]:
    """Play a run under some cells; none where nothing of it was to be moved."""
    moves = run.moves()
    actual_s = None if lasted.ms is None else lasted.ms / 1000
    for cell in cells if moves.wanted else ():
        own = cell == run.cell
        told = play(moves, cell, model, own=own)
        yield {
            "run": run.name,
            "partitions": len(moves.wanted),
            "bytes": moves.bytes_to_copy,
            "limits": msgspec.json.encode(cell.limits, order="deterministic").decode(),
            "throttle": spelled(cell.throttle),
            "own": own,
            "predicted_s": told.predicted_s,
            "low_s": told.low_s,
            "high_s": told.high_s,
            "peak_extra_replicas": told.peak_extra_replicas,
            "batches": told.batches,
            "broker_bytes_s": told.broker_bytes_s,
            "actual_s": actual_s if own else None,
            "error_held_out": _error(run, moves, lasted) if own else None,
            "calibrated_on": list(model.runs),
            "beyond": list(told.beyond),
        }


def _error(run: RecordedRun, moves: Moves, lasted: Lasted) -> float | None:
    """Hold what the other runs foretell against what it took; None where it was not left alone."""
    if lasted.held_out is None or not lasted.ms or not run.steady:
        return None
    return play(moves, run.cell, lasted.held_out).predicted_s / (lasted.ms / 1000) - 1


def advised_rows(
    rows: Sequence[Mapping[str, Any]], window_s: float | None
) -> Iterator[dict[str, Any]]:
    """Add to all rows of one run which is recommended and why, and how far off the model was."""
    error = next(row["error_held_out"] for row in rows if row["own"])
    off = [*too_far_off(error)]
    rows = [{**row, "beyond": [*row["beyond"], *off]} for row in rows]
    advice = advise([_played(row) for row in rows], window_s)
    for place, row in enumerate(rows):
        yield {
            **row,
            "error_held_out": error,
            "recommended": place == advice.place,
            "reason": advice.reason if place == advice.told_of else None,
        }


def _played(row: Mapping[str, Any]) -> Played:
    limits = msgspec.json.decode(row["limits"], type=Limits)
    return Played(
        cell=Cell(limits, rates_from(row["throttle"])),
        own=row["own"],
        predicted_s=row["predicted_s"],
        low_s=row["low_s"],
        high_s=row["high_s"],
        peak_extra_replicas=row["peak_extra_replicas"],
        batches=row["batches"],
        broker_bytes_s=row["broker_bytes_s"],
        beyond=tuple(row["beyond"]),
    )


def spelled(rates: ThrottleRates) -> str:
    """Write rates as `--throttle` takes them: `50MB,3=20MB`, or `none`."""
    every = [] if rates.every is None else [_rate(rates.every)]
    own = [f"{each.broker}={_rate(each.bytes_s)}" for each in rates.brokers]
    return ",".join([*every, *own]) or "none"


def _rate(bytes_s: int | None) -> str:
    if bytes_s is None:
        return "none"
    return f"{bytes_s // _MEGA}MB" if bytes_s % _MEGA == 0 else str(bytes_s)
