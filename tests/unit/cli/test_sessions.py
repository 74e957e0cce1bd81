"""What verbs print, send and write: sessions in golden files, `golden/*.txt` here and below."""

from contextlib import closing
from pathlib import Path

import pytest

from support.cli.session_sandbox import ACTS, SessionSandbox
from support.golden import Acts, Golden, sessions
from support.recordings.recordings import a_recording
from support.simulated.observations import a_move, an_observation

FOLDERS = ("alter", "doctor", "plan", "run", "start")


@pytest.mark.parametrize("name", sessions(__file__, *FOLDERS))
def test_a_session_prints_and_sends_what_its_file_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, golden: Golden
) -> None:
    with closing(SessionSandbox(tmp_path, monkeypatch)) as sandbox:
        golden.play(name, sandbox, ACTS)


class Folder:
    """A folder of files, of the configuration and of the state, without a cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fixed = {str(folder): "FOLDER"}
        self.environment = {"KTUI_CONFIG_DIR": str(folder), "KTUI_STATE_DIR": str(folder)}

    @property
    def condition(self) -> dict[str, str]:
        return {"files": " ".join(sorted(str(path) for path in self.folder.rglob("*")))}

    def record(self) -> None:
        """Record a move for half a minute."""
        a_recording(self.folder, (an_observation([a_move()], float(n)) for n in range(30)))


WITHOUT_CLUSTER: Acts = {"write": ACTS["write"], "make": ACTS["make"], "record": Folder.record}


@pytest.mark.parametrize("name", sessions(__file__))
def test_a_session_without_a_cluster_prints_what_its_file_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, golden: Golden
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ktui.cli.reassign.command.act", lambda _arguments: 0)
    golden.play(name, Folder(tmp_path), WITHOUT_CLUSTER)
