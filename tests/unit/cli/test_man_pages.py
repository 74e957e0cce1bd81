"""The manual pages say what the help says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import click
import man_pages
import pytest

from ktui.cli.main import ktui

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "man"
CONTEXTS = list(man_pages.contexts(ktui, "ktui"))


def file_of(context: click.Context) -> Path:
    return PAGES / f"{man_pages.name_of(context)}.1"


def test_every_verb_has_a_page_and_every_page_a_verb() -> None:
    assert {file_of(context) for context in CONTEXTS} == set(PAGES.iterdir())


@pytest.mark.parametrize("context", CONTEXTS, ids=lambda context: context.command_path)
def test_a_page_says_what_the_help_of_its_verb_says(context: click.Context) -> None:
    written = file_of(context).read_text(encoding="utf-8")

    assert written == man_pages.page(context), "the help has changed: run `make man`"


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
