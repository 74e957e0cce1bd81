"""One cluster's connection: checked settings, translated for each of the two clients."""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ktui.inputfile import Unreadable, expand_home, open_input
from ktui.kafka.connection.properties import (
    PROPERTIES,
    ConnectionProblem,
    Property,
    Secret,
    ValueKind,
    reveal,
)
from ktui.kafka.connection.sources import (
    MOST_STORE_BYTES,
    NO_PLACES,
    RawSetting,
    from_file,
    from_mapping,
)

SettingValues = Mapping[str, str | Secret]

_LONGEST_TIMEOUT_MS = 300_000  # librdkafka's limit
_ADDRESS = re.compile(r"(?:\w+://)?(\[[0-9A-Fa-f:.%\w]+\]|[^\s:/\[\],]+):(\d{1,5})")
_Check = Callable[[Property, RawSetting], str]
_NEEDED = {
    "PLAIN": ("sasl.username", "sasl.password"),
    "SCRAM-SHA-256": ("sasl.username", "sasl.password"),
    "SCRAM-SHA-512": ("sasl.username", "sasl.password"),
    "OAUTHBEARER": (
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
    ),
    "GSSAPI": ("sasl.kerberos.service.name",),
}


def check_values(settings: Mapping[str, RawSetting]) -> dict[str, str | Secret]:
    """Check every value by its kind, and wrap secrets; no error shows a secret."""
    return {name: _value(PROPERTIES[name], setting) for name, setting in settings.items()}


def _value(prop: Property, setting: RawSetting) -> str | Secret:
    if not setting.value.strip():
        fix = "Give it a value, or remove the line"
        raise ConnectionProblem(setting.where, prop.name, "is empty", fix)
    if prop.kind is ValueKind.SECRET:
        return Secret(setting.value)
    check = _BY_NAME.get(prop.name) or _BY_KIND.get(prop.kind)
    return check(prop, setting) if check else setting.value


def _choice(prop: Property, setting: RawSetting) -> str:
    for choice in prop.choices:
        if setting.value.strip().lower() == choice.lower():
            return choice
    allowed = ", ".join(prop.choices)
    problem = f"{setting.value!r} is not one of {allowed}"
    raise ConnectionProblem(setting.where, prop.name, problem)


def _flag(prop: Property, setting: RawSetting) -> str:
    value = setting.value.strip().lower()
    if value not in {"true", "false"}:
        raise ConnectionProblem(setting.where, prop.name, f"{setting.value!r} is not true or false")
    return value


def _number(prop: Property, setting: RawSetting) -> str:
    value = setting.value.strip()
    digits = value.lstrip("0")
    if not value.isascii() or not value.isdigit() or not digits:
        raise ConnectionProblem(setting.where, prop.name, f"{value!r:.40} is not a number above 0")
    longest = str(_LONGEST_TIMEOUT_MS)
    return longest if len(digits) > len(longest) else str(min(int(digits), _LONGEST_TIMEOUT_MS))


def _file(prop: Property, setting: RawSetting) -> str:
    path = setting.folder.joinpath(setting.value.strip())
    try:
        path = expand_home(path)
        if not path.is_dir():
            with open_input(path, MOST_STORE_BYTES):
                pass
    except Unreadable as why:
        problem = f"cannot read {path}: {why}"
        fix = "Name a file that can be read"
        if setting.folder != Path():
            fix += "; a relative path begins where config.yaml is"
        raise ConnectionProblem(setting.where, prop.name, problem, fix) from None
    return str(path)


def _url(prop: Property, setting: RawSetting) -> str:
    try:
        url = urlsplit(setting.value)
        _ = url.port  # a ValueError of its own
    except ValueError:
        url = urlsplit("")
    if url.scheme not in {"https", "http"} or not url.hostname:
        raise ConnectionProblem(
            setting.where, prop.name, f"{setting.value!r} is not an https:// URL"
        )
    return setting.value


def _addresses(prop: Property, setting: RawSetting) -> str:
    found = []
    for address in setting.value.split(","):
        match = _ADDRESS.fullmatch(address.strip())
        if match is None or not 0 < int(match[2]) < 65536:  # noqa: PLR2004 -- the range of a port
            raise ConnectionProblem(
                setting.where,
                prop.name,
                f"{address.strip()!r} is not host:port",
                "Write host:port, several with commas between: kafka-1:9092,kafka-2:9092",
            )
        found.append(f"{match[1]}:{match[2]}")
    return ",".join(found)


_BY_KIND: Mapping[ValueKind, _Check] = {
    ValueKind.CHOICE: _choice,
    ValueKind.FLAG: _flag,
    ValueKind.NUMBER: _number,
    ValueKind.FILE: _file,
}

_BY_NAME: Mapping[str, _Check] = {
    "bootstrap.servers": _addresses,
    "sasl.oauthbearer.token.endpoint.url": _url,
}


def check_complete(values: SettingValues, origin: Mapping[str, str], where: str) -> None:
    """Check that the settings together are all that a connection needs."""
    if "bootstrap.servers" not in values:
        raise ConnectionProblem(
            where, "bootstrap.servers", "is missing", "Set it, or pass --bootstrap-server"
        )
    _complete_sasl(values, origin)
    for one, other in (("ssl.certificate", "ssl.key"), ("ssl.key", "ssl.certificate")):
        present = [k for k in (f"{one}.location", f"{one}.pem") if k in values]
        if present and f"{other}.location" not in values and f"{other}.pem" not in values:
            problem = f"is set, but not {other}.location"
            raise ConnectionProblem(
                origin[present[0]], present[0], problem, "A certificate needs its key"
            )


def _complete_sasl(values: SettingValues, origin: Mapping[str, str]) -> None:
    protocol = str(values.get("security.protocol", "PLAINTEXT"))
    if not protocol.startswith("SASL"):
        return
    where = origin["security.protocol"]
    if "sasl.mechanism" not in values:
        problem = f"is missing for security.protocol={protocol}"
        raise ConnectionProblem(where, "sasl.mechanism", problem, "Set SCRAM-SHA-512, PLAIN, ...")
    mechanism = str(values["sasl.mechanism"])
    for key in _NEEDED[mechanism]:
        if key not in values:
            problem = f"is missing for sasl.mechanism={mechanism}"
            fix = "Set it, or sasl.jaas.config in a Java client file"
            raise ConnectionProblem(origin["sasl.mechanism"], key, problem, fix)


def unused_settings(values: SettingValues) -> list[str]:
    """Return the names of the security settings that the security protocol does not use."""
    protocol = str(values.get("security.protocol", "PLAINTEXT"))
    idle = [] if protocol.startswith("SASL") else ["sasl."]
    idle += [] if protocol.endswith("SSL") else ["ssl.", "enable.ssl."]
    return [name for name in values if name.startswith(tuple(idle))] if idle else []


DEFAULT_TIMEOUT_S = 10.0

_UNVERIFIED = (
    (
        "enable.ssl.certificate.verification",
        "false",
        "anyone on the network path can pose as a broker, read the traffic, and change it",
    ),
    (
        "ssl.endpoint.identification.algorithm",
        "none",
        "anyone with a certificate of a trusted authority can pose as a broker",
    ),
)  # settings that turn off a part of TLS's protection, with the consequence

_SECRET_FILES = ("ssl.key.location", "sasl.kerberos.keytab")  # files that are secret as a whole


class Connection:
    """The settings of one cluster's connection, by librdkafka's names; never shows a secret."""

    def __init__(
        self,
        settings: Mapping[str, RawSetting],
        *,
        where: str,
        warnings: tuple[str, ...] = (),
        cluster_id: str | None = None,
    ) -> None:
        self.where = where
        self.cluster_id = cluster_id
        self.controllers: Connection | None = None
        self._values = check_values(settings)
        self._origin = {name: given.where for name, given in settings.items()}
        check_complete(self._values, self._origin, where)
        self._kept_in = {name: given.kept_in for name, given in settings.items()}
        self._tls = (
            ssl_context_for(self._values, self._origin) if self.protocol.endswith("SSL") else None
        )
        idle = tuple(
            f"{self._origin[name]}: {name} has no effect with security.protocol={self.protocol}"
            for name in unused_settings(self._values)
        )
        self.warnings = warnings + idle

    @classmethod
    def of(  # noqa: PLR0913 - a source each, and its place
        cls,
        properties: Mapping[str, object] | None = None,
        *,
        where: str = "properties",
        places: Mapping[str, str] = NO_PLACES,
        folder: Path | None = None,
        file: Path | None = None,
        command_config: Path | None = None,
        bootstrap_server: str | None = None,
        cluster_id: str | None = None,
    ) -> Connection:
        """Build a connection from its sources.

        `bootstrap_server` goes before `properties`, and these before `command_config`. A value of
        `properties` may be `{file: PATH}`, `{env: NAME}` or `{command: LINE}`. `where` and `places`
        name them in errors; `folder` is the base of their relative paths.
        """
        settings: dict[str, RawSetting] = {}
        warnings: tuple[str, ...] = ()
        if command_config is not None:
            settings, ignored = from_file(command_config)
            where = where if properties else str(command_config)
            if ignored:
                warnings = (f"{command_config}: not used by ktui: {', '.join(ignored)}",)
        settings |= from_mapping(properties or {}, where, folder or Path(), file, places=places)
        if bootstrap_server is not None:
            option = RawSetting(bootstrap_server, "--bootstrap-server", Path())
            settings["bootstrap.servers"] = option
        return cls(settings, where=where, warnings=warnings, cluster_id=cluster_id)

    @classmethod
    def to(cls, bootstrap_server: str) -> Connection:
        return cls.of(bootstrap_server=bootstrap_server)

    def at(self, bootstrap_servers: str, cluster_id: str) -> Connection:
        other = copy(self)
        other._values = {**self._values, "bootstrap.servers": bootstrap_servers}  # noqa: SLF001 - its own class
        other.cluster_id = cluster_id
        return other

    def with_controllers(self, controllers: Connection) -> Connection:
        other = copy(self)
        other.controllers = controllers
        return other

    @property
    def protocol(self) -> str:
        return str(self._values.get("security.protocol", "PLAINTEXT"))

    @property
    def mechanism(self) -> str:
        return str(self._values.get("sasl.mechanism", ""))

    @property
    def bootstrap_servers(self) -> list[str]:
        return str(self._values["bootstrap.servers"]).split(",")

    @property
    def timeout_s(self) -> float:
        """The limit of one call in seconds: socket.timeout.ms or Java's request.timeout.ms."""
        timeout_ms = self._values.get("socket.timeout.ms")
        return DEFAULT_TIMEOUT_S if timeout_ms is None else int(str(timeout_ms)) / 1000

    @property
    def unverified(self) -> tuple[str, ...]:
        if self._tls is None:
            return ()
        return tuple(
            f"{self._origin[name]}: {name}={value}: {consequence}"
            for name, value, consequence in _UNVERIFIED
            if self._values.get(name) == value
        )

    @property
    def secret_files(self) -> dict[Path, tuple[str, ...]]:
        files: dict[Path, tuple[str, ...]] = {}
        for name, value in self._values.items():
            path = self._kept_in.get(name) if isinstance(value, Secret) else None
            if name in _SECRET_FILES:
                path = Path(str(value))
            if path is not None:
                files[path] = (*files.get(path, ()), name)
        return files

    def __repr__(self) -> str:
        return f"Connection({self._values!r})"

    def for_confluent(self) -> dict[str, str]:
        """Return the settings for confluent-kafka. The result holds secrets in the clear."""
        values = {"client.id": "ktui"} | {n: reveal(v) for n, v in self._values.items()}
        if values.get("sasl.mechanism") == "OAUTHBEARER":
            values["sasl.oauthbearer.method"] = "oidc"
        return values

    def for_kafka_python(self) -> dict[str, Any]:
        """Return the settings for kafka-python. The result holds secrets in the clear."""
        values: dict[str, Any] = {"client_id": "ktui", "ssl_context": self._tls}
        for name, value in self._values.items():
            if key := PROPERTIES[name].kafka_python:
                values[key] = reveal(value)
        values["bootstrap_servers"] = self.bootstrap_servers
        mechanism = values.get("sasl_mechanism", "")
        if mechanism.startswith("SCRAM"):  # RFC 5802, 5.1; kafka-python does not escape
            name = values["sasl_plain_username"]
            values["sasl_plain_username"] = name.replace("=", "=3D").replace(",", "=2C")
        if mechanism == "OAUTHBEARER":
            values["sasl_oauth_token_provider"] = self._token_provider()
        return values

    def _token_provider(self) -> Any:
        from ktui.kafka.connection.oauth import ClientCredentials  # noqa: PLC0415 -- slow to import, seldom used

        settings = {n.removeprefix("sasl.oauthbearer."): v for n, v in self._values.items()}
        pairs = str(settings.get("extensions", "")).split(",")
        return ClientCredentials(
            str(settings["token.endpoint.url"]),
            str(settings["client.id"]),
            Secret(reveal(settings["client.secret"])),
            scope=str(settings["scope"]) if "scope" in settings else None,
            extensions=dict(pair.split("=", 1) for pair in pairs if "=" in pair),
        )


def ssl_context_for(values: SettingValues, origin: Mapping[str, str]) -> ssl.SSLContext:
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


def _trust(context: ssl.SSLContext, values: SettingValues, origin: Mapping[str, str]) -> None:
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


def _load_identity(
    context: ssl.SSLContext, values: SettingValues, origin: Mapping[str, str]
) -> None:
    certificate, key = (_setting_of(values, f"ssl.{what}") for what in ("certificate", "key"))
    if certificate is None or key is None:
        return
    password_asked: list[bool] = []

    def password() -> str:
        password_asked.append(True)
        key_password = values.get("ssl.key.password")
        return "" if key_password is None else reveal(key_password)

    with _pem_file(values, certificate) as chain, _pem_file(values, key) as private:
        try:
            # Without a password function OpenSSL would prompt on the terminal.
            context.load_cert_chain(chain, private, password)
        except (ssl.SSLError, OSError, ValueError) as error:
            encrypted = bool(password_asked)
            raise _unusable(error, values, origin, certificate, encrypted=encrypted) from None


def _setting_of(values: SettingValues, prefix: str) -> str | None:
    return next((k for k in (f"{prefix}.pem", f"{prefix}.location") if k in values), None)


def _unusable(
    error: Exception,
    values: SettingValues,
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
def _pem_file(values: SettingValues, key: str) -> Iterator[str]:
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
