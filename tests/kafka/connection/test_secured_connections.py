"""Every way to log in to a secured cluster, and every way to be turned away."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest

from ktui.cluster.errors import AuthenticationFailed, ClusterError, NotAuthorized, NotKafka
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigOp, ConfigScope, Permissions, Verdict
from ktui.kafka.capabilities import Capabilities, Probe, probe_confluent, probe_kafka_python
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.kafka.writer import KafkaWriter
from ktui.lab import security
from ktui.lab.layout import Lab
from support.contract.world import RealWorld, setting

PATIENT_S = 120.0  # a call limit so long that only an immediate error ends the test in time

SOON_S = 60.0


@asynccontextmanager
async def reading(connection: Connection) -> AsyncIterator[KafkaReader]:
    reader = KafkaReader(connection, timeout_s=PATIENT_S)
    try:
        yield reader
    finally:
        await reader.aclose()


async def failure(connection: Connection) -> ClusterError:
    """Return the error of describing the cluster, raised long before the call limit."""
    async with reading(connection) as reader:
        with pytest.raises(ClusterError) as caught:
            async with asyncio.timeout(SOON_S):
                await reader.describe_cluster()
    return caught.value


def settings(lab: Lab, user: str = "admin", **changes: object) -> Connection:
    found = {k.replace("_", "."): v for k, v in changes.items()}
    merged = {**security.librdkafka_settings(lab, user), **found}
    return Connection.of({k: v for k, v in merged.items() if v is not None})


def with_password(lab: Lab, password: str, mechanism: str = "SCRAM-SHA-512") -> Connection:
    return settings(lab, sasl_password=password, sasl_mechanism=mechanism)


def a_login(lab: Lab, protocol: str) -> Connection:
    """A connection with a password, to a lab that knows none."""
    return Connection.of(
        {
            "bootstrap.servers": lab.bootstrap_servers,
            "security.protocol": protocol,
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "admin",
            "sasl.password": "horse",
        }
    )


class TestLoggingIn:
    @pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
    async def test_by_password_works_with_both_clients(
        self, secured_lab: Lab, mechanism: str
    ) -> None:
        connection = settings(secured_lab, sasl_mechanism=mechanism)

        for probe in (probe_kafka_python, probe_confluent):
            found = await probe(connection)
            assert found.error is None
            assert found.cluster_id == secured_lab.layout.cluster_id

    async def test_by_password_works_with_a_java_client_file(self, secured_lab: Lab) -> None:
        connection = Connection.of(command_config=secured_lab.client_file("admin"))

        async with reading(connection) as reader:
            assert len((await reader.describe_cluster()).brokers) == 2

    async def test_by_certificate_works_with_both_clients(self, ssl_lab: Lab) -> None:
        for probe in (probe_kafka_python, probe_confluent):
            assert (await probe(settings(ssl_lab))).error is None

    async def test_by_certificate_works_with_a_java_client_file(self, ssl_lab: Lab) -> None:
        connection = Connection.of(command_config=ssl_lab.client_file("viewer"))

        async with reading(connection) as reader:
            assert await reader.list_reassignments() == {}

    async def test_by_certificate_works_with_pem_as_text(self, ssl_lab: Lab) -> None:
        identity = (ssl_lab.certificates / "admin.pem").read_text()
        connection = settings(
            ssl_lab,
            ssl_ca_location=None,
            ssl_ca_pem=(ssl_lab.certificates / "ca.pem").read_text(),
            ssl_certificate_location=None,
            ssl_certificate_pem=identity,
            ssl_key_location=None,
            ssl_key_pem=identity,
        )

        for probe in (probe_kafka_python, probe_confluent):
            assert (await probe(connection)).error is None


class TestRefusal:
    @pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
    async def test_for_a_wrong_password_is_reported_at_once_in_the_brokers_words(
        self, secured_lab: Lab, mechanism: str
    ) -> None:
        error = await failure(with_password(secured_lab, "wr0ng-horse", mechanism))

        assert type(error) is AuthenticationFailed
        assert "127.0.0.1" in error.where
        assert error.answer.startswith("Authentication failed")
        assert "invalid" in error.answer.lower()
        assert "sasl.password" in error.fix
        assert "wr0ng-horse" not in str(error)

    async def test_for_a_wrong_password_is_reported_by_the_other_client_too(
        self, secured_lab: Lab
    ) -> None:
        async with asyncio.timeout(SOON_S):
            probe = await probe_confluent(with_password(secured_lab, "wr0ng-horse"))

        assert type(probe.error) is AuthenticationFailed
        assert "wr0ng-horse" not in str(probe.error)

    async def test_for_a_mechanism_not_offered_by_the_listener(self, secured_lab: Lab) -> None:
        error = await failure(settings(secured_lab, sasl_mechanism="SCRAM-SHA-256"))

        assert type(error) is AuthenticationFailed
        assert "sasl.mechanism" in error.fix

    async def test_for_an_untrusted_authority(self, secured_lab: Lab) -> None:
        error = await failure(settings(secured_lab, ssl_ca_location=None))

        assert type(error) is AuthenticationFailed
        assert "certificate" in error.answer
        assert "ssl.ca.location" in error.fix

    @pytest.mark.parametrize(
        ("protocol", "hint"),
        [("PLAINTEXT", "=SSL"), ("SASL_PLAINTEXT", "=SASL_SSL"), ("SSL", "SASL_SSL")],
    )
    async def test_for_the_wrong_protocol_names_the_one_to_try(
        self, secured_lab: Lab, protocol: str, hint: str
    ) -> None:
        error = await failure(settings(secured_lab, security_protocol=protocol))

        assert type(error) is NotKafka
        assert hint in error.fix

    async def test_for_tls_on_a_plaintext_listener(self, lab: Lab) -> None:
        error = await failure(a_login(lab, "SASL_SSL"))

        assert type(error) is NotKafka
        assert "security.protocol=SASL_PLAINTEXT" in error.fix

    async def test_for_a_login_on_a_listener_without_authentication(self, lab: Lab) -> None:
        error = await failure(a_login(lab, "SASL_PLAINTEXT"))

        assert type(error) is AuthenticationFailed
        assert "security.protocol=PLAINTEXT" in error.fix


class TestPermissions:
    @pytest.fixture
    async def topic(self, secured_lab: Lab, topic_name: str) -> AsyncIterator[str]:
        """A topic that every broker knows."""
        world = RealWorld(settings(secured_lab))
        await world.create_topic(topic_name, [[1, 2]])
        yield topic_name
        await world.aclose()

    async def test_of_a_read_only_user_allow_every_read_and_no_write(
        self, secured_lab: Lab, topic: str
    ) -> None:
        connection = settings(secured_lab, "viewer")
        tp = TopicPartition(topic, 0)
        async with reading(connection) as reader:
            assert await reader.list_reassignments() == {}
            assert tp in (await reader.describe_topics([topic])).partitions
            assert (await reader.log_offsets(2, ends=[tp])).ends == {tp: 0}
            assert (await reader.log_dirs(1, [tp])).log_dirs
            assert (await reader.topic_configs([topic])).configs
            assert await reader.broker_config(1)

        writer = KafkaWriter(connection)
        try:
            rate = setting(
                ConfigScope.BROKER, "1", "leader.replication.throttled.rate", ConfigOp.DELETE
            )
            results = [
                *(
                    await writer.alter_reassignments(
                        {tp: (2, 1)}, allow_replication_factor_change=False
                    )
                ).values(),
                *(await writer.elect_preferred_leaders([tp])).values(),
                *(await writer.alter_log_dirs(1, {tp: "/data"})).values(),
                *(await writer.alter_configs([rate])).values(),
                await writer.unregister_broker(1),
            ]
            added = await writer.create_partitions(topic, 9)
        finally:
            await writer.aclose()
        assert {(r.verdict, r.code) for r in results} == {
            (Verdict.REFUSED, "CLUSTER_AUTHORIZATION_FAILED")
        }
        assert "Grant Alter on the cluster" in results[0].message
        assert (added.verdict, added.code) == (Verdict.REFUSED, "TOPIC_AUTHORIZATION_FAILED")
        assert f"Grant Alter on topic {topic}" in added.message

    async def test_that_are_missing_are_named_for_each_request(
        self, secured_lab: Lab, topic: str
    ) -> None:
        tp = TopicPartition(topic, 0)
        async with reading(settings(secured_lab, "nobody")) as reader:
            for call, needed in (
                (reader.list_reassignments(), "Describe on the cluster"),
                (reader.log_dirs(1, []), "Describe on the cluster"),
                (reader.broker_config(1), "DescribeConfigs on the cluster"),
            ):
                with pytest.raises(NotAuthorized, match=f"Grant {needed}"):
                    await call
            topics = await reader.describe_topics([topic])
            offsets = await reader.log_offsets(1, ends=[tp])
            configs = await reader.topic_configs([topic])

        assert topics.partitions == {}
        assert [(f.topic, f.denied) for f in topics.failures] == [(topic, True)]
        assert offsets.errors == {tp: "TOPIC_AUTHORIZATION_FAILED"}
        assert [(f.topic, f.denied) for f in configs.failures] == [(topic, True)]

    async def test_are_known_before_anything_is_tried(self, secured_lab: Lab, topic: str) -> None:
        viewer = await permissions(settings(secured_lab, "viewer"))
        nobody = await permissions(settings(secured_lab, "nobody"))
        admin = await permissions(settings(secured_lab))

        assert {(g.resource, g.operation) for g in viewer.missing()} == {
            ("cluster", "Alter"),
            ("cluster", "AlterConfigs"),
            ("topic", "AlterConfigs"),
        }
        assert topic in viewer.topics
        assert (await permissions(settings(secured_lab, "viewer"), [topic])).topics.keys() == {
            topic
        }
        assert nobody.cluster == frozenset()
        assert nobody.topics == {}
        assert admin.missing() == {}


async def permissions(connection: Connection, topics: Collection[str] | None = None) -> Permissions:
    capabilities = Capabilities(connection)
    try:
        return await capabilities.permissions(topics)
    finally:
        await capabilities.aclose()


async def test_each_broker_reports_the_requests_it_supports(secured_lab: Lab) -> None:
    capabilities = Capabilities(settings(secured_lab))
    try:
        found = await capabilities.brokers()
    finally:
        await capabilities.aclose()

    assert [b.broker for b in found] == [1, 2]
    version = secured_lab.layout.kafka_version
    assert {b.release for b in found} == {version.rpartition(".")[0]}
    assert {(b.lacks, b.error) for b in found} == {((), None)}


class TestASecret:
    """A password is searched for in everything that is logged or shown."""

    @pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
    @pytest.mark.parametrize("right", [True, False])
    async def test_is_in_no_log_and_on_no_screen(
        self,
        secured_lab: Lab,
        mechanism: str,
        right: bool,  # noqa: FBT001 -- a parameter of the test
        caplog: pytest.LogCaptureFixture,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        password = secured_lab.layout.passwords["admin"] if right else "wr0ng-horse"
        caplog.set_level(logging.DEBUG)
        logging.getLogger("kafka").setLevel(logging.DEBUG)
        connection = with_password(secured_lab, password, mechanism)

        probes = [await probe_kafka_python(connection), await probe_confluent(connection)]

        assert [probe.error is None for probe in probes] == [right, right]
        out, err = capfd.readouterr()
        logged = "".join(record.getMessage() + repr(vars(record)) for record in caplog.records)
        assert "ktui.kafka.client" in {record.name for record in caplog.records}
        for shown in (out, err, logged, repr(probes), repr(connection), _error_texts(probes)):
            for form in _forms(password):
                assert form not in shown
        assert out == err == ""


def _error_texts(probes: Sequence[Probe]) -> str:
    """Return the text of all errors and their causes."""
    words = []
    for probe in probes:
        error: BaseException | None = probe.error
        while error is not None:
            words.append(f"{error} {error!r} {vars(error)}")
            error = error.__cause__ or error.__context__
    return " ".join(words)


def _forms(secret: str) -> Mapping[str, None]:
    """The secret itself and as the SASL mechanisms and logs may spell it."""
    plain = f"\0admin\0{secret}"
    encoded = base64.b64encode(secret.encode()).decode()
    return dict.fromkeys([secret, encoded, base64.b64encode(plain.encode()).decode()])
