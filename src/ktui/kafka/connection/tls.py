"""The SSL context for the ssl.* settings."""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ktui.inputfile import Unreadable, open_input
from ktui.kafka.connection.property_table import ConnectionProblem
from ktui.kafka.connection.secret import Secret, reveal

MOST_STORE_BYTES = 64 * 1024**2  # bytes of certificates or keys: revocation lists grow to many MiB

StoreSettings = Mapping[str, tuple[str, str]]  # each setting's value, and the place where it is set

_CONVERT = {
    ("truststore", "JKS"): "keytool -list -rfc -keystore {store} > {pem}",
    ("truststore", "PKCS12"): "openssl pkcs12 -in {store} -nokeys -out {pem}",
    ("keystore", "JKS"): (
        "keytool -importkeystore -srckeystore {store} -destkeystore {p12} -deststoretype PKCS12"
        " && openssl pkcs12 -in {p12} -out {pem}"
    ),
    ("keystore", "PKCS12"): "openssl pkcs12 -in {store} -out {pem}",
}
_BLOCK = re.compile(r"(-----BEGIN ([A-Z0-9 ]+)-----)(.*?)(-----END \2-----)", re.DOTALL)


def store_settings(java: StoreSettings) -> dict[str, tuple[str, str]]:
    """Translate ssl.truststore.* and ssl.keystore.* into librdkafka's settings."""
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


def pem_lines(text: str) -> str:
    """Restore the line breaks of PEM on one line, which Java accepts and OpenSSL does not."""
    blocks = []
    for begin, _, body, end in _BLOCK.findall(text):
        joined = re.sub(r"\s+", "", body)
        lines = (joined[i : i + 64] for i in range(0, len(joined), 64))
        blocks.append("\n".join((begin, *lines, end)))
    return "\n".join(blocks) + "\n" if blocks else text


TlsValues = Mapping[str, str | Secret]


def ssl_context_for(values: TlsValues, origin: Mapping[str, str]) -> ssl.SSLContext:
    """Build the client's SSL context."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if values.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    if values.get("enable.ssl.certificate.verification") == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    _trust(context, values, origin)
    _load_identity(context, values, origin)
    return context


def _trust(context: ssl.SSLContext, values: TlsValues, origin: Mapping[str, str]) -> None:
    pem, location = values.get("ssl.ca.pem"), values.get("ssl.ca.location")
    if pem is not None:
        with _naming_setting("ssl.ca.pem", origin, "is not a PEM certificate"):
            context.load_verify_locations(cadata=reveal(pem))
    elif location is not None:
        with _naming_setting("ssl.ca.location", origin, f"{location} holds no PEM certificate"):
            folder = Path(reveal(location)).is_dir()
            context.load_verify_locations(**{"capath" if folder else "cafile": reveal(location)})
    else:
        context.load_default_certs()
    if crl := values.get("ssl.crl.location"):
        with _naming_setting("ssl.crl.location", origin, f"{crl} holds no PEM revocation list"):
            context.load_verify_locations(reveal(crl))
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _load_identity(context: ssl.SSLContext, values: TlsValues, origin: Mapping[str, str]) -> None:
    certificate, key = (_setting_of(values, f"ssl.{what}") for what in ("certificate", "key"))
    if certificate is None or key is None:
        return
    password_asked: list[bool] = []

    def password() -> str:
        password_asked.append(True)
        key_password = values.get("ssl.key.password")
        return "" if key_password is None else reveal(key_password)

    with _file(values, certificate) as chain, _file(values, key) as private:
        try:
            # Without a password function OpenSSL would prompt on the terminal.
            context.load_cert_chain(chain, private, password)
        except (ssl.SSLError, OSError, ValueError) as error:
            encrypted = bool(password_asked)
            raise _unusable(error, values, origin, certificate, encrypted=encrypted) from None


def _setting_of(values: TlsValues, prefix: str) -> str | None:
    return next((k for k in (f"{prefix}.pem", f"{prefix}.location") if k in values), None)


def _unusable(
    error: Exception,
    values: TlsValues,
    origin: Mapping[str, str],
    certificate: str,
    *,
    encrypted: bool,
) -> ConnectionProblem:
    where = origin.get(certificate, "")
    if encrypted and "ssl.key.password" not in values:
        return ConnectionProblem(
            where, "ssl.key.password", "the key is encrypted", "Set ssl.key.password"
        )
    if encrypted:
        return ConnectionProblem(
            origin.get("ssl.key.password", where), "ssl.key.password", "does not open the key"
        )
    reason = getattr(error, "reason", None) or "not PEM"
    if reason == "KEY_VALUES_MISMATCH":
        return ConnectionProblem(where, certificate, "the key is not this certificate's")
    return ConnectionProblem(
        where,
        certificate,
        f"no certificate with its key could be read ({reason})",
        "Both must be PEM: -----BEGIN CERTIFICATE----- and -----BEGIN PRIVATE KEY-----",
    )


@contextmanager
def _naming_setting(key: str, origin: Mapping[str, str], problem: str) -> Iterator[None]:
    try:
        yield
    except (ssl.SSLError, OSError, ValueError):
        raise ConnectionProblem(
            origin.get(key, ""), key, problem, "It must be PEM: -----BEGIN CERTIFICATE-----"
        ) from None


@contextmanager
def _file(values: TlsValues, key: str) -> Iterator[str]:
    """Yield the path of a setting's file; PEM text is in a temporary file meanwhile."""
    value = values[key]
    if key.endswith(".location"):
        yield reveal(value)
        return
    descriptor, path = tempfile.mkstemp(suffix=".pem")  # readable by its owner alone
    try:
        with os.fdopen(descriptor, "w", encoding="ascii", errors="replace") as file:
            file.write(reveal(value))
        yield path
    finally:
        Path(path).unlink()
