"""Connection settings under any input: parsed or refused with a message, secrets never shown."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.kafka.connection.connection import Connection
from ktui.kafka.connection.properties import (
    CANONICAL,
    JAVA_ONLY,
    PROPERTIES,
    ConnectionProblem,
    ValueKind,
)
from ktui.kafka.connection.sources import jaas_settings, pem_lines, read_entries

T = TypeVar("T")

SECRET = "xK9-hunter2-Qz7"  # noqa: S105 -- what the tests hunt for

NAMES = st.sampled_from(sorted(CANONICAL.keys() | JAVA_ONLY)) | st.text(max_size=20)
VALUES = (
    st.text(max_size=30)
    | st.integers()
    | st.booleans()
    | st.none()
    | st.lists(st.text(max_size=5), max_size=2)
    | st.dictionaries(st.sampled_from(["file", "env", "vault"]), st.text(max_size=8), max_size=2)
)


def attempt(make: Callable[[], T]) -> T | ConnectionProblem:
    try:
        return make()
    except ConnectionProblem as problem:
        return problem


@given(st.dictionaries(NAMES, VALUES, max_size=8))
def test_any_mapping_gives_a_connection_or_a_problem_with_its_place(
    properties: dict[str, object],
) -> None:
    made = attempt(lambda: Connection.of(properties, where="here"))

    if isinstance(made, ConnectionProblem):
        assert made.problem
        assert str(made).startswith("here")
    else:
        assert made.bootstrap_servers
        assert made.for_confluent()["bootstrap.servers"]


@given(st.binary(max_size=200))
def test_any_binary_file_is_refused_with_its_path(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    file = tmp_path_factory.mktemp("any") / "client.properties"
    file.write_bytes(content)

    with pytest.raises(ConnectionProblem) as caught:
        Connection.of(command_config=file)

    assert str(caught.value).startswith(str(file))


@given(
    st.lists(
        st.sampled_from(sorted(p.name for p in PROPERTIES.values() if p.kind is ValueKind.SECRET))
    ),
    st.dictionaries(NAMES, st.text(max_size=10), max_size=4),
)
def test_a_secret_never_appears_in_an_error_or_a_repr(
    secret_names: list[str], others: dict[str, str]
) -> None:
    jaas = f'x.ScramLoginModule required username="u" password="{SECRET}"'
    properties = {**others, **dict.fromkeys(secret_names, SECRET), "sasl.jaas.config": jaas}
    for semicolon in ("", ";"):
        properties["sasl.jaas.config"] = jaas + semicolon
        try:
            shown = repr(Connection.of(properties, bootstrap_server="a:1"))
        except ConnectionProblem as problem:
            shown = f"{problem} {problem!r} {vars(problem)} {problem.__context__!r}"
        assert SECRET not in shown


@given(st.text(max_size=30), st.text(max_size=30), st.sampled_from("\"'"))
def test_a_login_yields_the_name_and_password_that_were_quoted(
    name: str, password: str, quote: str
) -> None:
    def quoted(text: str) -> str:
        return quote + text.replace("\\", r"\\").replace(quote, "\\" + quote) + quote

    text = f"a.b.ScramLoginModule required username={quoted(name)}\n password={quoted(password)} ;"

    parsed = jaas_settings(text, "SCRAM-SHA-512", "here")

    assert parsed == {"sasl.username": name, "sasl.password": password}


@given(st.text(max_size=60))
def test_any_login_text_is_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(ConnectionProblem):
        jaas_settings(text, None, "here")


@given(st.text(alphabet="AZaz09+/=", min_size=1, max_size=300), st.data())
def test_pem_is_the_same_however_its_lines_are_broken(body: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=6).map(sorted))
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"

    one_line = f"{begin} {' '.join(pieces)} {end}"
    laid_out = pem_lines(one_line)

    assert pem_lines(laid_out) == laid_out
    lines = laid_out.splitlines()
    assert (lines[0], lines[-1]) == (begin, end)
    assert "".join(lines[1:-1]) == body
    assert max(len(line) for line in lines) <= 64


@given(st.text(max_size=120))
def test_any_text_is_refused_or_read_as_entries_with_unique_keys_and_lines(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    file = tmp_path_factory.mktemp("text") / "p"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))

    entries = attempt(lambda: read_entries(file))

    if isinstance(entries, ConnectionProblem):
        assert "hexadecimal" in str(entries)
    else:
        assert len({entry.key for entry in entries}) == len(entries)
        assert all(entry.line >= 1 for entry in entries)


def test_every_setting_has_one_name() -> None:
    assert set(CANONICAL.values()) == set(PROPERTIES)
    assert not CANONICAL.keys() & JAVA_ONLY


@pytest.mark.parametrize("name", sorted(p.name for p in PROPERTIES.values()))
def test_every_setting_reaches_confluent_under_its_name(tmp_path: Path, name: str) -> None:
    setting = PROPERTIES[name]
    (tmp_path / "a-file").write_text("x")
    samples: dict[ValueKind, Any] = {
        ValueKind.TEXT: "https://a:1" if name.endswith("url") else "a:1",
        ValueKind.SECRET: SECRET,
        ValueKind.FILE: str(tmp_path / "a-file"),
        ValueKind.CHOICE: next(iter(setting.choices), None),
        ValueKind.FLAG: True,
        ValueKind.NUMBER: 1_000,
    }
    value = samples[setting.kind]
    pair = {"ssl.certificate.pem": "x", "ssl.key.pem": "x"}  # neither goes without the other

    parsed = Connection.of({"bootstrap.servers": "a:1", **pair, name: value})

    assert parsed.for_confluent()[name] == {True: "true", 1_000: "1000"}.get(value, value)
    assert SECRET not in repr(parsed)
