"""ktui as its users install it: from a wheel, into an empty virtual environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ktui import __version__

ROOT = Path(__file__).parents[2]
CLUSTER = "5L6g3nShT-eMCtK--X86sw"
RECORDINGS = ROOT / "tests" / "unit" / "recording" / "fixtures"
CHECK_SCRIPT: Mapping[str, tuple[str, ...]] = {
    "bash": ("bash", "-n"),
    "zsh": ("zsh", "-n"),
    "fish": ("fish", "--no-execute"),
}
"""How each shell checks a script without running it."""
COMPLETE_STA = """
source <(ktui completion bash)
COMP_WORDS=(ktui sta) COMP_CWORD=1
_ktui_completion ktui
echo "${COMPREPLY[@]}"
"""


def output_of(*command: str | Path, env: Mapping[str, str] | None = None) -> str:
    """Run a command that must succeed, and return its output."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pages_of(folder: Path) -> dict[str, str]:
    return {page.name: page.read_text(encoding="utf-8") for page in folder.iterdir()}


class Installed:
    """A virtual environment with only ktui and its dependencies."""

    def __init__(self, folder: Path, what: str) -> None:
        self.folder = folder
        self._make(what)

    def _make(self, what: str) -> None:
        chosen = ("--constraint", ROOT / "constraints.txt", what)
        if uv := shutil.which("uv"):
            output_of(uv, "venv", "--python", sys.executable, self.folder)
            output_of(uv, "pip", "install", "--python", self.folder / "bin" / "python", *chosen)
        else:
            output_of(sys.executable, "-m", "venv", "--without-pip", self.folder)
            pip = (sys.executable, "-m", "pip", "--python", self.folder / "bin" / "python")
            output_of(*pip, "install", "--no-compile", "--disable-pip-version-check", *chosen)

    @property
    def env(self) -> dict[str, str]:
        """The variables of a shell in which the environment is active, with no settings of ktui."""
        return {"PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": ""}

    def ktui(self, *arguments: str) -> str:
        """Run ktui, which must succeed, and return its output."""
        return output_of(self.folder / "bin" / "ktui", *arguments, env=self.env)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    if uv := shutil.which("uv"):
        output_of(uv, "build", "--wheel", "--out-dir", folder, ROOT)
    else:
        empty = tmp_path_factory.mktemp("empty")  # as a user's may be
        output_of(sys.executable, "-m", "venv", "--without-pip", empty)
        pip = (sys.executable, "-m", "pip", "--python", empty / "bin" / "python")
        output_of(*pip, "wheel", "--no-deps", "--wheel-dir", folder, ROOT)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("base") / "venv", str(wheel))


def test_an_installed_ktui_knows_its_version_and_each_verb(installed: Installed) -> None:
    assert installed.ktui("--version") == f"ktui, version {__version__}\n"
    assert "cancel" in installed.ktui("--help")  # which loads every verb
    assert "SCENARIO" in installed.ktui("demo", "--help")
    assert "drain-a-broker" in installed.ktui("demo", "--list")


def test_an_installed_ktui_has_all_themes(installed: Installed) -> None:
    load = "from ktui.tui.draw.themes import load_themes; print(*load_themes(None).themes)"

    loaded = output_of(installed.folder / "bin" / "python", "-c", load, env=installed.env)

    assert set(loaded.split()) == {theme.stem for theme in (ROOT / "themes").glob("*.yaml")}


@pytest.mark.parametrize("shell", CHECK_SCRIPT)
def test_an_installed_ktui_prints_a_valid_completion_script(
    installed: Installed, shell: str, tmp_path: Path
) -> None:
    script = tmp_path / "script"
    script.write_text(installed.ktui("completion", shell), encoding="utf-8")

    assert "ktui" in script.read_text(encoding="utf-8")
    if shutil.which(shell):
        output_of(*CHECK_SCRIPT[shell], script)


def test_bash_completes_verbs_of_an_installed_ktui(installed: Installed) -> None:
    assert output_of("bash", "-c", COMPLETE_STA, env=installed.env) == "start status\n"


def test_an_installed_ktui_has_a_manual_page_for_each_verb(
    installed: Installed, tmp_path: Path
) -> None:
    generated = tmp_path / "man"
    output_of(sys.executable, ROOT / "scripts" / "man_pages.py", generated)

    pages = pages_of(installed.folder / "share" / "man" / "man1")

    assert len(pages) > 30
    assert pages == pages_of(generated)


def test_an_installed_ktui_without_the_pipeline_names_the_extra(installed: Installed) -> None:
    command = (installed.folder / "bin" / "ktui", "pipeline", "run")

    done = subprocess.run(
        command, env={**os.environ, **installed.env}, capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert "pip install 'ktui[pipeline]'" in done.stderr


@pytest.mark.soak
def test_the_extra_pipeline_makes_tables_and_a_report(wheel: Path, tmp_path: Path) -> None:
    installed = Installed(tmp_path / "venv", f"{wheel}[pipeline]")
    lake, page = ("--lake", str(tmp_path / "lake")), tmp_path / "report.html"

    installed.ktui("pipeline", "run", "--recordings", str(RECORDINGS), *lake)
    installed.ktui("pipeline", "report", "--cluster", CLUSTER, "-o", str(page), *lake)

    assert "samples" in installed.ktui("pipeline", "check", *lake)
    assert '"clusters":' in installed.ktui("insights", *lake, "--json")
    report = page.read_text(encoding="utf-8")
    assert f"<h1>Cluster {CLUSTER}</h1>" in report
    assert "2 moves of partitions: 1 still moving, 1 done." in report
    assert '<div class="drawing" id="lanes-drawing"' in report
    assert "<td>orders-0</td>" in report
    assert len(report) > 1_000_000  # plotly.js is in it
