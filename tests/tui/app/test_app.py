"""The app: keys, themes, and the terminal that it gives back."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.color import Color, ColorType
from textual.app import App
from textual.binding import Binding
from textual.screen import Screen

from ktui.cluster.observer import Interest
from ktui.progress.timeline import Progress
from ktui.simulated import layout
from ktui.tui.draw.paint import ROLES
from ktui.tui.draw.themes import load_themes
from ktui.tui.screens.brokers.screen import BrokersScreen
from ktui.tui.screens.dashboard.screen import DashboardScreen
from ktui.tui.screens.detail.screen import DetailScreen
from ktui.tui.screens.events import EventsScreen
from ktui.tui.screens.help import HelpScreen
from ktui.tui.screens.watch.screen import WatchScreen
from ktui.tui.widgets.footer import FooterKeys
from support.simulated.moving_clusters import a_cluster, move
from support.views.screens import (
    SHIPPED,
    TP,
    Host,
    colour_of,
    events,
    observation,
    progress,
    resize,
    screen_text,
    timeline,
)
from support.views.terminal import Terminal
from support.views.watching import LARGE, SMALL, an_app, watching


async def test_enter_opens_the_partition_under_the_cursor_and_escape_comes_back() -> None:
    async with watching(a_cluster(moving=["a-0", "b-0"])) as watch:
        # from the detail the next partition of the list can be opened
        await watch.press("enter", "right_square_bracket")
        assert "b-0" in watch.lines[1]
        await watch.press("left_square_bracket")
        assert "a-0" in watch.lines[1]
        await watch.press("escape")

        await watch.press("home", "down", "enter")
        assert isinstance(watch.app.screen, DetailScreen)
        assert "b-0" in watch.lines[1]
        await watch.see()
        await watch.press("escape")
        assert isinstance(watch.app.screen, WatchScreen)
        assert watch.cursor == "b-0"


OPENS: dict[str, type[Screen[None]]] = {
    "enter": DetailScreen,
    "b": BrokersScreen,
    "d": DashboardScreen,
    "e": EventsScreen,
    "question_mark": HelpScreen,
}


@pytest.mark.parametrize("closes", ["escape", "q"])
async def test_each_screen_opens_with_its_key_and_closes_with_escape_and_q(closes: str) -> None:
    async with watching(a_cluster(moving=["a-0"])) as watch:
        for key, kind in OPENS.items():
            await watch.press(key)
            assert isinstance(watch.app.screen, kind)
            await watch.press_and_see(key)
            if watch.app.screen is not watch.app.watch_screen:
                await watch.press(closes)
            assert watch.app.screen is watch.app.watch_screen


async def test_the_screen_takes_a_new_size_on_a_busy_machine_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def busy() -> float:
        """Return a time that is 20 ms later at every look, as if the processor was taken away."""
        return time.monotonic() + next(looks) / 50

    looks = itertools.count()
    async with watching(a_cluster(moving=["a-0"])) as watch:
        with monkeypatch.context() as patch:
            patch.setattr("textual._time.get_time", busy)
            await resize(watch.pilot, SMALL)
        await resize(watch.pilot, LARGE)


async def test_a_deleted_topic_shows_no_leader() -> None:
    async with watching(a_cluster(moving=["a-0"])) as watch:
        await watch.press("enter")
        assert [line.split()[0] for line in watch.lines if "next leader" in line] == [">+4"]
        await watch.do(layout.DeleteTopic("a"))
        gone = [line.split()[0] for line in watch.lines if " gone  " in line]
        assert gone[-4:] == ["2", "3", "1", "4"]


async def test_enter_on_an_empty_list_reports_that_there_is_nothing_to_open() -> None:
    async with watching(a_cluster()) as watch:
        await watch.press("enter")
        assert "There is no partition to open." in watch.text


async def test_the_whole_cluster_is_counted_only_while_the_brokers_screen_is_open() -> None:
    async with watching(a_cluster()) as watch:
        await watch.press_and_see("b")
        assert watch.looks.interests[-1] == Interest(census=True, health=True)
        await watch.press_and_see("escape")
        assert watch.looks.interests[-1] == Interest(health=True)


# --- help and palette ------------------------------------------------------------------------


def _every_tooltip() -> set[str]:
    kinds = (App, WatchScreen, DetailScreen, BrokersScreen, EventsScreen)
    app = an_app(a_cluster())
    return {
        binding.tooltip
        for owner in (app, *kinds[1:])
        for binding in owner.BINDINGS
        if isinstance(binding, Binding) and binding.tooltip
    }


def test_the_help_lists_every_key_binding() -> None:
    app = an_app(a_cluster())
    listed = {words for section in app.help_sections() for _, words in section.rows}
    assert _every_tooltip() <= listed
    assert len(_every_tooltip()) > 15


def test_every_key_has_a_sentence_for_the_help() -> None:
    for owner in (type(an_app(a_cluster())), WatchScreen):
        for binding in owner.BINDINGS:
            assert isinstance(binding, Binding)
            assert binding.tooltip or binding.key == "ctrl+c", binding


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_the_help_explains_every_sign_and_can_be_scrolled(size: tuple[int, int]) -> None:
    async with watching(a_cluster(), size) as watch:
        await watch.press("question_mark")
        assert "Open the partition's detail" in watch.text
        await watch.press("end")
        await watch.until(lambda: "the topic is gone" in watch.text)


async def test_the_palette_finds_every_action_and_every_theme() -> None:
    async with watching(a_cluster(moving=["a-0", "b-0"])) as watch:
        await watch.press("ctrl+p")
        await watch.type("theme light")
        await watch.until(lambda: "theme: light" in watch.text)
        await watch.press("down", "enter")
        await watch.until(lambda: watch.app.theme == "light")
        await watch.press("ctrl+p")
        await watch.type("reverse the order")
        await watch.until(lambda: "Turn the order round" in watch.text)
        await watch.press("down", "enter")
        await watch.until(lambda: watch.rows == ["b-0", "a-0"] or "state ▼" in watch.lines[2])


async def test_every_key_in_the_footer_does_something() -> None:
    async with watching(a_cluster(moving=["a-0"])) as watch:
        footer = watch.lines[-1]
        for words in ("detail", "filter", "sort", "view", "freeze", "brokers", "events", "help"):
            assert words in footer
        assert "dashboard" in footer
        # a read-only view without a run can change nothing
        for words in ("cancel", "throttle", "limits", "pause", "start plan", "runs", "mark"):
            assert words not in footer
        # a key that is left out says why it can do nothing
        await watch.press("p")
        assert "No run is attached." in watch.text


async def test_the_smallest_terminal_leaves_keys_out_of_the_footer_but_cuts_none() -> None:
    async with watching(a_cluster(moving=["a-0"]), SMALL) as watch:
        assert watch.lines[-1].rstrip().endswith("q quit")
        assert "brokers" in watch.lines[-1]
        assert "limits" not in watch.lines[-1]


async def test_a_key_in_the_footer_says_what_it_is_for_and_can_be_clicked() -> None:
    async with watching(a_cluster(moving=["a-0"])) as watch:
        footer = watch.app.screen.query_one(FooterKeys)
        start, row = watch.lines[-1].index("b brokers"), len(watch.lines) - 1
        for column in (start, start + len("b brokers") - 1):
            await watch.pilot.hover(offset=(column, row))
            assert str(footer.tooltip).startswith("Show the brokers")
        await watch.pilot.hover(offset=(start - 1, row))
        assert footer.tooltip is None
        await watch.pilot.click(offset=(start, row))
        assert isinstance(watch.app.screen, BrokersScreen)


# --- leaving ---------------------------------------------------------------------------------


async def test_quitting_reports_how_many_reassignments_continue_without_the_view() -> None:
    async with watching(a_cluster(moving=["a-0", "b-0"])) as watch:
        assert await watch.quit() == (
            "ktui: view closed; nothing on the cluster was changed by it."
            " 2 partitions are being reassigned and will go on without it."
        )


async def test_quitting_a_quiet_cluster_reports_that_nothing_was_changed() -> None:
    async with watching(a_cluster()) as watch:
        assert (await watch.quit()).endswith("nothing on the cluster was changed by it.")


@pytest.mark.parametrize("keys", [["question_mark"], ["T"], ["ctrl+p"], ["slash", "a"], ["b"]])
async def test_ctrl_c_quits_from_everywhere(keys: list[str]) -> None:
    async with watching(a_cluster()) as watch:
        await watch.press(*keys)
        await watch.press("ctrl+c")
        await watch.until(lambda: watch.app._exit)
        assert "view closed" in watch.last_words


# --- losing the cluster elsewhere, themes, title ---------------------------------------------


async def test_every_screen_warns_that_tls_does_not_verify_the_cluster() -> None:
    async with watching(a_cluster(moving=["a-0"]), SMALL, tls_unverified=True) as watch:
        assert "READ-ONLY   TLS unverified  " in watch.lines[0]
        for key in ("enter", "b", "e"):
            await watch.press(key)
            assert "READ-ONLY   TLS unverified  " in watch.lines[0]
            await watch.press("escape")


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_every_screen_shows_which_brokers_are_down_and_that_the_cluster_is_lost(
    size: tuple[int, int],
) -> None:
    async with watching(a_cluster(moving=["a-0"]), size) as watch:
        await watch.do(layout.Shutdown(4))
        for key in ("enter", "b", "e"):
            await watch.press(key)
            assert "prod-eu" in watch.lines[0]
            assert "READ-ONLY" in watch.lines[0]
            assert "8/9 brokers" in watch.lines[0]
            assert "‼ broker 4 down" in watch.lines[1]
            await watch.press("escape")
        await watch.press("b")
        await watch.lose()
        await watch.pass_time(11)
        assert (
            "‼ cluster does not answer, last answer 12 s ago, retrying: no broker answered"
            in watch.lines[1]
        )
        for key in ("e", "enter"):  # opened while the cluster is lost, they say so at once
            await watch.press("escape", key)
            assert (
                "‼ cluster does not answer, last answer 12 s ago, retrying: no broker answered"
                in watch.lines[1]
            )
            assert "down" not in watch.lines[1]
        await watch.recover()
        assert "does not answer, last" not in watch.text


async def test_values_of_a_lost_cluster_are_grey_on_every_screen() -> None:
    async with watching(a_cluster(moving=["a-0"])) as watch:
        for key, words in (("enter", "moving"), ("b", "alive")):
            await watch.press(key)
            current = colour_of(watch.app, words)
            await watch.lose()
            grey = colour_of(watch.app, words)
            assert None not in (grey, current)
            assert grey != current
            await watch.recover()
            assert colour_of(watch.app, words) == current
            await watch.press("escape")


async def test_the_events_list_an_outage_and_its_duration() -> None:
    async with watching(a_cluster(moving=["a-0"], resting=["b-0"])) as watch:
        await watch.press("e")
        await watch.pass_time(10)
        await watch.lose()
        assert "cluster lost: no broker answered" in watch.text
        await watch.pass_time(30)
        await watch.recover()
        await watch.do(move("b-0", 4, 2, 3))
        listed = [line for line in watch.lines if "cluster  " in line or "b-0" in line]
        assert len(listed) == 3
        assert "cluster lost: no broker answered" in listed[0]
        assert "cluster answers again after 37 s" in listed[1]
        assert "b-0" in listed[2]


async def test_an_unknown_theme_is_named_and_the_default_is_used() -> None:
    async with watching(a_cluster(), LARGE, theme="drak") as watch:
        await watch.until(lambda: "There is no usable theme 'drak', so dark is used." in watch.text)
        assert watch.app.theme == "dark"


async def test_a_broken_theme_file_is_named_with_its_line_and_the_app_runs(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine.yaml").write_text("name: mine\nextends: dark\nfont: Fira\n")
    cluster = a_cluster(moving=["a-0"])
    async with watching(cluster, LARGE, themes=load_themes(tmp_path)) as watch:
        await watch.until(lambda: "mine.yaml:3" in watch.text.replace("\n", ""))
        await watch.see()
        assert watch.rows == ["a-0"]


async def test_a_saved_theme_is_shown_at_once_and_a_broken_one_changes_nothing(
    tmp_path: Path,
) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text('name: mine\nextends: dark\ncolors: {primary: "#111111"}\n')
    themes = load_themes(tmp_path)
    async with watching(a_cluster(moving=["a-0"]), themes=themes, theme="mine") as watch:
        mine.write_text("name: mine\nextends: dark\ncolors: {primary: tomatoo}\n")
        await watch.until(lambda: "The theme stays as it was" in watch.text)
        assert "mine.yaml:3: `primary` is not a colour" in " ".join(watch.text.split())
        assert watch.app.current_theme.primary == "#111111"

        mine.write_text("name: mine\nextends: dark\ncolors: {primary: tomato}\n")
        await watch.until(lambda: watch.app.current_theme.primary == "tomato")
        await watch.until(lambda: watch.app.theme_variables["primary"] == "#FE6347")


async def test_only_ktui_themes_are_offered() -> None:
    async with watching(a_cluster()) as watch:
        assert set(watch.app.available_themes) == set(load_themes(None).themes)


async def test_the_terminal_title_shows_the_totals(monkeypatch: pytest.MonkeyPatch) -> None:
    async with watching(a_cluster(moving=["a-0", "b-0"], messages=10_000)) as watch:
        written: list[str] = []
        driver = watch.app._driver
        assert driver is not None
        monkeypatch.setattr(driver, "write", written.append)
        await watch.see()
        assert "\x1b]0;ktui prod-eu: 5%, 2 moving\x07" in written
        await watch.pass_time(25)
        assert written[-1] == "\x1b]0;ktui prod-eu: nothing is moving\x07"
        await watch.lose()
        assert written[-1] == "\x1b]0;ktui prod-eu: cluster lost\x07"


LEAVE_ALTERNATE_SCREEN, SHOW_CURSOR = b"\x1b[?1049l", b"\x1b[?25h"


def test_a_view_ends_when_its_terminal_is_gone_even_without_a_signal() -> None:
    command = [sys.executable, "-m", "ktui", "--bootstrap-server", "127.0.0.1:1"]
    with Terminal(command) as terminal:
        terminal.wait_for("connection refused")

        terminal.hang_up()

        assert terminal._process.wait(timeout=60) == -signal.SIGHUP


def test_a_demo_that_is_hung_up_leaves_no_folder_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ktui", "demo"]
    with Terminal(command, env={"TMPDIR": str(tmp_path)}) as terminal:
        terminal.wait_for("SIMULATED")
        assert list(tmp_path.glob("ktui-demo-*"))

        terminal.hang_up()

        assert terminal._process.wait(timeout=60) == -signal.SIGHUP
    assert not list(tmp_path.glob("ktui-demo-*"))


def test_a_view_terminated_by_another_process_restores_the_terminal() -> None:
    command = [sys.executable, "-m", "ktui", "--bootstrap-server", "127.0.0.1:1"]
    with Terminal(command) as terminal:
        terminal.wait_for("connection refused")
        os.kill(terminal._process.pid, signal.SIGTERM)
        terminal.wait_for_exit()

        assert terminal.attributes == terminal.attributes_before
        assert LEAVE_ALTERNATE_SCREEN in terminal.output
        assert SHOW_CURSOR in terminal.output


SCREENS = {
    "detail": lambda: DetailScreen(TP),
    "brokers": BrokersScreen,
    "events": EventsScreen,
}


def all_shown() -> Progress:
    return progress(timeline(), last=observation(), events=events(50, severity=1))


def colours(app: Host[Any]) -> Iterator[Color]:
    for strip in app.screen._compositor.render_strips():
        for segment in strip:
            if segment.style is not None:
                yield from filter(None, (segment.style.color, segment.style.bgcolor))


async def drawn(screen: Screen[None], theme: str) -> tuple[str, set[Color]]:
    app = Host(screen, theme)
    async with app.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        app.show(all_shown())
        await pilot.press("tab")
        await pilot.pause()
        return screen_text(app), set(colours(app))


@pytest.mark.parametrize("screen", SCREENS.values(), ids=SCREENS.keys())
async def test_the_sixteen_colour_theme_uses_only_the_terminals_own_colours(
    screen: Any,
) -> None:
    _, seen = await drawn(screen(), "sixteen")
    assert len(seen) > 3
    assert {color.type for color in seen} <= {ColorType.STANDARD, ColorType.DEFAULT}


@pytest.mark.parametrize("screen", SCREENS.values(), ids=SCREENS.keys())
async def test_screens_show_the_same_text_and_signs_without_colour(
    screen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    coloured, _ = await drawn(screen(), "dark")
    monkeypatch.setenv("NO_COLOR", "1")
    plain, seen = await drawn(screen(), "dark")
    assert plain == coloured
    assert all(len(set(color.get_truecolor())) == 1 for color in seen)


async def test_each_theme_has_a_usable_colour_for_each_role() -> None:
    app = Host(EventsScreen())
    async with app.run_test() as pilot:
        for theme in SHIPPED.themes:
            app.theme = theme
            await pilot.pause()
            for role in ROLES:
                style = app.stylesheet.parse_style(f"${role}")
                assert style.foreground is not None


@pytest.mark.parametrize("key", ["enter", "b", "d", "e"])
async def test_a_poll_that_is_answered_while_the_view_closes_is_let_go(key: str) -> None:
    async with watching(a_cluster(moving=["a-0", "b-0"])) as watch:
        await watch.press(key)
        await watch.app.screen.query("*").remove()  # as each screen loses its widgets one by one
        watch.app._running = False
        watch.app._show_poll()
        watch.app._running = True
