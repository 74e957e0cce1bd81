"""The configuration file, and the cluster that a verb is for."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktui.cli.context.cluster import choose_cluster
from ktui.cli.context.config import Config, load_config
from ktui.cli.context.terminal import BadInput
from ktui.inputfile import FileProblem
from ktui.kafka.connection.properties import CANONICAL, PROPERTIES, ValueKind

GOOD = """\
theme: light
contexts:
  prod-eu:
    properties:
      bootstrap.servers: broker1:9092
    read_only: true
    poll_interval: 2
    theme: dark
  lab: {}
"""


def load(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path)


def test_a_missing_config_file_means_no_contexts(tmp_path: Path) -> None:
    assert load_config(tmp_path / "config.yaml").contexts == {}


def test_a_context_has_its_properties_and_preferences(tmp_path: Path) -> None:
    config = load(tmp_path, GOOD)

    prod = config.context("prod-eu")
    assert prod.properties == {"bootstrap.servers": "broker1:9092"}
    assert (prod.read_only, prod.poll_interval, prod.theme) == (True, 2.0, "dark")
    assert config.theme == "light"
    assert config.context("lab").poll_interval == 1.0


@pytest.mark.parametrize(("word", "owns"), [("off", False), ("false", False), ("on", True)])
def test_a_context_may_turn_ownership_of_its_cluster_off(
    tmp_path: Path, word: str, *, owns: bool
) -> None:
    config = load(tmp_path, f"contexts:\n  a:\n    ownership: {word}\n  b: {{}}\n")

    assert config.context("a").ownership is owns
    assert config.context("b").ownership


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("context: {}\n", 1, "did you mean 'contexts'?"),
        ("- a\n", 1, "expected keys such as 'contexts:'"),
        ("contexts: [a]\n", 1, "expected a mapping"),
        ("contexts:\n  a:\n    readonly: true\n", 3, "did you mean 'read_only'?"),
        (
            "contexts:\n  a:\n    poll_interval: 0\n",
            3,
            "contexts.a.poll_interval: expected a number",
        ),
        (
            "contexts:\n  a:\n    read_only: maybe\n",
            3,
            "contexts.a.read_only: expected true or false",
        ),
        ("theme: [x]\n", 1, "theme: expected text or nothing"),
        ("contexts:\n  a:\n    limits:\n      partitions: 0\n", 4, "0 is too small"),
        (
            "contexts:\n  a:\n    limits:\n      reassignment.parallel.replicas: 2\n",
            4,
            "there is no such limit",
        ),
        (
            "contexts:\n  a:\n    limits:\n      shape: kip-435\n      cut-together: 4\n",
            3,
            "it has no effect in shape kip-435",
        ),
        (
            "contexts:\n  a:\n    throttle: fast\n",
            3,
            "contexts.a.throttle: 'fast': expected a rate",
        ),
        ("contexts:\n  a:\n    canary: p99\n", 3, "contexts.a.canary: expected"),
        ("contexts:\n  a:\n    throttle: 0\n", 3, "lets nothing through"),
        ("contexts:\n  a:\n    throttle: [5MB]\n", 3, "contexts.a.throttle: expected"),
        ("recordings:\n  keep: lots\n", 2, "recordings.keep: expected a size"),
        ("recordings:\n  olderthan: 30d\n", 2, "did you mean 'older_than'?"),
    ],
)
def test_a_mistake_in_the_config_is_reported_with_its_line(
    tmp_path: Path, text: str, line: int, words: str
) -> None:
    with pytest.raises(FileProblem) as caught:
        load(tmp_path, text)

    assert caught.value.line == line
    assert words in caught.value.problem


def test_lakes_are_relative_to_the_folder_of_the_config(tmp_path: Path) -> None:
    config = load(tmp_path, "recordings: {keep: 1GB, lakes: [lake, /srv/lake, ~/lake]}\n")

    assert config.recordings.lakes == (str(tmp_path / "lake"), "/srv/lake", "~/lake")
    assert config.recordings.keep == 10**9
    assert load(tmp_path, GOOD).recordings.limits is None


def test_a_config_without_a_context_lists_the_contexts_that_it_has(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match=r"no context 'prod'\. Known contexts: lab, prod-eu"):
        load(tmp_path, GOOD).context("prod")


def test_the_environment_can_move_the_config_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.yaml").write_text(GOOD, encoding="utf-8")
    monkeypatch.setenv("KTUI_CONFIG_DIR", str(tmp_path))

    assert set(load_config().contexts) == {"prod-eu", "lab"}


PROD = """\
theme: dark
bell: true
contexts:
  prod:
    properties:
      bootstrap.servers: kafka-1:9092
{}
"""
SETTINGS = (
    "properties", "command_config", "cluster_id", "read_only", "ownership", "poll_interval",
    "theme", "limits", "throttle", "canary", "on_event",
)  # fmt: skip
SASL = "security.protocol: SASL_SSL\nsasl.mechanism: PLAIN\nsasl.username: ada\n"
A_FIX = re.compile(
    r"expected|did you mean|Did you mean|known keys|not one of|is not (?:true|a number|an https)"
    r"|Write |Put |Set |Name |Give |Use |give |put |use |indent|close the|remove |leave out"
    r"|takes the|The limits are|nested more than 32"
    r"|must be PEM|Convert it|It knows|needs its key|lists the settings|no closing"
    r"|more than 40 digits|may not begin with 0|names no program|There is no|check the indentation"
    r"|write one document"
)


def under(place: str, text: str) -> str:
    """Return the file with some lines in it: in the properties, the context, or at the top."""
    indent = {"properties": 6, "context": 4, "top": 0}[place]
    return PROD.format("\n".join(" " * indent + line for line in text.splitlines()))


def of_properties() -> Iterator[str]:
    plain = (ValueKind.TEXT, ValueKind.SECRET)
    for name in sorted(CANONICAL):
        values = ["[a, b]", "{a: b}", "", "1.5", "2020-01-01"]
        if name != "ssl.endpoint.identification.algorithm":  # empty there, it turns a check off
            values.append('""')
        if PROPERTIES[CANONICAL[name]].kind not in plain:
            values += ["abc", "-5"]
        yield from (f"{name}: {value}" for value in values)
        yield f"{name}x: a"
    for source in (
        "{file: nothere}", "{file: }", "{file: [a]}", "{env: NOT_SET_HERE}", "{env: 3}", "{}",
        "{command: false}", "{command: no-such-program}", "{command: }", "{fil: a}",
        "{file: a, env: b}",
    ):  # fmt: skip
        yield f"{SASL}sasl.password: {source}"
    for mechanism in ("PLAIN", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "FOO"):
        yield f"security.protocol: SASL_SSL\nsasl.mechanism: {mechanism}"
    yield "security.protocol: SASL_SSL"
    for store in ("certificate", "key", "ca"):
        yield f"security.protocol: SSL\nssl.{store}.location: config.yaml"
    yield "security.protocol: SSL\nssl.ca.pem: garbage"
    yield "security.protocol: SSL\nssl.truststore.location: nothere.jks"
    yield f"{SASL}sasl.jaas.config: foo"
    yield f"{SASL}sasl.jaas.config: foo.Bar required a=b;"
    yield from ("bootstrap.server: b:9092", "fetch.min.bytes: 3", "\tclient.id: x")


def of_contexts() -> Iterator[str]:
    accepted = {
        ("command_config", ""), ("cluster_id", ""), ("cluster_id", "abc"), ("theme", ""),
        ("theme", "abc"), ("throttle", ""), ("throttle", "3"), ("on_event", ""),
        ("on_event", "abc"),
        ("poll_interval", "3"), ("read_only", "true"), ("ownership", "true"), ("canary", "true"),
    }  # fmt: skip
    for name in SETTINGS:
        for value in ("3", "-1", "abc", "[a]", "{a: b}", "", "true", "2020-01-01", "9" * 60, "010"):
            if (name, value) not in accepted and name != "properties":
                yield f"{name}: {value}"
        yield f"{name}x: 3"
    yield "bootstrap.servers: a:1"
    for limit in ("partitions: 0", "partitions: abc", "partitons: 3", "shape: foo", "3: 4"):
        yield f"limits:\n  {limit}"
    yield from (f"throttle: {value}" for value in ("50XB", "3=", "p99<", "[1]", "1.5", "0"))
    yield from ('on_event: "\'unclosed"', "on_event: ''", "poll_interval: 1s")
    yield from ("poll_interval: 0.0001", "poll_interval: .inf")


def at_the_top() -> Iterator[str]:
    for name in ("theme", "bell", "keys", "recordings", "contexts"):
        yield f"{name}x: 3"
    yield from ("theme: 3", "keys: 3", "keys: [a]", "recordings: 3", "recordings: [a]")
    for value in (
        "older_than: 3x",
        "older_than: -3",
        "keep: abc",
        "lakes: a",
        "force: 3",
        "forse: 1",
    ):
        yield f"recordings:\n  {value}"
    yield from (f"keys:\n  app.quit: {value}" for value in ("", "[]", "true"))


WHOLE = (
    "contexts:\n\tprod:\n",
    "contexts: {prod: \n",
    "contexts: *x\n",
    "contexts: !foo x\n",
    "- a\n",
    "text\n",
    "theme: a\n---\ntheme: b\n",
    "contexts:\n  prod: \x01\n",
    "theme: 'abc\n",
    "theme: %x\n",
    "contexts:\n  prod:\n    properties:\n     a: 1\n      b: 2\n",
    "theme: 2020-99-99\n",
    "contexts:\n  prod:\n    <<: 3\n",
    "? [a]\n: 3\n",
    "theme: *\n",
    "contexts:\n  a: {}\n  a: {}\n",
    "contexts:\n  prod:\n",
    "contexts:\n  prod: kafka-1:9092\n",
    "contexts:\n  - name: prod\n",
    "contexts:\n  prod:\n    properties: 3\n",
    "contexts: " + "{a: " * 40 + "1" + "}" * 40 + "\n",
)
MISTAKES = (
    *(under("properties", text) for text in of_properties()),
    *(under("context", text) for text in of_contexts()),
    *(under("top", text) for text in at_the_top()),
    *WHOLE,
)


def test_every_mistake_in_the_config_file_names_the_line_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KTUI_CONFIG_DIR", str(tmp_path))
    file, wrong = tmp_path / "config.yaml", []

    for text in MISTAKES:
        file.write_text(text)
        try:
            choose_cluster(None, None, "prod")
        except (FileProblem, BadInput) as problem:
            words = str(problem)
            place = re.match(rf"{re.escape(str(file))}:(\d+)(?:, context prod)?: ", words)
            if place is None or not A_FIX.search(words) or int(place[1]) > text.count("\n") + 1:
                wrong.append((text, words))
        else:
            wrong.append((text, "accepted"))

    assert len(MISTAKES) > 400
    assert wrong == []


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ("client.id: ''", 7),
        ("client.id: ada\nsocket.timeout.ms: soon", 8),
        (f"{SASL}sasl.password: {{env: NOT_SET_HERE}}", 10),
    ],
)
def test_a_mistake_under_properties_names_its_own_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, line: int
) -> None:
    monkeypatch.setenv("KTUI_CONFIG_DIR", str(tmp_path))
    file = tmp_path / "config.yaml"
    file.write_text(under("properties", setting))

    with pytest.raises(BadInput, match=re.escape(f"{file}:{line}, context prod: ")):
        choose_cluster(None, None, "prod")


def test_a_missing_config_file_is_not_called_one_without_contexts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KTUI_CONFIG_DIR", str(tmp_path))

    with pytest.raises(FileProblem, match=r"no context 'prod'\. There is no such file\. Name the"):
        choose_cluster(None, None, "prod")
    with pytest.raises(BadInput, match=r"There is no .*config\.yaml yet"):
        choose_cluster(None, None, None)
