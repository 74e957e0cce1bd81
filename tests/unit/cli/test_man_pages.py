"""The manual pages, as a wheel gets them from the help of the verbs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ktui.cli.main import NOT_FOR_PEOPLE, VERBS

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, made in a fresh process as a build makes them."""
    folder = tmp_path_factory.mktemp("man")
    run(sys.executable, ROOT / "scripts" / "man_pages.py", folder)
    return folder


def test_every_verb_that_the_help_shows_has_a_manual_page(generated: Path) -> None:
    pages = {page.name for page in generated.iterdir()}

    shown = {verb for verb in VERBS if verb not in NOT_FOR_PEOPLE}
    assert {"ktui.1", *(f"ktui-{verb}.1" for verb in shown)} <= pages
    assert "ktui-plan-drain.1" in pages


def test_the_man_pages_are_readable_with_groff_and_mandoc(generated: Path) -> None:
    for program in filter(shutil.which, ("groff", "mandoc")):
        page = run(program, "-man", "-Tascii", generated / "ktui-start.1")

        text = re.sub(".\b", "", page)  # a letter is printed bold by printing it twice
        assert "SYNOPSIS\n       ktui start [OPTIONS] PLAN\n" in text
        assert "--stop-on-failure\n" in text
    if shutil.which("groff"):
        assert run("groff", "-man", "-ww", "-z", "-Tutf8", *sorted(generated.iterdir())) == ""


def run(*command: str | Path) -> str:
    """Run a command that must succeed; return what it prints and its warnings."""
    done = subprocess.run(
        command,
        env={**os.environ, "GROFF_NO_SGR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return done.stdout
