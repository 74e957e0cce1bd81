"""Outages, the pane, and throttles left behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from textual.content import Content

from ktui.cli.context.terminal import BadInput
from ktui.cli.main import ktui
from ktui.cluster.observer import Observer
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, ConfigScope
from ktui.cluster.settings import FOLLOWER_REPLICAS
from ktui.simulated import layout
from ktui.simulated.cluster import SimulatedCluster
from ktui.tui.screens.events import EventsScreen
from ktui.tui.screens.plan.plan import PlanScreen
from ktui.tui.screens.run.change_screen import RunChangeScreen
from ktui.tui.screens.runs import InsightsScreen, RunsScreen
from ktui.tui.widgets.lines import Lines
from ktui.tui.widgets.services import ReportsOwnErrors
from support.runs.throttled import set_rate
from support.simulated.moving_clusters import a_cluster, move, tp
from support.views.screens import colour_of
from support.views.watching import (
    LARGE,
    ONE_BY_ONE,
    SMALL,
    a_new_run,
    a_quiet_cluster,
    moved,
    watching,
    watching_moves,
    watching_runs,
)


async def test_a_frozen_list_stands_still_while_the_header_updates() -> None:
    async with watching(a_cluster(moving=["a-0"], resting=["b-0"])) as watch:
        await watch.press("f")
        await watch.do(move("b-0", 4, 2, 3))
        await watch.pass_time(11)
        assert watch.rows == ["a-0"]
        assert "2 moving" in watch.lines[1]
        assert "FROZEN 12 s" in watch.lines[2]
        await watch.press("f")
        assert watch.rows == ["a-0", "b-0"]
        assert "FROZEN" not in watch.text


async def test_a_lost_cluster_keeps_its_last_values_with_their_age_and_the_reason() -> None:
    async with watching(a_cluster(moving=["a-0"])) as watch:
        await watch.lose()
        await watch.pass_time(11)
        assert "does not answer, last" in watch.lines[1]
        assert "last answer 12 s ago, retrying: no broker answered" in watch.lines[1]
        assert "a-0" in watch.text
        assert watch.partitions.stale
        await watch.recover()
        assert "does not answer, last" not in watch.text
        assert not watch.partitions.stale


async def test_an_empty_list_says_nothing_of_a_cluster_that_does_not_answer() -> None:
    async with watching(a_cluster()) as watch:
        assert "Nothing is being reassigned." in watch.text
        await watch.lose()
        await watch.pass_time(11)
        assert "does not answer." in watch.text
        assert "when it last did, there was nothing to show here." in watch.text
        assert "Nothing is being reassigned." not in watch.text
        await watch.recover()
        assert "Nothing is being reassigned." in watch.text


async def test_brokers_that_accept_connections_but_never_answer_are_a_lost_cluster() -> None:
    async with watching(a_cluster(moving=["a-0"])) as watch:
        await watch.do(*map(layout.Hang, watch.cluster.machines))
        await watch.pass_time(10)
        assert "last answer 11 s ago, retrying: no answer in time" in watch.lines[1]
        await watch.do(*map(layout.Resume, watch.cluster.machines))
        await watch.pass_time(5)
        assert "does not answer, last" not in watch.text
        assert "moving" in watch.line("a-0")


async def test_the_reason_for_a_lost_cluster_is_short_and_always_worded_the_same() -> None:
    async with watching(a_cluster(moving=["a-0"]), SMALL) as watch:
        await watch.do(layout.Shutdown(4))
        await watch.lose()
        for passed_s, age_s in ((0, 1), (2, 3), (4, 7)):
            await watch.pass_time(passed_s)
            assert watch.lines[1].endswith(
                f"last answer {age_s} s ago, retrying: no broker answered"
            )
        grey = colour_of(watch.app, "does not answer, last")
        assert colour_of(watch.app, "8/9 brokers") not in (None, grey)
        assert colour_of(watch.app, "8/9 brokers") == colour_of(watch.app, "a-0")


async def test_values_age_even_before_a_poll_has_failed() -> None:
    async with watching(a_cluster(moving=["a-0"])) as watch:
        await watch.do(*map(layout.Hang, watch.cluster.machines))
        await watch.press("b")
        assert "poll 1.0 s" in watch.lines[0]
        await watch.pass_time(5)
        await watch.until(lambda: "values 6 s old" in watch.lines[0])
        await watch.press("escape")
        await watch.until(lambda: "values 6 s old" in watch.lines[0])
        await watch.do(*map(layout.Resume, watch.cluster.machines))
        await watch.see()
        assert "old" not in watch.lines[0]


async def test_a_cluster_never_reached_is_shown_with_the_reason() -> None:
    cluster = a_cluster(moving=["a-0"])
    for broker in cluster.machines:
        cluster.do(layout.Hang(broker))
    async with watching(cluster, SMALL) as watch:
        assert "Connecting to prod-eu" in watch.text
        await watch.pass_time(10)
        assert "Cannot reach prod-eu yet." in watch.text
        assert "The brokers may be overloaded or hanging" in " ".join(watch.text.split())
        await watch.do(*map(layout.Resume, watch.cluster.machines))
        await watch.pass_time(5)
        assert "a-0" in watch.text


async def test_the_pauses_between_failed_polls_grow_to_five_seconds() -> None:
    async with watching(a_cluster()) as watch:
        await watch.lose()
        await watch.pass_time(22)
        assert watch.looks.at_s == [0, 1, 3, 7, 12, 17, 22]
        await watch.do(*map(layout.Start, watch.cluster.machines))
        await watch.pass_time(12)
        assert watch.looks.at_s[7:] == [27, 32, 33, 34, 35, 36]


async def test_an_internal_error_is_shown_and_the_view_keeps_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with watching(a_cluster(moving=["a-0"])) as watch:
        with monkeypatch.context() as broken:
            broken.setattr(Observer, "_last_census", lambda *_: 1 / 0)
            await watch.see()
        assert "own error" in watch.text
        assert "ZeroDivisionError: division by zero" in watch.text
        await watch.pass_time(2)
        assert "own error" not in "".join(watch.lines[:6]), "the events alone keep it"
        assert watch.rows == ["a-0"]


async def test_an_internal_error_in_the_background_is_shown_and_kept_in_the_events() -> None:
    async def fail() -> None:
        raise ZeroDivisionError("division by zero")

    async with watching(a_cluster(moving=["a-0"])) as watch:
        watch.app.run_worker(fail(), exit_on_error=False)
        await watch.until(lambda: "own error: ZeroDivisionError: division by zero" in watch.text)
        await watch.press("e")
        assert "own error" in watch.text


@pytest.mark.parametrize(
    "screen", [EventsScreen, InsightsScreen, PlanScreen, RunChangeScreen, RunsScreen]
)
def test_screens_that_work_in_the_background_report_their_own_errors(screen: type) -> None:
    assert issubclass(screen, ReportsOwnErrors)


async def test_an_internal_error_in_the_background_of_a_screen_is_shown() -> None:
    async def fail() -> None:
        raise ZeroDivisionError("division by zero")

    async with watching(a_cluster(moving=["a-0"])) as watch:
        await watch.press("e")
        watch.app.screen.run_worker(fail(), exit_on_error=False)
        await watch.until(lambda: "own error: ZeroDivisionError: division by zero" in watch.text)


async def test_failures_of_the_last_poll_are_summed_up_in_one_line() -> None:
    async with watching(a_cluster(moving=["a-0"])) as watch:
        await watch.do(layout.Hang(4), layout.Deny("log_dirs"))
        await watch.pass_time(6)
        assert "! broker 4: log ends: no answer for 6.0 s (and 1 more)" in watch.lines[2]
        assert "‼ no permission: log dirs (Describe on Cluster)" in watch.lines[1]
        await watch.do(layout.Resume(4), layout.Allow("log_dirs"))
        await watch.pass_time(32)
        now = "".join(watch.lines[:6])  # the events keep it
        assert "no answer" not in now
        assert "no permission" not in now
        assert "!" not in watch.lines[2]


async def test_a_thousand_moving_partitions_are_followed_poll_by_poll() -> None:
    async with watching(a_cluster(moving=[f"t-{n}" for n in range(1_000)]), LARGE) as watch:
        await watch.press("pagedown", "pagedown")
        before = watch.cursor
        await watch.pass_time(3)
        assert watch.cursor == before
        assert len(watch.rows) == 1_000
        assert watch.looks.last is not None
        assert watch.looks.last.monotonic_s == 3


async def test_free_lines_show_the_partition_under_the_cursor_the_brokers_and_the_events() -> None:
    async with watching(a_cluster(moving=["a-0", "a-1"]), LARGE) as watch:
        await watch.press("down")
        assert watch.line(f"─ 1 {watch.cursor} ·")
        assert watch.line("next leader     broker-4")
        before = watch.cursor
        await watch.press("up")
        assert watch.cursor != before
        assert watch.line(f"─ 1 {watch.cursor} ·")
        # below it are the brokers and the events
        assert "+2 to come" in watch.line("  4      ")
        assert watch.line("─ 3 events · e all ─")
        # the full detail is still a key away, and a small screen has the list alone
        await watch.press("enter")
        assert type(watch.app.screen).__name__ == "DetailScreen"
        await watch.press("escape")
        await watch.resize(SMALL)
        assert "next leader" not in watch.text


async def test_polls_cover_the_partition_in_the_pane_only_while_it_is_shown() -> None:
    names = ["a-0", "a-1", "a-2"]
    async with watching_moves(*names, size=LARGE) as watch:
        await watch.press_and_see("end")
        assert tp("a-2") in watch.looks.interests[-1].partitions
        await watch.resize(SMALL)
        await watch.see()
        assert tp("a-2") not in watch.looks.interests[-1].partitions


async def test_what_no_longer_fits_the_pane_is_wrapped() -> None:
    async with watching(a_cluster(moving=["a-0"]), LARGE) as watch:
        long = [Content("one " * 60), Content("two")]
        lines = watch.app.screen.query_one("DetailPane Lines", Lines)
        lines.show(long)
        await watch.pilot.pause()
        assert watch.text.count("one") == 60
        assert "two" in watch.text


WORDS = "throttles left behind? (ktui doctor)"


def forgotten(cluster: SimulatedCluster) -> SimulatedCluster:
    """Leave a rate on broker 4 and a throttled replica of b behind."""
    b = ConfigResource(ConfigScope.TOPIC, "b")
    listed = ConfigChange(b, FOLLOWER_REPLICAS, ConfigOp.SET, "0:1")
    cluster.configure([set_rate(4, 7_000_000), listed])
    return cluster


async def test_leftover_throttles_are_counted_once_their_settings_are_read() -> None:
    cluster = forgotten(a_quiet_cluster("a-0", "b-0"))
    async with watching_runs(cluster, topics=["b"]) as watch:
        await watch.see()
        assert "1 throttle left behind? (ktui doctor)" in watch.text
        await watch.press("b")
        await watch.pass_time(2)
        assert f"2 {WORDS}" in watch.lines[1]


async def test_a_cluster_without_throttles_shows_no_note_of_them() -> None:
    async with watching_runs(a_quiet_cluster("a-0", "b-0"), topics=["b"]) as watch:
        await watch.press("b")
        await watch.pass_time(2)
        assert "left behind" not in watch.text


async def test_throttles_of_the_attached_run_are_not_counted() -> None:
    cluster = a_quiet_cluster("a-0", messages=5_000)
    async with watching_runs(cluster, topics=["a"]) as watch:
        new = a_new_run(moved("a-0"), ONE_BY_ONE, throttle="1MB")
        watch.app.call_later(watch.app.attach_to, await watch.engines.start(new))
        await watch.until(lambda: watch.app.attached is not None)
        await watch.press("b")
        while watch.app.attached is not None and not watch.attached.run.ended:
            await watch.see()
            assert "left behind" not in watch.text
        await watch.pass_time(70)
        assert "left behind" not in watch.text


CONFIG = """
contexts:
  prod:
    read_only: true
    properties: {bootstrap.servers: "127.0.0.1:1"}
"""


def test_a_read_only_context_refuses_a_writable_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG, encoding="utf-8")
    monkeypatch.setenv("KTUI_CONFIG_DIR", str(tmp_path))
    result = CliRunner().invoke(ktui, ["watch", "--write", "--context", "prod"])
    assert isinstance(result.exception, BadInput)
    assert "context prod is read_only" in str(result.exception)


def test_a_filter_that_the_view_would_not_take_is_refused_at_once() -> None:
    result = CliRunner().invoke(ktui, ["watch", "--filter", "broker:x"])
    assert isinstance(result.exception, BadInput)
    assert "--filter: broker:x is not a number, as in broker:3" in str(result.exception)


def test_the_help_states_that_only_write_lets_the_view_change_anything() -> None:
    words = " ".join(CliRunner().invoke(ktui, ["watch", "--help"]).output.split())
    assert "Changes nothing on the cluster, unless --write allows the view to start" in words
