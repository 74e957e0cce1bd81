"""The cluster is unreachable for a while: the run reports it, and resumes when it is back."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from ktui.cli.engine.log import EngineLog
from ktui.execution.forecast.progress_text import progress_line
from ktui.execution.forecast.run_progress import run_progress
from ktui.execution.host.ownership import this_process
from ktui.execution.run.events import Cancel, JournalEntry, Outage
from ktui.execution.run.run import ClusterLost, Run
from ktui.simulated import layout as acts
from support.journals.journals import a_start, owned
from support.runs.stories import Story

RF3 = (1, 2, 3)
AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
ALL = range(1, 10)


def _lost(story: Story, at_s: float, until_s: float) -> None:
    story.schedule(at_s, *map(acts.Kill, ALL))
    story.schedule(until_s, *map(acts.Start, ALL))


def test_a_lost_cluster_is_recorded_once_when_lost_and_once_when_back(tmp_path: Path) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (4, 2, 3))})
    _lost(story, 3.0, 60.0)

    assert story.played().ended

    outages = [event for event in story.events if isinstance(event, Outage)]
    assert [event.lost for event in outages] == [True, False]
    assert "no answer" in outages[0].reason
    lost, back = story.seconds(lambda event: isinstance(event, Outage))
    assert 3.0 <= lost < 5.0
    assert 60.0 <= back < 70.0
    assert story.folded.outage is None
    assert story.at_target("orders-0")


def test_a_broker_counts_as_offline_only_while_it_was_observed_offline(tmp_path: Path) -> None:
    ways = {"orders-0": (RF3, (4, 2, 3))}
    story = Story(tmp_path, ways, on_stall="cancel", stall_timeout_s=120.0)
    _lost(story, 60.0, 300.0)
    story.schedule(3.0, acts.Kill(4))
    story.schedule(301.0, acts.Kill(4))
    story.schedule(600.0, acts.Start(4))

    assert story.played().ended

    (cancelled,) = story.seconds(lambda event: isinstance(event, Cancel))
    assert cancelled >= 301.0 + 120.0
    assert story.at_target("orders-0")


def a_run(*events: Outage) -> Run:
    recorded = [*a_start(), *events]
    return Run("drain").fold(
        JournalEntry(seq, AT, event) for seq, event in enumerate(recorded, start=1)
    )


def test_the_progress_line_shows_since_when_the_cluster_is_lost_and_why() -> None:
    run = a_run(Outage(lost=True, reason="no answer"))

    since = AT.astimezone().isoformat(" ", timespec="seconds")
    assert progress_line(run_progress(run, this_process())).endswith(
        f", cluster lost since {since}, no answer"
    )
    assert "lost" not in progress_line(
        run_progress(a_run(Outage(lost=True), Outage(lost=False)), this_process())
    )


def test_an_outage_of_one_process_does_not_carry_over_to_the_next() -> None:
    run = a_run(Outage(lost=True, reason="no answer"))
    assert run.outage == ClusterLost(AT, "no answer")

    run.apply(JournalEntry(run.seq + 1, AT, msgspec.structs.replace(owned(), pid=2)))

    assert run.outage is None


def test_a_process_that_leaves_during_an_outage_no_longer_reports_it(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (4, 2, 3))})
    _lost(story, 3.0, 60.0)

    story.played(until_s=20.0)

    assert [e.lost for e in story.events if isinstance(e, Outage)] == [True]
    assert story.folded.outage is None
    assert story.resumed().ended


def test_the_engine_log_warns_of_an_outage_and_of_its_end(caplog: pytest.LogCaptureFixture) -> None:
    events = (Outage(lost=True, reason="no answer"), Outage(lost=False))

    EngineLog(a_run()).write(
        JournalEntry(seq, AT, event) for seq, event in enumerate(events, start=4)
    )

    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("WARNING", "the cluster is lost: no answer"),
        ("WARNING", "the cluster answers again"),
    ]
