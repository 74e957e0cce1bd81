"""Java's trust and key stores: PEM is translated; for JKS and PKCS12 the error names a command."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ktui.inputfile import Unreadable, open_input
from ktui.kafka.connection.errors import ConnectionProblem

MOST_STORE_BYTES = 64 * 1024**2
"""Bytes of a file with certificates or keys: revocation lists grow to many MiB."""

StoreSettings = Mapping[str, tuple[str, str]]
"""Each setting's value, and the place where it is set."""

_CONVERT = {
    ("truststore", "JKS"): "keytool -list -rfc -keystore {store} > {pem}",
    ("truststore", "PKCS12"): "openssl pkcs12 -in {store} -nokeys -out {pem}",
    ("keystore", "JKS"): (
        "keytool -importkeystore -srckeystore {store} -destkeystore {p12} -deststoretype PKCS12"
        " && openssl pkcs12 -in {p12} -out {pem}"
    ),
    ("keystore", "PKCS12"): "openssl pkcs12 -in {store} -out {pem}",
}


def store_settings(java: StoreSettings) -> dict[str, tuple[str, str]]:
    """Translate ssl.truststore.* and ssl.keystore.* into librdkafka's settings.

    Raises:
        ConnectionProblem: a store that is not PEM, with the command that converts it.
    """
    found = {}
    if trusted := java.get("ssl.truststore.certificates"):
        found["ssl.ca.pem"] = (pem_lines(trusted[0]), trusted[1])
    if location := _pem_location(java, "truststore"):
        found["ssl.ca.location"] = location
    if chain := java.get("ssl.keystore.certificate.chain"):
        found["ssl.certificate.pem"] = (pem_lines(chain[0]), chain[1])
    if key := java.get("ssl.keystore.key"):
        found["ssl.key.pem"] = (pem_lines(key[0]), key[1])
    if location := _pem_location(java, "keystore"):
        found["ssl.certificate.location"] = found["ssl.key.location"] = location
    return found


def _pem_location(java: StoreSettings, store: str) -> tuple[str, str] | None:
    key = f"ssl.{store}.location"
    if key not in java:
        return None
    path, where = java[key]
    kind = java.get(f"ssl.{store}.type", ("", ""))[0].upper() or _kind_of(Path(path))
    if kind == "PEM":
        return path, where
    name = "PKCS12" if kind in {"PKCS12", "P12"} else "JKS"
    stem = str(Path(path).with_suffix(""))
    command = _CONVERT[store, name].format(store=path, pem=f"{stem}.pem", p12=f"{stem}.p12")
    raise ConnectionProblem(
        where,
        key,
        f"a {name} store cannot be read without Java",
        f"Convert it with `{command}`, then set ssl.{store}.type=PEM and {key}={stem}.pem",
    )


def _kind_of(path: Path) -> str:
    """Detect a store's kind by its first bytes, for files without ssl.*.type: Java assumes JKS."""
    try:
        with open_input(path, MOST_STORE_BYTES) as file:
            head = file.read(4096)
    except Unreadable:
        return "JKS" if path.suffix.lower() in {".jks", ".keystore", ".truststore"} else "PEM"
    if b"-----BEGIN" in head:
        return "PEM"
    return "PKCS12" if head[:1] == b"\x30" else "JKS"


_BLOCK = re.compile(r"(-----BEGIN ([A-Z0-9 ]+)-----)(.*?)(-----END \2-----)", re.DOTALL)


def pem_lines(text: str) -> str:
    """Restore the line breaks of PEM on one line, which Java accepts and OpenSSL does not."""
    blocks = []
    for begin, _, body, end in _BLOCK.findall(text):
        joined = re.sub(r"\s+", "", body)
        lines = (joined[i : i + 64] for i in range(0, len(joined), 64))
        blocks.append("\n".join((begin, *lines, end)))
    return "\n".join(blocks) + "\n" if blocks else text
