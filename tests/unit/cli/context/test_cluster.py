"""A cluster goes by the name that its user gave."""

from pathlib import Path

import pytest

from ktui.cli.context.cluster import choose_cluster


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "contexts: {prod: {properties: {bootstrap.servers: 'one:9092,two:9092'}}}"
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("KTUI_CONFIG_DIR", str(tmp_path))
    monkeypatch.delenv("KTUI_CONTEXT", raising=False)
    monkeypatch.delenv("KTUI_BOOTSTRAP_SERVER", raising=False)


def test_a_cluster_is_named_by_its_context_or_its_address() -> None:
    assert choose_cluster(None, None, "prod").name == "prod"
    assert choose_cluster("three:9092,four:9092", None, None).name == "three:9092"


def test_a_context_at_another_address_is_named_with_that_address() -> None:
    cluster = choose_cluster("tunnel:9092", None, "prod")

    assert cluster.name == "prod at tunnel:9092"
    assert cluster.connection.bootstrap_servers == ["tunnel:9092"]


def test_the_environment_names_a_cluster_only_without_an_option(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KTUI_CONTEXT", "prod")
    monkeypatch.setenv("KTUI_BOOTSTRAP_SERVER", "elsewhere:9092")

    assert choose_cluster("three:9092", None, None).name == "three:9092"
    servers = choose_cluster(None, None, "prod").connection.bootstrap_servers
    assert servers == ["one:9092", "two:9092"]
    monkeypatch.delenv("KTUI_BOOTSTRAP_SERVER")
    assert choose_cluster(None, None, None).name == "prod"
