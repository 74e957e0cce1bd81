"""The SSL context that the ssl.* settings ask for."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ktui.kafka.connection.errors import ConnectionProblem
from ktui.kafka.connection.secret import Secret

TlsValues = Mapping[str, str | Secret]


def context_for(values: TlsValues, origin: Mapping[str, str]) -> ssl.SSLContext:
    """Make the client's SSL context.

    Args:
        values: validated settings under librdkafka's names.
        origin: where each of them stands, for errors.

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
    _identify(context, values, origin)
    return context


def _trust(context: ssl.SSLContext, values: TlsValues, origin: Mapping[str, str]) -> None:
    pem, location = values.get("ssl.ca.pem"), values.get("ssl.ca.location")
    if pem is not None:
        with _named("ssl.ca.pem", origin, "is not a PEM certificate"):
            context.load_verify_locations(cadata=_plain(pem))
    elif location is not None:
        with _named("ssl.ca.location", origin, f"{location} holds no PEM certificate"):
            folder = Path(_plain(location)).is_dir()
            context.load_verify_locations(**{"capath" if folder else "cafile": _plain(location)})
    else:
        context.load_default_certs()
    if crl := values.get("ssl.crl.location"):
        with _named("ssl.crl.location", origin, f"{crl} holds no PEM revocation list"):
            context.load_verify_locations(_plain(crl))
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _identify(context: ssl.SSLContext, values: TlsValues, origin: Mapping[str, str]) -> None:
    """Load the client certificate and its key, if there are any."""
    certificate, key = (_given(values, f"ssl.{what}") for what in ("certificate", "key"))
    if certificate is None or key is None:
        return
    asked: list[bool] = []

    def password() -> str:
        asked.append(True)
        given = values.get("ssl.key.password")
        return "" if given is None else _plain(given)

    with _file(values, certificate) as chain, _file(values, key) as private:
        try:
            # Without a function to ask, OpenSSL would ask on the terminal.
            context.load_cert_chain(chain, private, password)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise _unusable(error, values, origin, certificate, encrypted=bool(asked)) from None


def _given(values: TlsValues, prefix: str) -> str | None:
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
def _named(key: str, origin: Mapping[str, str], problem: str) -> Iterator[None]:
    try:
        yield
    except (ssl.SSLError, OSError, ValueError):
        raise ConnectionProblem(
            origin.get(key, ""), key, problem, "It must be PEM: -----BEGIN CERTIFICATE-----"
        ) from None


@contextmanager
def _file(values: TlsValues, key: str) -> Iterator[str]:
    """Give the path of a setting's file; PEM given as text gets one for as long as it is read."""
    value = values[key]
    if key.endswith(".location"):
        yield _plain(value)
        return
    descriptor, path = tempfile.mkstemp(suffix=".pem")  # readable by its owner alone
    try:
        with os.fdopen(descriptor, "w", encoding="ascii", errors="replace") as file:
            file.write(_plain(value))
        yield path
    finally:
        Path(path).unlink()


def _plain(value: str | Secret) -> str:
    return value.reveal() if isinstance(value, Secret) else value
