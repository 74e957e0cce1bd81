"""Whether connection settings can work: each value by its kind, then all of them together."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from ktui.inputfile import Unreadable, expand_home, open_input
from ktui.kafka.connection.errors import ConnectionProblem
from ktui.kafka.connection.keystores import MOST_STORE_BYTES
from ktui.kafka.connection.property_table import PROPERTIES, Property, ValueKind
from ktui.kafka.connection.secret import Secret
from ktui.kafka.connection.sources import GivenSetting

SettingValues = Mapping[str, str | Secret]

_LONGEST_TIMEOUT_MS = 300_000
"""librdkafka's limit."""


def checked(settings: Mapping[str, GivenSetting]) -> dict[str, str | Secret]:
    """Check every value by its kind and wrap what is secret.

    Raises:
        ConnectionProblem: names the place, the key and what is expected; shows no secret.
    """
    return {name: _value(PROPERTIES[name], given) for name, given in settings.items()}


def _value(prop: Property, given: GivenSetting) -> str | Secret:
    if not given.value.strip():
        raise ConnectionProblem(given.where, prop.name, "is empty")
    if prop.kind is ValueKind.SECRET:
        return Secret(given.value)
    check = _BY_NAME.get(prop.name) or _BY_KIND.get(prop.kind)
    return check(prop, given) if check else given.value


def _choice(prop: Property, given: GivenSetting) -> str:
    for choice in prop.choices:
        if given.value.strip().lower() == choice.lower():
            return choice
    allowed = ", ".join(prop.choices)
    problem = f"{given.value!r} is not one of {allowed}"
    raise ConnectionProblem(given.where, prop.name, problem)


def _flag(prop: Property, given: GivenSetting) -> str:
    value = given.value.strip().lower()
    if value not in {"true", "false"}:
        raise ConnectionProblem(given.where, prop.name, f"{given.value!r} is not true or false")
    return value


def _number(prop: Property, given: GivenSetting) -> str:
    value = given.value.strip()
    digits = value.lstrip("0")
    if not value.isascii() or not value.isdigit() or not digits:
        raise ConnectionProblem(given.where, prop.name, f"{value!r:.40} is not a number above 0")
    longest = str(_LONGEST_TIMEOUT_MS)
    return longest if len(digits) > len(longest) else str(min(int(digits), _LONGEST_TIMEOUT_MS))


def _file(prop: Property, given: GivenSetting) -> str:
    path = given.folder.joinpath(given.value.strip())
    try:
        path = expand_home(path)
        if not path.is_dir():
            with open_input(path, MOST_STORE_BYTES):
                pass
    except Unreadable as why:
        problem = f"cannot read {path}: {why}"
        raise ConnectionProblem(given.where, prop.name, problem) from None
    return str(path)


def _url(prop: Property, given: GivenSetting) -> str:
    try:
        url = urlsplit(given.value)
        _ = url.port  # a ValueError of its own
    except ValueError:
        url = urlsplit("")
    if url.scheme not in {"https", "http"} or not url.hostname:
        raise ConnectionProblem(given.where, prop.name, f"{given.value!r} is not an https:// URL")
    return given.value


_ADDRESS = re.compile(r"(?:\w+://)?(\[[0-9A-Fa-f:.%\w]+\]|[^\s:/\[\],]+):(\d{1,5})")


def _addresses(prop: Property, given: GivenSetting) -> str:
    found = []
    for address in given.value.split(","):
        match = _ADDRESS.fullmatch(address.strip())
        if match is None or not 0 < int(match[2]) < 65536:  # noqa: PLR2004 -- the range of a port
            raise ConnectionProblem(
                given.where,
                prop.name,
                f"{address.strip()!r} is not host:port",
                "Write host:port, several with commas between: kafka-1:9092,kafka-2:9092",
            )
        found.append(f"{match[1]}:{match[2]}")
    return ",".join(found)


_Check = Callable[[Property, GivenSetting], str]

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


def complete(values: SettingValues, origin: Mapping[str, str], where: str) -> None:
    """Check that the settings together say all that a connection needs.

    Args:
        values: settings, each checked.
        origin: where each stands.
        where: what to name for a setting that is missing.

    Raises:
        ConnectionProblem: names the missing key and why it is needed.
    """
    if "bootstrap.servers" not in values:
        raise ConnectionProblem(
            where, "bootstrap.servers", "is missing", "Set it, or pass --bootstrap-server"
        )
    _complete_sasl(values, origin)
    for one, other in (("ssl.certificate", "ssl.key"), ("ssl.key", "ssl.certificate")):
        given = [k for k in (f"{one}.location", f"{one}.pem") if k in values]
        if given and f"{other}.location" not in values and f"{other}.pem" not in values:
            problem = f"is set, but not {other}.location"
            raise ConnectionProblem(
                origin[given[0]], given[0], problem, "A certificate needs its key"
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


def unused(values: SettingValues) -> list[str]:
    """Name the security settings that the security protocol makes no use of."""
    protocol = str(values.get("security.protocol", "PLAINTEXT"))
    idle = [] if protocol.startswith("SASL") else ["sasl."]
    idle += [] if protocol.endswith("SSL") else ["ssl.", "enable.ssl."]
    return [name for name in values if name.startswith(tuple(idle))] if idle else []
