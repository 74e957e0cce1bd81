"""A secured lab admits the right users, each with the permissions of their role."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its documented names
    AdminClient,
    ConfigResource,
    NewTopic,
)

from ktui.kafka.connection.connection import Connection
from ktui.lab import nodes, readiness
from ktui.lab.layout import Lab, WrongInput

NO_PERMISSION = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


def admin_client(settings: dict[str, str]) -> AdminClient:
    return AdminClient({**settings, "socket.timeout.ms": 20_000, "log_level": 0})


def brokers_seen(settings: dict[str, str]) -> set[int]:
    return set(admin_client(settings).list_topics(timeout=20).brokers)


def create(settings: dict[str, str], topic: str) -> None:
    client = admin_client(settings)
    client.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)


def refusal_to_create(settings: dict[str, str], topic: str) -> int:
    with pytest.raises(KafkaException) as refused:
        create(settings, topic)
    return int(refused.value.args[0].code())


def topics_seen(settings: dict[str, str]) -> set[str]:
    return set(admin_client(settings).list_topics(timeout=20).topics)


def wait_until_visible(settings: dict[str, str], topic: str) -> bool:
    """Wait until a user sees a topic: not all brokers learn of a new one at once."""
    return nodes.wait_for(lambda: topic in topics_seen(settings), seconds=60)


def broker_settings_seen(settings: dict[str, str]) -> dict[str, object]:
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")
    client = admin_client(settings)
    found: dict[str, object] = client.describe_configs([resource])[resource].result(20)
    return found


@pytest.fixture(params=["secured_lab", "ssl_lab"])
def secured(request: pytest.FixtureRequest, secured_lab: Lab, ssl_lab: Lab) -> Lab:
    """Each of the secured labs, in turn."""
    return secured_lab if request.param == "secured_lab" else ssl_lab


def test_the_admin_may_do_everything(secured: Lab, topic_name: str) -> None:
    settings = readiness.librdkafka_settings(secured, "admin")
    create(settings, topic_name)
    assert wait_until_visible(settings, topic_name)


def test_the_viewer_may_read_but_not_write(secured: Lab, topic_name: str) -> None:
    create(readiness.librdkafka_settings(secured, "admin"), topic_name)
    viewer = readiness.librdkafka_settings(secured, "viewer")
    assert wait_until_visible(viewer, topic_name)
    assert "min.insync.replicas" in broker_settings_seen(viewer)
    assert refusal_to_create(viewer, f"{topic_name}-2") in NO_PERMISSION


def test_the_user_nobody_can_log_in_but_do_nothing(secured: Lab, topic_name: str) -> None:
    create(readiness.librdkafka_settings(secured, "admin"), topic_name)
    nobody = readiness.librdkafka_settings(secured, "nobody")
    assert brokers_seen(nobody) == {node.id for node in secured.brokers}
    assert topic_name not in topics_seen(nobody)
    assert refusal_to_create(nobody, f"{topic_name}-2") in NO_PERMISSION


def test_plain_logs_in_like_scram(secured_lab: Lab) -> None:
    settings = {**readiness.librdkafka_settings(secured_lab, "viewer"), "sasl.mechanism": "PLAIN"}
    assert brokers_seen(settings) == {1, 2}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_rejected(secured_lab: Lab, mechanism: str) -> None:
    settings = readiness.librdkafka_settings(secured_lab, "admin")
    settings |= {"sasl.mechanism": mechanism, "sasl.password": "wrong"}
    with pytest.raises(KafkaException):
        AdminClient({**settings, "log_level": 0}).list_topics(timeout=5)


def test_an_authority_of_another_lab_is_not_trusted(secured_lab: Lab, ssl_lab: Lab) -> None:
    settings = readiness.librdkafka_settings(secured_lab, "admin")
    settings["ssl.ca.location"] = readiness.librdkafka_settings(ssl_lab, "admin")["ssl.ca.location"]
    with pytest.raises(KafkaException):
        AdminClient({**settings, "log_level": 0}).list_topics(timeout=5)


def test_a_client_without_a_certificate_can_connect_but_do_nothing(
    ssl_lab: Lab, topic_name: str
) -> None:
    settings = readiness.librdkafka_settings(ssl_lab, "admin")
    anonymous = {k: v for k, v in settings.items() if not k.startswith(("ssl.cert", "ssl.key"))}
    assert refusal_to_create(anonymous, topic_name) in NO_PERMISSION


@pytest.mark.parametrize("user", ["admin", "viewer", "nobody"])
async def test_the_client_file_of_each_user_connects_ktui(secured: Lab, user: str) -> None:
    from_file = Connection.of(command_config=secured.client_file(user))
    assert ",".join(from_file.bootstrap_servers) == secured.bootstrap_servers
    assert brokers_seen(from_file.for_confluent()) == {node.id for node in secured.brokers}


def test_an_unknown_user_is_refused_with_the_existing_ones(secured_lab: Lab) -> None:
    with pytest.raises(WrongInput, match=r"no user 'root'.*admin, viewer, nobody"):
        readiness.librdkafka_settings(secured_lab, "root")
