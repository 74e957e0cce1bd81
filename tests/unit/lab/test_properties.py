"""The settings of the nodes and of the clients of a lab."""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec
import pytest

from ktui.kafka.connection.connection import Connection
from ktui.lab import readiness, security
from ktui.lab.layout import Lab, Node, Security
from ktui.lab.security import render, server_properties
from support.kafka.lab_layout import written_lab


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
    readiness.write_files(lab)
    from_file = Connection.of(command_config=lab.client_file(user)).for_confluent()
    assert from_file.items() >= readiness.librdkafka_settings(lab, user).items()


def test_client_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    lab = written_lab(tmp_path, Security.SASL_PLAINTEXT)
    readiness.write_files(lab)
    assert stat.S_IMODE(lab.client_file("admin").stat().st_mode) == 0o600


def test_a_plaintext_lab_needs_no_client_files(tmp_path: Path) -> None:
    readiness.write_files(written_lab(tmp_path))
    assert list(tmp_path.iterdir()) == []
