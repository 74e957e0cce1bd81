"""sasl.jaas.config, as far as it says what a client of any language needs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ktui.kafka.problem import ConnectionProblem

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
}
"""Each login module: the mechanisms it is for, and its options under librdkafka's names."""

_ENTRY = re.compile(r"\s*([\w.$]+)\s+(required|requisite|sufficient|optional)\b(.*);\s*", re.DOTALL)
_OPTION = re.compile(r"""\s*([\w.]+)\s*=\s*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^\s"';]+)""")

_FORM = (
    "Write it as org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="..." password="...";'
)


def jaas_settings(text: str, mechanism: str | None, where: str) -> dict[str, str]:
    """Translate a JAAS entry into librdkafka's settings.

    Raises:
        ConnectionProblem: not a JAAS entry, a login module of another mechanism than
            `mechanism`, or one that ktui does not know. The text itself is never repeated.
    """

    def problem(what: str, fix: str = _FORM) -> ConnectionProblem:
        return ConnectionProblem(where, "sasl.jaas.config", what, fix)

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
        options[found[1]] = _unquoted(found[2])
        at = found.end()
    return options if not text[at:].strip() else None


def _unquoted(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value[0] in "\"'" else value
