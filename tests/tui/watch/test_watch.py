from __future__ import annotations

import re

import pytest
from rich.color import Color
from textual.events import MouseScrollDown
from textual.strip import Strip

from ktui.simulated import layout
from ktui.simulated.cluster import SimulatedCluster
from ktui.tui.draw.cells import BARS
from ktui.tui.screens.watch.columns import TIMELINE
from ktui.tui.screens.watch.rule import ViewState, rule_pieces
from ktui.tui.widgets import services
from support.simulated.moving_clusters import a_cluster, move
from support.views.screens import HOSTILE, plain
from support.views.watching import LARGE, MIDDLE, SMALL, Watching, watching

SIZES = [SMALL, MIDDLE, LARGE]
HALF_WAY_S = 60.0


def half_way() -> SimulatedCluster:
    """A move of orders-0: 500,000 messages, 5,000 copied and 100 written a second."""
    return a_cluster(moving=["orders-0"], messages=500_000, copied_s=5_000, inbound_s=100)


def shown(watch: Watching) -> list[str]:
    """The lines of the list itself."""
    return watch.lines[4:-1]


# --- a row -----------------------------------------------------------------------------------


async def test_a_moving_partition_shows_its_replicas_lag_share_and_time_left() -> None:
    async with watching(half_way()) as watch:
        await watch.pass_time(HALF_WAY_S)
        for size in SIZES:
            await watch.resize(size)
            row = watch.row("orders-0")
            assert "moving 59%" in row
            assert "2 3 >+4 *-1" in row
            assert any(bar in row for bar in BARS)
            assert "42 s" in row
            below = watch.line("└") if "└" in watch.text else ""
            for heading, figure in (("lag", "206 k msg"), ("rate", "5.0 MB/s")):
                assert figure in (row if heading in watch.lines[3] else below)


async def test_no_line_is_wider_than_the_terminal_and_the_footer_is_whole() -> None:
    long = "a-topic-with-" + "a-very-" * 20 + "long-name-0"
    async with watching(a_cluster(moving=[long, "orders-0", "ordres-0"])) as watch:
        for size in SIZES:
            await watch.resize(size)
            assert all(len(line) <= size[0] for line in watch.lines)
            assert "-0 " in watch.line("▌ a-to"), "the number stays when the topic is cut"
            assert "quit" in watch.lines[-1]


async def test_the_eta_is_a_range_only_while_its_ends_differ_by_a_minute() -> None:
    async with watching(half_way(), LARGE) as watch:
        await watch.pass_time(10)
        assert re.search(r"ETA \d\d:\d\d \(\d\d:\d\d-\d\d:\d\d\)  0 under", watch.lines[1])
        await watch.pass_time(50)
        assert re.search(r"ETA \d\d:\d\d  0 under", watch.lines[1])


async def test_the_timelines_show_as_much_as_was_seen_until_z_zooms_them() -> None:
    async with watching(half_way(), MIDDLE) as watch:
        reaches = []
        await watch.pass_time(30)
        reaches.append(_reach_s(watch))
        await watch.pass_time(900)
        for _ in range(4):
            reaches.append(_reach_s(watch))
            await watch.press("z")

    first, whole, ten_minutes, minute, again = reaches
    assert 30 <= first <= 90, "all that was seen"
    assert 930 <= whole <= 1_200
    assert 600 <= ten_minutes <= 750
    assert 60 <= minute <= 90
    assert again == whole


def _reach_s(watch: Watching) -> float:
    """Return how far back the timelines of the list reach."""
    shown = watch.partitions.layout_in_force
    return shown.cell_s * (shown.width_of(TIMELINE) - 1)


async def test_a_stalled_partition_is_listed_first_with_its_reason() -> None:
    async with watching(a_cluster(moving=["audit-0"], resting=["orders-0"])) as watch:
        await watch.do(move("orders-0", 5, 2, 3))
        assert watch.rows == ["audit-0", "orders-0"]
        await watch.do(layout.Shutdown(5))
        await watch.pass_time(45)
        assert watch.rows == ["orders-0", "audit-0"]
        assert "STALLED" in watch.line("orders-0")
        assert "broker 5 is down" in watch.line("orders-0")
        assert "1 STALLED" in watch.lines[1]
        assert "broker 5 down" in watch.lines[1]


async def test_a_replica_out_of_the_isr_has_a_sign_beside_its_colour() -> None:
    async with watching(a_cluster(moving=["orders-0"])) as watch:
        assert "3!" not in watch.line("orders-0")
        await watch.do(layout.Shutdown(3))
        assert "3!" in watch.line("orders-0")


async def test_a_finished_move_stays_in_the_list_with_its_duration() -> None:
    async with watching(a_cluster(moving=["orders-0"], messages=10_500), (150, 30)) as watch:
        await watch.pass_time(20)
        assert "done" in watch.row("orders-0")
        assert " after at least 11 s" in watch.row("orders-0")


async def test_a_broker_missing_from_the_metadata_is_shown_as_down() -> None:
    cluster = a_cluster(moving=["orders-0"], brokers=[1, 2, 3, 4], version="3.9")
    async with watching(cluster) as watch:
        await watch.do(layout.Shutdown(4))
        assert "broker 4 down" in watch.lines[1]


async def test_a_partition_without_describe_permission_is_shown_without_invented_signs() -> None:
    cluster = a_cluster(moving=["orders-0"])
    cluster.do(layout.Deny("describe_topics"))
    async with watching(cluster) as watch:
        row = watch.line("orders-0  ")
        assert "2 3 +4 -1" in row
        assert "OFFLINE" not in row


async def test_hostile_names_are_treated_as_plain_text() -> None:
    topic = HOSTILE.replace("\\x1b", "")
    cluster = a_cluster(moving=["orders-0", f"{topic}-0", "[red]x[/red]-1"])
    async with watching(cluster) as watch:
        for size in SIZES:
            await watch.resize(size)
            assert "[red]x[/red]-1" in watch.text
            assert "! topic [" in watch.lines[2]
        await watch.press("slash")
        await watch.type("nothing")
        await watch.press("enter", "escape", "end", "enter")
        assert watch.app.is_running


# --- the cursor and the order ----------------------------------------------------------------


async def test_new_rows_are_inserted_in_order_and_the_cursor_stays_on_its_partition() -> None:
    async with watching(a_cluster(moving=["b-0", "d-0"], resting=["a-0", "c-0"])) as watch:
        await watch.press("down")
        assert watch.cursor == "d-0"
        await watch.do(move("a-0", 4, 2, 3), move("c-0", 4, 2, 3))
        assert watch.rows == ["a-0", "b-0", "c-0", "d-0"]
        assert watch.cursor == "d-0"


async def test_the_cursor_stays_on_its_partition_when_the_order_changes() -> None:
    async with watching(a_cluster(moving=["a-0", "b-0", "c-0"])) as watch:
        await watch.press("down", "s", "S")
        assert watch.rows == ["c-0", "b-0", "a-0"]
        assert watch.cursor == "b-0"
        await watch.press("down", "S")
        assert watch.rows[0] == "a-0"
        assert watch.cursor == "a-0"


def with_b_on_another_broker() -> SimulatedCluster:
    """a-0 and b-0 move; b-0 is offline when broker 9 is down."""
    cluster = a_cluster({"b": [(9,)]}, moving=["a-0"])
    cluster.do(move("b-0", 8))
    return cluster


async def test_rows_hold_their_places_while_the_cursor_is_on_them() -> None:
    async with watching(with_b_on_another_broker()) as watch:
        await watch.press("down")
        await watch.do(layout.Shutdown(9))
        assert "OFFLINE" in watch.line("b-0")
        assert watch.rows == ["a-0", "b-0"], "trouble does not pull a row from under the cursor"
        assert "(held)" in watch.lines[2]
        await watch.press("home")
        assert watch.rows == ["b-0", "a-0"], "home lets the order follow the figures again"
        assert "(held)" not in watch.lines[2]


async def test_rows_sorted_by_changing_figures_are_reordered_only_on_demand() -> None:
    async with watching(a_cluster(moving=["a-0"], resting=["b-0"])) as watch:
        await watch.do(move("b-0", 5, 2, 3), layout.Slow(5, 0.5))
        await watch.press("s", "s")
        assert watch.rows == ["b-0", "a-0"]
        await watch.do(layout.Slow(5, 1.0), layout.Slow(4, 0.5))
        await watch.pass_time(5)
        assert watch.rows == ["b-0", "a-0"]
        assert "by lag ▼ (held)" in watch.lines[2]
        await watch.press("home")
        assert watch.rows == ["a-0", "b-0"]


async def test_keys_work_on_the_first_rows_of_a_formerly_empty_list() -> None:
    async with watching(a_cluster(resting=["a-0", "b-0"])) as watch:
        assert "detail" in watch.lines[-1]
        await watch.do(move("a-0", 4, 2, 3), move("b-0", 4, 2, 3))
        await watch.press("down")
        assert watch.cursor == "b-0"


async def test_partitions_in_trouble_rise_to_the_top_until_the_cursor_is_moved() -> None:
    async with watching(with_b_on_another_broker()) as watch:
        assert watch.rows == ["a-0", "b-0"]
        await watch.do(layout.Shutdown(9))
        assert watch.rows == ["b-0", "a-0"]
        assert watch.cursor == "b-0"


async def test_the_cursor_goes_to_the_next_row_when_its_partition_vanishes() -> None:
    cluster = a_cluster(resting=["t-0", "u-0", "v-0"])
    async with watching(cluster, topics=["t", "u", "v"]) as watch:
        await watch.press("s", "down")
        assert watch.cursor == "u-0"
        u = next(topic for topic in cluster.spec.topics if topic.name == "u")
        await watch.do(layout.DeleteTopic("u"))
        await watch.pass_time(62)
        assert watch.cursor == "v-0"
        await watch.do(layout.CreateTopic(u))
        assert watch.cursor == "u-0", "and back to it when it is there again"


async def test_the_cursor_can_be_moved_in_every_usual_way() -> None:
    async with watching(a_cluster(moving=[f"t-{n}" for n in range(100)]), SMALL) as watch:
        height = watch.partitions.size.height
        for keys, row in (
            (["j"], 1), (["k"], 0), (["pagedown"], height - 1), (["pageup"], 0),
            (["G"], 99), (["down"], 99), (["g"], 0), (["up"], 0), (["end"], 99), (["home"], 0),
        ):  # fmt: skip
            await watch.press(*keys)
            assert watch.partitions.row == row, keys
            assert f"t-{row}" in "\n".join(shown(watch)), keys


async def test_the_sort_key_cycles_through_all_orders_and_shows_the_current_one() -> None:
    async with watching(a_cluster(moving=["a-0", "b-0"])) as watch:
        seen = []
        for _ in range(6):
            seen.append(watch.lines[2].split("by ")[1].split(" ")[0])
            await watch.press("s")
        assert seen == ["state", "partition", "lag", "rate", "left", "began"]
        assert "by state" in watch.lines[2]


async def test_sorting_by_lag_puts_the_largest_first_and_the_unknown_last() -> None:
    cluster = a_cluster(resting=["a-0", "b-0"], moving=["c-0"], version="3.9")
    async with watching(cluster) as watch:
        await watch.do(move("a-0", 5, 2, 3), layout.Slow(4, 0.1))
        await watch.do(move("b-0", 6, 2, 3), layout.Shutdown(6))
        await watch.pass_time(3)
        await watch.press("s", "s")
        assert watch.rows == ["c-0", "a-0", "b-0"]
        await watch.press("S")
        assert watch.rows == ["a-0", "c-0", "b-0"], "the unknown stays last"
        assert "lag ▲" in watch.lines[3]


async def test_the_wheel_scrolls_a_hundred_rows_and_leaves_the_cursor() -> None:
    async with watching(a_cluster(moving=[f"t-{n}" for n in range(100)]), SMALL) as watch:
        watch.partitions.post_message(_wheel(watch))
        await watch.until(lambda: watch.partitions.scroll_offset.y > 0)
        assert watch.partitions.row == 0


def _wheel(watch: Watching) -> MouseScrollDown:
    return MouseScrollDown(watch.partitions, 5, 5, 0, 1, 0, shift=False, meta=False, ctrl=False)


async def test_a_click_selects_a_double_click_opens_and_a_heading_sorts() -> None:
    async with watching(a_cluster(moving=["a-0", "b-0", "c-0"])) as watch:
        await watch.pilot.click(type(watch.partitions), offset=(10, 2))
        assert watch.cursor == "c-0"
        await watch.pilot.click("Headings", offset=(3, 0))
        assert "by partition" in watch.lines[2]
        await watch.pilot.click("Headings", offset=(3, 0))
        assert watch.rows == ["c-0", "b-0", "a-0"]
        await watch.pilot.click(type(watch.partitions), offset=(10, 2), times=2)
        await watch.until(lambda: type(watch.app.screen).__name__ == "DetailScreen")
        assert "a-0" in watch.lines[1]


async def test_the_cursor_stays_visible_when_the_terminal_shrinks() -> None:
    async with watching(a_cluster(moving=[f"t-{n}" for n in range(200)]), LARGE) as watch:
        await watch.press(*["down"] * 40)
        await watch.resize(SMALL)
        await watch.until(lambda: watch.app.size == SMALL)
        await watch.pilot.pause()
        assert watch.cursor == "t-40"
        assert "t-40" in "\n".join(shown(watch))


# --- the filter ------------------------------------------------------------------------------


def mixed() -> SimulatedCluster:
    """Three moving partitions: orders-0 to 4, orders-1 to 9, payments-0 from 6 to 5."""
    cluster = a_cluster({"payments": [(6, 7, 8)]}, moving=["orders-0"], resting=["orders-1"])
    cluster.do(move("orders-1", 9, 2, 3))
    cluster.do(move("payments-0", 5, 7, 8))
    return cluster


async def test_a_filter_applies_as_it_is_typed() -> None:
    async with watching(mixed()) as watch:
        for typed, rows in (
            ("ord", ["orders-0", "orders-1"]),
            ("ORD", ["orders-0", "orders-1"]),
            ("orders-1", ["orders-1"]),
            ("broker:9", ["orders-1"]),
            ("broker:5", ["payments-0"]),
            ("topic:pay", ["payments-0"]),
            ("partition:1", ["orders-1"]),
            ("ord broker:4", ["orders-0"]),
            ("state:mov", ["orders-0", "orders-1", "payments-0"]),
            ("state:done", []),
            ("state:x", ["orders-0", "orders-1", "payments-0"]),
        ):
            await watch.press("slash")
            await watch.type(typed)
            assert watch.rows == rows, typed
            await watch.press("escape")


async def test_enter_keeps_and_shows_the_filter_and_escape_clears_it() -> None:
    async with watching(mixed()) as watch:
        await watch.press("slash")
        await watch.submit("pay")
        assert "1 of 3" in watch.lines[2]
        assert "filter pay" in watch.lines[2]
        await watch.see()
        assert watch.rows == ["payments-0"]
        await watch.press("escape")
        assert len(watch.rows) == 3
        assert "filter" not in watch.lines[2]


async def test_an_invalid_filter_is_reported_with_the_valid_values() -> None:
    async with watching(mixed()) as watch:
        for typed, said in (
            ("state:x", "no state 'x'; there are moving, stalled"),
            ("broker:b", "broker:b is not a number"),
            ("topic:", "topic: wants a value"),
        ):
            await watch.press("slash")
            await watch.type(typed)
            assert said in watch.lines[-1]
            await watch.press("escape")


async def test_a_filter_without_matches_shows_what_clearing_it_would_bring_back() -> None:
    async with watching(mixed(), SMALL) as watch:
        await watch.press("slash")
        await watch.type("zzz")
        assert "No partition matches the filter 'zzz'." in watch.text
        assert "Without it there are 3 partitions." in watch.text
        await watch.press("enter", "escape")
        assert len(watch.rows) == 3


async def test_the_cursor_returns_to_its_partition_when_the_filter_is_cleared() -> None:
    async with watching(mixed()) as watch:
        await watch.press("end", "slash")
        await watch.type("orders")
        assert watch.cursor == "orders-1"
        await watch.press("escape")
        assert watch.cursor == "payments-0"


# --- colours ---------------------------------------------------------------------------------


async def test_rows_are_redrawn_in_a_new_theme() -> None:
    async with watching(a_cluster(moving=["a-0"]), theme="dark") as watch:
        dark = watch.partitions.render_line(0)
        watch.app.theme = "light"
        await watch.pilot.pause()
        light = watch.partitions.render_line(0)
        assert light.text == dark.text
        assert all(a != b for a, b in zip(_colours(light), _colours(dark), strict=True))


def _colours(strip: Strip) -> list[Color | None]:
    return [segment.style.color for segment in strip if segment.style and segment.text.strip()]


async def test_the_list_shows_the_same_text_and_signs_without_colours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = []
    for no_color in (None, "1"):
        if no_color is not None:
            monkeypatch.setenv("NO_COLOR", no_color)
        cluster = a_cluster({"x": [(9,)]}, moving=["orders-0"])
        async with watching(cluster, SMALL, topics=["orders", "x"]) as watch:
            await watch.do(layout.Shutdown(3), layout.Shutdown(9))
            await watch.press("down")
            texts.append(watch.text)
            strips = watch.app.screen._compositor.render_strips()
            drawn = [(s.text, s.style) for strip in strips for s in strip if s.style is not None]
    assert texts[0] == texts[1]
    trouble = [style for text, style in drawn if "OFFLINE" in text or "down" in text]
    assert trouble
    assert all(style.bold for style in trouble)
    assert "▌" in texts[1]


async def test_an_unchanged_line_is_not_redrawn() -> None:
    async with watching(a_cluster({"b": [(9,)]}, resting=["a-0"]), topics=["a", "b"]) as watch:
        await watch.press("s")
        await watch.pass_time(606)  # a cell of the timelines is many polls by now
        drawn = [watch.partitions.render_line(y) for y in range(2)]
        assert all(watch.partitions.render_line(y) is strip for y, strip in enumerate(drawn))
        refreshed: list[object] = []
        watch.partitions.refresh = lambda *regions, **_: refreshed.extend(regions)  # type: ignore[assignment,method-assign] # a spy
        await watch.do(layout.Shutdown(9))
        assert {region.y for region in refreshed} == {1}  # type: ignore[attr-defined] # regions


async def test_a_view_begins_with_a_filter_and_up_brings_back_earlier_ones() -> None:
    cluster = a_cluster(resting=["a-0", "b-0"])
    async with watching(cluster, topics=["a", "b"], filter_text="b-") as watch:
        assert watch.rows == ["b-0"]
        await watch.press("slash", *["backspace"] * 2)
        await watch.submit("a-")
        assert watch.rows == ["a-0"]
        await watch.press("slash", "up", "enter")
        assert watch.rows == ["b-0"]


async def test_many_rows_are_arranged_beside_the_keys_and_the_last_choice_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(services, "FEW", 0)
    cluster = a_cluster(resting=["a-0", "b-0", "c-0"])
    async with watching(cluster, topics=["a", "b", "c"]) as watch:
        await watch.until(lambda: watch.rows == ["a-0", "b-0", "c-0"])
        await watch.press("down", "s", "S")
        await watch.until(lambda: not watch.partitions.arranging)
        assert watch.rows == ["c-0", "b-0", "a-0"]
        assert "by partition ▼ (held)" in watch.text
        assert watch.cursor == "b-0"

        await watch.press("slash")
        await watch.type("c-")
        await watch.until(lambda: watch.rows == ["c-0"])
        await watch.press("enter", "escape")
        await watch.until(lambda: len(watch.rows) == 3)
        await watch.press("home")
        await watch.do(layout.Shutdown(1))
        await watch.until(lambda: not watch.partitions.arranging)
        assert watch.cursor == "c-0"


def test_the_signs_of_what_is_wrong_are_explained_before_the_usual_ones() -> None:
    well, away = (plain(rule_pieces(ViewState(out_of_sync=x), 110)) for x in (False, True))
    assert "out of ISR" not in well
    assert away.index("░ out of ISR") < away.index("* leader")
    assert "↩ rollback asked" in plain(rule_pieces(ViewState(cancels=True), 110))


def test_a_choice_that_the_rows_do_not_follow_yet_is_named_at_once() -> None:
    state = ViewState(shown=7, belonging=9, filter_text="a", held=True, rearranging=True)
    words = plain(rule_pieces(state, 80))
    assert "… of 9" in words
    assert "by state ▲ … " in words
