"""A note on the run is written from the Events screen, and shown there."""

from __future__ import annotations

from pathlib import Path

from ktui.execution.host.client import RunClient
from support.views.running import a_quiet_cluster, moved, watching_run

PLAN = moved("orders-0", "orders-1")


async def test_a_note_is_written_by_a_key_and_shown_among_the_events(tmp_path: Path) -> None:
    cluster = a_quiet_cluster("orders-0", "orders-1")
    async with watching_run(cluster, tmp_path, PLAN) as watch:
        await watch.press("e", "N")
        assert "note on run drain-3" in watch.text
        await watch.press(*"new disk", "enter")
        await watch.pass_until("note: new disk, by ")

        assert [each.event.text for each in RunClient(watch.run).read().run.notes] == ["new disk"]


async def test_a_read_only_view_writes_no_note_and_says_why(tmp_path: Path) -> None:
    cluster = a_quiet_cluster("orders-0", "orders-1")
    async with watching_run(cluster, tmp_path, PLAN, write=False) as watch:
        await watch.press("e", "N")

        assert "This view is read-only" in watch.text
        assert RunClient(watch.run).read().run.notes == []
