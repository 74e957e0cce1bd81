"""Ctrl-C while a run is followed without the live view."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from ktui.cli.start.follow import follow
from ktui.execution.host.process import EngineProcess
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.commands import Answer
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import EngineLeft, Paused, PauseOrigin
from ktui.simulated.clock import VirtualClock
from support.journals.journals import a_start, over, step

ASKED = "interrupted: pausing the run. Interrupt again to leave at once"
PAUSED = "paused: nothing more is submitted, and 1 step in flight may finish"


class ScriptedEngine:
    """An engine that follows a script, one step each time it is polled."""

    def __init__(self, run: RunDir, script: Iterator[None]) -> None:
        self.run = run
        self.last_words = ""
        self._script = script

    @property
    def gone(self) -> bool:
        return next(self._script, self) is self


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


def test_ctrl_c_reports_the_run_paused_once_it_is(
    state: StateDir, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ktui.cli.start.follow._POLL_S", 0.0)
    printed = ""

    def output() -> str:
        nonlocal printed
        printed += capsys.readouterr().err
        return printed

    run = state.create_run("drain")
    with Journal.create(run.journal, VirtualClock()) as journal:
        journal.append([*a_start(), step(0), step(1)])

        def engine_script() -> Iterator[None]:
            signal.raise_signal(signal.SIGINT)
            yield
            (asked,) = journal.asked()
            assert ASKED in output()
            journal.append([over(0), Paused(by=PauseOrigin.OPERATOR)])
            yield
            assert "nothing more is submitted" not in output()
            journal.append([Paused(by=PauseOrigin.SIGNAL, command=asked.id)])
            journal.answer(asked.id, Answer(accepted=True, words="paused"))
            yield
            assert PAUSED in output()
            journal.append([over(1), EngineLeft(reason="interrupted")])

        start = cast("Callable[[], EngineProcess]", lambda: ScriptedEngine(run, engine_script()))
        code = follow(start, state, json=False)

    assert code == 130
    assert "to resume it: ktui resume drain" in output()
    assert output().count(PAUSED) == 1
