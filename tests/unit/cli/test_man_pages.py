"""The manual pages match the help."""

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
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages as `make man` generates them: in a fresh process."""
    folder = tmp_path_factory.mktemp("man")
    run(sys.executable, ROOT / "scripts" / "man_pages.py", folder)
    return folder


def test_every_verb_has_a_man_page_that_matches_its_help(generated: Path) -> None:
    pages, committed = (
        {page.name: page.read_text() for page in each.iterdir()} for each in (generated, PAGES)
    )

    assert pages.keys() == committed.keys()
    assert len(pages) > 30
    stale = [name for name in pages if pages[name] != committed[name]]
    assert stale == [], "the help has changed: run `make man`"


def test_the_man_pages_are_readable_with_groff_and_mandoc() -> None:
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
