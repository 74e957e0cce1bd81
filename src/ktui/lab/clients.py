"""Each user's connection settings for a lab, for librdkafka and as a Java properties file."""

from __future__ import annotations

from ktui.lab import certificates
from ktui.lab.errors import WrongInput
from ktui.lab.layout import Lab, Security
from ktui.lab.properties import render
from ktui.lab.security import SCRAM_MODULE, login
from ktui.lab.users import ADMIN, SCRAM, USERS


def librdkafka_settings(lab: Lab, user: str = ADMIN) -> dict[str, str]:
    """Return the settings to connect as `user`, under librdkafka's names.

    Raises:
        WrongInput: the lab has no such user.
    """
    if user not in USERS:
        raise WrongInput(f"a lab has no user {user!r}", fix=f"Its users are {', '.join(USERS)}.")
    security = lab.layout.security
    settings = {"bootstrap.servers": lab.bootstrap_servers, "security.protocol": security.protocol}
    if security.encrypted:
        settings["ssl.ca.location"] = str(certificates.authority_file(lab.certificates))
    if security.by_password:
        password = lab.layout.passwords[user]
        settings |= {"sasl.mechanism": SCRAM, "sasl.username": user, "sasl.password": password}
    elif security is Security.SSL:
        identity = str(certificates.identity_file(lab.certificates, user))
        settings |= {"ssl.certificate.location": identity, "ssl.key.location": identity}
    return settings


def write_files(lab: Lab) -> None:
    """Write client-USER.properties for each user of a secured lab, for --command-config."""
    if lab.layout.security is Security.PLAINTEXT:
        return
    for user in USERS:
        lab.client_file(user).touch(mode=0o600)
        lab.client_file(user).write_text(render(_java(lab, user)))


def _java(lab: Lab, user: str) -> dict[str, str]:
    security = lab.layout.security
    settings = {"bootstrap.servers": lab.bootstrap_servers, "security.protocol": security.protocol}
    if security.encrypted:
        settings |= _store("truststore", str(certificates.authority_file(lab.certificates)))
    if security.by_password:
        settings |= {"sasl.mechanism": SCRAM, "sasl.jaas.config": login(SCRAM_MODULE, user, lab)}
    elif security is Security.SSL:
        settings |= _store("keystore", str(certificates.identity_file(lab.certificates, user)))
    return settings


def _store(kind: str, location: str) -> dict[str, str]:
    return {f"ssl.{kind}.type": "PEM", f"ssl.{kind}.location": location}
