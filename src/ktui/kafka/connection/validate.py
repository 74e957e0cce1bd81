"""Validation of connection settings: each value by its kind, then all of them together."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from ktui.inputfile import Unreadable, expand_home, open_input
from ktui.kafka.connection.property_table import PROPERTIES, ConnectionProblem, Property, ValueKind
from ktui.kafka.connection.secret import Secret
from ktui.kafka.connection.sources import RawSetting
from ktui.kafka.connection.tls import MOST_STORE_BYTES

SettingValues = Mapping[str, str | Secret]

_LONGEST_TIMEOUT_MS = 300_000
"""librdkafka's limit."""
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
    """Check every value by its kind, and wrap secrets.

    Raises:
        ConnectionProblem: a value is wrong; names the place, the key and the expected form, and
            shows no secret.
    """
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
    """Check that the settings together are all that a connection needs.

    Args:
        values: settings, each checked.
        origin: the place where each is set.
        where: the place to name for a missing setting.

    Raises:
        ConnectionProblem: a setting is missing; names the key and the reason it is needed.
    """
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
