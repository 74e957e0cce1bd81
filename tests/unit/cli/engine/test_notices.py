"""An engine hands what matters to the command of `--on-event`, and journals where that fails."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from ktui.cli.engine.listeners import RunNotices
from ktui.cluster.partition import TopicPartition
from ktui.execution.errors import JournalProblem
from ktui.execution.run.events import EventCommandFailed, JournalEntry, StateEntered
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.pacing.limits import Limits
from ktui.simulated.clock import FIRST_MOMENT, VirtualClock
from support.journals.journals import CLUSTER, a_start
from support.runs.engine_runs import PlannedRun
from support.simulated.clusters import a_cluster

HOSTILE = "or\x1b[2Jders\u202e"


def python(code: str) -> str:
    return shlex.join([sys.executable, "-c", code])


def a_run() -> Run:
    entries = enumerate(a_start(), start=1)
    return Run("drain").fold(JournalEntry(seq, FIRST_MOMENT, event) for seq, event in entries)


def test_the_command_gets_the_names_as_they_are_and_a_sentence_safe_to_show(tmp_path: Path) -> None:
    out = tmp_path / "out"
    stalls = [
        JournalEntry(seq, FIRST_MOMENT, StateEntered(topic=HOSTILE, partition=seq, state=state))
        for seq, state in ((7, State.STALLED), (8, State.STALLED), (9, State.DONE))
    ]

    with RunNotices(VirtualClock()) as notices:
        notices.begin(a_run(), python(f"open({str(out)!r}, 'wb').write(open(0, 'rb').read())"))
        notices.take(stalls)

    notice = json.loads(out.read_text())
    assert out.read_text().isascii() is False
    assert notice["text"] == "run drain: or\\x1b[2Jders\\u202e-7: stalled; and 1 more"
    assert (notice["run"], notice["cluster_id"], notice["kind"]) == ("drain", CLUSTER, "stall")
    assert [(event["seq"], event["topic"]) for event in notice["events"]] == [
        (7, HOSTILE),
        (8, HOSTILE),
    ]


def test_an_engine_that_dies_of_an_error_says_so_itself(tmp_path: Path) -> None:
    out = tmp_path / "out"
    notices = RunNotices(VirtualClock())
    notices.begin(a_run(), python(f"open({str(out)!r}, 'wb').write(open(0, 'rb').read())"))

    notices.__exit__(JournalProblem, JournalProblem("the disk is full"), None)

    notice = json.loads(out.read_text())
    assert notice["kind"] == "engine_died"
    assert notice["text"] == "the engine of run drain has died: the disk is full"


async def test_a_failure_of_the_command_is_an_event_of_the_run_which_goes_on(
    tmp_path: Path,
) -> None:
    failed = EventCommandFailed(reason="--on-event page ended with exit code 1")
    waiting = [failed]
    orders = TopicPartition("orders", 0)
    run = PlannedRun(a_cluster(), tmp_path, {orders: (1, 2, 4)}, Limits())
    run.news = lambda: [waiting.pop()] if waiting else []

    ended = await run.to_its_end()

    assert ended.ended
    assert run.events.count(failed) == 1
