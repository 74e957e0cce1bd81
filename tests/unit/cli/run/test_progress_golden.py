"""What programs read of a run's progress is the same as ever, or the change is written down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ktui.cli.main import ktui
from ktui.execution.host.state_dir import StateDir
from support.cli.progress_golden import FOLDER, printed
from support.journals.journals import accepted, step, written
from support.journals.throttled_journals import throttled

PRINTED = printed()


@pytest.mark.parametrize("name", PRINTED)
def test_what_programs_read_of_a_run_is_what_the_file_has(name: str) -> None:
    """If this fails, tests/support/cli/progress_golden.py explains what to do."""
    assert PRINTED[name] == (FOLDER / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("verb", "name"),
    [
        (("status", "drain"), "status.json"),
        (("runs",), "runs.json"),
        (("throttle", "drain"), "throttle.json"),
        (("schedule", "drain"), "schedule.json"),
    ],
)
def test_each_verb_prints_the_fields_of_its_file_in_their_order(
    tmp_path: Path, verb: tuple[str, ...], name: str
) -> None:
    state = StateDir(tmp_path / "state")
    run = state.create_run("drain")
    written(run.journal, [*throttled(), step(1), accepted(1)]).close()

    done = CliRunner().invoke(ktui, [*verb, "--json", "--state-dir", str(state.path)])

    now, kept = json.loads(done.stdout), json.loads((FOLDER / name).read_text(encoding="utf-8"))
    assert list(now) == list(kept)
    for part in ("runs", "in_flight", "throttle", "schedule"):
        assert _fields(now.get(part)) == _fields(kept.get(part))


def _fields(value: Any) -> list[str]:
    return list(value[0] if isinstance(value, list) else value or ())
