"""`ktui reassign` against Kafka's own tool: --list, and --verify of many partitions."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.checks import check_count
from bench.clusters import moving
from bench.listing import kafkas_tool
from bench.timing import milliseconds, processes_in_turn, ratio
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import create_topic, delete_topics
from ktui.lab.layout import Lab

TOPICS, PARTITIONS_EACH = 5, 2_000
PARTITIONS = TOPICS * PARTITIONS_EACH
RUNS = 5


def run(lab: Lab) -> None:
    """Print the figures."""
    bootstrap = lab.bootstrap_servers.split(",")[0]
    where = ["--bootstrap-server", bootstrap]
    ktui = [str(Path(sys.executable).with_name("ktui")), "reassign", *where]
    tool = [*kafkas_tool(lab), *where]
    bare = [sys.executable, "-m", "bench.bare_list", bootstrap]
    for count in (0, 100):
        with moving(lab, count):
            for command in (ktui, tool):
                check_count(f"moves listed by {command[0]}", _lines([*command, "--list"]), count)
            check_count("moves seen by the bare call", int(_output(bare)), count)
            mine, peer, floor = processes_in_turn(
                [[*ktui, "--list"], [*tool, "--list"], bare], RUNS
            )
        print(
            f"ktui reassign --list, {count} moving: {milliseconds(mine)}; Kafka's tool: "
            f"{milliseconds(peer)}; the same call, bare: {milliseconds(floor)}\n"
            f"  {ratio(peer, mine):.1f} times faster than the tool, {ratio(mine, floor):.2f} times "
            "the bare script (aim: at most 1.3)"
        )
    with _complete(lab) as plan:
        verify = ["--verify", "--reassignment-json-file", plan]
        for command in (ktui, tool):
            found = _lines([*command, *verify], "is completed.")
            check_count(f"partitions verified by {command[0]}", found, PARTITIONS)
        mine, peer = processes_in_turn([[*ktui, *verify], [*tool, *verify]], RUNS)
    print(
        f"--verify of {PARTITIONS:,} partitions: {milliseconds(mine)}; Kafka's tool: "
        f"{milliseconds(peer)}\n  {ratio(mine, peer):.2f} times the tool's time (aim: at most 0.5)"
    )


@contextmanager
def _complete(lab: Lab) -> Iterator[str]:
    """Create topics of factor 1, and a plan of just what they are."""
    connection = Connection.to(lab.bootstrap_servers)
    topics = [f"bench-verify-{number}" for number in range(TOPICS)]
    homes = [[1 + number % 3] for number in range(PARTITIONS_EACH)]
    for topic in topics:
        create_topic(connection, topic, homes)
    rows = [
        {"topic": topic, "partition": n, "replicas": home}
        for topic in topics
        for n, home in enumerate(homes)
    ]
    with tempfile.TemporaryDirectory(prefix="ktui-bench-") as folder:
        plan = Path(folder) / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": rows}))
        try:
            yield str(plan)
        finally:
            delete_topics(connection, topics)


def _lines(command: list[str], having: str = "bench-") -> int:
    return sum(having in line for line in _output(command).splitlines())


def _output(command: list[str]) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
