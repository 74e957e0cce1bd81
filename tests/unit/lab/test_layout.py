"""The lab's brokers: ports, properties, log dirs and processes."""

import os
import shutil
import signal
import socket
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest
from click.testing import CliRunner, Result

from ktui.cli.main import ktui
from ktui.kafka.connection.connection import Connection
from ktui.lab import layout, nodes, security
from ktui.lab.layout import Lab, LabError, Node, Security, WrongInput
from ktui.lab.security import render, server_properties
from ktui.lab.up import choose_ports, down, is_free, ports_from
from support.kafka.labs import written_lab


def test_a_saved_lab_is_loaded_unchanged(tmp_path: Path) -> None:
    lab = written_lab(tmp_path, Security.SASL_SSL)
    layout.save(lab)
    assert layout.load(tmp_path) == lab


def test_lab_json_holds_passwords_and_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    layout.save(written_lab(tmp_path, Security.SASL_SSL))
    assert stat.S_IMODE((tmp_path / "lab.json").stat().st_mode) == 0o600


def test_a_folder_without_a_lab_is_reported_with_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(WrongInput) as error:
        layout.load(tmp_path)
    assert str(error.value) == (
        f"no lab in {tmp_path}. Start one with: ktui lab up --dir {tmp_path}"
    )


@pytest.mark.parametrize("text", ["", "{", '{"schema_version": 1}', "[]"])
def test_a_broken_lab_json_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "lab.json").write_text(text)
    with pytest.raises(LabError, match=r"lab\.json cannot be read: .*remove the folder"):
        layout.load(tmp_path)


def test_commands_for_the_default_folder_need_no_dir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "default_folder", lambda: tmp_path / "home")
    assert layout.dir_option(tmp_path / "home") == ""
    assert layout.dir_option(Path("/my lab")) == " --dir '/my lab'"


def test_an_unknown_broker_is_refused_with_the_existing_ones(tmp_path: Path) -> None:
    with pytest.raises(WrongInput, match=r"no broker 3 .*brokers 1, 2 and the controller 100"):
        written_lab(tmp_path).node(3)


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(ktui, ["lab", *map(str, words)])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The folder of broker 1, which has two log dirs with a file in each."""
    lab = written_lab(tmp_path)
    lab = Lab(tmp_path, msgspec.structs.replace(lab.layout, ready=True, log_dirs=2))
    layout.save(lab)
    for path in lab.log_dirs(lab.node(1)):
        path.mkdir(parents=True)
        (path / "messages").touch()
    return lab.home(lab.node(1))


@pytest.mark.parametrize(("words", "name"), [((), "data-2"), (("--log-dir", "1"), "data")])
def test_a_log_dir_fails_and_comes_back_with_its_data(
    home: Path, words: tuple[str, ...], name: str
) -> None:
    where = ("--dir", home.parent)

    failed = run("fail-dir", "1", *words, *where)
    assert failed.stdout == f"{home / name} has failed. broker-1 notices within seconds\n"
    assert (home / name).is_file()

    mended = run("mend-dir", "1", *where)
    assert mended.stdout.startswith(f"{home / name} in order. ")
    assert [path.name for path in (home / name).iterdir()] == ["messages"]


def test_what_cannot_fail_or_be_mended_is_refused(home: Path) -> None:
    where = ("--dir", home.parent)

    assert run("mend-dir", "1", *where).stderr == "ktui: no log dir of broker-1 has failed\n"
    unknown = run("fail-dir", "1", "--log-dir", "3", *where)
    assert unknown.exit_code == 2
    assert unknown.stderr == "ktui: --log-dir 3. broker-1 has the log dirs 1 to 2.\n"
    run("fail-dir", "1", *where)
    again = run("fail-dir", "1", *where).stderr
    assert again.startswith(f"ktui: {home / 'data-2'} has failed already. Mend it with: ktui lab ")


def test_chosen_ports_are_consecutive_and_free() -> None:
    found = choose_ports(6)
    assert found == list(range(found[0], found[0] + 6))
    assert all(is_free(port) for port in found)


def test_a_taken_port_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not is_free(server.getsockname()[1])


def test_requested_ports_are_consecutive_from_the_first() -> None:
    first, *_ = choose_ports(3)
    assert ports_from(first, 3) == [first, first + 1, first + 2]


def test_a_taken_port_among_the_requested_ones_is_named() -> None:
    first, second, _ = choose_ports(3)
    with (
        socket.create_server(("127.0.0.1", second)),
        pytest.raises(LabError, match=f"127.0.0.1:{second} is taken"),
    ):
        ports_from(first, 3)


@pytest.mark.parametrize("first", [-1, 0, 1023, 65534, 70000])
def test_ports_out_of_range_are_refused(first: int) -> None:
    with pytest.raises(WrongInput, match="must lie between 1024 and 65535"):
        ports_from(first, 3)


def test_a_lack_of_free_ports_is_reported_with_the_option_to_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ktui.lab.up.is_free", lambda _port: False)
    with pytest.raises(LabError, match=r"no 6 free ports in a row .*--ports"):
        choose_ports(6)


def of_node(lab: Lab, node: int) -> dict[str, str]:
    return server_properties(lab, lab.node(node), security.server_settings(lab))


@pytest.mark.parametrize("kind", list(Security))
def test_every_node_listens_on_this_machine_only(tmp_path: Path, kind: Security) -> None:
    lab = written_lab(tmp_path, kind)
    assert of_node(lab, 100)["listeners"] == "CONTROLLER://127.0.0.1:21003"
    assert of_node(lab, 1)["listeners"] == "CLIENTS://127.0.0.1:21001"
    assert of_node(lab, 2)["advertised.listeners"] == "CLIENTS://127.0.0.1:21002"


def test_a_broker_knows_its_rack_its_data_and_the_controller(tmp_path: Path) -> None:
    broker = of_node(written_lab(tmp_path), 2)
    assert broker["process.roles"] == "broker"
    assert broker["broker.rack"] == "b"
    assert broker["log.dirs"] == str(tmp_path / "broker-2" / "data")
    assert broker["controller.quorum.voters"] == "100@127.0.0.1:21003"


def test_only_brokers_have_several_log_dirs(tmp_path: Path) -> None:
    lab = written_lab(tmp_path)
    lab = Lab(tmp_path, msgspec.structs.replace(lab.layout, log_dirs=2))

    paths = of_node(lab, 2)["log.dirs"].split(",")

    assert paths == [str(tmp_path / "broker-2" / name) for name in ("data", "data-2")]
    assert of_node(lab, 100)["log.dirs"] == str(tmp_path / "controller" / "data")


def test_every_node_of_a_lab_with_three_controllers_knows_all_of_them(tmp_path: Path) -> None:
    lab = written_lab(tmp_path)
    more = (Node(id=101, port=21004), Node(id=102, port=21005))
    nodes = (lab.controller, *more, *lab.brokers)
    lab = Lab(tmp_path, msgspec.structs.replace(lab.layout, nodes=nodes))

    voters = "100@127.0.0.1:21003,101@127.0.0.1:21004,102@127.0.0.1:21005"
    assert {of_node(lab, node.id)["controller.quorum.voters"] for node in nodes} == {voters}
    roles = [of_node(lab, node.id)["process.roles"] for node in nodes]
    assert roles == ["controller"] * 3 + ["broker"] * 2
    assert len({lab.home(node) for node in nodes}) == len(nodes)


def test_requested_settings_override_those_of_a_lab(tmp_path: Path) -> None:
    lab = written_lab(tmp_path)
    settings = {"min.insync.replicas": "2", "connections.max.reauth.ms": "5000"}
    lab = Lab(tmp_path, msgspec.structs.replace(lab.layout, settings=settings))

    assert settings.items() <= of_node(lab, 1).items()
    assert settings.items() <= of_node(lab, 100).items()


def test_topics_are_not_created_automatically(tmp_path: Path) -> None:
    assert of_node(written_lab(tmp_path), 1)["auto.create.topics.enable"] == "false"


def test_internal_topics_never_need_more_replicas_than_there_are_brokers(tmp_path: Path) -> None:
    assert of_node(written_lab(tmp_path), 1)["offsets.topic.replication.factor"] == "2"


def test_a_plaintext_lab_has_no_authorizer(tmp_path: Path) -> None:
    broker = of_node(written_lab(tmp_path), 1)
    assert not [key for key in broker if key.startswith(("authorizer", "ssl", "sasl", "super"))]


@pytest.mark.parametrize("kind", [Security.SSL, Security.SASL_PLAINTEXT, Security.SASL_SSL])
def test_a_secured_lab_is_secured_everywhere(tmp_path: Path, kind: Security) -> None:
    lab = written_lab(tmp_path, kind)
    for node in lab.layout.nodes:
        rendered = of_node(lab, node.id)
        name = kind.value.upper()
        assert rendered["listener.security.protocol.map"] == f"CONTROLLER:{name},CLIENTS:{name}"
        assert rendered["authorizer.class.name"].endswith("StandardAuthorizer")
        assert "User:admin" in rendered["super.users"]
        assert "ANONYMOUS" not in rendered["super.users"]


def test_a_backslash_in_a_value_is_escaped() -> None:
    assert render({"rule": r"RULE:^CN=(\w+)$"}) == "rule=RULE:^CN=(\\\\w+)$\n"


@pytest.mark.parametrize("user", ["admin", "viewer", "nobody"])
def test_a_client_file_matches_the_librdkafka_settings(tmp_path: Path, user: str) -> None:
    lab = written_lab(tmp_path, Security.SASL_PLAINTEXT)
    security.write_files(lab)
    from_file = Connection.of(command_config=lab.client_file(user)).for_confluent()
    assert from_file.items() >= security.librdkafka_settings(lab, user).items()


def test_client_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    lab = written_lab(tmp_path, Security.SASL_PLAINTEXT)
    security.write_files(lab)
    assert stat.S_IMODE(lab.client_file("admin").stat().st_mode) == 0o600


def test_a_plaintext_lab_needs_no_client_files(tmp_path: Path) -> None:
    security.write_files(written_lab(tmp_path))
    assert list(tmp_path.iterdir()) == []


SLEEPER = "import time; time.sleep(600)"


class Spawner:
    """Starts processes with a given command line, and ends them after the test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pids: list[int] = []

    def __call__(self, program: str, *ending: str) -> int:
        """Run a sleeping process whose command line begins with `program` and ends in `ending`."""
        command = [program, "-c", SLEEPER, *ending]
        environment = {**os.environ, "PYTHONHOME": sys.base_prefix}
        pid = nodes.spawn(command, log=self._folder / "log", environment=environment)
        self._pids.append(pid)
        return pid

    def end_all(self) -> None:
        """Kill the processes that still run."""
        for pid in self._pids:
            process = nodes.find_by_pid(pid)
            if process:
                nodes.signal_and_wait([process], signal.SIGKILL, seconds=10)


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Spawner]:
    spawner = Spawner(tmp_path)
    yield spawner
    spawner.end_all()


@pytest.fixture
def java(tmp_path: Path) -> str:
    """A program named java."""
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.symlink_to(Path(shutil.which("python3", path=sys.base_prefix + "/bin") or "").resolve())
    return str(program)


def test_a_node_is_found_by_its_properties_file(tmp_path: Path, java: str, spawn: Spawner) -> None:
    lab = written_lab(tmp_path)
    pid = spawn(java, "kafka.Kafka", str(lab.properties_file(lab.node(2))))
    assert {node: process.pid for node, process in nodes.running(lab).items()} == {2: pid}


def test_foreign_processes_are_not_mistaken_for_a_node(
    tmp_path: Path, java: str, spawn: Spawner
) -> None:
    lab = written_lab(tmp_path)
    mine = str(lab.properties_file(lab.node(2)))
    spawn(sys.executable, "kafka.Kafka", mine)
    spawn(java, "kafka.Kafka", f"{mine}.old")
    spawn(java, "kafka.tools.StorageTool", mine)
    spawn(java, "kafka.Kafka", f"/elsewhere{mine}")
    assert nodes.running(lab) == {}


def test_down_ends_its_own_processes_and_leaves_another_lab_alone(
    tmp_path: Path, java: str, spawn: Spawner
) -> None:
    first, second = written_lab(tmp_path / "one"), written_lab(tmp_path / "two")
    mine = spawn(java, "kafka.Kafka", str(first.properties_file(first.node(1))))
    theirs = spawn(java, "kafka.Kafka", str(second.properties_file(second.node(1))))
    down(first, keep=False)
    assert nodes.find_by_pid(mine) is None
    assert nodes.find_by_pid(theirs) is not None


def test_a_reused_pid_is_never_signalled(spawn: Spawner) -> None:
    now = nodes.find_by_pid(spawn(sys.executable))
    assert now is not None
    before = msgspec.structs.replace(now, handle=psutil.Process(now.pid))
    before.handle._ident = (now.pid, 1.0)  # type: ignore[attr-defined]  # as of an earlier process
    assert not nodes.send_signal(before, signal.SIGKILL)
    assert nodes.has_ended(before)
    assert not nodes.has_ended(now)


def test_a_suspended_process_is_recognised_and_can_still_be_ended(spawn: Spawner) -> None:
    process = nodes.find_by_pid(spawn(sys.executable))
    assert process is not None
    assert not process.suspended
    nodes.send_signal(process, signal.SIGSTOP)

    def is_suspended() -> bool:
        now = nodes.find_by_pid(process.pid)
        return now is not None and now.suspended

    assert nodes.wait_for(is_suspended, seconds=10)
    assert nodes.signal_and_wait([process], signal.SIGTERM, seconds=10)


def test_signalling_an_ended_process_reports_it(spawn: Spawner) -> None:
    process = nodes.find_by_pid(spawn(sys.executable))
    assert process is not None
    assert nodes.signal_and_wait([process], signal.SIGKILL, seconds=10)
    assert not nodes.send_signal(process, signal.SIGTERM)
