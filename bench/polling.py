"""The time of a poll, relative to the bare calls that it makes."""

from __future__ import annotations

import asyncio

from bench.bare_calls import BareCalls
from bench.checks import check_count
from bench.clusters import DEAD, moving
from bench.timing import calls_in_turn, milliseconds, ratio
from ktui.cluster.clock import SystemClock
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Observer
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.lab.layout import Lab

TURNS = 15
SETTLE_POLLS = 60
WHOLE_POLLS = 3
"""Whole polls in a row, a second apart, before the measurement begins."""


def run(lab: Lab) -> None:
    """Print the figures for 0, 100 and 2,000 moving partitions."""
    for count in (0, 100, 2_000):
        with moving(lab, count):
            mine, bare = asyncio.run(_measure(lab.bootstrap_servers.split(",")[0], count))
        print(
            f"a poll, {count:,} moving: {milliseconds(mine)}; bare calls: {milliseconds(bare)}; "
            f"{ratio(mine, bare):.2f} times (aim: at most 1.3)"
        )


async def _measure(bootstrap: str, count: int) -> tuple[list[float], list[float]]:
    reader = KafkaReader(Connection.to(bootstrap))
    observer = Observer(reader, SystemClock(), patience_s=10.0)
    bare = BareCalls(bootstrap)

    async def poll() -> None:
        if (missing := _missing(await observer.poll(), count)) is not None:
            raise SystemExit(f"not measured: {missing}")

    async def bare_poll() -> None:
        found = await asyncio.to_thread(bare.poll, first=False)
        check_count("moves seen by the bare calls", found, count)

    whole = 0
    for _ in range(SETTLE_POLLS):  # brokers take a while to make thousands of new replicas
        whole = whole + 1 if _missing(await observer.poll(), count) is None else 0
        if whole == WHOLE_POLLS:
            break
        await asyncio.sleep(1)
    mine, floor = await calls_in_turn([poll, bare_poll], TURNS)
    bare.close()
    await observer.aclose()
    await reader.aclose()
    return mine, floor


def _missing(seen: Observation, count: int) -> str | None:
    """Return what a poll lacks, but for the dead broker's figures; None if it is whole."""
    moves = sum(bool(state.adding) for state in seen.partitions.values())
    if moves != count:
        return f"{moves:,} of {count:,} moves are in a poll"
    return next((each.sentence for each in seen.failures if each.broker != DEAD), None)
