"""Connection settings: a table of their names, the error about one, and how secrets are fetched."""

from __future__ import annotations

import enum
import os
import selectors
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple, NoReturn

from ktui.inputfile import MOST_BYTES, Unreadable, read_input
from ktui.secret_variables import mark_secret

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
JAVA_STORES = frozenset(
    f"ssl.{store}.{part}"
    for store in ("truststore", "keystore")
    for part in ("type", "location", "password", "certificates", "certificate.chain", "key")
)  # Java's names for trust and key stores; they are translated together
JAVA_ONLY = frozenset({"sasl.jaas.config", *JAVA_STORES})  # Java's names that ktui understands
_HARMLESS_SECURITY = (
    "sasl.client.callback.handler.class",
    "sasl.kerberos.",
    "sasl.login.",
    "sasl.oauthbearer.",
    "security.providers",
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.engine.factory.class",
    "ssl.keymanager.algorithm",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
)
_SECURITY = ("sasl.", "ssl.", "security.", "enable.ssl.", "bootstrap.")


class ValueKind(enum.Enum):
    """The form that a value must have."""

    TEXT = "text"
    SECRET = "secret"  # noqa: S105 -- the kind, not a value
    FILE = "file"
    CHOICE = "choice"
    FLAG = "flag"
    NUMBER = "number"


class Property(NamedTuple):
    """One setting. `name` is librdkafka's, and the one that confluent-kafka gets."""

    name: str
    kind: ValueKind = ValueKind.TEXT
    kafka_python: str | None = None  # None where it gets the value otherwise
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()  # librdkafka's own aliases, and those of Java clients


_TABLE = (
    Property("bootstrap.servers", aliases=("metadata.broker.list",)),
    Property("client.id", kafka_python="client_id"),
    Property(
        "client.dns.lookup",
        ValueKind.CHOICE,
        "client_dns_lookup",
        ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    ),
    Property("socket.timeout.ms", ValueKind.NUMBER, aliases=("request.timeout.ms",)),
    Property("security.protocol", ValueKind.CHOICE, "security_protocol", PROTOCOLS),
    Property("ssl.ca.location", ValueKind.FILE),
    Property("ssl.ca.pem"),
    Property("ssl.certificate.location", ValueKind.FILE),
    Property("ssl.certificate.pem"),
    Property("ssl.key.location", ValueKind.FILE),
    Property("ssl.key.pem", ValueKind.SECRET),
    Property("ssl.key.password", ValueKind.SECRET),
    Property("ssl.crl.location", ValueKind.FILE),
    Property("ssl.endpoint.identification.algorithm", ValueKind.CHOICE, choices=("https", "none")),
    Property("enable.ssl.certificate.verification", ValueKind.FLAG),
    Property(
        "sasl.mechanism",
        ValueKind.CHOICE,
        "sasl_mechanism",
        MECHANISMS,
        aliases=("sasl.mechanisms",),
    ),
    Property("sasl.username", kafka_python="sasl_plain_username"),
    Property("sasl.password", ValueKind.SECRET, "sasl_plain_password"),
    Property("sasl.kerberos.service.name", kafka_python="sasl_kerberos_service_name"),
    Property("sasl.kerberos.principal"),
    Property("sasl.kerberos.keytab", ValueKind.FILE),
    Property("sasl.oauthbearer.method", ValueKind.CHOICE, choices=("oidc",)),
    Property("sasl.oauthbearer.token.endpoint.url"),
    Property(
        "sasl.oauthbearer.client.id",
        aliases=(
            "sasl.oauthbearer.client.credentials.client.id",
            "sasl.oauthbearer.client.credentials.clientid",
        ),
    ),
    Property(
        "sasl.oauthbearer.client.secret",
        ValueKind.SECRET,
        aliases=("sasl.oauthbearer.client.credentials.client.secret",),
    ),
    Property("sasl.oauthbearer.scope"),
    Property("sasl.oauthbearer.extensions"),
)

PROPERTIES = {p.name: p for p in _TABLE}

CANONICAL = {name: p.name for p in _TABLE for name in (p.name, *p.aliases)}
"""librdkafka's name for each name of a setting, aliases included."""


def may_be_ignored(name: str) -> bool:
    """Whether a client file's setting may be ignored: any but security, and Java's fine tuning."""
    return not name.startswith(_SECURITY) or name.startswith(_HARMLESS_SECURITY)


class ConnectionProblem(Exception):
    """Settings cannot be used, so nothing was sent; `key` is the name that their author used."""

    def __init__(self, where: str, key: str, problem: str, fix: str = "") -> None:
        self.where = where
        self.key = key
        self.problem = problem
        self.fix = fix
        super().__init__(where, key, problem, fix)

    def __str__(self) -> str:
        named = ": ".join(part for part in (self.where, self.key, self.problem) if part)
        return f"{named}. {self.fix}" if self.fix else named


LIMIT_S = 60.0  # seconds within which a command must end

_READ_BYTES = 1 << 16
_FORMS = "{file: PATH}, {env: NAME} or {command: LINE}"


class CommandFailed(Exception):
    """A command yielded no secret. The message repeats nothing of its output."""


def run_command(words: Sequence[str], folder: Path) -> str:
    """Run a command without a shell and return its output; it is killed after `LIMIT_S`."""
    name = words[0]
    try:
        command = subprocess.Popen(  # noqa: S603 -- the person's own configuration names it
            words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except (OSError, ValueError) as error:
        raise CommandFailed(f"cannot run {name}: {getattr(error, 'strerror', error)}") from None
    with command:
        try:
            output = _output(command, name)
        except BaseException:
            command.kill()
            raise
    if command.returncode:
        status = command.returncode
        raise CommandFailed(f"{name} ended with status {status}; run it by hand to see why")
    try:
        return output.decode()
    except UnicodeDecodeError:
        raise CommandFailed(f"the output of {name} is not UTF-8 text") from None


def _output(command: subprocess.Popen[bytes], name: str) -> bytes:
    assert command.stdout is not None  # noqa: S101 -- for mypy: it was asked for
    until = time.monotonic() + LIMIT_S
    try:
        output = _read(command.stdout, until)
        if len(output) > MOST_BYTES:
            most = f"{MOST_BYTES // 1024**2} MiB"
            raise CommandFailed(f"{name} prints more than {most}, the most that is read")
        command.wait(max(0.0, until - time.monotonic()))
    except (TimeoutError, subprocess.TimeoutExpired):
        raise CommandFailed(f"{name} did not end within {LIMIT_S:g} s") from None
    return output


def _read(pipe: IO[bytes], until: float) -> bytes:
    """Read to the end, or until the output exceeds the limit."""
    output = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while len(output) <= MOST_BYTES:
            left_s = until - time.monotonic()
            if left_s <= 0 or not selector.select(left_s):
                raise TimeoutError
            chunk = os.read(pipe.fileno(), _READ_BYTES)
            if not chunk:
                break
            output += chunk
    return bytes(output)


class Secret:
    """A password, key or token. Neither `str` nor `repr` shows it; only `reveal` does."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the value. Use it only to pass the value to a client."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret cannot be pickled")


def reveal(value: str | Secret) -> str:
    """Return a setting's text. Use it only to pass the value to a client."""
    return value.reveal() if isinstance(value, Secret) else value


def fetch_value(source: Mapping[object, object], where: str, key: str, folder: Path) -> str:
    """Fetch a value from its source: `{file: PATH}`, `{env: NAME}` or `{command: LINE}`.

    A file's path may be relative to `folder`; a command runs without a shell. One trailing line end
    is cut off. An error never repeats the content of a file or the output of a command.
    """
    given = next(iter(source.values()), None)
    named = isinstance(given, str) or (isinstance(given, list) and "command" in source)
    if len(source) != 1 or (kind := str(*source)) not in _SOURCES or not named:
        raise ConnectionProblem(
            where, key, "a mapping here must name the value's source", f"Write {_FORMS}"
        )
    try:
        value = _SOURCES[kind](source[kind], folder)
    except _Missing as missing:
        raise ConnectionProblem(where, key, str(missing), _FIXES[kind]) from None
    value = value.removesuffix("\n").removesuffix("\r")
    if not value:
        problem = f"the {kind} that it points to is empty"
        raise ConnectionProblem(where, key, problem, _FIXES[kind])
    return value


class _Missing(Exception):
    """A value could not be read; the message gives the reason."""


def _from_file(path: object, folder: Path) -> str:
    try:
        place = folder / Path(str(path)).expanduser()
    except RuntimeError as error:  # "~nobody/..."
        raise _Missing(f"cannot read {path}: {error}") from None
    try:
        return read_input(place).decode()
    except Unreadable as why:
        raise _Missing(f"cannot read {place}: {why}") from None
    except UnicodeDecodeError:
        raise _Missing(f"cannot read {place}: it is not UTF-8 text") from None


def _from_environment(name: object, _folder: Path) -> str:
    value = os.environ.get(str(name))
    if value is None:
        raise _Missing(f"the environment variable {name} is not set")
    mark_secret(str(name))
    return value


def _from_command(line: object, folder: Path) -> str:
    words = [str(word) for word in line] if isinstance(line, list) else _split(str(line))
    if not words:
        raise _Missing("the command is empty")
    try:
        return run_command(words, folder)
    except CommandFailed as why:
        raise _Missing(str(why)) from None


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise _Missing(f"the command cannot be split into words: {error}") from None


_FIXES = {
    "file": "Name a file that holds the value; a relative path begins where config.yaml is",
    "env": "Set the variable where ktui runs",
    "command": "Give a command that prints the value and ends",
}
_SOURCES: Mapping[str, Callable[[object, Path], str]] = {
    "file": _from_file,
    "env": _from_environment,
    "command": _from_command,
}
