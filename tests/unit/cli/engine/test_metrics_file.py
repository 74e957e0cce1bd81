"""The metrics of a run are written again after whatever went wrong once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ktui.cli.engine import listeners as metrics
from ktui.cli.engine.listeners import EVERY_S, RunMetrics
from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.host.ownership import this_process
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.run import Run
from ktui.simulated.clock import VirtualClock
from support.journals.journals import a_start, written


@pytest.mark.parametrize(
    ("owner", "name", "error"),
    [
        (metrics, "metrics_text", KeyError("odd")),
        (threading.Thread, "start", RuntimeError("can't start new thread")),
    ],
)
def test_metrics_are_written_again_after_a_failure_of_an_unknown_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, error: Exception
) -> None:
    def fails(*_: object) -> None:
        raise error

    clock, file = VirtualClock(), tmp_path / "drain.prom"
    with written(tmp_path / "journal.db", a_start(2)) as journal, RunMetrics(clock) as writing:
        run = Run("drain").fold(journal.entries())
        writing.begin(run, this_process(), str(file), EarlierRuns(StateDir(tmp_path / "state")))
        with monkeypatch.context() as broken:
            broken.setattr(owner, name, fails)
            writing.write_if_due({})
        assert not file.exists()
        clock.pass_time(EVERY_S)
        writing.write_if_due({})

    assert "ktui_engine_up" in file.read_text()
