"""The SSL context for the ssl.* settings."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ktui.kafka.connection.errors import ConnectionProblem
from ktui.kafka.connection.secret import Secret, reveal

TlsValues = Mapping[str, str | Secret]


def ssl_context_for(values: TlsValues, origin: Mapping[str, str]) -> ssl.SSLContext:
    """Build the client's SSL context.

    Args:
        values: validated settings under librdkafka's names.
        origin: the place where each of them is set, for errors.

    Raises:
        ConnectionProblem: a certificate, key or CRL that cannot be used; names the setting.
    """
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
    """Load the client certificate and its key, if they are set."""
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
