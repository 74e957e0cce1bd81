"""The server settings of a secured lab: authorizer, TLS and SASL."""

from __future__ import annotations

from ktui.lab import certificates
from ktui.lab.layout import Lab, Security
from ktui.lab.properties import CLIENT_LISTENER, CONTROLLER_LISTENER
from ktui.lab.users import ADMIN, BROKER, SCRAM, USERS

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def server_settings(lab: Lab) -> dict[str, str]:
    """Return the settings for the lab's security, the same for every node; none for plaintext."""
    security = lab.layout.security
    if security is Security.PLAINTEXT:
        return {}
    return {
        **_authorizer(security),
        **(_tls(lab) if security.encrypted else {}),
        **(_passwords(lab) if security.by_password else {}),
    }


def _authorizer(security: Security) -> dict[str, str]:
    supers = (ADMIN,) if security.by_password else (ADMIN, BROKER)
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": ";".join(f"User:{name}" for name in supers),
    }


def _tls(lab: Lab) -> dict[str, str]:
    """Return the brokers' key, and without passwords the mapping of client certificates to users.

    A client without a certificate gets in as User:ANONYMOUS, who may do nothing.
    """
    by_certificate = {
        "ssl.client.auth": "requested",
        "ssl.principal.mapping.rules": r"RULE:^CN=([^,]+).*$/$1/,DEFAULT",
    }
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.identity_file(lab.certificates, BROKER)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority_file(lab.certificates)),
        **({} if lab.layout.security.by_password else by_certificate),
    }


def _passwords(lab: Lab) -> dict[str, str]:
    """Let clients choose PLAIN or SCRAM; brokers and controllers use PLAIN among themselves."""
    known = " ".join(f'user_{user}="{lab.layout.passwords[user]}"' for user in USERS)
    plain = f"{login(PLAIN_MODULE, ADMIN, lab)[:-1]} {known};"
    clients = f"listener.name.{CLIENT_LISTENER.lower()}"
    controller = f"listener.name.{CONTROLLER_LISTENER.lower()}"
    return {
        "sasl.enabled.mechanisms": f"PLAIN,{SCRAM}",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        f"{clients}.plain.sasl.jaas.config": plain,
        f"{clients}.{SCRAM.lower()}.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        f"{controller}.sasl.enabled.mechanisms": "PLAIN",
        f"{controller}.plain.sasl.jaas.config": plain,
    }


def login(module: str, user: str, lab: Lab) -> str:
    """Return a JAAS entry that logs `user` in."""
    return f'{module} required username="{user}" password="{lab.layout.passwords[user]}";'
