"""What verbs print, send and write: sessions in golden files, `golden/*.txt` of these folders."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from support.cli.session_sandbox import ACTS, SessionSandbox
from support.golden import Golden, sessions

FOLDERS = ("alter", "doctor", "plan", "run", "start")


@pytest.mark.parametrize("name", sessions(__file__, *FOLDERS))
def test_a_session_prints_and_sends_what_its_file_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, golden: Golden
) -> None:
    with closing(SessionSandbox(tmp_path, monkeypatch)) as sandbox:
        golden.play(name, sandbox, ACTS)
