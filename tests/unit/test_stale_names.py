"""scripts/stale_names.py finds what docs and docstrings name although it does not exist."""

from __future__ import annotations

from pathlib import Path

import pytest
from stale_names import in_docstrings, in_pages

MODULE = '''
from click import ClickException

class Full(ValueError):
    """There is no room."""

class Late(Full):
    """It is too late."""

class Limits:
    """Limits.

    Args:
        most: how many.
    """

    def __init__(self, most: int) -> None:
        self.most = most

def check(limits: Limits) -> None:
    """Check limits.

    Args:
        limits: those in force. They apply at once:
            not later: never.

    Raises:
        Full, Late: there is no room.
        ClickException: they cannot be read.
        KeyError: they are missing.
    """
'''
PAGE = """
| a limit | `Limits` of `pacing/limits.py`; `room.py` and `limits.py` of `pacing/` |

Judged in tests/support, run by `python -m support.judge`. `--json` is an option.
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    pacing, support = tmp_path / "src" / "ktui" / "pacing", tmp_path / "tests" / "support"
    for folder in (pacing, support, tmp_path / "docs", tmp_path / "bench"):
        folder.mkdir(parents=True)
    (pacing / "limits.py").write_text(MODULE)
    (pacing / "room.py").write_text("")
    (support / "judge.py").write_text("")
    (tmp_path / "docs" / "architecture.md").write_text(PAGE)
    (tmp_path / "CONTRIBUTING.md").write_text("tests/support/judge.py\n")
    return tmp_path


def test_nothing_is_found_where_every_name_exists(root: Path) -> None:
    assert [*in_pages(root), *in_docstrings(root)] == []


@pytest.mark.parametrize(
    ("stale", "found"),
    [
        ("`pacing/roster.py`", "no pacing/roster.py"),
        ("`pacing/` has `steps.py`", "no steps.py"),
        ("tests/support/gone.py", "no tests/support/gone.py"),
        ("python -m support.gone", "no module support.gone"),
        ("`Roster`", "nothing is called Roster"),
        ("`ROOM` of `pacing/room.py`", "no ROOM in pacing/room.py"),
    ],
)
def test_a_name_on_a_page_that_does_not_exist_is_found(root: Path, stale: str, found: str) -> None:
    (root / "CONTRIBUTING.md").write_text(f"first\n{stale}\n")

    assert f"CONTRIBUTING.md:2: {found}" in [*in_pages(root)]


def test_a_module_on_any_page_that_does_not_exist_is_found(root: Path) -> None:
    (root / "docs" / "runs.md").write_text("`pacing/limits.py` and `pacing/gone.py`\n")

    assert [*in_pages(root)] == ["docs/runs.md: no pacing/gone.py"]


@pytest.mark.parametrize(
    ("old", "stale", "found"),
    [
        ("        KeyError: they", "        Gone: they", "raises Gone, which is no exception here"),
        ("        Full, Late: there", "        Full, Limits: there", "raises Limits, which is no"),
        ("        limits: those", "        limit: those", "has no argument limit"),
        ("        most: how many", "        more: how many", "has no argument more"),
    ],
)
def test_a_name_in_a_docstring_that_does_not_exist_is_found(
    root: Path, old: str, stale: str, found: str
) -> None:
    (root / "src" / "ktui" / "pacing" / "limits.py").write_text(MODULE.replace(old, stale))

    (line,) = in_docstrings(root)

    assert line.startswith("src/ktui/pacing/limits.py:")
    assert found in line
