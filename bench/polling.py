"""The time of a poll, relative to the bare calls that it makes."""

from __future__ import annotations

import asyncio

from bench.bare_calls import BareCalls
from bench.clusters import moving
from bench.timing import calls_in_turn, milliseconds, ratio
from ktui.cluster.clock import SystemClock
from ktui.cluster.observer import Observer
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.lab.layout import Lab

TURNS = 15


def run(lab: Lab) -> None:
    """Print the figures for 0, 100 and 2,000 moving partitions."""
    for count in (0, 100, 2_000):
        with moving(lab, count):
            mine, bare = asyncio.run(_measure(lab.bootstrap_servers.split(",")[0]))
        print(
            f"a poll, {count:,} moving: {milliseconds(mine)}; bare calls: {milliseconds(bare)}; "
            f"{ratio(mine, bare):.2f} times (aim: at most 1.3)"
        )


async def _measure(bootstrap: str) -> tuple[list[float], list[float]]:
    reader = KafkaReader(Connection.to(bootstrap))
    observer = Observer(reader, SystemClock(), patience_s=10.0)
    bare = BareCalls(bootstrap)

    async def bare_poll() -> int:
        return await asyncio.to_thread(bare.poll, first=False)

    mine, floor = await calls_in_turn([observer.poll, bare_poll], TURNS)
    bare.close()
    await observer.aclose()
    await reader.aclose()
    return mine, floor
