"""The README's picture: an incident in the live view on a real cluster, drawn by this very run.

`make screenshot` copies it into docs/images.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from textual.pilot import Pilot

from ktui.cluster.clock import SystemClock
from ktui.cluster.observer import Observer
from ktui.kafka.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.lab.layout import Lab
from ktui.progress.timeline import Phase
from ktui.tui.app import KtuiApp
from ktui.tui.themes import load_themes
from support.hanging_moves import DEAD_TARGET, hanging_moves
from support.outage import Outage
from support.slow_move import slow_move

OUT = Path(__file__).parents[1] / "out"
PATIENCE_S = 150
TO_TWO_MINUTES = ("z", "z")


async def until_phases(app: KtuiApp, pilot: Pilot[None], wanted: set[Phase]) -> None:
    """Let the app run until partitions of all these phases are on the screen."""
    async with asyncio.timeout(PATIENCE_S):
        while not wanted <= {t.phase for t in app.progress.timelines.values()}:
            await pilot.pause(0.2)


async def draw(connection: Connection) -> str:
    reader = KafkaReader(connection)
    observer = Observer(reader, SystemClock())
    app = KtuiApp(
        observer,
        cluster_name="lab",
        read_only=True,
        poll_interval_s=1.0,
        theme=None,
        themes=load_themes(None),
    )
    try:
        async with app.run_test(size=(132, 18)) as pilot:
            await pilot.press(*TO_TWO_MINUTES)
            await until_phases(app, pilot, {Phase.MOVING, Phase.STALLED, Phase.DONE})
            return app.export_screenshot(title="ktui")
    finally:
        await observer.aclose()
        await reader.aclose()


def test_an_incident_on_a_real_cluster_is_drawn(lab: Lab, outage: Outage) -> None:
    connection = Connection.to(lab.bootstrap_servers)
    outage.kill(DEAD_TARGET)
    with (
        slow_move(connection, "orders", partitions=4, mebibytes=12, bytes_s=900_000),
        slow_move(connection, "payments", partitions=2, mebibytes=3, bytes_s=900_000),
        hanging_moves(connection, "audit", 1),
    ):
        svg = asyncio.run(draw(connection))

    OUT.mkdir(exist_ok=True)
    (OUT / "watch.svg").write_text(svg, encoding="utf-8")
    shown = svg.replace("&#160;", " ")
    for words in ("orders-3", "STALLED", f"broker {DEAD_TARGET} is down", "payments-1", "done"):
        assert words in shown
