"""config.yaml names several clusters; its mistakes are reported by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.cli.context.config import Config, load_config
from ktui.inputfile import FileProblem

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
