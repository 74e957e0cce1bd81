"""What the verbs about runs print and send: sessions in golden files."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from support.cli.golden_runs import RunsSandbox
from support.golden import Acts, Golden, sessions

ACTS: Acts = {
    "run": RunsSandbox.run,
    "live": RunsSandbox.live,
    "dies": RunsSandbox.dies,
    "state-folder": lambda sandbox: sandbox.state.runs.mkdir(parents=True),
}


@pytest.mark.parametrize("name", sessions(__file__))
def test_a_session_prints_and_sends_what_its_file_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, golden: Golden
) -> None:
    with closing(RunsSandbox(tmp_path, monkeypatch)) as sandbox:
        golden.play(name, sandbox, ACTS)
