"""The cluster is away for a while: the run says so, and goes on when it is back."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from ktui.cli.engine.log import EngineLog
from ktui.execution.forecast.progress_text import progress_line
from ktui.execution.run.events import Cancel, JournalEntry, Outage
from ktui.execution.run.run import ClusterLost, Run
from ktui.simulated import events as acts
from support.journals.journals import a_start, owned
from support.runs.stories import Story

RF3 = (1, 2, 3)
AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
ALL = range(1, 10)


def _lost(story: Story, at_s: float, until_s: float) -> None:
    story.befalls(at_s, *map(acts.Kill, ALL))
    story.befalls(until_s, *map(acts.Start, ALL))


def test_it_is_told_once_when_it_goes_and_once_when_it_answers_again(tmp_path: Path) -> None:
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


def test_a_broker_counts_as_offline_only_for_as_long_as_it_was_seen_to_be(tmp_path: Path) -> None:
    ways = {"orders-0": (RF3, (4, 2, 3))}
    story = Story(tmp_path, ways, on_stall="cancel", stall_timeout_s=120.0)
    _lost(story, 60.0, 300.0)
    story.befalls(3.0, acts.Kill(4))
    story.befalls(301.0, acts.Kill(4))
    story.befalls(600.0, acts.Start(4))

    assert story.played().ended

    (cancelled,) = story.seconds(lambda event: isinstance(event, Cancel))
    assert cancelled >= 301.0 + 120.0
    assert story.at_target("orders-0")


def a_run(*events: Outage) -> Run:
    told = [*a_start(), *events]
    return Run("drain").fold(
        JournalEntry(seq, AT, event) for seq, event in enumerate(told, start=1)
    )


def test_the_line_of_progress_tells_since_when_and_why() -> None:
    run = a_run(Outage(lost=True, reason="no answer"))

    since = AT.astimezone().isoformat(" ", timespec="seconds")
    assert progress_line(run, None).endswith(f", cluster lost since {since}, no answer")
    assert "lost" not in progress_line(a_run(Outage(lost=True), Outage(lost=False)), None)


def test_what_the_process_before_had_lost_says_nothing_of_the_next_one() -> None:
    run = a_run(Outage(lost=True, reason="no answer"))
    assert run.outage == ClusterLost(AT, "no answer")

    run.apply(JournalEntry(run.seq + 1, AT, msgspec.structs.replace(owned(), pid=2)))

    assert run.outage is None


def test_a_process_that_leaves_meanwhile_says_nothing_of_the_cluster_any_more(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (4, 2, 3))})
    _lost(story, 3.0, 60.0)

    story.played(until_s=20.0)

    assert [e.lost for e in story.events if isinstance(e, Outage)] == [True]
    assert story.folded.outage is None
    assert story.resumed().ended


def test_its_log_tells_of_it_in_warnings(caplog: pytest.LogCaptureFixture) -> None:
    events = (Outage(lost=True, reason="no answer"), Outage(lost=False))

    EngineLog(a_run()).tell(
        JournalEntry(seq, AT, event) for seq, event in enumerate(events, start=4)
    )

    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("WARNING", "the cluster is lost: no answer"),
        ("WARNING", "the cluster answers again"),
    ]
