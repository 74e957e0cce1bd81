"""Budgets, topics and placement rules on the start screen."""

from __future__ import annotations

from pathlib import Path

from ktui.tui.run_view.plan_request import SOURCES
from ktui.tui.screens.plan.preview import PreviewPane
from ktui.tui.screens.plan.start import StartScreen
from support.cli.made_plan import cluster
from support.views.plan_steps import confirm, field, joined_words, report, settled
from support.views.running import RunWatched, watching_runs
from support.views.watching import LARGE, SMALL


async def choose(watch: RunWatched, source: str) -> None:
    await watch.press("n")
    assert isinstance(watch.app.screen, StartScreen)
    await watch.press("shift+tab", *["right"] * SOURCES.index(source), "tab")


def preview(watch: RunWatched) -> str:
    return joined_words(watch.app.screen.query_one(PreviewPane).text)


async def test_a_budget_bounds_the_plan_and_shows_how_far_it_gets(tmp_path: Path) -> None:
    async with watching_runs(cluster(), tmp_path, size=SMALL) as watch:
        await choose(watch, "drain")
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


async def test_only_the_topics_named_are_changed_and_none_that_is_excluded(
    tmp_path: Path,
) -> None:
    async with watching_runs(cluster(), tmp_path, size=LARGE) as watch:
        await choose(watch, "drain")
        await watch.type("3")
        await watch.press("tab")
        await watch.type("ordrs")
        await watch.until(lambda: "no topic matches 'ordrs'; did you mean orders?" in report(watch))
        await watch.press("backspace", "backspace", "backspace", "*")
        await watch.until(lambda: "6 partitions: 6 replicas to copy" in preview(watch))
        await watch.press(*["backspace"] * 3, "tab")
        await watch.type("orders")
        await watch.until(lambda: "2 partitions: 2 replicas to copy" in preview(watch))


async def test_a_new_replica_takes_the_place_of_the_old_one_where_that_is_chosen(
    tmp_path: Path,
) -> None:
    async with watching_runs(cluster(), tmp_path, size=LARGE) as watch:
        await choose(watch, "drain")
        await watch.type("3")
        watch.app.screen.query_one("#plan-keep_order").focus()
        await watch.press("right")
        await watch.press("enter")
        await settled(watch)
        await watch.until(lambda: "The plan is read" in report(watch))
        await confirm(watch, "drain-3")
        await watch.until(lambda: watch.app.attached is not None)
        assert watch.app.attached is not None
        targets = {str(tp): track.target for tp, track in watch.app.attached.run.tracks.items()}
        assert targets["orders-2"] == (6, 4, 5)


async def test_topics_are_placed_by_a_file_of_rules_whose_mistakes_name_the_line(
    tmp_path: Path,
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("rules:\n  - topics: orders\n    strategy: sideways\n", encoding="utf-8")
    async with watching_runs(cluster(), tmp_path, size=LARGE) as watch:
        await choose(watch, "placement")
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
        assert watch.app.attached is not None
        targets = {str(tp): track.target for tp, track in watch.app.attached.run.tracks.items()}
        assert targets == {"payments-0": (6, 1, 2)}
