"""The settings of a connection, and the client that they are for."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ktui.kafka.connection.connection import Connection
from ktui.kafka.connection.properties import ConnectionProblem, Secret

SASL = {
    "bootstrap.servers": "kafka-1:9093",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "ada",
    "sasl.password": "open sesame",
}


def refused(properties: dict[str, object], **more: Any) -> ConnectionProblem:
    with pytest.raises(ConnectionProblem) as caught:
        Connection.of(properties, where="config.yaml, context prod", **more)
    return caught.value


def test_an_address_alone_makes_a_connection() -> None:
    connection = Connection.to("kafka-1:9092, kafka-2:9092")

    assert connection.bootstrap_servers == ["kafka-1:9092", "kafka-2:9092"]
    assert connection.protocol == "PLAINTEXT"
    assert connection.warnings == ()
    assert connection.timeout_s == 10


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("[::1]:9092", "[::1]:9092"),
        ("SASL_SSL://kafka-1:9093", "kafka-1:9093"),
        (["kafka-1:9092", "kafka-2:9092"], "kafka-1:9092,kafka-2:9092"),
    ],
)
def test_addresses_may_be_written_in_several_ways(written: object, expected: str) -> None:
    connection = Connection.of({"bootstrap.servers": written})

    assert connection.for_confluent()["bootstrap.servers"] == expected


@pytest.mark.parametrize(
    "address", ["kafka-1", "kafka-1:", ":9092", "a:0", "a:70000", "a b:1", ","]
)
def test_a_malformed_address_is_refused_with_the_expected_form(address: str) -> None:
    problem = refused({"bootstrap.servers": address})

    assert "host:port" in str(problem)
    assert problem.key == "bootstrap.servers"
    assert str(problem).startswith("config.yaml, context prod: bootstrap.servers: ")


def test_a_missing_address_is_refused_with_its_option() -> None:
    assert "--bootstrap-server" in str(refused({"client.id": "me"}))


def test_the_option_overrides_the_context_and_the_context_overrides_the_file(
    tmp_path: Path,
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:1\nclient.id=file\nrequest.timeout.ms=4000\n")

    connection = Connection.of(
        {"bootstrap.servers": "context:2", "client.id": "context"},
        command_config=file,
        bootstrap_server="option:3",
    )

    assert connection.bootstrap_servers == ["option:3"]
    assert connection.for_kafka_python()["client_id"] == "context"
    assert connection.timeout_s == 4


def test_each_client_gets_the_settings_under_its_own_names() -> None:
    connection = Connection.of(SASL)

    ours = connection.for_kafka_python()
    assert ours["bootstrap_servers"] == ["kafka-1:9093"]
    assert ours["security_protocol"] == "SASL_PLAINTEXT"
    assert ours["sasl_mechanism"] == "SCRAM-SHA-512"
    assert (ours["sasl_plain_username"], ours["sasl_plain_password"]) == ("ada", "open sesame")
    assert connection.for_confluent() == {"client.id": "ktui", **SASL}


def test_a_scram_user_with_a_comma_is_escaped_as_the_standard_requires() -> None:
    connection = Connection.of(SASL | {"sasl.username": "CN=ada,O=x"})

    assert connection.for_kafka_python()["sasl_plain_username"] == "CN=3Dada=2CO=3Dx"
    assert connection.for_confluent()["sasl.username"] == "CN=ada,O=x"


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("boostrap.servers", "bootstrap.servers"),
        ("sasl.mecanism", "sasl.mechanism"),
        ("ssl.ca.locations", "ssl.ca.location"),
    ],
)
def test_a_misspelt_setting_is_refused_with_a_suggestion(wrong: str, near: str) -> None:
    problem = refused({"bootstrap.servers": "a:1", wrong: "x"})

    assert problem.key == wrong
    assert f"Did you mean {near}?" in str(problem)


def test_a_setting_of_a_producer_is_refused() -> None:
    assert "is not a connection setting" in str(
        refused({"bootstrap.servers": "a:1", "acks": "all"})
    )


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("security.protocol", "TLS", "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("sasl.mechanism", "MD5", "SCRAM-SHA-512"),
        ("enable.ssl.certificate.verification", "maybe", "true or false"),
        ("socket.timeout.ms", "soon", "number"),
        ("socket.timeout.ms", 0, "above 0"),
        ("sasl.oauthbearer.token.endpoint.url", "https://[::1", "is not an https:// URL"),
        ("sasl.oauthbearer.token.endpoint.url", "https://a:99999/", "is not an https:// URL"),
        ("ssl.ca.location", "/no/such/file.pem", "No such file"),
        ("sasl.username", "", "empty"),
        ("sasl.username", None, "expected text"),
        ("sasl.username", ["a"], "expected text"),
    ],
)
def test_an_invalid_value_is_refused_with_its_setting(key: str, value: object, words: str) -> None:
    problem = refused({"bootstrap.servers": "a:1", key: value})

    assert problem.key == key
    assert words in str(problem)


@pytest.mark.parametrize("written", [83, 1.5, True])
def test_a_password_that_yaml_reads_as_another_type_is_refused(written: object) -> None:
    properties = {"bootstrap.servers": "kafka-1:9092", "sasl.password": written}

    with pytest.raises(ConnectionProblem, match=r"sasl.password: is not text. Put it in quotes"):
        Connection.of(properties)


@pytest.mark.parametrize("missing", ["sasl.username", "sasl.password", "sasl.mechanism"])
def test_a_setting_that_the_mechanism_needs_is_required(missing: str) -> None:
    problem = refused({k: v for k, v in SASL.items() if k != missing})

    assert problem.key == missing
    assert "is missing" in str(problem)


def test_oauth_needs_an_endpoint_and_a_client() -> None:
    oauth: dict[str, object] = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
    }
    assert refused(oauth).key == "sasl.oauthbearer.token.endpoint.url"

    oauth["sasl.oauthbearer.token.endpoint.url"] = "ftp://idp"
    assert "https://" in str(refused(oauth))

    oauth["sasl.oauthbearer.token.endpoint.url"] = "https://idp/token"
    oauth["sasl.oauthbearer.client.id"] = "ktui"
    assert refused(oauth).key == "sasl.oauthbearer.client.secret"

    oauth["sasl.oauthbearer.client.secret"] = "s3cret"
    connection = Connection.of(oauth)
    assert connection.for_confluent()["sasl.oauthbearer.method"] == "oidc"
    assert connection.for_kafka_python()["sasl_oauth_token_provider"].extensions() == {}


def test_settings_without_effect_give_a_warning() -> None:
    connection = Connection.of(
        {"bootstrap.servers": "a:1", "sasl.mechanism": "PLAIN"}, where="context prod"
    )

    assert connection.warnings == (
        "context prod: sasl.mechanism has no effect with security.protocol=PLAINTEXT",
    )


class TestASecret:
    def test_may_come_from_a_file_beside_the_configuration(self, tmp_path: Path) -> None:
        (tmp_path / "password").write_text("from the file\n")

        connection = Connection.of(SASL | {"sasl.password": {"file": "password"}}, folder=tmp_path)

        assert connection.for_confluent()["sasl.password"] == "from the file"

    def test_may_come_from_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KAFKA_PASSWORD", "from outside")

        connection = Connection.of(SASL | {"sasl.password": {"env": "KAFKA_PASSWORD"}})

        assert connection.for_confluent()["sasl.password"] == "from outside"

    @pytest.mark.parametrize(
        "line", ["printf 'printed by a %s' command", ["printf", "printed by a command"]]
    )
    def test_may_come_from_a_command(self, line: object) -> None:
        connection = Connection.of(SASL | {"sasl.password": {"command": line}})

        assert connection.for_confluent()["sasl.password"] == "printed by a command"

    @pytest.mark.parametrize(
        ("source", "words"),
        [
            ({"file": "/no/such/file"}, "cannot read /no/such/file"),
            ({"env": "KTUI_NOT_SET"}, "KTUI_NOT_SET is not set"),
            ({"command": "false"}, "false ended with status 1"),
            ({"command": "no-such-program --x"}, "cannot run no-such-program"),
            ({"command": "true"}, "is empty"),
            ({"command": "an 'open quote"}, "cannot be split"),
            ({"command": ""}, "the command is empty"),
            ({"command": "cat /dev/zero"}, "cat prints more than 1 MiB"),
            ({"command": r"printf '\377hunter2'"}, "the output of printf is not UTF-8 text"),
            ({"vault": "x"}, "{file: PATH}"),
            ({"file": "a", "env": "b"}, "{file: PATH}"),
        ],
    )
    def test_that_cannot_be_read_is_refused_with_its_source(
        self, source: object, words: str
    ) -> None:
        problem = refused(SASL | {"sasl.password": source})

        assert problem.key == "sasl.password"
        assert words in str(problem)

    def test_a_failing_command_is_not_quoted(self) -> None:
        script = "echo hunter2; echo hunter2 >&2; exit 3"

        problem = refused(SASL | {"sasl.password": {"command": ["sh", "-c", script]}})

        assert "hunter2" not in str(problem)
        assert "status 3" in str(problem)

    def test_a_command_that_does_not_end_is_killed_in_time(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("ktui.kafka.connection.properties.LIMIT_S", 0.01)

        problem = refused(SASL | {"sasl.password": {"command": "sleep 60"}})

        assert problem.key == "sasl.password"
        assert "sleep did not end within 0.01 s" in str(problem)

    def test_from_a_command_may_have_a_mebibyte(self) -> None:
        line = ["sh", "-c", "head -c 1048576 /dev/zero | tr '\\000' x; echo lost >&2"]

        connection = Connection.of(SASL | {"sasl.password": {"command": line}})

        assert connection.for_confluent()["sasl.password"] == "x" * 1024**2

    def test_is_never_shown(self) -> None:
        connection = Connection.of(SASL)

        for shown in (repr(connection), str(connection), f"{connection}", repr(vars(connection))):
            assert "open sesame" not in shown
        assert "***" in repr(connection)

    def test_is_comparable_without_being_shown(self) -> None:
        secret = Secret("a")

        assert secret == Secret("a") != Secret("b")
        assert f"{secret!r} {secret} {secret:>20}" == "Secret(***) Secret(***) Secret(***)"
        with pytest.raises(TypeError):
            secret.__reduce__()


def test_an_endless_timeout_becomes_the_longest_possible() -> None:
    connection = Connection.of({"bootstrap.servers": "a:1", "socket.timeout.ms": "9" * 5000})

    assert connection.timeout_s < 10**7


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.strip()


def test_reading_a_cluster_loads_no_second_client_no_consumer_and_no_producer() -> None:
    loaded = run("import sys, ktui.kafka.reader, ktui.kafka.writer; print(*sys.modules)").split()

    assert "kafka.net.manager" in loaded
    for unused in ("confluent_kafka", "kafka.consumer", "kafka.producer", "kafka.admin"):
        assert unused not in loaded


def test_reading_connection_settings_loads_no_client() -> None:
    loaded = run("import sys, ktui.kafka.connection.connection; print(*sys.modules)").split()

    assert not [m for m in loaded if m.startswith(("kafka.", "confluent_kafka"))]


@pytest.mark.parametrize(
    "use",
    [
        "from kafka import KafkaConsumer; print(KafkaConsumer.__name__)",
        "import kafka; print(kafka.KafkaConsumer.__name__)",
        "import kafka, kafka.errors; print(kafka.consumer.KafkaConsumer.__name__)",
        "import kafka, kafka.protocol.admin as a; print(a.CreateAclsRequest and 'KafkaConsumer')",
    ],
)
def test_the_kafka_package_is_still_complete_for_other_users(use: str) -> None:
    assert run(f"import ktui.kafka.reader; {use}") == "KafkaConsumer"


def test_an_unknown_name_in_the_kafka_package_is_still_an_error() -> None:
    program = "import ktui.kafka.reader, kafka; print(hasattr(kafka, 'NoSuchName'))"

    assert run(program) == "False"
