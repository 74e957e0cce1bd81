"""The pages in docs/ name only tests, files and pages that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    named = set(re.findall(r"`(test_\w+)`", page.read_text(encoding="utf-8")))
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    defined = {name for source in sources for name in re.findall(r"def (test_\w+)", source)}

    assert named <= defined, sorted(named - defined)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_links_to_exists(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text(encoding="utf-8"))

    missing = [link for link in links if not (page.parent / link).exists()]

    assert missing == []


def test_the_site_the_index_and_the_readme_put_every_page_into_the_same_group() -> None:
    site = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    groups = {name: pages for one in site["project"]["nav"][1:] for name, pages in one.items()}
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", index, re.MULTILINE | re.DOTALL)
    paragraphs = re.findall(r"^\*\*(\w+)\*\*: (.+?)\n\n", readme, re.MULTILINE | re.DOTALL)

    assert list(groups) == ["Start", "Operate", "Analyse", "Extend"]
    assert {*chain(*groups.values())} == {page.name for page in PAGES if page.parent != ROOT} - {
        "index.md"
    }
    assert {name: re.findall(r"\]\(([\w-]+\.md)\)", text) for name, text in sections} == groups
    assert {
        name: re.findall(r"\]\(docs/([\w-]+\.md)\)", text) for name, text in paragraphs
    } == groups


def test_the_pages_build_a_site_without_a_broken_link(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)

    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert built.returncode == 0, built.stdout + built.stderr
    pages = {page.stem for page in (tmp_path / "docs").glob("*.md")} - {"index"}
    built_pages = {page.parent.name for page in (tmp_path / "build" / "site").glob("*/index.html")}
    assert pages <= built_pages
