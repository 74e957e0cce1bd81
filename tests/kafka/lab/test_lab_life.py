"""The command `ktui lab`, from up to down, on labs of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from ktui.cli.lab import connect
from ktui.cli.main import ktui
from ktui.kafka import workload
from ktui.kafka.connection.connection import Connection
from ktui.lab import layout, nodes, security
from ktui.lab.layout import DEFAULT_VERSION, VERSIONS, Lab, LabError, Node
from ktui.lab.up import LabRequest, choose_ports, down, up

pytestmark = pytest.mark.kafka


class StartedLab(NamedTuple):
    folder: Path
    first_port: int
    output: str  # what `ktui lab up` said


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A lab folder with a space in its name; anything running there is ended after the test."""
    folder = tmp_path / "a lab"
    yield folder
    if layout.exists(folder):
        down(layout.load(folder), keep=False)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartedLab]:
    """A running lab of one broker, which each test leaves running and whole."""
    folder = tmp_path_factory.mktemp("shared") / "a lab"
    first, *_ = choose_ports(2)
    begun = lab_up(folder, "--ports", str(first))
    assert begun.exit_code == 0, begun.stderr
    yield StartedLab(folder, first, begun.stdout)
    down(layout.load(folder), keep=False)


@pytest.fixture
def shared(started: StartedLab) -> Path:
    """The folder of the running lab."""
    return started.folder


def ktui_lab(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(ktui, ["lab", *words, "--dir", str(folder)])


def lab_up(folder: Path, *options: str, brokers: int = 1) -> Result:
    return ktui_lab(folder, "up", "--brokers", str(brokers), *options)


def status(folder: Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(ktui_lab(folder, "status", "--json").stdout)
    return answer


def states(folder: Path) -> dict[int, str]:
    return {node["id"]: node["state"] for node in status(folder)["nodes"]}


def kafkas_of(folder: Path) -> list[nodes.Process]:
    """Return every Kafka process whose command line names the folder."""
    return [
        p for p in nodes.all_running() if nodes.MAIN_CLASS in p.command and str(folder) in p.command
    ]


def test_a_lab_that_is_up_says_where_it_listens_and_how_to_end_it(started: StartedLab) -> None:
    folder, first, output = started
    facts = status(folder)
    assert facts["schema_version"] == 1
    assert facts["ready"] is True
    assert facts["bootstrap_servers"] == f"127.0.0.1:{first}"
    assert {n["id"]: n["port"] for n in facts["nodes"]} == {1: first, 100: first + 1}
    assert states(folder) == {100: "running", 1: "running"}
    assert {node["pid"] for node in facts["nodes"]} == {p.pid for p in kafkas_of(folder)}
    assert facts["bootstrap_servers"] in output
    assert f"ktui lab down --dir '{folder}'" in output


def test_the_doctor_warns_of_nothing_in_a_new_lab(shared: Path, tmp_path: Path) -> None:
    where = ["--bootstrap-server", status(shared)["bootstrap_servers"]]
    examined = CliRunner().invoke(ktui, ["doctor", *where, "--state-dir", str(tmp_path)])

    assert examined.exit_code == 0
    assert f"ktui is tested with Kafka {DEFAULT_VERSION.rpartition('.')[0]}" in examined.stdout
    assert {"WARN", "BAD"}.isdisjoint(examined.stdout.split())


def test_the_controller_is_broken_and_mended_as_a_broker_is(shared: Path) -> None:
    for verb, expected in [
        ("suspend", "suspended"),
        ("resume", "running"),
        ("kill", "stopped"),
        ("start", "running"),
    ]:
        done = ktui_lab(shared, verb, "100")
        assert done.exit_code == 0, done.stderr
        assert states(shared)[100] == expected


def test_a_broker_is_broken_and_repaired_and_impossible_requests_explain_the_way_out(
    shared: Path,
) -> None:
    def refusal(verb: str, broker: int) -> tuple[int, str]:
        done = ktui_lab(shared, verb, str(broker))
        return done.exit_code, done.stderr

    def becomes(verb: str, state: str) -> None:
        assert ktui_lab(shared, verb, "1").exit_code == 0
        assert states(shared)[1] == state

    there_are = "It has the brokers 1 and the controller 100."
    assert refusal("kill", 7) == (2, f"ktui: no broker 7 in the lab in {shared}. {there_are}\n")
    code, printed = refusal("start", 1)
    assert (code, printed.startswith("ktui: broker-1 is already running (pid ")) == (1, True)
    assert refusal("resume", 1) == (1, "ktui: broker-1 is not suspended\n")
    becomes("suspend", "suspended")
    wake = f"Wake it with: ktui lab resume 1 --dir '{shared}'\n"
    assert refusal("suspend", 1) == (1, f"ktui: broker-1 is already suspended. {wake}")
    assert refusal("start", 1)[1].endswith(wake)
    becomes("resume", "running")
    becomes("suspend", "suspended")
    becomes("kill", "stopped")
    start = f"Start it with: ktui lab start 1 --dir '{shared}'\n"
    assert refusal("kill", 1) == (1, f"ktui: broker-1 is not running. {start}")
    becomes("start", "running")


def test_a_second_up_reports_that_the_lab_runs_and_its_address(shared: Path) -> None:
    before = {process.pid for process in kafkas_of(shared)}
    again = lab_up(shared)
    assert again.exit_code == 1
    assert (
        f"a lab is already running in {shared}: {status(shared)['bootstrap_servers']}"
        in again.stderr
    )
    assert {process.pid for process in kafkas_of(shared)} == before


def test_a_lab_ended_with_keep_comes_up_again_with_its_data_and_ended_without_leaves_nothing(
    folder: Path, topic_name: str
) -> None:
    assert lab_up(folder).exit_code == 0
    first = layout.load(folder)
    connection = Connection.of(security.librdkafka_settings(first))
    workload.create_topic(connection, topic_name, [[1]])
    assert workload.fill(connection, topic_name, [0], bytes_each=100_000, message_bytes=1000) == 100

    assert ktui_lab(folder, "down", "--keep").exit_code == 0
    assert kafkas_of(folder) == []
    other = lab_up(folder, brokers=3)
    assert other.exit_code == 2
    assert "Start it with these options, or clear it" in other.stderr

    assert lab_up(folder).exit_code == 0
    second = layout.load(folder)
    assert second.layout == first.layout
    client = Consumer({**connection.for_confluent(), "group.id": "reader"})
    assert client.get_watermark_offsets(TopicPartition(topic_name, 0), timeout=30) == (0, 100)
    client.close()

    assert ktui_lab(folder, "suspend", "1").exit_code == 0
    (folder / "notes.txt").write_text("mine")
    ended = ktui_lab(folder, "down")
    assert ended.exit_code == 0, ended.stderr
    assert kafkas_of(folder) == []
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGKILL, -9),
        (signal.SIGTERM, 143),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.soak),
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.soak),
    ],
)
def test_a_lab_whose_starter_is_killed_midway_leaves_nothing_behind(
    folder: Path, number: signal.Signals, code: int
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "ktui", "lab", "up", "--brokers", "1", "--dir", str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as starter:
        assert nodes.wait_for(lambda: len(kafkas_of(folder)) == 2, seconds=120)
        starter.send_signal(number)
        assert starter.wait(60) == code
    if number is signal.SIGKILL:
        assert len(kafkas_of(folder)) == 2
        again = lab_up(folder)
        assert (again.exit_code, "a lab is already running" in again.stderr) == (1, True)
        assert ktui_lab(folder, "down").exit_code == 0
    assert kafkas_of(folder) == []
    assert not folder.exists()


def test_a_taken_port_is_named_before_anything_starts(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = lab_up(folder, "--ports", str(port))
    assert refused.exit_code == 1
    assert f"127.0.0.1:{port} is taken by another program" in refused.stderr
    assert not folder.exists()


def test_a_broker_that_dies_while_starting_is_quoted_and_the_lab_taken_down(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = security.server_properties

    def with_a_mistake(lab: Lab, node: Node, secured: Mapping[str, str]) -> dict[str, str]:
        mistake = {"num.io.threads": "many"} if node.id == 1 else {}
        return {**whole(lab, node, secured), **mistake}

    monkeypatch.setattr(security, "server_properties", with_a_mistake)
    with pytest.raises(LabError, match="broker-1 has died while starting") as died:
        up(folder, LabRequest(brokers=1), connect, lambda _: None)
    assert any("num.io.threads" in line for line in died.value.words)
    assert kafkas_of(folder) == []
    assert not folder.exists()


def test_the_oldest_kafka_starts_is_read_and_knows_its_users_also_without_tls(
    folder: Path, topic_name: str
) -> None:
    begun = lab_up(folder, "--version", VERSIONS[-1], "--security", "sasl_plaintext")
    assert begun.exit_code == 0, begun.stderr
    listed, examined = (
        CliRunner().invoke(ktui, [verb, "--command-config", f"{folder}/client-viewer.properties"])
        for verb in ("list", "doctor")
    )
    assert (listed.stdout, listed.stderr) == ("Nothing is being reassigned.\n", "")
    assert "ktui is tested with Kafka 3.9" in examined.stdout
    assert "could not read" not in examined.stdout
    assert any((folder / "broker-1" / "server.log").read_text())

    admin, viewer, nobody = (
        Connection.of(command_config=folder / f"client-{user}.properties")
        for user in ("admin", "viewer", "nobody")
    )
    workload.create_topic(admin, topic_name, [[1]])
    assert topic_name in topics_seen(viewer)
    assert topic_name not in topics_seen(nobody)


def topics_seen(connection: Connection) -> set[str]:
    return set(AdminClient({**connection.for_confluent()}).list_topics(timeout=30).topics)


def test_an_unknown_version_is_refused_with_those_that_work(folder: Path) -> None:
    if "KAFKA_HOME" in os.environ:
        pytest.fail("unset KAFKA_HOME: this test asks Maven")
    refused = lab_up(folder, "--version", "9.9.9")
    assert refused.exit_code == 2
    assert "Kafka 9.9.9 is not published in full" in refused.stderr
    assert f"Known to work: {DEFAULT_VERSION}, " in refused.stderr
    assert not folder.exists()
