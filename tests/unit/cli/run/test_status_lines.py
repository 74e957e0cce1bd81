"""A run is followed in plain lines, one a change, by screen readers and logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.cli.run.status import PROGRESS_S, RunLines
from ktui.execution.host.client import RunClient
from ktui.execution.host.ownership import own_run
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import AnyRunEvent, Ended, EngineLeft, Noted, StateEntered
from ktui.execution.run.states import State
from ktui.simulated.clock import VirtualClock
from support.cli.call_ktui import call_ktui
from support.journals.journals import a_start, accepted, over, owned, step, written


@pytest.fixture
def folder(tmp_path: Path) -> RunDir:
    run = StateDir(tmp_path / "state").create_run("drain")
    written(run.journal, [*a_start(2), owned()]).close()
    return run


def happen(folder: RunDir, *events: AnyRunEvent) -> None:
    with Journal.open(folder.journal, VirtualClock()) as journal:
        journal.append(events)


def words(lines: list[str]) -> list[str]:
    """Return lines without their times of day."""
    return [line.split(" ", 1)[1] if line[2:3] == ":" else line for line in lines]


def test_each_change_is_one_line_and_what_happened_before_is_not_repeated(folder: RunDir) -> None:
    lines = RunLines(RunClient(folder), VirtualClock())
    with own_run(folder):
        first = words(lines.begin())
        happen(folder, step(0), accepted(0), over(0), Noted(text="\x1b[2Jhi", who="ada@ops1 (1)"))
        then = words(lines.next())
        nothing = lines.next()

        assert first == ["drain: 0 of 2 done, 2 queued"]
        assert then == [
            "orders-0: batch 1: 1,2,3 -> 1,2,3,4 (+4)",
            "orders-0: step finished: 1,2,3,4, leader 1",
            "note: \\x1b[2Jhi, by ada@ops1 (1)",
        ]
        assert nothing == []
        assert not lines.over
    lines.close()


def test_progress_is_a_line_now_and_then_where_it_has_changed(folder: RunDir) -> None:
    clock = VirtualClock()
    lines = RunLines(RunClient(folder), clock)
    with own_run(folder):
        lines.begin()
        clock.pass_time(PROGRESS_S)
        unchanged = lines.next()
        happen(folder, StateEntered(topic="orders", partition=0, state=State.DONE))
        soon = words(lines.next())
        clock.pass_time(PROGRESS_S)
        later = words(lines.next())

    assert unchanged == []
    assert soon == ["orders-0: done"]
    assert [line.split(",")[0] for line in later] == ["drain: 1 of 2 done"]
    lines.close()


def test_lines_end_with_the_run_or_its_engine(folder: RunDir) -> None:
    def last() -> tuple[int, list[str]]:
        state = str(folder.path.parent.parent)
        done = call_ktui("status", "drain", "--lines", "--state-dir", state)
        return done.returncode, words(done.stdout.splitlines())[1:]

    died = last()
    happen(folder, EngineLeft(reason="shift over"))
    left = last()
    done = [StateEntered(topic="orders", partition=n, state=State.DONE) for n in range(2)]
    happen(folder, *done, Ended(counts={State.DONE: 2}))
    ended = last()

    resume = "to resume it: ktui resume drain"
    was_left = "run drain was left{}: 0 of 2 partitions done"
    assert died == (1, ["the engine of run drain has died", was_left.format(""), resume])
    assert left == (0, [was_left.format(" (shift over)"), resume])
    assert ended[0] == 0
    assert ended[1][0].startswith("run drain has ended: all 2 partitions done")
