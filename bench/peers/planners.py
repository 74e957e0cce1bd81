"""The planners that run here, each as a process: two on the same brokers, one on their layout."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import msgspec

from bench.checks import check_count
from bench.listing import kafkas_tool
from bench.peers.cases import Case, Topic
from ktui.lab.layout import Lab
from ktui.planning.intents.layout import Layout
from ktui.planning.plan import PartitionTarget, Plan, plan_as_json
from ktui.planning.read import read_plan

_SEEDED = {"GODEBUG": "randseednop=0"}
"""Go 1.24 and later ignore the seed by which topicmappr makes the same plan each time."""
_PROPOSED = "Proposed partition reassignment configuration"


class Answer(msgspec.Struct, frozen=True):
    """A plan, and the seconds of CPU that the process took."""

    plan: Plan
    seconds: float


def ktui(lab: Lab, case: Case) -> Answer:
    """Ask ktui for a plan.

    Raises:
        SystemExit: it wrote no plan, or one that leaves something undone.
    """
    program = str(Path(sys.executable).with_name("ktui"))
    return _asked([program, "plan", *case.ktui, "--bootstrap-server", lab.bootstrap_servers])


def kafkas_generate(lab: Lab, case: Case, topics: list[Topic], folder: Path) -> Answer:
    """Ask Kafka's own tool for a plan: `kafka-reassign-partitions --generate`.

    Raises:
        SystemExit: it failed.
    """
    named = folder / "topics.json"
    asked = {"version": 1, "topics": [{"topic": topic.name} for topic in topics]}
    named.write_text(json.dumps(asked))
    answer = _asked(
        [
            *kafkas_tool(lab),
            *("--bootstrap-server", lab.bootstrap_servers, "--generate"),
            *("--topics-to-move-json-file", str(named)),
            *("--broker-list", ",".join(map(str, case.broker_list))),
        ],
        after=_PROPOSED,
    )
    partitions = sum(len(topic.replicas) for topic in topics)
    check_count("partitions that --generate proposed", len(answer.plan.partitions), partitions)
    return answer


def topicmappr(program: str, case: Case, layout: Layout, folder: Path) -> Answer:
    """Ask topicmappr for a plan of a layout.

    It takes racks and sizes from ZooKeeper, so it has neither here.

    Raises:
        SystemExit: it failed.
    """
    lists = (
        PartitionTarget(tp.topic, tp.partition, state.replicas)
        for tp, state in layout.partitions.items()
    )
    _, seconds = _output(
        [
            *(program, "rebuild", "--use-meta=false", *(case.topicmappr or ())),
            *("--map-string", plan_as_json(Plan(tuple(lists)))),
            *("--brokers", ",".join(map(str, case.among))),
            *("--out-path", str(folder), "--out-file", "combined"),
        ]
    )
    return Answer(read_plan(folder / "combined.json"), seconds)


def _asked(words: list[str], *, after: str = "") -> Answer:
    """Run a planner, and read the plan that it prints, after a line if one is named."""
    text, seconds = _output(words)
    return Answer(read_plan(text[text.index(after) + len(after) :].encode()), seconds)


def _output(words: list[str]) -> tuple[str, float]:
    """Run a program, and return its output and the seconds of CPU it took.

    Raises:
        SystemExit: it failed.
    """
    before = _cpu_seconds()
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, env={**os.environ, **_SEEDED}
    )
    if done.returncode != 0:
        sys.exit(f"not measured: {words[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout, _cpu_seconds() - before


def _cpu_seconds() -> float:
    """Return the CPU time of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
