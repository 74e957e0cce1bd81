"""The recording of a run on a real cluster becomes correct tables and a correct report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ktui.execution.run.events import StateEntered, StepBegun
from ktui.execution.run.states import State
from ktui.kafka.connection.connection import Connection
from ktui.lab.layout import Lab
from ktui.lab.up import LabRequest
from support.cli.shell import Shell
from support.kafka.labs import a_lab
from support.kafka.slow_topic import filled_topic
from support.pipeline.lake_rows import Rows, assert_same, piped
from support.pipeline_oracle.rows import tables_of

RUN = "drain"
PARTITIONS = 4
EACH = 4 * 1024 * 1024
SLOW = "100kB/s"
"""Slow enough to leave time for commands while the run is live."""
FASTER = "500kB/s"
"""Each partition takes 8 s at this rate, longer than the 5 s between two size readings."""
STOPPED = PARTITIONS - 1
"""The partition that is cancelled while it is queued."""


@pytest.fixture(scope="module")
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A cluster beside the Spark of the other tests, which would be started anew elsewhere."""
    yield from a_lab(tmp_path_factory.mktemp("lab"), LabRequest(brokers=3))


@pytest.fixture
def topic(three_brokers: Lab, topic_name: str) -> Iterator[str]:
    connection = Connection.to(three_brokers.bootstrap_servers)
    with filled_topic(connection, topic_name, [[1, 2]] * PARTITIONS, bytes_each=EACH):
        yield topic_name


@pytest.fixture
def shell(three_brokers: Lab, tmp_path: Path, topic: str) -> Iterator[Shell]:
    """A shell after a throttled run with changed limits and a cancelled partition."""
    shell = Shell(three_brokers, tmp_path)
    plan = [{"topic": topic, "partition": n, "replicas": [3, 1]} for n in range(PARTITIONS)]
    paced = ("--partitions", "1", "--order", "topic", "--throttle", SLOW, "--poll", "200ms")
    begun = shell.begin("start", shell.plan(RUN, plan), *paced, "--headless")
    try:
        shell.wait_for(RUN, StepBegun)
        for words in (
            ("cancel", RUN, "--stop", "--partition", f"{topic}:{STOPPED}"),
            ("limits", RUN, "--partitions", "2"),
            ("throttle", RUN, FASTER),
        ):
            done = shell.ktui(*words)
            assert done.returncode == 0, done.stderr
        begun.communicate(timeout=240)
        yield shell
    finally:
        shell.close()


@pytest.mark.kafka
def test_tables_match_the_oracle_the_journal_and_the_brokers(
    spark: SparkSession, shell: Shell, topic: str, tmp_path: Path
) -> None:
    recordings, lake = shell.state.path, tmp_path / "lake"

    tables = piped(spark, recordings, lake)

    for name, rows in tables_of(recordings).items():
        assert_same(tables[name], rows, name)
    moves, (run,) = tables["moves"], tables["runs"]
    run_counts = json.loads(shell.ktui("status", RUN, "--json").stdout)["counts"]
    assert dict(run["outcomes"]) == {state: count for state, count in run_counts.items() if count}
    assert dict(run["outcomes"]) == {"done": PARTITIONS - 1, "stopped": 1}
    assert {row["partition"]: row["outcome"] for row in moves} == {
        each.tp.partition: "done"
        for each in shell.events(RUN, StateEntered)
        if each.state is State.DONE
    }
    assert run["limit_changes"] == 1
    assert {tuple(row["added"]) for row in moves} == {(3,)}
    assert all(EACH <= row["bytes"] < 1.2 * EACH for row in moves), moves
    assert into(3, tables["brokers"]) == pytest.approx(sum(r["bytes"] for r in moves), rel=0.35)

    page = shell.folder / "report.html"
    reported = shell.ktui(
        "pipeline", "report", "--lake", str(lake), "--run", RUN, "-o", str(page)
    )  # fmt: skip
    assert reported.returncode == 0, reported.stderr
    assert f"{len(moves)} moves" in reported.stdout
    assert topic in page.read_text(encoding="utf-8")


def into(broker: int, minutes: Rows) -> int:
    """Return the bytes copied to a broker according to the table of brokers."""
    return sum(row["bytes_in"] or 0 for row in minutes if row["broker"] == broker)
