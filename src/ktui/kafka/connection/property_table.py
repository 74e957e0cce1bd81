"""Connection settings: one table of their names, and the error about one that cannot be used."""

from __future__ import annotations

import enum
from typing import NamedTuple

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
JAVA_STORES = frozenset(
    f"ssl.{store}.{part}"
    for store in ("truststore", "keystore")
    for part in ("type", "location", "password", "certificates", "certificate.chain", "key")
)  # Java's names for trust and key stores; they are translated together
JAVA_ONLY = frozenset({"sasl.jaas.config", *JAVA_STORES})  # Java's names that ktui understands
_HARMLESS_SECURITY = (
    "sasl.client.callback.handler.class",
    "sasl.kerberos.",
    "sasl.login.",
    "sasl.oauthbearer.",
    "security.providers",
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.engine.factory.class",
    "ssl.keymanager.algorithm",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
)
_SECURITY = ("sasl.", "ssl.", "security.", "enable.ssl.", "bootstrap.")


class ValueKind(enum.Enum):
    """The form that a value must have."""

    TEXT = "text"
    SECRET = "secret"  # noqa: S105 -- the kind, not a value
    FILE = "file"
    CHOICE = "choice"
    FLAG = "flag"
    NUMBER = "number"


class Property(NamedTuple):
    """One setting. `name` is librdkafka's, and the one that confluent-kafka gets."""

    name: str
    kind: ValueKind = ValueKind.TEXT
    kafka_python: str | None = None  # None where it gets the value otherwise
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()  # librdkafka's own aliases, and those of Java clients


_TABLE = (
    Property("bootstrap.servers", aliases=("metadata.broker.list",)),
    Property("client.id", kafka_python="client_id"),
    Property(
        "client.dns.lookup",
        ValueKind.CHOICE,
        "client_dns_lookup",
        ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    ),
    Property("socket.timeout.ms", ValueKind.NUMBER, aliases=("request.timeout.ms",)),
    Property("security.protocol", ValueKind.CHOICE, "security_protocol", PROTOCOLS),
    Property("ssl.ca.location", ValueKind.FILE),
    Property("ssl.ca.pem"),
    Property("ssl.certificate.location", ValueKind.FILE),
    Property("ssl.certificate.pem"),
    Property("ssl.key.location", ValueKind.FILE),
    Property("ssl.key.pem", ValueKind.SECRET),
    Property("ssl.key.password", ValueKind.SECRET),
    Property("ssl.crl.location", ValueKind.FILE),
    Property("ssl.endpoint.identification.algorithm", ValueKind.CHOICE, choices=("https", "none")),
    Property("enable.ssl.certificate.verification", ValueKind.FLAG),
    Property(
        "sasl.mechanism",
        ValueKind.CHOICE,
        "sasl_mechanism",
        MECHANISMS,
        aliases=("sasl.mechanisms",),
    ),
    Property("sasl.username", kafka_python="sasl_plain_username"),
    Property("sasl.password", ValueKind.SECRET, "sasl_plain_password"),
    Property("sasl.kerberos.service.name", kafka_python="sasl_kerberos_service_name"),
    Property("sasl.kerberos.principal"),
    Property("sasl.kerberos.keytab", ValueKind.FILE),
    Property("sasl.oauthbearer.method", ValueKind.CHOICE, choices=("oidc",)),
    Property("sasl.oauthbearer.token.endpoint.url"),
    Property(
        "sasl.oauthbearer.client.id",
        aliases=(
            "sasl.oauthbearer.client.credentials.client.id",
            "sasl.oauthbearer.client.credentials.clientid",
        ),
    ),
    Property(
        "sasl.oauthbearer.client.secret",
        ValueKind.SECRET,
        aliases=("sasl.oauthbearer.client.credentials.client.secret",),
    ),
    Property("sasl.oauthbearer.scope"),
    Property("sasl.oauthbearer.extensions"),
)

PROPERTIES = {p.name: p for p in _TABLE}

CANONICAL = {name: p.name for p in _TABLE for name in (p.name, *p.aliases)}
"""librdkafka's name for each name of a setting, aliases included."""


def may_be_ignored(name: str) -> bool:
    """Whether a client file's setting may be ignored: any but security, and Java's fine tuning."""
    return not name.startswith(_SECURITY) or name.startswith(_HARMLESS_SECURITY)


class ConnectionProblem(Exception):
    """Settings cannot be used, so nothing was sent; `key` is the name that their author used."""

    def __init__(self, where: str, key: str, problem: str, fix: str = "") -> None:
        self.where = where
        self.key = key
        self.problem = problem
        self.fix = fix
        super().__init__(where, key, problem, fix)

    def __str__(self) -> str:
        named = ": ".join(part for part in (self.where, self.key, self.problem) if part)
        return f"{named}. {self.fix}" if self.fix else named
