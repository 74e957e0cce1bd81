"""The certificates of a lab with TLS: its own authority's, the brokers', and those of users."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from ktui.lab.errors import LabError
from ktui.lab.java import run_java
from ktui.lab.users import BROKER

_DAYS = "3650"
_AUTHORITY = ("-ext", "bc:c=ca:true", "-ext", "ku:c=keyCertSign,cRLSign")
_BROKER = ("-signer", "ca", "-ext", "eku=serverAuth,clientAuth")
_ADDRESSES = ("-ext", "san=dns:localhost,ip:127.0.0.1")
_USER = ("-signer", "ca", "-ext", "eku=clientAuth")


def authority_file(folder: Path) -> Path:
    """Return the file of the authority's certificate, which all clients and brokers trust."""
    return folder / "ca.pem"


def identity_file(folder: Path, name: str) -> Path:
    """Return the file with a private key and its certificate chain."""
    return folder / f"{name}.pem"


def make(folder: Path, java: str, users: Iterable[str]) -> None:
    """Create all keys and certificates in `folder`, as PEM.

    Kafka, librdkafka and Python can all read PEM.

    Args:
        folder: a folder that does not exist yet.
        java: the path of the java program; it must belong to a JDK, 17 or newer.
        users: the users who log in with a certificate.

    Raises:
        LabError: the JDK's tools are missing or failed.
    """
    folder.mkdir(mode=0o700)
    store = folder / "store.p12"
    environment = {**os.environ, "STORE_PASSWORD": secrets.token_urlsafe(18)}
    _key_pair(java, store, environment, "ca", "CN=ktui lab authority", *_AUTHORITY)
    _key_pair(java, store, environment, BROKER, f"CN={BROKER}", *_BROKER, *_ADDRESSES)
    for user in users:
        _key_pair(java, store, environment, user, f"CN={user}", *_USER)
    with resources.as_file(resources.files("ktui.lab") / "PemFiles.java") as program:
        words = [str(program), str(store), str(folder)]
        run_java(java, *words, environment=environment, doing="writing the certificates as PEM")
    store.unlink()


def _key_pair(
    java: str, store: Path, environment: dict[str, str], alias: str, name: str, *extensions: str
) -> None:
    keytool = Path(java).with_name("keytool")
    command = [
        *(str(keytool), "-genkeypair", "-alias", alias, "-dname", name, "-validity", _DAYS),
        *("-keyalg", "EC", "-groupname", "secp256r1", *extensions),
        *("-storetype", "PKCS12", "-keystore", str(store), "-storepass:env", "STORE_PASSWORD"),
        *("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC"),
    ]
    try:
        made = subprocess.run(  # noqa: S603 - the keytool beside the java that was found
            command, env=environment, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise LabError(f"{keytool} does not run: {error}", fix="Install a full JDK.") from error
    if made.returncode != 0:
        words = tuple((made.stdout + made.stderr).strip().splitlines()[-4:])
        raise LabError(f"keytool could not make the certificate of {alias}", words=words)
