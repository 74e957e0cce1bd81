"""The time to move 1,000 empty partitions: all at once by Kafka's own tool, and by `ktui start`.

Nothing is copied, so this is the cost of the steps themselves. A count of partitions at once cannot
know that they are small.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from pathlib import Path

from bench.checks import check_count
from bench.disturbing import Way, quietly, remove_tool_throttles, ten_brokers, watched
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.kafka.workload import create_topic, delete_topics
from ktui.lab.layout import Lab
from ktui.planning.check.snapshot import take_snapshot
from ktui.planning.plan import PartitionTarget, Plan, plan_as_json

ROUNDS = 3
PARTITIONS = 1_000
_LOOKS = 120
MOST_TIMES = 2.0
"""The aim: at most so many times as long as Kafka's tool."""
WAYS = (
    Way("all at once"),
    Way("ktui start", ()),
    Way("ktui start, P 200", ("--partitions", "200")),
)


def run() -> None:
    """Print the time of each way."""
    taken: dict[str, list[float]] = {way.name: [] for way in WAYS}
    with ten_brokers() as lab:
        _seconds(lab, "bench-cold", WAYS[0])  # brokers that have just started are slow
        for number in range(ROUNDS):
            for n, way in enumerate(WAYS):
                taken[way.name].append(_seconds(lab, f"bench-{number}-{n}", way))
    peer = statistics.median(taken[WAYS[0].name])
    print(f"{PARTITIONS:,} empty partitions, both replicas replaced, ten brokers:")
    for name, seconds in taken.items():
        times = statistics.median(seconds) / peer
        each = ", ".join(f"{one:.1f}" for one in seconds)
        aim = "" if name == WAYS[0].name else f", {times:.2f} times the tool (aim: {MOST_TIMES})"
        print(f"  {name:<18} {statistics.median(seconds):5.1f} s ({each}){aim}")


def _seconds(lab: Lab, topic: str, way: Way) -> float:
    connection = Connection.to(lab.bootstrap_servers)
    create_topic(connection, topic, [_brokers(n, 0) for n in range(PARTITIONS)])
    plan = Plan(tuple(PartitionTarget(topic, n, tuple(_brokers(n, 5))) for n in range(PARTITIONS)))
    asyncio.run(_logs_are_made(connection, plan))
    try:
        with tempfile.TemporaryDirectory(prefix="ktui-bench-") as folder:
            file = Path(folder) / f"{topic}.json"
            file.write_text(plan_as_json(plan))
            mover = quietly(way.argv(lab, file, folder, None))
            seconds, _, peak = asyncio.run(watched(connection, plan, mover))
            if way.options is None:
                remove_tool_throttles(lab, file)
        check_count("whether any replica was seen to be added", int(peak > 0), 1)
        return seconds
    finally:
        delete_topics(connection, [topic])


async def _logs_are_made(connection: Connection, plan: Plan) -> None:
    """Wait until each leader reports its log: a partition of unknown size counts as a large one."""
    reader = KafkaReader(connection)
    try:
        for _ in range(_LOOKS):
            if len((await take_snapshot(reader, plan)).sizes) == PARTITIONS:
                return
            await asyncio.sleep(1)
    finally:
        await reader.aclose()
    raise SystemExit("not measured: brokers did not make the logs of all partitions")


def _brokers(number: int, first: int) -> list[int]:
    return [first + 1 + (number + k) % 5 for k in range(2)]
