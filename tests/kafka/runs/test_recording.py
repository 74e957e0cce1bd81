"""Recorded runs on a secured cluster: through a kill, and without its secrets."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktui.cluster.observation import Observation
from ktui.execution.run.events import Ended, Owned
from ktui.inputfile import FileProblem
from ktui.kafka.connection.connection import Connection
from ktui.lab.layout import Lab
from ktui.lab.nodes import wait_for
from ktui.recording.codec import Decoder
from ktui.recording.reading import GoodLine, Session, find_sessions, read_lines
from ktui.recording.segments import End, PollLine, RunLine
from support.cli.shell import LIMIT_S, Shell, ended
from support.kafka.slow_topic import filled_topic

RUN = "drain-zqx"
PARTITIONS = 8
MIB = 1024 * 1024
SLOW = "10kB"  # a rate so low that a partition of 1 MiB is copied for as long as a test needs


@pytest.fixture
def client(secured_lab: Lab) -> Path:
    return secured_lab.client_file("admin")


@pytest.fixture
def topic(client: Path, topic_name: str) -> Iterator[str]:
    connection = Connection.of(command_config=client)
    with filled_topic(connection, topic_name, [[1]] * PARTITIONS, bytes_each=MIB):
        yield topic_name


@pytest.fixture
def shell(secured_lab: Lab, tmp_path: Path, topic: str) -> Iterator[Shell]:
    shell = Shell(secured_lab, tmp_path)
    plan = [{"topic": topic, "partition": n, "replicas": [2]} for n in range(PARTITIONS)]
    shell.plan(RUN, plan)
    yield shell
    shell.close()


def of(session: Session) -> list[GoodLine]:
    """Return the lines of a session, none of which may be damaged."""
    found = [line for file in session.files for line in read_lines(file)]
    good = [line for line in found if isinstance(line, GoodLine)]
    assert good == found
    return good


def looks(session: Session) -> list[Observation]:
    return polls_in(session, of(session))


def polls_in(session: Session, good: list[GoodLine]) -> list[Observation]:
    decoder = Decoder(session.head.cluster_id)
    return [decoder.observation(each.line) for each in good if isinstance(each.line, PollLine)]


def sessions_showing(folder: Path, topic: str) -> int:
    """Count the sessions that show the topic moving; the last may still be written."""
    try:
        sessions = find_sessions(folder)
    except FileProblem:  # nothing is recorded yet
        return 0
    count = 0
    for session in sessions:
        found = [line for file in session.files for line in read_lines(file)]
        seen = polls_in(session, [line for line in found if isinstance(line, GoodLine)])
        count += any(tp.topic == topic for poll in seen for tp in poll.reassigning)
    return count


def entries(session: Session) -> set[int]:
    return {each.line.entry for each in of(session) if isinstance(each.line, RunLine)}


def test_a_run_is_recorded_through_a_kill_without_any_secret(
    secured_lab: Lab, shell: Shell, client: Path, topic: str
) -> None:
    plan, connects = str(shell.folder / f"{RUN}.json"), ("--command-config", str(client))
    paced = ("--partitions", "1", "--poll", "200ms", "--throttle", SLOW)
    folder = shell.run_dir(RUN).recording
    first = shell.begin("start", plan, *connects, *paced, "--headless")
    assert wait_for(lambda: sessions_showing(folder, topic) == 1, seconds=LIMIT_S), shell.log(RUN)
    os.kill(shell.owner(RUN).pid, signal.SIGKILL)
    first.wait(60)

    status = json.loads(shell.ktui("status", RUN, "--json").stdout)
    assert status["recording"] == {"on": False, "reason": ""}
    second = shell.begin("resume", RUN, "--headless")
    assert wait_for(lambda: sessions_showing(folder, topic) == 2, seconds=LIMIT_S), shell.log(RUN)
    lifted = shell.ktui("throttle", RUN, "none")
    resumed = ended(second)

    assert lifted.returncode == 0, lifted.stderr
    assert resumed.returncode == 0, resumed.stderr
    assert len(shell.events(RUN, Owned)) == 2
    assert len(shell.events(RUN, Ended)) == 1
    killed, whole = find_sessions(folder)
    assert not isinstance(of(killed)[-1].line, End)
    assert isinstance(of(whole)[-1].line, End)
    assert not list(folder.rglob("*.tmp"))
    written = {entry.seq for entry in shell.entries(RUN)}
    assert entries(whole) == written
    assert entries(killed) < written
    assert passwords(secured_lab, shell) == set()


def test_a_cluster_is_recorded_until_idle_and_its_redacted_copy_contains_no_names(
    secured_lab: Lab, shell: Shell, client: Path, topic: str
) -> None:
    plan, connects = str(shell.folder / f"{RUN}.json"), ("--command-config", str(client))
    paced = ("--poll", "200ms", "--throttle", SLOW)
    run = shell.begin("start", plan, *connects, *paced, "--headless")
    shell.wait_for(RUN, Owned)

    recording = shell.begin("record", *connects, "--until-idle", "--json")
    folder = shell.state.path / "recordings"
    assert wait_for(lambda: sessions_showing(folder, topic) == 1, seconds=LIMIT_S), shell.log(RUN)
    lifted = shell.ktui("throttle", RUN, "none")
    recorded = ended(recording)
    ended(run)
    private = str(shell.folder / "given")
    copied = shell.ktui("record", "--from", str(shell.state.path), "--to", private, "--redact")

    assert lifted.returncode == 0, lifted.stderr
    assert recorded.returncode == 0, recorded.stderr
    last = json.loads(recorded.stdout.splitlines()[-1])
    assert (last["moving"], last["lost"], last["problem"]) == (0, 0, None)
    (session,) = find_sessions(Path(last["path"]))
    assert len(looks(session)) == last["looks"]
    assert entries(session) == {entry.seq for entry in shell.entries(RUN)}
    assert copied.returncode == 0, copied.stderr
    (of_run, of_cluster) = sorted(find_sessions(Path(private)), key=lambda each: each.head.program)
    assert of_run.head.redacted
    assert of_cluster.head.redacted
    assert len(looks(of_cluster)) == last["looks"]
    names = (topic, RUN, str(client), "127.0.0.1", secured_lab.bootstrap_servers)
    texts = [line.text.decode() for line in (*of(of_run), *of(of_cluster))]
    assert [(name, text) for name in names for text in texts if name in text] == []
    assert passwords(secured_lab, shell) == set()


def passwords(lab: Lab, shell: Shell) -> set[str]:
    """Return the cluster passwords found in any recording of a state directory."""
    texts = [found.text.decode() for each in find_sessions(shell.state.path) for found in of(each)]
    return {word for word in lab.layout.passwords.values() for text in texts if word in text}
