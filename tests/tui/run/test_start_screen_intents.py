"""The start screen: intents, budgets, and a rehearsal first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.events import Key

from ktui.cli.rehearsal_report import ClusterRehearser
from ktui.execution.host.launch import NewRun
from ktui.tui.run_view.launchers import RehearsedPlan
from ktui.tui.run_view.plan_request import SOURCES
from ktui.tui.screens.events import EventsScreen
from ktui.tui.screens.plan.panes import PreviewPane
from ktui.tui.screens.plan.start import StartScreen
from support.cli.start_sandbox import cluster
from support.runs.engine_runs import plan_of
from support.views.watching import (
    LARGE,
    SMALL,
    RunWatched,
    Twins,
    a_plan_file,
    a_quiet_cluster,
    answer_line,
    confirm,
    field,
    go_to,
    joined_words,
    moved,
    plan_screen,
    read,
    report,
    settled,
    watching_runs,
)


async def choose(watch: RunWatched, source: str) -> None:
    """Choose where the plan comes from, and go to the first field."""
    await watch.press("n")
    assert isinstance(watch.app.screen, StartScreen)
    times = SOURCES.index(source)
    await watch.press("shift+tab", *["right"] * times)
    if source not in {"leaders", "rack-repair"}:
        await watch.press("tab")


async def type_fields(watch: RunWatched, *texts: str) -> None:
    for number, text in enumerate(texts):
        if number:
            await watch.press("tab")
        await watch.type(text)


def preview(watch: RunWatched) -> str:
    return joined_words(watch.app.screen.query_one(PreviewPane).text)


def shown(watch: RunWatched, name: str) -> str:
    return joined_words(str(watch.app.screen.query_one(name).render()))


def labels(watch: RunWatched) -> list[str]:
    """Return the labels of the fields that are shown in the first step."""
    lines = watch.app.screen.query("SourceForm .line")
    return [str(line.query("Static").first().render()) for line in lines if line.display]


INTENTIONS = {
    "drain": (["brokers"], ["3"], "drain-3"),
    "fill": (["brokers"], ["6"], "fill-6"),
    "swap": (["old broker", "new broker"], ["3", "6"], "swap-3-6"),
    "replication-factor": (["topics", "replicas"], ["ord*", "4"], "ord--4-replicas"),
    "spread": (["within", "brokers"], [], "spread-bytes"),
    "shed": (["broker", "until"], ["3", "4GB"], "shed-3"),
    "leaders": ([], [], "leaders"),
    "demote": (["brokers"], ["3"], "demote-3"),
}


@pytest.mark.parametrize("source", INTENTIONS, ids=str)
async def test_each_intention_has_its_fields_and_is_shown_while_typed_and_checked_by_enter(
    source: str,
) -> None:
    fields, typed, name = INTENTIONS[source]
    async with watching_runs(cluster(), size=SMALL) as watch:
        await choose(watch, source)
        assert labels(watch) == [*fields, "topics", "at most"]
        await type_fields(watch, *typed)
        await watch.until(lambda: "broker bytes replicas leaders" in preview(watch))
        await watch.until(lambda: "↵ checks this plan against the cluster." in watch.text)

        await watch.press("enter")
        await watch.until(lambda: "The plan is read" in report(watch))
        await watch.until(lambda: "broker bytes replicas leaders" in preview(watch))
        await go_to(watch, "start")
        if source == "replication-factor":
            assert "The plan has the problems above" in answer_line(watch)
        else:
            assert field(watch, "#start-name").value == name
        assert not watch.state_dir.run_dirs()


async def test_a_drain_is_shown_as_it_is_typed_then_checked_and_started() -> None:
    async with watching_runs(a_quiet_cluster("a-0", "a-1"), size=LARGE) as watch:
        await choose(watch, "drain")
        await watch.type("12")
        await watch.until(lambda: "! There is no broker 12; the cluster has" in report(watch))
        below = watch.app.screen.query_one("#wrong-brokers").region
        assert below.y == field(watch, "#plan-brokers").region.y + 1
        await watch.press("backspace")
        await watch.until(lambda: "2 partitions: 2 replicas to copy" in preview(watch))
        assert "There is no broker" not in report(watch)

        await watch.press("enter")
        await watch.until(lambda: "The plan is read" in report(watch))
        # another plan is only shown, until it is checked in its turn
        await watch.press("backspace", "2")
        await watch.until(lambda: "↵ checks this plan" in report(watch))
        await watch.press("backspace", "1")
        await watch.until(lambda: "The plan is read" in report(watch))
        await confirm(watch, "drain-1")
        await watch.until(lambda: watch.app.attached is not None)
        await watch.pass_until("ENDED")
        run = watch.attached.run
        assert all(1 not in track.target for track in run.tracks.values())
        assert run.options.urgent_first


async def test_every_broker_has_its_bytes_replicas_and_leaders_before_and_after() -> None:
    async with watching_runs(cluster(), size=(120, 40)) as watch:
        await choose(watch, "swap")
        await type_fields(watch, "3", "6")
        await watch.until(lambda: "broker bytes replicas leaders" in preview(watch))

        rows = watch.app.screen.query_one(PreviewPane).text.splitlines()
        figures = {row.split()[0]: row.split()[2:] for row in rows if row[:1].isdigit()}
        assert figures["3"] == ["14", "GiB", "→", "0", "B", "8", "→", "0", "3", "→", "0"]
        assert figures["6"] == ["0", "B", "→", "14", "GiB", "0", "→", "8", "0", "→", "3"]
        assert figures["1"] == ["8.0", "GiB", "5", "1"]
        bars = {row.split()[0]: row.split()[1] for row in rows if row[:1].isdigit()}
        assert {*bars["3"]} == {"░"}
        assert {*bars["6"]} == {"▓"}
        assert {*bars["1"]} == {"█", "·"}


async def test_keys_that_come_at_once_reach_the_fields_they_are_meant_for() -> None:
    async with watching_runs(cluster(), size=LARGE) as watch:
        await choose(watch, "swap")
        for key in ("3", "tab", "6"):
            watch.app.post_message(Key(key, key if key.isdigit() else None))
        await watch.until(lambda: field(watch, "#plan-new").value == "6")
        assert field(watch, "#plan-old").value == "3"


async def test_what_spread_makes_even_is_a_choice() -> None:
    async with watching_runs(cluster(), size=LARGE) as watch:
        await choose(watch, "spread")
        assert field(watch, "#plan-within").value == "10%"
        await watch.until(lambda: "replicas to copy" in preview(watch))
        watch.app.screen.query_one("#plan-by").focus()
        await watch.press("left")
        await watch.until(lambda: "nothing to copy" in preview(watch))


async def test_what_a_plan_leaves_undone_is_shown_with_it() -> None:
    async with watching_runs(cluster(), size=(120, 40)) as watch:
        await choose(watch, "demote")
        await watch.type("1,2,3")
        await watch.until(lambda: "stay as they are: " in preview(watch))
        # nor is it forgotten once the plan is checked
        await watch.press("enter")
        await watch.until(lambda: "The plan is read" in report(watch))
        await watch.until(lambda: "stay as they are: " in shown(watch, "#plan-read"))
        assert "stay as they are: " in shown(watch, "#plan-findings")


async def test_a_cluster_that_needs_no_such_plan_has_none() -> None:
    async with watching_runs(cluster()) as watch:
        await choose(watch, "rack-repair")
        await watch.until(lambda: "! Every partition is on as many racks" in report(watch))
        await watch.press("enter")
        await watch.until(lambda: "! Every partition is on as many racks" in report(watch))
        assert "▸1 plan" in watch.text


async def test_the_run_keeps_the_order_of_a_plan_with_kafkas_own_topics_last() -> None:
    async with watching_runs(cluster(internal=True), size=LARGE) as watch:
        await choose(watch, "drain")
        await watch.submit("3")
        await watch.until(lambda: "The plan is read" in report(watch))
        await go_to(watch, "limits")
        assert watch.line("internal  ").split()[1] == "last"


async def test_a_plan_of_a_file_is_asked_for_again_after_another_was_tried() -> None:
    async with watching_runs(cluster(), size=SMALL) as watch:
        await choose(watch, "drain")
        await watch.type("3")
        await watch.until(lambda: "broker bytes replicas leaders" in preview(watch))
        await watch.press("shift+tab", "left")
        assert not preview(watch)
        assert "A plan is a JSON file" in report(watch)
        # nothing is lost on the way there and back
        await watch.press("right")
        await watch.until(lambda: "broker bytes replicas leaders" in preview(watch))


async def start_screen_budgets_choose(watch: RunWatched, source: str) -> None:
    await watch.press("n")
    assert isinstance(watch.app.screen, StartScreen)
    await watch.press("shift+tab", *["right"] * SOURCES.index(source), "tab")


async def test_a_budget_bounds_the_plan_and_shows_how_far_it_gets() -> None:
    async with watching_runs(cluster(), size=SMALL) as watch:
        await start_screen_budgets_choose(watch, "drain")
        await watch.type("3")
        await watch.until(lambda: "8 replicas to copy (14 GiB)" in preview(watch))
        await watch.press("tab", "tab", "tab")
        await watch.type("6")
        await watch.until(lambda: "within the budget: 6 of 6 moves" in preview(watch))
        assert "2 replicas stay as they are: the most moves are reached" in preview(watch)

        await watch.press("tab")
        await watch.type("5GB")
        await watch.until(lambda: "4.0 GiB of 5GB copied" in preview(watch))
        # what is wrong is said at its field
        await watch.press("x")
        await watch.until(lambda: "! bytes: '5GBx' is no size. Type 500GB." in report(watch))
        await watch.press("backspace")

        await watch.press("enter")
        await watch.until(lambda: "The plan is read" in report(watch))
        assert "4.0 GiB of 5GB copied" in joined_words(report(watch))


async def test_only_the_topics_named_are_changed_and_none_that_is_excluded() -> None:
    async with watching_runs(cluster(), size=LARGE) as watch:
        await start_screen_budgets_choose(watch, "drain")
        await watch.type("3")
        await watch.press("tab")
        await watch.type("ordrs")
        await watch.until(lambda: "no topic matches 'ordrs'; did you mean orders?" in report(watch))
        await watch.press("backspace", "backspace", "backspace", "*")
        await watch.until(lambda: "6 partitions: 6 replicas to copy" in preview(watch))
        await watch.press(*["backspace"] * 3, "tab")
        await watch.type("orders")
        await watch.until(lambda: "2 partitions: 2 replicas to copy" in preview(watch))


async def test_a_new_replica_takes_the_place_of_the_old_one_where_that_is_chosen() -> None:
    async with watching_runs(cluster(), size=LARGE) as watch:
        await start_screen_budgets_choose(watch, "drain")
        await watch.type("3")
        watch.app.screen.query_one("#plan-keep_order").focus()
        await watch.press("right")
        await watch.press("enter")
        await settled(watch)
        await watch.until(lambda: "The plan is read" in report(watch))
        await confirm(watch, "drain-3")
        await watch.until(lambda: watch.app.attached is not None)
        targets = {str(tp): track.target for tp, track in watch.attached.run.tracks.items()}
        assert targets["orders-2"] == (6, 4, 5)


async def test_topics_are_placed_by_a_file_of_rules_whose_mistakes_name_the_line(
    tmp_path: Path,
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("rules:\n  - topics: orders\n    strategy: sideways\n", encoding="utf-8")
    async with watching_runs(cluster(), size=LARGE) as watch:
        await start_screen_budgets_choose(watch, "placement")
        field(watch, "#plan-rules").value = str(rules)
        await watch.until(lambda: f"{rules}:3: " in report(watch))
        assert "'sideways' is not a strategy. Use any" in joined_words(report(watch))

        rules.write_text(
            "rules:\n  - topics: payments\n    strategy: static\n    lists: {0: [6, 1, 2]}\n",
            encoding="utf-8",
        )
        await watch.press("enter")
        await watch.until(lambda: "The plan is read" in report(watch))
        await confirm(watch, "placement")
        await watch.until(lambda: watch.app.attached is not None)
        targets = {str(tp): track.target for tp, track in watch.attached.run.tracks.items()}
        assert targets == {"payments-0": (6, 1, 2)}


NAMES = ("a-0", "a-1")


class Endless:
    """A rehearsal that goes on until it is cancelled."""

    cancelled = False

    async def rehearse(
        self, wanted: NewRun, progress: Callable[[str], None], *, new_snapshot: bool
    ) -> RehearsedPlan:
        del wanted, new_snapshot
        progress("measuring")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        raise AssertionError


async def rehearse_first_choose(watch: RunWatched, folder: Path) -> None:
    """Open the start screen on a plan for both partitions."""
    path = a_plan_file(folder, plan_of(moved(*NAMES)), "drain-3.json")
    await watch.press("n")
    await read(watch, path)
    await watch.until(lambda: "replica movements" in report(watch))
    await settled(watch)


def facts(watch: RunWatched) -> str:
    return joined_words(str(watch.app.screen.query_one("#start-facts").render()))


async def test_a_plan_is_rehearsed_with_the_limits_typed_on_one_snapshot_and_nothing_is_sent(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster(*NAMES)
    before = {
        name: topic.partitions[0].replicas for name, topic in cluster.controller.topics.items()
    }
    async with watching_runs(cluster, size=SMALL) as watch:
        await watch.press("n")
        assert "rehearse first" not in watch.text  # there is no plan yet
        await watch.press("escape")
        twins = Twins(cluster)
        watch.engines.rehearser = ClusterRehearser(
            "prod-eu", twins, measure_s=0, clock=cluster.clock
        )
        await rehearse_first_choose(watch, tmp_path)
        assert "^y rehearse first" in watch.text
        await watch.press("ctrl+y", say="at target")
        await watch.press("n")
        assert "start plan" not in watch.text  # this one is being made
        assert "drain-3.json on simulated twins, prod-eu. Nothing was sent." in watch.text
        figures = watch.line("at target").rstrip(" ▁▂▃▄▅▆▇█")  # without the scroll bar
        assert figures.split() == ["at", "target", *["2", "of", "2"] * 3]
        assert "the plan would be carried out on every twin" in watch.text
        await watch.press("end", say="the twins are those of a snapshot taken at")

        await watch.press("enter")
        assert plan_screen(watch).step.name == "limits"
        await go_to(watch, "start")
        await watch.until(lambda: "rehearsed" in facts(watch))
        assert "as it was typed before" not in facts(watch)
        await go_to(watch, "limits")
        field(watch, "#new-partitions").value = "1"
        await settled(watch)
        await go_to(watch, "start")
        await watch.until(lambda: "as it was typed before" in facts(watch))
        await watch.press("ctrl+y", say="at target")
        assert twins.taken == 1
        await watch.press("escape")
        await watch.until(lambda: "as it was typed before" not in facts(watch))
        assert field(watch, "#new-partitions").value == "1"
    assert before == {
        name: topic.partitions[0].replicas for name, topic in cluster.controller.topics.items()
    }


async def test_a_rehearsal_warns_of_what_its_plan_would_leave_before_all_else(
    tmp_path: Path,
) -> None:
    racks = {1: "a", 2: "b", 3: "c", 4: "a", 5: "a", 6: "a"}
    cluster = a_quiet_cluster(*NAMES, racks=racks)
    async with watching_runs(cluster, size=LARGE) as watch:
        watch.engines.rehearser = ClusterRehearser(
            "prod-eu", Twins(cluster), measure_s=0, clock=cluster.clock
        )
        await rehearse_first_choose(watch, tmp_path)
        await watch.press("ctrl+y", say="at target")
        lines = [line for line in watch.lines if ": " in line]
        assert "would be carried out on every twin" in lines[0]
        assert "warning: replicas share a rack" in lines[1]


async def test_the_view_goes_on_beside_a_rehearsal_which_escape_cancels(tmp_path: Path) -> None:
    async with watching_runs(a_quiet_cluster(*NAMES), size=SMALL) as watch:
        endless = Endless()
        watch.engines.rehearser = endless
        await rehearse_first_choose(watch, tmp_path)
        await watch.press("ctrl+y", say="measuring …")
        assert "esc cancel" in watch.text
        await watch.press("e")
        assert isinstance(watch.app.screen, EventsScreen)
        await watch.press("escape")
        assert "measuring …" in watch.text
        await watch.press("escape")
        await watch.until(lambda: isinstance(watch.app.screen, StartScreen))
        await watch.until(lambda: endless.cancelled)
