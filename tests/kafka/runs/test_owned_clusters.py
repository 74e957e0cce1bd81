"""State directories competing for a real cluster: one owns it, even after its engine died."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktui.execution.run.events import Answered, EngineLeft, StepBegun
from ktui.kafka.workload import delete_topics
from ktui.lab.layout import Lab
from support.cli.shell import Done, Shell, ended
from support.kafka.slow_topic import PARTITIONS, SlowTopic

SLOW = ("--headless", "--partitions", "1", "--poll", "200ms")


def a_shell(lab: Lab, folder: Path) -> Iterator[Shell]:
    folder.mkdir()
    shell = Shell(lab, folder)
    yield shell
    shell.close()


@pytest.fixture
def ada(lab: Lab, tmp_path: Path) -> Iterator[Shell]:
    yield from a_shell(lab, tmp_path / "ada")


@pytest.fixture
def bob(lab: Lab, tmp_path: Path) -> Iterator[Shell]:
    yield from a_shell(lab, tmp_path / "bob")


@pytest.fixture
def topic(lab: Lab, topic_name: str, ada: Shell, bob: Shell) -> Iterator[SlowTopic]:
    topic = SlowTopic(lab, topic_name)
    yield topic
    topic.let_go()
    ada.close()
    bob.close()
    delete_topics(topic.connection, [topic_name])


def doctor(shell: Shell) -> str:
    """Return the first line of the doctor about the owner of the cluster."""
    done = shell.ktui("doctor", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    what: str = json.loads(done.stdout)["ownership"][0]["what"]
    return what


def assert_refused(done: Done, run: str) -> None:
    assert done.returncode == 2, done.stderr
    assert f"(run {run}, since " in done.stderr
    assert "--take-over" in done.stderr


def test_a_live_run_notices_a_takeover_of_its_cluster_and_sends_nothing_more(
    ada: Shell, bob: Shell, topic: SlowTopic
) -> None:
    plan = ada.plan("drain", topic.targets)
    first_run = ada.begin("start", plan, *SLOW)
    ada.wait_for("drain", Answered)
    assert_refused(bob.ktui("start", plan, *SLOW, "--name", "mine"), "drain")
    assert not bob.state.runs.exists()
    assert "drain, since" in doctor(bob)
    assert doctor(ada).startswith("this state directory owns the cluster")
    sent = len(ada.events("drain", Answered))

    taking_over = bob.begin("start", plan, *SLOW, "--name", "mine", "--take-over")
    left = ended(first_run)

    assert left.returncode == 130, left.stderr
    assert "has taken over the cluster: this engine sends nothing more" in left.stderr
    assert "(run mine, since " in ada.events("drain", EngineLeft)[-1].reason
    assert len(ada.events("drain", Answered)) == sent
    assert_refused(ada.ktui("resume", "drain", "--headless"), "mine")
    topic.let_go()
    assert ended(taking_over).returncode in (0, 3)
    assert doctor(ada) == "nobody owns the cluster"
    assert ada.ktui("resume", "drain", "--headless").returncode in (0, 3)


def test_a_run_with_a_killed_engine_keeps_the_cluster_for_its_state_directory(
    ada: Shell, bob: Shell, topic: SlowTopic
) -> None:
    plan = ada.plan("drain", topic.targets)
    first_run = ada.begin("start", plan, *SLOW)
    ada.wait_for("drain", Answered)
    os.kill(ada.owner("drain").pid, signal.SIGKILL)
    ended(first_run)

    assert_refused(bob.ktui("start", plan, *SLOW, "--name", "mine"), "drain")
    topic.let_go()
    resumed = ada.ktui("resume", "drain", "--headless")

    assert resumed.returncode == 0, resumed.stderr
    assert doctor(bob) == "nobody owns the cluster"


def test_a_run_moves_to_another_state_directory_with_its_steps_in_flight(
    ada: Shell, bob: Shell, topic: SlowTopic, tmp_path: Path
) -> None:
    plan, file = ada.plan("drain", topic.targets), str(tmp_path / "drain.run")
    first_run = ada.begin("start", plan, *SLOW)
    ada.wait_for("drain", Answered)
    first_run.send_signal(signal.SIGTERM)
    assert ended(first_run).returncode == 130
    assert ada.unowned("drain")  # the follower waits for the engine's exit, but not for long

    exported = ada.ktui("runs", "export", "drain", file)
    imported = bob.ktui("runs", "import", file)

    assert exported.returncode == 0, exported.stderr
    assert "1 step in flight goes on in Kafka" in exported.stdout
    assert imported.returncode == 0, imported.stderr
    assert_refused(ada.ktui("start", plan, *SLOW, "--name", "mine"), "drain")
    topic.let_go()
    resumed = bob.ktui("resume", "drain", "--headless")
    assert resumed.returncode == 0, resumed.stderr
    begun = [each for each in bob.events("drain", StepBegun) if each.adding]
    assert sorted(each.partition for each in begun) == list(range(PARTITIONS))
    assert "was exported to" in ada.ktui("resume", "drain", "--headless").stderr
    assert doctor(ada) == "nobody owns the cluster"
