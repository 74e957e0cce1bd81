from __future__ import annotations

import asyncio
import re
from functools import cache

import pytest
from textual.containers import VerticalScroll

from ktui.cluster.broker import Broker, BrokerConfig, LogDir
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.observation import Census, Observation
from ktui.cluster.partition import PartitionState
from ktui.progress.timeline import Progress
from ktui.simulated import layout
from ktui.tui.draw.themes import role_style
from ktui.tui.screens.brokers.screen import BrokersScreen, BrokerTable
from support.simulated.moving_clusters import a_cluster, move, throttle
from support.views.screens import (
    BEGAN,
    BROKERS,
    HOSTILE,
    RAN_S,
    SHIPPED,
    SIZES,
    TP,
    colour_of,
    hosted,
    observation,
    progress,
    resize,
    text_of,
    timeline,
)
from support.views.watching import watching

TIB = 2**40
DIRS = {
    1: (LogDir(1, "/var/lib/kafka", None, 4 * TIB, 3 * TIB),),
    2: (LogDir(2, "/a", None, 10 * TIB, TIB), LogDir(2, "/b", "KAFKA_STORAGE_ERROR")),
    3: (LogDir(3, "/c", None, 4 * TIB, TIB, cordoned=True),),
}
CONFIGS = {
    1: BrokerConfig(follower_throttle_rate=50_000_000, leader_throttle_rate=40_000_000),
    2: BrokerConfig(),
}
CENSUS = Census(BEGAN, 0.0, 1.0, 40, 12_034, {1: 230}, {1: 1_201}, ())


def full() -> Observation:
    return observation(
        log_dirs=DIRS,
        broker_configs=CONFIGS,
        census=CENSUS,
        partitions={TP: PartitionState(TP, None, (1, 77), (1,), 1)},
        failures=(Failure(Operation.LOG_DIRS, "no answer in 2.0 s", broker=9),),
    )


@cache
def drawn(size: tuple[int, int], *keys: str) -> str:
    """The screen while a partition moves, after these keys; drawn once for all tests of it."""
    return asyncio.run(
        text_of(BrokersScreen(), progress(timeline(), last=full()), "home", *keys, size=size)
    )


def row(text: str, broker: int) -> list[str]:
    """The words of a broker's row."""
    return next(words for line in text.splitlines() if (words := line.split())[:1] == [str(broker)])


@pytest.mark.parametrize("size", SIZES)
def test_each_broker_has_a_row_with_its_share_of_the_reassignments(
    size: tuple[int, int],
) -> None:
    text = drawn(size)
    assert [line.split()[0] for line in text.splitlines() if line[:8].strip().isdigit()] == [
        "1", "2", "3", "4", "5", "9", "77",
    ]  # fmt: skip
    adding = " ".join(row(text, 4))
    assert "alive" in adding
    assert "48 MB/s" in adding
    assert "48 MB/s" in " ".join(row(text, 1))
    assert "1.2 M msg" in drawn(size, "down", "down", "down")


def test_added_and_retired_replicas_are_counted() -> None:
    text = drawn((200, 60))
    heading = next(line for line in text.splitlines() if "retiring" in line)
    adding, retiring = heading.index("adding"), heading.index("retiring")
    lines = {
        words[0]: line for line in text.splitlines() if (words := line.split())[1:2] == ["alive"]
    }
    assert lines["4"][adding : adding + 6].strip() == "1"
    assert lines["3"][retiring : retiring + 8].strip() == "1"


def test_brokers_that_are_fenced_or_only_named_by_a_replica_list_are_both_down() -> None:
    text = drawn((120, 30), "end")
    assert row(text, 9)[1] == row(text, 77)[1] == "DOWN"
    assert "only replica lists name it" in text
    assert "not registered" in text


def test_leaders_and_replicas_come_from_the_census_with_its_time() -> None:
    text = drawn((200, 60))
    assert "230" in row(text, 1)
    assert "1,201" in row(text, 1)
    local = BEGAN.astimezone()
    assert f"12,034 partitions counted at {local:%H:%M:%S}" in text.splitlines()[1]


async def test_the_count_is_shown_as_under_way_until_there_is_a_census() -> None:
    text = await text_of(BrokersScreen(), progress(last=observation()), size=(120, 30))
    assert "leaders and replicas are being counted" in text.splitlines()[1]


def test_disk_usage_is_a_bar_with_a_figure() -> None:
    text = drawn((80, 24))
    assert row(text, 1)[-2:] == ["━────", "25%"]
    assert row(text, 2)[-1] == "90%"
    assert "!" in row(text, 2)
    assert row(text, 4)[-1] == "-"


async def test_a_disk_that_is_nearly_full_is_coloured() -> None:
    async with hosted(BrokersScreen(), progress(last=full()), size=(80, 24)) as view:
        assert colour_of(view.app, " 90%") == role_style(view.app.theme_variables, "stalled").color
        assert colour_of(view.app, " 75%") != role_style(view.app.theme_variables, "stalled").color


@pytest.mark.parametrize("size", SIZES)
def test_the_panel_shows_every_detail_of_the_broker_under_the_cursor(
    size: tuple[int, int],
) -> None:
    text = drawn(size)  # what has no column has its place in the panel
    for words in (
        "broker 1", "kafka-1.eu.example:9092", "eu-1b", "in 50 MB/s out 40 MB/s",
        "230", "1,201", "1.0 TiB of 4.0 TiB", "/var/lib/kafka",
    ):  # fmt: skip
        assert words in text
    text = drawn(size, "down")
    assert "! offline: KAFKA_STORAGE_ERROR  /b" in text
    assert "9.0 TiB of 10 TiB" in text
    text = drawn(size, "down", "down")
    assert "⊘ cordoned  /c" in text


def test_a_broker_panel_lists_what_could_not_be_read() -> None:
    keys = ["down"] * 5
    text = drawn((120, 30), *keys)
    assert "! broker 9: log dirs: no answer in 2.0 s" in text
    assert "Registered but fenced" in text


def test_a_wide_terminal_shows_more_columns() -> None:
    narrow, wide, widest = [
        re.split(
            " {2,}", next(line for line in text.splitlines() if "left to move" in line).strip()
        )
        for text in map(drawn, SIZES)
    ]
    assert narrow == ["broker", "state", "in, of throttle", "out", "left to move", "disk"]
    assert set(wide) - set(narrow) == {
        "in, of its throttle", "last 1 min", "replicas", "leader of",
    }  # fmt: skip
    assert set(widest) - set(wide) == {
        "in, last 1 min", "out, last 1 min", "behind by", "adding", "retiring", "cordoned",
        "throttle out",
    }  # fmt: skip


async def test_only_cells_that_changed_are_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, str]] = []
    original = BrokerTable.update_cell

    def spy(self: BrokerTable, row_key: str, column_key: str, value: object, **_: object) -> None:
        written.append((row_key, column_key))
        original(self, row_key, column_key, value)  # type: ignore[arg-type] # a spy hands it on

    async with hosted(BrokersScreen(), progress(timeline(), last=full()), size=(80, 24)) as view:
        monkeypatch.setattr(BrokerTable, "update_cell", spy)
        await view.show(progress(timeline(), last=full()))
        assert written == []
        fenced = {**BROKERS, 2: Broker(2, "kafka-2.eu.example", 9092, "eu-1c", alive=False)}
        changed = observation(RAN_S + 1, brokers=fenced, log_dirs=DIRS, census=CENSUS)
        await view.show(progress(timeline(), last=changed))
        assert ("2", "state") in written
        assert not [key for key in written if key[0] in ("4", "5")]


async def test_the_cursor_stays_on_its_broker_as_others_come_and_go() -> None:
    async with hosted(BrokersScreen(), progress(last=observation()), size=(80, 24)) as view:
        await view.press("home", "down", "down", "down")
        assert view.screen.selected == 4
        more = {0: Broker(0, "new", 9092), **BROKERS}
        await view.show(progress(last=observation(brokers=more)))
        assert view.screen.selected == 4
        assert [r.key.value for r in view.screen.query_one(BrokerTable).ordered_rows] == [
            "0", "1", "2", "3", "4", "5", "9",
        ]  # fmt: skip
        fewer = {i: broker for i, broker in BROKERS.items() if i > 2}
        text = await view.show(progress(last=observation(brokers=fewer)))
        assert view.screen.selected == 4
        assert "broker 4" in text
        await resize(view.pilot, (120, 30))
        await view.pilot.pause()
        assert view.screen.selected == 4


async def test_the_cursor_moves_to_another_broker_when_its_own_disappears() -> None:
    async with hosted(BrokersScreen(), progress(last=observation()), size=(80, 24)) as view:
        await view.press("end")
        await view.show(progress(last=observation(brokers={1: BROKERS[1]})))
        assert "broker 1 " in view.text
        text = await view.show(progress(last=observation(brokers={})))
        assert view.screen.selected is None
        assert "The cluster names no brokers." in text


async def test_enter_returns_to_a_list_filtered_to_the_broker_in_the_app() -> None:
    cluster = a_cluster(resting=["far-0", "near-0"])
    cluster.do(move("far-0", 1, 3, 4))
    cluster.do(move("near-0", 1, 2, 5))
    async with watching(cluster) as watch:
        assert watch.rows == ["far-0", "near-0"]
        await watch.press("b", "home", "down", "down", "down", "down", "enter")
        await watch.until(lambda: watch.app.screen is watch.app.watch_screen)
        await watch.until(lambda: watch.rows == ["near-0"])
        assert "broker:5" in watch.text


async def test_the_app_shows_the_load_of_a_move_per_broker_and_which_broker_is_silent() -> None:
    cluster = a_cluster(moving=["orders-0"], copied_s=5_000)
    cluster.do(throttle("follower", 4, 50_000_000))
    async with watching(cluster, (200, 60)) as watch:
        await watch.pass_time(29)
        await watch.press_and_see("b")
        assert "1 partition counted" in watch.lines[1]
        copying, leading_words = row(watch.text, 4), " ".join(row(watch.text, 1))
        assert " ".join(copying[3:]).endswith("- 1 +1 to come 0 850 k msg 1 0 ───── 0%")
        assert "5/50 MB/s" in " ".join(copying)
        assert "5.0 MB/s" in leading_words
        assert "1 to go 1 - 0 1 ───── 0%" in leading_words
        await watch.do(layout.Hang(4))
        await watch.press("home", "down", "down", "down")
        await watch.pass_time(2)
        assert "! broker 4: log ends: no answer for" in watch.text
        await watch.pass_time(10)
        assert row(watch.text, 4)[1] == "DOWN"
        assert "Registered but fenced" in watch.text


async def test_a_click_moves_the_cursor_and_goes_nowhere() -> None:
    async with hosted(BrokersScreen(), progress(last=observation()), size=(80, 24)) as view:
        await view.pilot.click(BrokerTable, offset=(5, 4))
        await view.pilot.pause()
        assert view.screen.selected == 4
        assert not view.left


async def test_the_brokers_screen_waits_for_the_first_answer_and_ignores_enter() -> None:
    async with hosted(BrokersScreen(), size=(80, 24)) as view:
        assert "Waiting for the first answer of the cluster." in await view.show(Progress())
        await view.press("enter")
        assert not view.left


async def test_three_hundred_brokers_scroll() -> None:
    many = {i: Broker(i, f"kafka-{i}", 9092) for i in range(300)}
    async with hosted(
        BrokersScreen(), progress(last=observation(brokers=many)), size=(120, 30)
    ) as view:
        await view.press("end")
        assert view.screen.selected == 299
        assert row(view.text, 299)[1] == "alive"


async def test_a_panel_that_does_not_fit_can_be_reached_and_scrolled() -> None:
    dirs = tuple(LogDir(1, f"/disk-{i:02}", None, TIB, TIB // 2) for i in range(30))
    async with hosted(BrokersScreen(), size=(80, 24)) as view:
        seen = progress(last=observation(log_dirs={1: dirs}))
        assert "/disk-29" not in await view.show(seen)
        await view.press("home", "tab", "end")
        assert view.app.focused is view.screen.query_one(VerticalScroll)
        assert "/disk-29" in view.text


@pytest.mark.parametrize("size", SIZES)
async def test_hostile_names_are_shown_as_they_are(size: tuple[int, int]) -> None:
    brokers = {1: Broker(1, HOSTILE, 9092, rack=HOSTILE)}
    dirs = {1: (LogDir(1, HOSTILE, HOSTILE),)}
    seen = progress(last=observation(brokers=brokers, log_dirs=dirs))
    text = await text_of(BrokersScreen(), seen, size=size)
    assert "address" in text
    assert "[bold]x[/bold][@click=app.quit]y[/]" in text


async def test_rows_take_a_new_theme_at_once() -> None:
    async with hosted(BrokersScreen(), progress(timeline(), last=full()), size=(120, 30)) as view:
        await view.pilot.press("home", "down", "down")
        for theme in SHIPPED.themes:
            view.app.theme = theme
            await view.pilot.pause()
            lines = view.app.screen._compositor.render_strips()
            cells = [cell for line in lines for cell in line if cell.style is not None]
            down = {
                cell.style.color for cell in cells if cell.style and cell.text.strip() == "DOWN"
            }
            assert down == {role_style(view.app.theme_variables, "stalled").color}
            # the row under the cursor has one unbroken background
            line = next(line for line in lines if line.text.split()[:2] == ["3", "alive"])
            behind = {segment.style.bgcolor for segment in line if segment.style is not None}
            assert behind == {role_style(view.app.theme_variables, "cursor").color}
