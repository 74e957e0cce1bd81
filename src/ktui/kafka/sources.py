"""Connection settings as people write them, brought under librdkafka's names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ktui.kafka.jaas import jaas_settings
from ktui.kafka.java_file import read_entries
from ktui.kafka.problem import ConnectionProblem
from ktui.kafka.properties import (
    CANONICAL,
    JAVA_ONLY,
    JAVA_STORES,
    PROPERTIES,
    Kind,
    may_be_ignored,
)
from ktui.kafka.secret import fetched
from ktui.kafka.stores import store_settings

_ALIKE = 0.85
"""How alike an unknown name and a known one must be to be a misspelling."""


class Given(NamedTuple):
    """One setting as it was written."""

    value: str
    where: str
    """The file with its line, the context, or the option."""
    folder: Path
    """What a relative path in it is relative to."""
    kept_in: Path | None = None
    """The file that has the value; None where no file has it."""


def from_mapping(
    properties: Mapping[str, object], where: str, folder: Path, file: Path | None = None
) -> dict[str, Given]:
    """Read a context's `properties`, which `file` has; a name that is not known is an error.

    Raises:
        ConnectionProblem: names `where` and the key.
    """
    given = {
        str(name): Given(
            _text(value, where, str(name), folder), where, folder, _kept_in(value, folder, file)
        )
        for name, value in properties.items()
    }
    for name in given.keys() - CANONICAL.keys() - JAVA_ONLY:
        raise ConnectionProblem(where, name, "is no connection setting", _meant(name))
    return _translated(given)


def from_file(path: Path) -> tuple[dict[str, Given], list[str]]:
    """Read a client properties file, Java's or librdkafka's.

    Returns:
        The settings, and the names of those that a connection has no use for.

    Raises:
        ConnectionProblem: names the file, the line and the key.
    """
    given, ignored = {}, []
    for key, value, line in read_entries(path):
        where = f"{path}:{line}"
        if key in CANONICAL or key in JAVA_ONLY:
            if value.startswith("${"):
                raise ConnectionProblem(
                    where,
                    key,
                    "Java's config providers are not read",
                    "Use a context, whose values may come from {env: NAME}, {file: PATH} or "
                    "{command: LINE}",
                )
            given[key] = Given(value, where, Path(), path)
        elif may_be_ignored(key) and not _near(key):
            ignored.append(key)
        else:
            raise ConnectionProblem(where, key, "is not known", _meant(key))
    return _translated(given), ignored


def _kept_in(value: object, folder: Path, file: Path | None) -> Path | None:
    """Find the file that has a value: that of the settings, or the one that it points to."""
    if not isinstance(value, Mapping):
        return file
    return folder / Path(str(value["file"])).expanduser() if "file" in value else None


def _text(value: object, where: str, key: str, folder: Path) -> str:
    match value:
        case bool() | int() | float() if _secret(key):  # YAML takes 0123 for 83 and yes for true
            raise ConnectionProblem(where, key, "is not a text", "Put it in quotes")
        case bool():
            return "true" if value else "false"
        case str() | int():
            return str(value)
        case list() if key in CANONICAL and CANONICAL[key] == "bootstrap.servers":
            return ",".join(str(item) for item in value)
        case Mapping():
            return fetched(value, where, key, folder)
        case _:
            raise ConnectionProblem(where, key, "expected a text, or where to get it from")


def _secret(name: str) -> bool:
    return name in CANONICAL and PROPERTIES[CANONICAL[name]].kind is Kind.SECRET


def _translated(given: Mapping[str, Given]) -> dict[str, Given]:
    """Bring every name under librdkafka's, Java's stores and login modules included."""
    settings = {CANONICAL[name]: value for name, value in given.items() if name in CANONICAL}
    stores = {name: (v.value, v.where) for name, v in given.items() if name in JAVA_STORES}
    folder = next((v.folder for v in given.values()), Path())
    for name, (value, where) in store_settings(stores).items():
        kept_in = given["ssl.keystore.key"].kept_in if name == "ssl.key.pem" else None
        settings.setdefault(name, Given(value, where, folder, kept_in))
    if jaas := given.get("sasl.jaas.config"):
        mechanism = settings.get("sasl.mechanism")
        told = jaas_settings(jaas.value, mechanism and mechanism.value.upper(), jaas.where)
        for name, value in told.items():
            settings.setdefault(name, jaas._replace(value=value))
    algorithm = settings.get("ssl.endpoint.identification.algorithm")
    if algorithm and not algorithm.value:  # how Java is told not to compare names
        settings["ssl.endpoint.identification.algorithm"] = algorithm._replace(value="none")
    return settings


def _near(name: str) -> list[str]:
    import difflib  # noqa: PLC0415 -- slow to import, and only a mistake needs it

    return difflib.get_close_matches(name, [*CANONICAL, *JAVA_ONLY], n=1, cutoff=_ALIKE)


def _meant(name: str) -> str:
    near = _near(name)
    return f"Did you mean {near[0]}?" if near else "docs/connecting.md lists the settings"
