"""`ktui list` as a whole process, against Kafka's own tool and a bare script of the same calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.checks import check_count
from bench.clusters import moving
from bench.timing import milliseconds, processes_in_turn, ratio
from ktui.lab.layout import Lab

TOOL = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
AS_SHIPPED = ("-Xmx256M", "-server", "-XX:+UseG1GC", "-Djava.awt.headless=true")
"""The JVM options of kafka-run-class.sh."""
RUNS = 7


def run(lab: Lab) -> None:
    """Print the figures for 0 and 100 moving partitions."""
    bootstrap = lab.bootstrap_servers.split(",")[0]
    ktui = [str(Path(sys.executable).with_name("ktui")), "list", "--bootstrap-server", bootstrap]
    bare = [sys.executable, "-m", "bench.bare_calls", bootstrap]
    tool = [*kafkas_tool(lab), "--bootstrap-server", bootstrap, "--list"]
    for count in (0, 100):
        with moving(lab, count):
            for command in (ktui, tool):
                check_count(f"moves listed by {command[0]}", _listed(command, count), count)
            check_count("moves seen by the bare calls", int(_output(bare)), count)
            mine, peer, floor = processes_in_turn([ktui, tool, bare], RUNS)
        print(
            f"ktui list, {count} moving: {milliseconds(mine)}; "
            f"kafka-reassign-partitions --list: {milliseconds(peer)}; "
            f"the same calls, bare: {milliseconds(floor)}"
        )
        print(
            f"  {ratio(peer, mine):.1f} times faster than the tool (aim: at least 3), "
            f"{ratio(mine, floor):.2f} times the bare script (aim: at most 1.2)"
        )


def kafkas_tool(lab: Lab) -> list[str]:
    """Return the words that start Kafka's own tool, as its script does."""
    jars = ":".join(str(entry) for entry in lab.layout.class_path)
    return [lab.layout.java, *AS_SHIPPED, "-cp", jars, TOOL]


def _listed(command: list[str], count: int) -> int:
    return sum(f"bench-{count}-" in line for line in _output(command).splitlines())


def _output(command: list[str]) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
