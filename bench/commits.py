"""The pauses of commits and transactions while the broker that coordinates them is drained.

By ktui's defaults, which move internal topics last and one of their leaders at a time; and all at
once, as Kafka's own tool does it. The same broker is drained each time, and gets everything back.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import NamedTuple

from bench.checks import check_count, printed_at_end
from bench.committing import Timed, committers
from bench.disturbing import quietly, watched
from ktui.cli.lab import connect
from ktui.cluster.broker import (
    CoordinatedId,
    CoordinatorKind,
    coordinating_partition,
    java_hash,
)
from ktui.cluster.errors import Refused
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.ports import Verdict
from ktui.kafka.claim import KafkaGroups
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.kafka.workload import acked_producer, assign_round_robin, create_topic, fill
from ktui.kafka.writer import KafkaWriter
from ktui.lab.layout import Lab
from ktui.lab.up import LabRequest, down, up
from ktui.planning.read import read_plan

ROUNDS = 3
BROKERS = 5
DRAINED = 1
GROUPS = 6
SETTLE_S = 3.0
"""Seconds for coordinators to read their partitions, before the next drain."""
PARTITIONS, BYTES_EACH = 20, 16 * 1024 * 1024
_INTERNAL_PARTITIONS = "15"
_TOPIC, _RECORDS = "bench-data", "bench-records"
_SETTINGS = {
    "offsets.topic.num.partitions": _INTERNAL_PARTITIONS,
    "transaction.state.log.num.partitions": _INTERNAL_PARTITIONS,
}
_CLI = (sys.executable, "-m", "ktui")
Coordinators = Mapping[str, int]
"""The broker that coordinates each group, and the transactional id."""


class Cost(NamedTuple):
    """What a drain has cost, in seconds."""

    seconds: float
    commit_s: float
    """The longest pause of a group's commits."""
    transaction_s: float
    groups_moved: int
    transactions_moved: int


def run(rounds: int = ROUNDS, bytes_each: int = BYTES_EACH) -> None:
    """Print the longest pauses of both ways, round by round, and their medians."""
    with tempfile.TemporaryDirectory(prefix="ktui-bench-") as folder:
        request = LabRequest(brokers=BROKERS, settings=_SETTINGS)
        lab = up(Path(folder) / "lab", request, connect, lambda _: None)
        try:
            _prepare(Connection.to(lab.bootstrap_servers), bytes_each)
            _print_costs(lab, rounds)
        finally:
            down(lab, keep=False)


def _print_costs(lab: Lab, rounds: int) -> None:
    costs: dict[str, list[Cost]] = {"all at once": [], "ktui": []}
    before = asyncio.run(_replicas(lab))
    for number in range(rounds):
        for way, of_way in costs.items():
            of_way.append(_cost(lab, way, f"{way[:4]}-{number}"))
            print(f"round {number + 1}  {way:<12}{_row(of_way[-1])}", flush=True)
            asyncio.run(_put_back(lab, before))
    for way, of_way in costs.items():
        commit_s, transaction_s = (
            statistics.median(pauses)
            for pauses in (
                [cost.commit_s for cost in of_way],
                [cost.transaction_s for cost in of_way],
            )
        )
        print(
            f"{way:<12}median of the longest pauses: commits {commit_s * 1000:,.0f} ms, "
            f"transactions {transaction_s * 1000:,.0f} ms"
        )


def _row(cost: Cost) -> str:
    return (
        f"{cost.seconds:6.1f} s  longest pause of commits {cost.commit_s * 1000:6,.0f} ms  of "
        f"transactions {cost.transaction_s * 1000:6,.0f} ms  coordinators moved: "
        f"{cost.groups_moved} groups, {cost.transactions_moved} transactional ids"
    )


def _prepare(connection: Connection, bytes_each: int) -> None:
    """Make the topics, among them Kafka's own, and fill the one that is copied."""
    brokers = range(1, BROKERS + 1)
    create_topic(connection, _TOPIC, assign_round_robin(PARTITIONS, 3, brokers))
    create_topic(connection, _RECORDS, [[1, 2, 3]], settings={"retention.bytes": "1000000"})
    fill(connection, _TOPIC, range(PARTITIONS), bytes_each=bytes_each)
    acked_producer(connection, {"transactional.id": "bench-first"}).init_transactions(60.0)
    asyncio.run(_join_a_group(connection))


async def _join_a_group(connection: Connection) -> None:
    groups = KafkaGroups(connection)
    await groups.join("bench-first", b"", 60.0)
    await groups.aclose()


def _cost(lab: Lab, way: str, name: str) -> Cost:
    """Drain a broker while groups and transactions that it coordinates commit."""
    bootstrap = lab.bootstrap_servers
    groups, transactional_id = asyncio.run(_coordinated_by_the_drained(lab, name))
    with (
        tempfile.TemporaryDirectory(prefix="ktui-bench-") as folder,
        committers(bootstrap, _RECORDS, transactional_id, groups) as process,
    ):
        names = {*groups, transactional_id}
        before = asyncio.run(_coordinators(lab, names))
        file = Path(folder) / f"drain-{name}.json"
        where = ("--bootstrap-server", bootstrap, "--state-dir", folder)
        plan_argv = [*_CLI, "plan", "drain", str(DRAINED), *where, "-o", str(file)]
        check_count("as the exit code of the plan", quietly(plan_argv).wait(), 0)
        began_s = time.monotonic()
        mover = quietly([*_CLI, *_verb(way, file), *where, "--no-ownership"])
        plan = read_plan(file.read_bytes())
        seconds, ended_s, _ = asyncio.run(watched(Connection.to(bootstrap), plan, mover))
        after = asyncio.run(_coordinators(lab, names))
        timed: dict[str, Timed] = printed_at_end(process, "committers")
    moved = {each for each in names if before[each] != after[each]}
    cost = Cost(
        seconds=seconds,
        commit_s=max(_longest(timed[group], began_s, ended_s) for group in groups),
        transaction_s=_longest(timed[transactional_id], began_s, ended_s),
        groups_moved=len(moved & {*groups}),
        transactions_moved=int(transactional_id in moved),
    )
    check_count("groups that changed their coordinator", cost.groups_moved, len(groups))
    check_count("transactional ids that changed theirs", cost.transactions_moved, 1)
    return cost


def _verb(way: str, plan: Path) -> list[str]:
    if way == "ktui":
        return ["start", str(plan), "--headless"]
    return ["reassign", "--execute", "--reassignment-json-file", str(plan)]


def _longest(timed: Timed, since_s: float, until_s: float) -> float:
    """Return the longest that a commit took which went on at some time between these."""
    during = [took_s for at_s, took_s in timed if at_s <= until_s and at_s + took_s >= since_s]
    if not during:
        raise SystemExit("not measured: nothing was committed during the drain")
    return max(during)


async def _coordinated_by_the_drained(lab: Lab, name: str) -> tuple[list[str], str]:
    """Return new groups and a new transactional id that the broker is to coordinate."""
    reader = KafkaReader(Connection.to(lab.bootstrap_servers))
    topics = [kind.topic for kind in CoordinatorKind]
    leaders = {tp: s.leader for tp, s in (await reader.describe_topics(topics)).partitions.items()}
    await reader.aclose()

    def some(kind: CoordinatorKind, count: int) -> list[str]:
        of_kind = {tp.partition: at for tp, at in leaders.items() if tp.topic == kind.topic}
        if DRAINED not in of_kind.values():
            raise SystemExit(f"not measured: broker {DRAINED} leads nothing of {kind.topic}")
        names = (f"{kind.name.lower()}-{name}-{n}" for n in range(10_000))
        fitting = (each for each in names if of_kind[_partition(each, len(of_kind))] == DRAINED)
        return [next(fitting) for _ in range(count)]

    (transactional_id,) = some(CoordinatorKind.TRANSACTION, 1)
    return some(CoordinatorKind.GROUP, GROUPS), transactional_id


def _partition(name: str, partitions: int) -> int:
    return coordinating_partition(CoordinatedId(name, java_hash(name)), partitions)


async def _coordinators(lab: Lab, names: Collection[str]) -> Coordinators:
    """Return the coordinators of groups and transactional ids, once brokers report all of them."""
    reader, until_s = KafkaReader(Connection.to(lab.bootstrap_servers)), time.monotonic() + 30.0
    found: dict[str, int] = {}
    while not found.keys() >= {*names}:
        if time.monotonic() > until_s:
            raise SystemExit(f"not measured: no broker coordinates {sorted({*names} - {*found})}")
        for broker, kind in product(range(1, BROKERS + 1), CoordinatorKind):
            with suppress(Refused):  # the broker reads its partitions still
                ids = (await reader.coordinated_ids(broker, kind)).ids
                found.update((each.name, broker) for each in ids)
    await reader.aclose()
    return found


async def _replicas(lab: Lab) -> dict[TopicPartition, Brokers]:
    reader = KafkaReader(Connection.to(lab.bootstrap_servers))
    pages = [page async for page in reader.scan_topics(fresh=True)]
    await reader.aclose()
    return {tp: state.replicas for page in pages for tp, state in page.partitions.items()}


async def _put_back(lab: Lab, replicas: Mapping[TopicPartition, Brokers]) -> None:
    """Give every partition its replicas and its leader back."""
    connection = Connection.to(lab.bootstrap_servers)
    reader, writer = KafkaReader(connection), KafkaWriter(connection)
    targets: dict[TopicPartition, Brokers | None] = {**replicas}
    results = await writer.alter_reassignments(targets, allow_replication_factor_change=False)
    accepted = sum(result.verdict is Verdict.ACCEPTED for result in results.values())
    check_count("partitions that were put back", accepted, len(targets))
    while await reader.list_reassignments():  # noqa: ASYNC110 - the cluster sends no notification
        await asyncio.sleep(0.5)
    await writer.elect_preferred_leaders(targets)
    await asyncio.sleep(SETTLE_S)
    await reader.aclose()
    await writer.aclose()


if __name__ == "__main__":
    run(*map(int, sys.argv[1:]))
