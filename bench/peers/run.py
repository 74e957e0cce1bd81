"""The comparison as a table: on real brokers, and with the results that topicmappr publishes."""

from __future__ import annotations

import asyncio
import shutil
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path

from bench.checks import check_count
from bench.clusters import lab_of
from bench.peers import examples
from bench.peers.cases import ALL, BROKERS, Case, Topic, cases, topics_of
from bench.peers.figures import Figures, figures_of
from bench.peers.planners import Answer, kafkas_generate, ktui, topicmappr
from ktui.cli.lab import connect
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import create_topic, delete_topics, fill
from ktui.lab.layout import Lab
from ktui.planning.check.check import check_plan
from ktui.planning.check.findings import Allowances, Severity
from ktui.planning.check.snapshot import take_snapshot
from ktui.planning.intents.layout import Layout, read_layout
from ktui.planning.plan import Plan

RUNS = 3
"""Kafka's tool begins at a random broker: the plan that copies least counts."""
NOT_RUN = {
    "topicmappr rebalance and scale": "read sizes from ZooKeeper, which Kafka 4 does not have",
    "Cruise Control": "needs metrics that its reporter in the brokers has gathered for a while",
    "kafka-utils": "reads the cluster from ZooKeeper",
    "topicctl": "moves replicas itself, topic by topic, and writes no plan",
}


def run() -> None:
    """Print the figures."""
    with lab_of(BROKERS) as lab, tempfile.TemporaryDirectory(prefix="ktui-bench-") as folder:
        for case in cases():
            _print_case(lab, case, Path(folder))
    examples.run()
    if shutil.which("topicmappr") is None:
        print("not run: topicmappr rebuild: it is not on the PATH")
    for name, why in NOT_RUN.items():
        print(f"not run: {name}: {why}")


def _print_case(lab: Lab, case: Case, folder: Path) -> None:
    with _filled(lab, case) as topics:
        layout = asyncio.run(_layout(lab))
        check_count("partitions", len(layout.partitions), sum(len(t.replicas) for t in topics))
        print(f"{case.name}: {len(layout.partitions)} partitions, {_total(layout) / 1e6:.0f} MB")
        print(f"  {'before':<12} {_line(figures_of(layout, Plan(()), _before(case)))}")
        _print_answers(lab, case, layout, [ktui(lab, case) for _ in range(RUNS)], "ktui")
        if case.broker_list:
            theirs = [kafkas_generate(lab, case, topics, folder) for _ in range(RUNS)]
            _print_answers(lab, case, layout, theirs, "--generate")
        else:
            print(f"  {'--generate':<12} cannot do this")
        if case.topicmappr is not None and (program := shutil.which("topicmappr")):
            theirs = [topicmappr(program, case, layout, folder) for _ in range(RUNS)]
            _print_answers(lab, case, layout, theirs, "topicmappr")


def _print_answers(
    lab: Lab, case: Case, layout: Layout, answers: Sequence[Answer], name: str
) -> None:
    ranked = sorted(
        ((figures_of(layout, each.plan, case.among), each.plan) for each in answers),
        key=lambda each: (each[0].bytes, each[0].moves),
    )
    for _, plan in ranked:
        check_count(f"{name}: problems of a plan", asyncio.run(_problems(lab, plan)), 0)
    best, plan = ranked[0]
    most = ranked[-1][0].bytes
    seconds = statistics.median(each.seconds for each in answers)
    reached = case.reached(layout, plan)
    if name == "ktui":
        check_count("different plans of ktui", len({each.plan for each in answers}), 1)
        check_count(f"ktui: goals missed, {case.name}", int(not reached), 0)
    outcome = "reached" if reached else "not reached"
    print(
        f"  {name:<12} {_line(best)}; {seconds:.1f} s of CPU; {outcome}"
        + (f"; up to {most / 1e6:.1f} MB in {RUNS} runs" if most > best.bytes else "")
    )


def _before(case: Case) -> Sequence[int]:
    """Return the brokers that have replicas, or are to get some."""
    return [each for each in ALL if each in case.among or case.weights.get(each) != 0]


def _line(figures: Figures) -> str:
    return (
        f"{figures.moves:>4} replicas, {figures.bytes / 1e6:6.1f} MB, "
        f"{figures.leader_changes:>4} leaders changed; highest to mean {figures.spread}; "
        f"{figures.racks_lacking} racks lacking"
    )


def _total(layout: Layout) -> int:
    return sum(layout.size(tp) * len(each.replicas) for tp, each in layout.partitions.items())


async def _layout(lab: Lab) -> Layout:
    async with aclosing(connect({"bootstrap.servers": lab.bootstrap_servers})) as reader:
        return await read_layout(reader)


async def _problems(lab: Lab, plan: Plan) -> int:
    """Count the reasons for which ktui would not start a plan, whoever made it."""
    async with aclosing(connect({"bootstrap.servers": lab.bootstrap_servers})) as reader:
        findings = check_plan(
            plan, await take_snapshot(reader, plan), Allowances(replication_factor_change=True)
        )
    return sum(each.severity is Severity.PROBLEM for each in findings)


@contextmanager
def _filled(lab: Lab, case: Case) -> Iterator[list[Topic]]:
    """Create the topics of a case with their data, and delete them in the end."""
    connection = Connection.to(lab.bootstrap_servers)
    topics = topics_of(case, {node.id: node.rack for node in lab.brokers})
    for topic in topics:
        create_topic(connection, topic.name, topic.replicas)
        by_size: dict[int, list[int]] = defaultdict(list)
        for partition, size in enumerate(topic.bytes):
            by_size[size].append(partition)
        for size, partitions in sorted(by_size.items()):
            fill(connection, topic.name, partitions, bytes_each=size)
    try:
        yield topics
    finally:
        delete_topics(connection, [topic.name for topic in topics])
