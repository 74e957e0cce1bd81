"""Readers of connection settings as people write them; they return librdkafka's names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from ktui.inputfile import Unreadable, open_input, read_input
from ktui.kafka.connection.properties import (
    CANONICAL,
    JAVA_ONLY,
    JAVA_STORES,
    PROPERTIES,
    ConnectionProblem,
    ValueKind,
    fetch_value,
    may_be_ignored,
)

_MODULES: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "PlainLoginModule": (("PLAIN",), {"username": "sasl.username", "password": "sasl.password"}),
    "ScramLoginModule": (
        ("SCRAM-SHA-256", "SCRAM-SHA-512"),
        {"username": "sasl.username", "password": "sasl.password"},
    ),
    "OAuthBearerLoginModule": (
        ("OAUTHBEARER",),
        {
            "clientId": "sasl.oauthbearer.client.id",
            "clientSecret": "sasl.oauthbearer.client.secret",
            "scope": "sasl.oauthbearer.scope",
        },
    ),
    "Krb5LoginModule": (
        ("GSSAPI",),
        {
            "serviceName": "sasl.kerberos.service.name",
            "principal": "sasl.kerberos.principal",
            "keyTab": "sasl.kerberos.keytab",
        },
    ),
}  # for each login module its mechanisms, and its options under librdkafka's names

_ENTRY = re.compile(r"\s*([\w.$]+)\s+(required|requisite|sufficient|optional)\b(.*);\s*", re.DOTALL)
_OPTION = re.compile(r"""\s*([\w.]+)\s*=\s*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^\s"';]+)""")

_FORM = (
    "Write it as org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="..." password="...";'
)
_LINE_END = re.compile(r"\r\n|\r|\n")
MOST_STORE_BYTES = 64 * 1024**2  # bytes of certificates or keys: revocation lists grow to many MiB
_SIMILARITY = 0.85  # the similarity at which an unknown name counts as a misspelling of a known one


def jaas_settings(text: str, mechanism: str | None, where: str) -> dict[str, str]:
    """Translate a JAAS entry into librdkafka's settings; no error repeats the text."""

    def problem(text: str, fix: str = _FORM) -> ConnectionProblem:
        return ConnectionProblem(where, "sasl.jaas.config", text, fix)

    entry = _ENTRY.fullmatch(text)
    if entry is None:
        if not text.rstrip().endswith(";"):
            raise problem("it does not end with a semicolon")
        raise problem("it is not `module flag options;`")
    module = entry[1].rpartition(".")[2]
    if module not in _MODULES:
        raise problem(f"ktui does not know {module}", f"It knows {', '.join(_MODULES)}")
    mechanisms, names = _MODULES[module]
    if mechanism is not None and mechanism not in mechanisms:
        raise problem(f"{module} is not for sasl.mechanism={mechanism}", "Make the two agree")
    options = _options(entry[3])
    if options is None:
        raise problem('its options are not all of the form name="value"')
    return {names[name]: value for name, value in options.items() if name in names}


def _options(text: str) -> dict[str, str] | None:
    options, at = {}, 0
    while found := _OPTION.match(text, at):
        value, at = found[2], found.end()
        quoted = value[0] in "\"'"
        options[found[1]] = re.sub(r"\\(.)", r"\1", value[1:-1]) if quoted else value
    return options if not text[at:].strip() else None


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


NO_PLACES: Mapping[str, str] = MappingProxyType({})


class FileEntry(NamedTuple):
    """One setting of a file, with the number of its first line."""

    key: str
    value: str
    line: int


def read_entries(path: Path) -> list[FileEntry]:
    """Read a java.util.Properties file; the last entry for a key wins, as in Java."""
    import javaproperties  # noqa: PLC0415 - it imports urllib and XML, and few calls have a file

    try:
        data = read_input(path)
    except Unreadable as why:
        raise ConnectionProblem(str(path), "", f"cannot be read: {why}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")  # as Java reads these files
    entries: dict[str, FileEntry] = {}
    line = 1
    try:
        for part in javaproperties.parse(text):
            if isinstance(part, javaproperties.KeyValue):
                entries[part.key] = FileEntry(part.key, part.value, line)
            line += len(_LINE_END.findall(part.source))
    except javaproperties.InvalidUEscapeError:
        raise ConnectionProblem(
            f"{path}:{line}",
            "",
            r"\u is not followed by four hexadecimal digits",
            "Write two backslashes for a literal one",
        ) from None
    return list(entries.values())


class RawSetting(NamedTuple):
    """One setting as it was written."""

    value: str
    where: str  # the file with its line, the context, or the option
    folder: Path
    kept_in: Path | None = None


def from_mapping(
    properties: Mapping[str, object],
    where: str,
    folder: Path,
    file: Path | None = None,
    places: Mapping[str, str] = NO_PLACES,
) -> dict[str, RawSetting]:
    """Read a context's `properties`, which `file` holds; an unknown name is an error."""
    given: dict[str, RawSetting] = {}
    for key, value in properties.items():
        name = str(key)
        place = places.get(name, where)
        if name not in CANONICAL and name not in JAVA_ONLY:
            raise ConnectionProblem(place, name, "is not a connection setting", _suggestion(name))
        text = _text(value, place, name, folder)
        given[name] = RawSetting(text, place, folder, _kept_in(value, folder, file))
    return _translated(given)


def from_file(path: Path) -> tuple[dict[str, RawSetting], list[str]]:
    """Read a client properties file; return its settings, and the names that are not used."""
    given, ignored = {}, []
    for key, value, line in read_entries(path):
        where = f"{path}:{line}"
        if key in CANONICAL or key in JAVA_ONLY:
            if value.startswith("${"):
                raise ConnectionProblem(
                    where,
                    key,
                    "Java's config providers are not read",
                    "Use a context: its values may be {env: NAME}, {file: PATH} or {command: LINE}",
                )
            given[key] = RawSetting(value, where, Path(), path)
        elif may_be_ignored(key) and not _similar_names(key):
            ignored.append(key)
        else:
            raise ConnectionProblem(where, key, "is not known", _suggestion(key))
    return _translated(given), ignored


def _kept_in(value: object, folder: Path, file: Path | None) -> Path | None:
    if not isinstance(value, Mapping):
        return file
    return folder / Path(str(value["file"])).expanduser() if "file" in value else None


def _text(value: object, where: str, key: str, folder: Path) -> str:
    secret = key in CANONICAL and PROPERTIES[CANONICAL[key]].kind is ValueKind.SECRET
    match value:
        case bool() | int() | float() if secret:  # YAML reads 0123 as 83 and yes as true
            raise ConnectionProblem(where, key, "is not text", "Put it in quotes")
        case bool():
            return "true" if value else "false"
        case str() | int():
            return str(value)
        case list() if key in CANONICAL and CANONICAL[key] == "bootstrap.servers":
            return ",".join(str(item) for item in value)
        case Mapping():
            return fetch_value(value, where, key, folder)
        case _:
            problem = "expected text, or one of {file: PATH}, {env: NAME}, {command: LINE}"
            raise ConnectionProblem(where, key, problem)


def _translated(given: Mapping[str, RawSetting]) -> dict[str, RawSetting]:
    settings = {CANONICAL[name]: value for name, value in given.items() if name in CANONICAL}
    stores = {name: (v.value, v.where) for name, v in given.items() if name in JAVA_STORES}
    folder = next((v.folder for v in given.values()), Path())
    for name, (value, where) in store_settings(stores).items():
        kept_in = given["ssl.keystore.key"].kept_in if name == "ssl.key.pem" else None
        settings.setdefault(name, RawSetting(value, where, folder, kept_in))
    if jaas := given.get("sasl.jaas.config"):
        mechanism = settings.get("sasl.mechanism")
        login = jaas_settings(jaas.value, mechanism and mechanism.value.upper(), jaas.where)
        for name, value in login.items():
            settings.setdefault(name, jaas._replace(value=value))
    algorithm = settings.get("ssl.endpoint.identification.algorithm")
    if algorithm and not algorithm.value:  # in Java an empty value turns the check off
        settings["ssl.endpoint.identification.algorithm"] = algorithm._replace(value="none")
    return settings


def _similar_names(name: str) -> list[str]:
    import difflib  # noqa: PLC0415 -- slow to import, needed only after a mistake

    return difflib.get_close_matches(name, [*CANONICAL, *JAVA_ONLY], n=1, cutoff=_SIMILARITY)


def _suggestion(name: str) -> str:
    similar = _similar_names(name)
    return f"Did you mean {similar[0]}?" if similar else "docs/connecting.md lists the settings"
