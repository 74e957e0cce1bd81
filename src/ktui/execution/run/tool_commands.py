"""The commands of kafka-reassign-partitions.sh that would do what a run does, without it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.run import Run

TOOL = "kafka-reassign-partitions.sh"
_SERVERS = "BROKER:PORT"
_MOVE_FILE = "move.json"


def tool_commands(run: Run) -> Iterator[str]:
    """Yield a line of a shell each: comments, and the commands below them.

    The tool submits everything at once. It knows neither limits nor an order of steps.
    """
    left, back = f"{run.name}-left.json", f"{run.name}-back.json"
    yield "# what moves on the cluster"
    yield shlex.join([TOOL, *_where(run), "--list"])
    yield "# what is left of the run, all at once"
    yield shlex.join(["ktui", "plan", "remaining", run.name, "-o", left])
    if run.throttled.rates and run.throttled.rates.every is None:
        yield "# the tool has one rate for all brokers: add --throttle RATE"
    beside = ["--additional"] if run.in_flight else []
    yield tool_command(run, "execute", left, *beside, *_throttle(run))
    yield "# how far that is; at its end, this removes every throttle on these brokers and topics"
    yield tool_command(run, "verify", left)
    yield "# stop what is in flight"
    yield tool_command(run, "cancel", left)
    yield "# back to the replicas from before the run"
    yield shlex.join(["ktui", "plan", "rollback", run.name, "-o", back])
    yield tool_command(run, "execute", back, "--additional", *_throttle(run))


def tool_command(run: Run, action: str, plan: str, *more: str) -> str:
    """Return the command for an action on a plan's file, on the cluster of a run."""
    words = [TOOL, *_where(run), f"--{action}", "--reassignment-json-file", plan, *more]
    return shlex.join(words)


def move_commands(tp: TopicPartition, target: Sequence[int], run: Run | None) -> Iterator[str]:
    """Yield the lines of a shell that move one partition, without touching what else moves.

    Args:
        tp: the partition.
        target: the replicas that it is to have.
        run: the run that names the cluster; None where only a person can.
    """
    move = {"topic": tp.topic, "partition": tp.partition, "replicas": list(target)}
    plan = json.dumps({"version": 1, "partitions": [move]})
    yield f"printf '%s\\n' {shlex.quote(plan)} > {_MOVE_FILE}"
    words = ["--execute", "--reassignment-json-file", _MOVE_FILE, "--additional"]
    yield shlex.join([TOOL, *_where(run), *words])


def _where(run: Run | None) -> list[str]:
    started = None if run is None else run.started
    names: Mapping[str, str] = {} if started is None else started.connection
    config = names.get("command_config")
    return [
        "--bootstrap-server",
        names.get("bootstrap_server", _SERVERS),
        *([] if config is None else ["--command-config", config]),
    ]


def _throttle(run: Run) -> list[str]:
    """Return the option for the rate of most brokers: the tool has one rate for all."""
    rate = run.throttled.rates.every
    return [] if rate is None else ["--throttle", str(rate)]
