"""The manual pages say what the help says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "man"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages as `make man` makes them: in a process of its own, where nothing ran before."""
    folder = tmp_path_factory.mktemp("man")
    run(sys.executable, ROOT / "scripts" / "man_pages.py", folder)
    return folder


def test_every_verb_has_a_page_that_says_what_its_help_says(made: Path) -> None:
    pages, written = (
        {page.name: page.read_text() for page in each.iterdir()} for each in (made, PAGES)
    )

    assert pages.keys() == written.keys()
    assert len(pages) > 30
    stale = [name for name in pages if pages[name] != written[name]]
    assert stale == [], "the help has changed: run `make man`"


def test_every_page_can_be_read_by_the_programs_that_show_pages_here() -> None:
    for program in filter(shutil.which, ("groff", "mandoc")):
        page = run(program, "-man", "-Tascii", PAGES / "ktui-start.1")

        text = re.sub(".\b", "", page)  # a letter is printed bold by printing it twice
        assert "SYNOPSIS\n       ktui start [OPTIONS] PLAN\n" in text
        assert "--stop-on-failure\n" in text
    if shutil.which("groff"):
        assert run("groff", "-man", "-ww", "-z", "-Tutf8", *sorted(PAGES.iterdir())) == ""


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
