"""Views, marks, folds and copies of the list."""

from __future__ import annotations

from ktui.cluster.observer import Interest
from ktui.pacing.limits import Limits
from ktui.simulated import layout
from support.simulated.moving_clusters import Replicas, a_cluster, cancel, wait
from support.views.watching import (
    LARGE,
    SMALL,
    a_quiet_cluster,
    moved,
    watching,
    watching_moves,
    watching_run,
)

MIN_2 = {"min.insync.replicas": "2"}
TROUBLED: dict[str, list[Replicas]] = {
    "ok": [(1, 2, 3)],
    "away": [(1, 2, 7)],
    "under": [(1, 7, 8)],
    "gone": [(7, 8, 9)],
}
"""Topics that are each in a different kind of trouble while brokers 7, 8 and 9 are down."""
DOWN = [layout.Kill(7), layout.Kill(8), layout.Kill(9)]


async def test_a_quiet_cluster_shows_for_how_long_and_what_to_try() -> None:
    async with watching(a_cluster(), SMALL) as watch:
        await watch.pass_time(90)
        assert "Nothing is being reassigned." in watch.text
        assert "Quiet for 1m 30s." in watch.text
        assert "v  another view" in watch.text
        assert "T  choose topics" in watch.text


async def test_the_unhealthy_view_reads_all_partitions_and_shows_those_in_trouble() -> None:
    async with watching(a_cluster(TROUBLED, configs=MIN_2), LARGE) as watch:
        await watch.do(*DOWN)
        await watch.pass_time(10)
        assert watch.looks.interests[-1] == Interest(health=True)
        await watch.press_and_see("v")
        assert watch.looks.interests[-1] == Interest(unhealthy=True, health=True)
        assert set(watch.rows) == {"away-0", "under-0", "gone-0"}
        assert "OFFLINE" in watch.line("gone-0")
        assert "UNDER MIN" in watch.line("under-0")
        assert "ISR 1, min 2" in watch.line("under-0")
        assert "out of ISR: 7" in watch.line("away-0")


async def test_a_healthy_cluster_is_shown_as_such_with_the_number_of_partitions_checked() -> None:
    async with watching(a_cluster({"t": [(1, 2, 3)] * 12_034}), SMALL) as watch:
        await watch.press_and_see("v")
        assert "No partition is under-replicated, under min ISR or offline." in watch.text
        assert "12,034 partitions" in watch.text


async def test_topics_named_at_the_start_are_shown_whether_they_move_or_not() -> None:
    cluster = a_cluster(moving=["orders-1", "audit-0"], resting=["orders-0"])
    async with watching(cluster, topics=["orders"]) as watch:
        assert watch.looks.interests[0] == Interest(topics=frozenset({"orders"}), health=True)
        assert sorted(watch.rows) == ["orders-0", "orders-1"]
        assert "topic orders" in watch.lines[2]
        assert "in sync" in watch.line("orders-0")


async def test_a_missing_topic_is_named() -> None:
    async with watching(a_cluster(), topics=["ordres"]) as watch:
        assert "The cluster has no topic ordres." in watch.text


async def test_chosen_topics_become_the_third_view() -> None:
    async with watching(a_cluster(resting=["orders-0", "audit-0", "other-0"])) as watch:
        await watch.press("T")
        assert "Which topics?" in watch.text
        await watch.submit("orders, audit")
        await watch.see()
        assert watch.looks.interests[-1] == Interest(
            topics=frozenset({"orders", "audit"}), health=True
        )
        assert sorted(watch.rows) == ["audit-0", "orders-0"]
        await watch.press("v")
        assert "reassigning" in watch.lines[2]


async def test_there_are_two_views_and_no_prompt_without_chosen_topics() -> None:
    async with watching(a_cluster()) as watch:
        await watch.press("v")
        assert "unhealthy" in watch.lines[2]
        await watch.press("v", "v", "v")
        assert "reassigning" in watch.lines[2]
        assert "Which topics?" not in watch.text


async def test_escaping_the_topics_prompt_keeps_the_view() -> None:
    async with watching(a_cluster()) as watch:
        await watch.press("v", "T", "escape")
        assert "unhealthy" in watch.lines[2]


async def test_a_missing_chosen_topic_is_named_beside_those_that_exist() -> None:
    async with watching(a_cluster(resting=["orders-0"])) as watch:
        await watch.do(layout.Hang(1), *map(layout.Kill, range(2, 10)))  # no live broker answers
        await watch.press("T")
        await watch.submit("orders, nosuch")
        assert "no such topic" not in watch.text
        await watch.do(layout.Resume(1))
        await watch.pass_time(15)
        assert "nosuch: no such topic" in watch.lines[2]
        assert watch.rows == ["orders-0"]


async def test_a_topic_with_unanswered_metadata_is_not_reported_missing() -> None:
    cluster = a_cluster(resting=["orders-0", "audit-0"])
    async with watching(cluster, topics=["orders", "audit"]) as watch:
        await watch.do(layout.Deny("describe_topics"))
        assert "no permission: metadata (Describe on Topic audit …)" in watch.lines[1]
        assert "no such topic" not in watch.text


async def test_the_unhealthy_view_shows_health_rather_than_a_finished_move() -> None:
    topics: dict[str, list[Replicas]] = {"n": [(1, 2, 3), (9,)], "t": [(5, 6, 7), (1, 2, 3)]}
    min_3 = {"min.insync.replicas": "3"}
    cluster = a_cluster(topics, moving=["t-1"], messages=1_500, configs=min_3)
    async with watching(cluster, LARGE) as watch:
        await watch.pass_time(5)
        assert "done" in watch.row("t-1")
        await watch.do(layout.Shutdown(4), layout.Shutdown(9))
        await watch.pass_time(10)
        assert "done" in watch.row("t-1")
        assert "UNDER MIN: ISR 2, min 3; out of ISR: 4" in watch.row("t-1")
        await watch.press("enter")
        assert "UNDER MIN · reached its target" in watch.lines[2]
        assert "! ISR 2, min 3; out of ISR: 4. Start broker 4" in watch.lines[3]
        await watch.press_and_see("escape", "v")
        assert "‼ 1 offline (v) · 1 under min ISR (v)" in watch.lines[1]
        assert "done" not in watch.row("t-1")
        assert "UNDER MIN     >4! *2 3" in watch.row("t-1")
        assert "ISR 2, min 3; out of ISR: 4" in watch.row("t-1")
        assert watch.rows == ["n-1", "t-1"]


async def test_the_unhealthy_view_shows_the_time_of_its_last_full_poll() -> None:
    async with watching(a_cluster(resting=["t-0"]), LARGE) as watch:
        await watch.pass_time(5)
        await watch.press("v")
        at = watch.clock.now().astimezone()
        await watch.pass_time(6)
        assert f"as at {at:%H:%M:%S}" in watch.lines[2]
        await watch.do(layout.Shutdown(9))
        assert "looking at all partitions" in watch.lines[2]
        assert "No partition is under-replicated" not in watch.text
        await watch.see()
        assert "No partition is under-replicated" in watch.text


async def test_ended_moves_are_counted_separately() -> None:
    async with watching(a_cluster(moving=["a-0", "b-0", "c-0"], messages=10_000)) as watch:
        await watch.do(cancel("b-0"))
        await watch.pass_time(5)
        assert "2 moving  1 cancelled" in watch.lines[1]
        await watch.pass_time(30)
        assert "nothing is moving · 2 done, 1 cancelled lately" in watch.lines[1]


async def test_switching_views_polls_at_once() -> None:
    async with watching(a_cluster()) as watch:
        await watch.pass_time(3)
        assert watch.looks.at_s == [0, 1, 2, 3]
        await watch.press("v")
        await watch.until(lambda: len(watch.looks.at_s) > 4)
        assert watch.looks.at_s[4] == 3
        assert watch.looks.interests[4].unhealthy


NAMES = ("a-0", "a-1", "b-0")


async def test_space_marks_a_row_with_a_sign_and_unmarks_it_again() -> None:
    async with watching_moves(*NAMES) as watch:
        await watch.press("down", "space", "down", "space")
        assert watch.line("a-1").startswith(" ◆a-1")
        assert watch.line("b-0").startswith("▌◆b-0")
        assert "2 marked" in watch.line("run ·")
        await watch.press("space")
        assert watch.line("b-0").startswith("▌ b-0")
        assert "1 marked" in watch.line("run ·")
        await watch.press("u")
        assert "◆" not in watch.text


async def test_marks_survive_sorting_and_filtering() -> None:
    async with watching_moves(*NAMES) as watch:
        await watch.press("down", "space", "s", "S")
        assert watch.line("a-1").startswith("▌◆a-1")
        await watch.press("slash")
        await watch.submit("b")
        assert watch.rows == ["b-0"]
        assert "1 marked" in watch.line("run ·")
        await watch.press("escape")
        assert "◆a-1" in watch.line("a-1")


async def test_a_click_in_front_of_a_row_marks_it() -> None:
    async with watching_moves(*NAMES) as watch:
        await watch.pilot.click("PartitionList", offset=(0, 1))
        assert watch.line("a-1").startswith("▌◆a-1")


FOLD_NAMES = [f"a-{n}" for n in range(16)]
TWO = Limits(replicas=1, partitions=2)
LOW = (80, 18)
"""A terminal without a line for each of these partitions."""


async def test_partitions_that_wait_are_one_line_until_the_operator_wants_their_rows() -> None:
    async with watching_moves(*FOLD_NAMES, limits=TWO, size=LOW) as watch:
        assert watch.rows == ["a-0", "a-1"]
        assert "partitions 16" in watch.text
        assert "▸ queued 14 · 2 of 2 under way (P) · next: a-2, a-3" in watch.text
        # the rows are a key away, and a filter finds them also while they are folded
        await watch.press("o")
        assert sorted(watch.rows) == sorted(FOLD_NAMES)
        assert "▸ queued" not in watch.text
        await watch.press("o", "slash")
        await watch.submit("state:queued")
        assert len(watch.rows) == 14
        # one that is marked keeps its row
        await watch.press("space", "escape")
        assert watch.rows == ["a-0", "a-1", "a-2"]
        await watch.pilot.click("PartitionList", offset=(8, 4))
        await watch.pilot.pause()
        assert len(watch.rows) == 16


async def test_the_cursor_goes_to_folded_lines_and_opens_and_closes_them() -> None:
    async with watching_moves(*FOLD_NAMES, limits=TWO, size=LOW) as watch:
        # nobody has moved the cursor: it stays on the first row
        assert watch.cursor == "a-0"
        await watch.press("down", "down")
        assert watch.line("queued 14").startswith("▌ ▸")
        assert watch.partitions.cursor is None
        assert "↵ unfold" in watch.lines[-1]
        # the cursor goes to the first of the rows, and with them it comes back
        await watch.press("enter")
        assert watch.cursor == "a-2"
        assert "↵ detail" in watch.lines[-1]
        assert len(watch.rows) == 16
        await watch.press("down", "left")
        assert watch.line("queued 14").startswith("▌ ▸")
        await watch.see()
        assert watch.line("queued 14").startswith("▌ ▸")
        await watch.press("right", "left", "up")
        assert watch.cursor == "a-1"
        await watch.press("G")
        assert watch.line("queued 14").startswith("▌ ▸")
        # a row that is not folded stays when the others go, and left does nothing on it
        await watch.press("home", "left", "o")
        assert watch.cursor == "a-0"


async def test_partitions_that_a_dead_broker_blocks_are_one_line_that_says_so() -> None:
    cluster = a_quiet_cluster(*FOLD_NAMES)
    cluster.do(layout.Kill(9))
    wait(cluster, 30.0)  # longer than a broker session takes to expire
    plan = {**moved(*FOLD_NAMES[:13], target=(9, 2, 3)), **moved(*FOLD_NAMES[13:])}
    async with watching_run(cluster, plan, TWO, size=SMALL) as watch:
        await watch.pass_until("▸ blocked 13 · broker 9 of its target is down")
        assert not any("blocked" in watch.row(name) for name in watch.rows)
        # the cursor opens the line, and closes it again
        await watch.press("G", "G", "enter")
        assert sum("blocked" in watch.row(name) for name in watch.rows) == 13
        await watch.press("left")
        assert "▸ blocked 13" in watch.text
        # the line goes as soon as they can go on
        await watch.do(layout.Start(9))
        await watch.pass_until("done 1")
        assert "▸ blocked" not in watch.text


async def test_what_is_done_is_folded_while_the_run_goes_on() -> None:
    async with watching_moves(*FOLD_NAMES, limits=TWO, messages=500, size=LOW) as watch:
        await watch.pass_until("✓ done 8")
        assert not any("done" in watch.row(name) for name in watch.rows)
        await watch.pass_until("ENDED")
        assert len(watch.rows) == len(FOLD_NAMES)


async def test_rows_that_fit_are_not_folded_until_the_operator_wants_it() -> None:
    async with watching_moves(*FOLD_NAMES, limits=TWO, size=SMALL) as watch:
        assert sorted(watch.rows) == sorted(FOLD_NAMES)
        await watch.press("o")
        assert "▸ queued 14" in watch.text
        await watch.press("o")
        assert sorted(watch.rows) == sorted(FOLD_NAMES)
        await watch.resize(LOW)
        assert watch.rows == ["a-0", "a-1"]
        await watch.resize(SMALL)
        assert sorted(watch.rows) == sorted(FOLD_NAMES)
