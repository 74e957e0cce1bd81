"""The view with other keys: they act, and footer, help, palette and troubles name them."""

from __future__ import annotations

from pathlib import Path

from ktui.simulated import layout
from ktui.tui.screens.brokers.screen import BrokersScreen
from support.simulated.moving_clusters import a_cluster
from support.views.running import a_quiet_cluster, moved, watching_run
from support.views.watching import MIDDLE, watching

KEYMAP = {
    "app.brokers": "B,f5",
    "app.help": "h",
    "app.resume": "ctrl+r",
    "app.cancel": "exclamation_mark",
    "watch.unfold": "w",
}


async def test_mapped_keys_act_in_place_of_the_usual_ones_and_are_named_everywhere() -> None:
    async with watching(a_cluster(moving=["a-0"]), MIDDLE, keymap=KEYMAP) as watch:
        footer = watch.lines[-1]
        assert "B brokers" in footer
        assert "h help" in footer
        await watch.press("b")
        assert not isinstance(watch.app.screen, BrokersScreen)
        await watch.do(layout.Kill(4))
        await watch.pass_time(20)
        assert "broker 4 down" in watch.lines[1]
        assert "(B)" in watch.lines[1]
        assert watch.lines[-1].strip().startswith("B brokers · ↵ detail   ")
        await watch.press("h", "slash")
        await watch.type("traffic, disks")
        assert "B f5" in watch.line("Show the brokers: traffic, disks")
        await watch.press("escape", "escape", "B")
        assert isinstance(watch.app.screen, BrokersScreen)
        await watch.press("escape", "ctrl+p")
        await watch.type("brokers")
        await watch.until(lambda: "(B f5)" in watch.text)


async def test_the_trouble_line_names_the_mapped_keys(tmp_path: Path) -> None:
    cluster = a_quiet_cluster("a-0")
    async with watching_run(cluster, tmp_path, moved("a-0"), keymap=KEYMAP) as watch:
        await watch.engines.aclose()
        await watch.see()
        assert "(ctrl+r resume, ! call off)" in watch.lines[1]
        assert watch.lines[-1].strip().startswith("ctrl+r resume · ! call off   ")


async def test_the_line_of_folded_partitions_names_the_mapped_key(tmp_path: Path) -> None:
    names = [f"a-{number}" for number in range(16)]
    async with watching_run(
        a_quiet_cluster(*names), tmp_path, moved(*names), keymap=KEYMAP
    ) as watch:
        await watch.see()
        assert "w shows the rows" in watch.line("▸ queued")
