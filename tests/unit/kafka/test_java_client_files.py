"""Client properties files as Kafka's own tools accept them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.kafka.connection.connection import Connection
from ktui.kafka.connection.properties import ConnectionProblem
from ktui.kafka.connection.sources import read_entries

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "client.properties"


def refused(file: Path) -> ConnectionProblem:
    with pytest.raises(ConnectionProblem) as caught:
        Connection.of(command_config=file)
    return caught.value


def test_a_file_of_the_java_clients_connects_by_scram(file: Path) -> None:
    file.write_text(f"""\
# how we connect
bootstrap.servers = kafka-1:9093
security.protocol: SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config={SCRAM} required \\
    username="ada" \\
    password="say \\\\"when\\\\"; please";
request.timeout.ms=30000
""")

    connection = Connection.of(command_config=file)

    assert connection.timeout_s == 30
    assert connection.for_confluent() == {
        "client.id": "ktui",
        "bootstrap.servers": "kafka-1:9093",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "ada",
        "sasl.password": 'say "when"; please',
        "socket.timeout.ms": "30000",
    }


def test_a_file_of_librdkafka_is_accepted_too(file: Path) -> None:
    file.write_text(
        "metadata.broker.list=kafka-1:9093\nsecurity.protocol=sasl_plaintext\n"
        "sasl.mechanisms=PLAIN\nsasl.username=ada\nsasl.password=x\n"
    )

    settings = Connection.of(command_config=file).for_kafka_python()

    assert settings["bootstrap_servers"] == ["kafka-1:9093"]
    assert settings["security_protocol"] == "SASL_PLAINTEXT"
    assert settings["sasl_mechanism"] == "PLAIN"


def test_unused_settings_are_ignored_with_a_warning(file: Path) -> None:
    file.write_text(
        "bootstrap.servers=a:1\nkey.serializer=x.Y\nacks=all\ngroup.id=g\nssl.protocol=TLSv1.3\n"
    )

    (warning,) = Connection.of(command_config=file).warnings

    assert warning.endswith("not used by ktui: key.serializer, acks, group.id, ssl.protocol")


def test_an_unknown_security_setting_is_refused(file: Path) -> None:
    file.write_text("bootstrap.servers=a:1\n\nssl.trust.everything=true\n")

    problem = refused(file)

    assert problem.where == f"{file}:3"
    assert problem.key == "ssl.trust.everything"


def test_a_misspelt_setting_is_refused_with_its_line_and_a_suggestion(file: Path) -> None:
    file.write_text("# first\nboostrap.servers=a:1\n")

    assert str(refused(file)) == (
        f"{file}:2: boostrap.servers: is not known. Did you mean bootstrap.servers?"
    )


def test_a_config_provider_is_not_mistaken_for_a_password(file: Path) -> None:
    file.write_text("bootstrap.servers=a:1\nsasl.password=${env:PASSWORD}\n")

    assert "{env: NAME}" in str(refused(file))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    problem = refused(tmp_path / "nowhere.properties")

    assert "nowhere.properties: cannot be read: No such file" in str(problem)


def test_an_empty_identification_algorithm_turns_the_host_name_check_off(file: Path) -> None:
    file.write_text(
        "bootstrap.servers=a:1\nsecurity.protocol=SSL\nssl.endpoint.identification.algorithm=\n"
    )

    connection = Connection.of(command_config=file)

    assert connection.for_confluent()["ssl.endpoint.identification.algorithm"] == "none"
    assert connection.for_kafka_python()["ssl_context"].check_hostname is False


@pytest.mark.parametrize(
    ("jaas", "words"),
    [
        (f'{SCRAM} required username="ada" password="hunter2"', "semicolon"),
        (f'{SCRAM} username="ada" password="hunter2";', "module flag options"),
        (f'{SCRAM} required username="ada" password="hunter2;', 'name="value"'),
        (f"{SCRAM} required username=ada password;", 'name="value"'),
        ("com.example.VaultLoginModule required token=hunter2;", "VaultLoginModule"),
        ('x.PlainLoginModule required username="ada" password="hunter2";', "SCRAM-SHA-512"),
        (f'{SCRAM} required username="ada";', "sasl.password"),
    ],
)
def test_a_malformed_login_is_reported_with_file_and_line_and_never_quoted(
    file: Path, jaas: str, words: str
) -> None:
    file.write_text(
        "bootstrap.servers=a:1\nsecurity.protocol=SASL_PLAINTEXT\n"
        f"sasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={jaas}\n"
    )

    problem = refused(file)

    assert str(problem).startswith(str(file))
    assert words in str(problem)
    assert "hunter2" not in str(problem)


def test_kerberos_and_oauth_logins_are_translated(file: Path) -> None:
    file.write_text(
        "bootstrap.servers=a:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\n"
        "sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required "
        "useKeyTab=true serviceName=kafka principal='ada@EXAMPLE.ORG';\n"
    )
    kerberos = Connection.of(command_config=file).for_confluent()
    assert kerberos["sasl.kerberos.service.name"] == "kafka"
    assert kerberos["sasl.kerberos.principal"] == "ada@EXAMPLE.ORG"

    file.write_text(
        "bootstrap.servers=a:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        "sasl.oauthbearer.token.endpoint.url=https://idp/token\n"
        "sasl.login.callback.handler.class=org.apache.kafka.X\n"
        "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule "
        'required clientId="ktui" clientSecret="s" scope="kafka";\n'
    )
    oauth = Connection.of(command_config=file).for_confluent()
    assert oauth["sasl.oauthbearer.client.id"] == "ktui"
    assert oauth["sasl.oauthbearer.scope"] == "kafka"


class TestTheFormat:
    def test_a_properties_file_is_parsed_as_java_parses_it(self, file: Path) -> None:
        file.write_bytes(
            b"! a comment\r\n"
            b"  spaced   =  value with blanks \r\n"
            b"colon:x\r"
            b"blank y\n"
            b"joined=one,\\\n"
            b"   two\\\n"
            b"# this is still the value\n"
            b"escaped\\=key=\\u00e9\\t\\\\\n"
            b"alone\n"
            b"twice=1\n"
            b"twice=2\n"
            b"ends=here\\"
        )

        assert {e.key: (e.value, e.line) for e in read_entries(file)} == {
            "spaced": ("value with blanks ", 2),
            "colon": ("x", 3),
            "blank": ("y", 4),
            "joined": ("one,two# this is still the value", 5),
            "escaped=key": ("é\t\\", 8),
            "alone": ("", 9),
            "twice": ("2", 11),
            "ends": ("here", 12),
        }

    def test_a_bad_escape_is_reported_with_its_line(self, file: Path) -> None:
        file.write_text("a=1\nb=C:\\users\n")

        with pytest.raises(ConnectionProblem, match=r"client\.properties:2.*hexadecimal"):
            read_entries(file)

    def test_latin_letters_are_read_as_java_reads_them(self, file: Path) -> None:
        file.write_bytes("sasl.password=caf\xe9".encode("latin-1"))

        assert read_entries(file)[0].value == "café"

    @given(st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=40), max_size=8))
    def test_every_file_that_java_would_store_is_read_back(
        self, tmp_path_factory: pytest.TempPathFactory, entries: dict[str, str]
    ) -> None:
        entries = {k: v for k, v in entries.items() if _encodable(k + v)}
        path = tmp_path_factory.mktemp("properties") / "p"
        path.write_text(
            "".join(f"{_stored(k, key=True)}={_stored(v)}\n" for k, v in entries.items()),
            encoding="ascii",
        )

        assert {e.key: e.value for e in read_entries(path)} == entries


def _encodable(text: str) -> bool:
    return all(ord(c) < 0x10000 and not 0xD800 <= ord(c) < 0xE000 for c in text)


def _stored(text: str, *, key: bool = False) -> str:
    """Escape as java.util.Properties.store does."""
    named = {"\t": r"\t", "\n": r"\n", "\r": r"\r", "\f": r"\f", "\\": r"\\"}
    out = ""
    for at, c in enumerate(text):
        if c in named:
            out += named[c]
        elif c in "=:#!" or (c == " " and (key or at == 0)):
            out += "\\" + c
        elif " " <= c <= "~":
            out += c
        else:
            out += f"\\u{ord(c):04X}"
    return out
