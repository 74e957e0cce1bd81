from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from ktui.cli.context.errors import BadInput
from ktui.cli.main import ktui

CONFIG = """
contexts:
  prod:
    read_only: true
    properties: {bootstrap.servers: "127.0.0.1:1"}
"""


def test_a_read_only_context_refuses_a_writable_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG, encoding="utf-8")
    monkeypatch.setenv("KTUI_CONFIG_DIR", str(tmp_path))
    result = CliRunner().invoke(ktui, ["watch", "--write", "--context", "prod"])
    assert isinstance(result.exception, BadInput)
    assert "context prod is read_only" in str(result.exception)


def test_a_filter_that_the_view_would_not_take_is_refused_at_once() -> None:
    result = CliRunner().invoke(ktui, ["watch", "--filter", "broker:x"])
    assert isinstance(result.exception, BadInput)
    assert "--filter: broker:x is not a number, as in broker:3" in str(result.exception)


def test_the_help_states_that_only_write_lets_the_view_change_anything() -> None:
    words = " ".join(CliRunner().invoke(ktui, ["watch", "--help"]).output.split())
    assert "Changes nothing on the cluster, unless --write allows the view to start" in words
