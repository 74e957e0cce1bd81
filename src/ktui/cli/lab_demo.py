"""Run a lab with a reassignment in flight, and the live view of it until the user leaves."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from ktui.cluster.errors import Refused
from ktui.cluster.partition import Replica, TopicPartition
from ktui.cluster.ports import Verdict
from ktui.kafka import workload
from ktui.kafka.connection.connection import Connection
from ktui.kafka.writer import KafkaWriter
from ktui.lab import security
from ktui.lab.layout import Lab, ProgressReport
from ktui.lab.up import Connect, LabRequest, down, exit_on_signals, up

_MIB = 1024 * 1024
_THROTTLE_BYTES_S = 250_000
_MESSAGES_S = 12.0
_MESSAGE_BYTES = 8192


class _Topic(msgspec.Struct, frozen=True):
    name: str
    partitions: int
    factor: int
    bytes_each: int


_MOVING = _Topic("orders", 12, 3, 10 * _MIB)
_LEADING = _Topic("payments", 6, 3, 4 * _MIB)
_RESTING = _Topic("audit", 4, 2, _MIB // 2)

_Plan = dict[TopicPartition, tuple[int, ...]]


def run(
    folder: Path,
    request: LabRequest,
    connect: Connect,
    progress: Callable[[], AbstractContextManager[ProgressReport]],
) -> int:
    """Show the demonstration, and take its lab down at the end."""
    with exit_on_signals():
        with progress() as report:
            lab = up(folder, request, connect, report)
        try:
            connection = Connection.of(security.librdkafka_settings(lab), where="the lab")
            with progress() as report:
                _set_in_motion(lab, connection, report)
            with workload.SteadyProducer(
                connection,
                _MOVING.name,
                _MOVING.partitions,
                messages_s=_MESSAGES_S,
                message_bytes=_MESSAGE_BYTES,
            ):
                return _view(lab)
        finally:
            with progress() as report:
                report("taking the lab down")
                down(lab, keep=False)


def _set_in_motion(lab: Lab, connection: Connection, report: ProgressReport) -> None:
    brokers = [node.id for node in lab.brokers]
    for topic in (_MOVING, _LEADING, _RESTING):
        report(f"filling the topic {topic.name}")
        replicas = workload.assign_round_robin(topic.partitions, topic.factor, brokers)
        workload.create_topic(connection, topic.name, replicas)
        workload.fill(connection, topic.name, range(topic.partitions), bytes_each=topic.bytes_each)
    report("starting a reassignment")
    plan = {**_plan(_MOVING, brokers, place=-1), **_plan(_LEADING, brokers, place=0)}
    new_at = {_MOVING.name: -1, _LEADING.name: 0}
    adding = [Replica(tp, replicas[new_at[tp.topic]]) for tp, replicas in plan.items()]
    workload.throttle_followers(connection, adding, bytes_s=_THROTTLE_BYTES_S)
    asyncio.run(_alter(connection, plan))


def _plan(topic: _Topic, brokers: list[int], *, place: int) -> _Plan:
    """Put another broker in one place of each partition's list; place 0 also moves the leader."""
    plan = {}
    for number, replicas in enumerate(
        workload.assign_round_robin(topic.partitions, topic.factor, brokers)
    ):
        others = [broker for broker in brokers if broker not in replicas]
        target = list(replicas)
        target[place] = others[number % len(others)]
        plan[TopicPartition(topic.name, number)] = tuple(target)
    return plan


async def _alter(connection: Connection, plan: _Plan) -> None:
    writer = KafkaWriter(connection)
    try:
        results = await writer.alter_reassignments(plan, allow_replication_factor_change=False)
    finally:
        await writer.aclose()
    for tp, result in results.items():
        if result.verdict is not Verdict.ACCEPTED:
            code = result.code or "UNKNOWN"
            raise Refused("reassigning", code=code, where=str(tp), answer=result.message)


def _view(lab: Lab) -> int:
    """Run the live view in a process of its own, which gets the terminal and Ctrl-C."""
    ktui = "from ktui.cli.main import main; main()"
    words = ["watch", "--bootstrap-server", lab.bootstrap_servers]
    with subprocess.Popen([sys.executable, "-c", ktui, *words]) as view:  # noqa: S603 - ktui itself
        previous_handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            return view.wait()
        finally:
            view.terminate()
            signal.signal(signal.SIGINT, previous_handler)
