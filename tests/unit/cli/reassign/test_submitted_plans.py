"""`ktui reassign --execute` says "started" only of what Kafka has taken, and names the rest."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Collection
from contextlib import aclosing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ktui.cli.reassign.command import command
from ktui.cli.reassign.submit import UNANSWERED, not_taken
from ktui.cluster.ports import ConfigOp
from ktui.cluster.settings import LONGEST_LIST
from ktui.execution.engine.leaving import LeaveSubmitted
from ktui.ops.start import CheckedRun
from ktui.planning.plan import PartitionTarget, Plan
from ktui.simulated.layout import LoseAnswer, LoseRequest
from support.cli.named_cluster import NamedCluster
from support.runs.pacing import WHOLE
from support.runs.stories import Story, refuses
from support.runs.throttled import ThrottledStory, change_list, many_entries
from support.simulated.moving_clusters import a_cluster, tp

SIX = {f"orders-{n}": ((1, 2), (1, 3)) for n in range(6)}
TWO = {name: SIX[name] for name in ("orders-0", "orders-1")}


def not_started(story: Story, names: Collection[str]) -> dict[str, str]:
    """Play a run as `--execute` does; return why it does not call partitions started."""

    async def read() -> dict[str, str]:
        async with aclosing(story.cluster.reader()) as reader:
            listed = await reader.list_reassignments()
        tracks = [run.tracks[tp(name)] for name in names]
        rows = (PartitionTarget(t.tp.topic, t.tp.partition, t.target) for t in tracks)
        return {str(tp): why for tp, why in not_taken(run, Plan(tuple(rows)), listed).items()}

    story.leaving = LeaveSubmitted
    run = story.played()
    return asyncio.run(read())


def test_partitions_without_room_in_a_list_of_throttled_replicas_are_named_and_not_started(
    tmp_path: Path,
) -> None:
    story = ThrottledStory(tmp_path, SIX, limits=WHOLE, throttle_leaders=True)
    story.cluster.configure([change_list(ConfigOp.SET, many_entries(LONGEST_LIST - 10))])

    left_out = not_started(story, SIX)

    sent = {str(alter.tp) for alter in story.witness.alters}
    assert 0 < len(sent) < len(SIX)
    assert {*left_out} == {*SIX} - sent
    (why,) = {*left_out.values()}
    assert why == (
        "not sent: its throttle could not be set: follower.replication.throttled.replicas of "
        "orders is full"
    )


def test_a_partition_whose_answer_was_lost_is_started_once_kafka_lists_it(tmp_path: Path) -> None:
    story = Story(tmp_path, TWO, WHOLE)
    story.already(LoseAnswer())

    assert not_started(story, TWO) == {}
    assert story.folded.left == "all of its partitions are submitted"


def test_a_partition_whose_request_was_lost_is_not_called_started(tmp_path: Path) -> None:
    story = Story(tmp_path, TWO, WHOLE)
    story.already(LoseRequest())

    assert not_started(story, TWO) == dict.fromkeys(TWO, UNANSWERED)


@pytest.mark.parametrize("code", ["POLICY_VIOLATION", "CLUSTER_AUTHORIZATION_FAILED"])
def test_a_partition_that_kafka_refuses_is_not_called_started(code: str, tmp_path: Path) -> None:
    story = Story(tmp_path, TWO, WHOLE)
    refuses(story, code=code)

    left_out = not_started(story, TWO)

    assert {*left_out} == {*TWO}
    assert all(code in why for why in left_out.values())


def as_run(plan: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[list[Plan], Result]:
    """Call --execute --as-run; return the plans of the runs that it would start, and the end."""
    cluster = a_cluster({"orders": [(1, 2)]})
    named = NamedCluster(reader=cluster.reader, writer=cluster.writer)
    monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)
    plans: list[Plan] = []

    def carry_out(checked: CheckedRun, *_: object) -> int:
        plans.append(checked.new.plan)
        return 0

    monkeypatch.setattr("ktui.cli.start.command.carry_out", carry_out)
    where = ["--bootstrap-server", "a:9092", "--state-dir", str(plan.parent / "state")]
    file = ["--reassignment-json-file", str(plan)]
    return plans, CliRunner().invoke(command, ["--execute", "--as-run", *where, *file, *words])


def test_a_plan_that_comes_through_a_named_pipe_becomes_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    row = {"topic": "orders", "partition": 0, "replicas": [1, 3]}
    text = json.dumps({"version": 1, "partitions": [row]})
    writer = threading.Thread(target=pipe.write_text, args=(text,))
    writer.start()

    plans, done = as_run(pipe, monkeypatch)

    writer.join()
    assert done.exit_code == 0, done.output
    assert [plan.partitions[0].replicas for plan in plans] == [(1, 3)]


def test_a_run_is_not_begun_either_under_a_throttle_of_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans, done = as_run(tmp_path / "plan.json", monkeypatch, "--throttle", "0")

    assert not plans
    assert "--throttle 0 lets nothing through" in done.output


def test_a_low_throttle_is_taken_as_bytes_with_a_warning_as_kafkas_tool_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = a_cluster({"orders": [(1, 2)]})
    named = NamedCluster(reader=cluster.reader, writer=cluster.writer)
    monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)
    monkeypatch.setattr("ktui.cli.reassign.execute.submit", lambda *_: {})
    plan = tmp_path / "plan.json"
    row = {"topic": "orders", "partition": 0, "replicas": [1, 3]}
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}), encoding="utf-8")
    words = ["--execute", "--bootstrap-server", "a:9092", "--reassignment-json-file", str(plan)]

    done = CliRunner().invoke(
        command, [*words, "--throttle", "50", "--state-dir", str(tmp_path / "state")]
    )

    assert "throttle limit was set to 50 B/s" in done.stdout
    assert "warning: at 50 B/s into each broker one fetch of 1 MiB takes" in done.stderr
    assert "did you mean --throttle 50000000?" in done.stderr


@pytest.mark.parametrize("batch", [0, 3])
def test_a_plan_that_the_lists_cannot_hold_is_refused_before_anything_is_sent(
    batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = a_cluster({"orders": [(1, 2)] * 6})
    cluster.configure([change_list(ConfigOp.SET, many_entries(LONGEST_LIST - 10))])
    named = NamedCluster(reader=cluster.reader, writer=cluster.writer)
    monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)
    submitted: list[object] = []

    def submit(_place: object, submission: object, _left: object) -> dict[object, str]:
        submitted.append(submission)
        return {}

    monkeypatch.setattr("ktui.cli.reassign.execute.submit", submit)
    rows = [{"topic": "orders", "partition": n, "replicas": [1, 3]} for n in range(6)]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": rows}), encoding="utf-8")
    words = ["--execute", "--bootstrap-server", "a:9092", "--reassignment-json-file", str(plan)]
    words += ["--throttle", "1000000", "--state-dir", str(tmp_path / "state")]
    words += ["--reassignment-batch-size", str(batch)] if batch else []

    done = CliRunner().invoke(command, words)

    assert bool(submitted) == bool(batch)
    assert ("Successfully started" in done.stdout) == bool(batch)
    if not batch:
        assert done.exit_code == 1
        assert done.stderr.endswith(
            "follower.replication.throttled.replicas of orders takes 32,767 bytes, and has room "
            "for 3 of the 6 partitions to be throttled at once. Nothing was sent. A run lists only "
            "what is in flight: use --as-run, or submit fewer at once: --reassignment-batch-size 3"
            "\n"
        )
