"""`ktui record prune`: old recordings go, unless a recorder, a run or a lake still needs them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ktui.cli.record.prune import prune_as_configured
from ktui.execution.host.state_dir import StateDir
from ktui.pipeline.lake import manifest as manifests
from support.cli.call_ktui import Done, call_ktui
from support.journals.journals import a_start, ended, written
from support.recordings.lakes import read_into_lake
from support.recordings.recordings import Recording, files_in

DAY_S = 86_400


class Recordings:
    """A state directory with recordings, and what `ktui record prune` makes of it."""

    def __init__(self, folder: Path) -> None:
        self.state = StateDir(folder / "state")
        self.config = folder / "config"

    def session(
        self, folder: Path | None = None, *, days_old: float = 40.0, segments: int = 3
    ) -> list[Path]:
        """Record a session, and return its files, last written so many days ago."""
        recording = Recording(folder or self.state.recordings, longest_s=2.0)
        recording.looks(2 * segments)
        recording.recorder.close()
        session = recording.recorder.path
        assert session is not None
        for file in files_in(session):
            os.utime(file, (0, time.time() - days_old * DAY_S))
        return files_in(session)

    def read_into_lake(self, files: Iterable[Path], lake: Path | None = None) -> Path:
        """Let a lake know files, as the pipeline does."""
        return read_into_lake(files, lake or self.state.path / "lake")

    def prune(self, *options: str) -> Done:
        return call_ktui(
            *("record", "prune", *options, "--state-dir", str(self.state.path)),
            KTUI_CONFIG_DIR=str(self.config),
        )

    def pruned(self, *options: str) -> tuple[int, Any]:
        done = self.prune(*options, "--json")
        return done.returncode, json.loads(done.stdout)


@pytest.fixture
def recordings(tmp_path: Path) -> Recordings:
    return Recordings(tmp_path)


def test_what_is_old_and_read_by_the_lake_goes_with_its_folders(recordings: Recordings) -> None:
    old, new = recordings.session(), recordings.session(days_old=1)
    recordings.read_into_lake([*old, *new])

    done = recordings.prune("--older-than", "30d")

    assert done.returncode == 0
    assert done.stdout.startswith("removed 3 segments, ")
    assert "\nkept 3 segments, " in done.stdout
    assert "within the limits" in done.stdout
    assert files_in(recordings.state.recordings) == new
    assert not old[0].parent.exists()


def test_a_dry_run_reports_the_same_and_removes_nothing(recordings: Recordings) -> None:
    recordings.read_into_lake(recordings.session())
    before = files_in(recordings.state.path)

    code, foreseen = recordings.pruned("--older-than", "30d", "--dry-run")

    assert files_in(recordings.state.path) == before
    assert (code, foreseen["dry_run"]) == (0, True)
    done_code, done = recordings.pruned("--older-than", "30d")
    assert (done_code, done) == (code, foreseen | {"dry_run": False})


def test_the_oldest_segments_go_until_the_rest_fits(recordings: Recordings) -> None:
    older, newer = recordings.session(days_old=50), recordings.session(days_old=40)
    recordings.read_into_lake([*older, *newer])
    kept = [older[2], *newer]

    code, pruned = recordings.pruned("--keep", str(sum(each.stat().st_size for each in kept)))

    assert code == 0
    assert files_in(recordings.state.recordings) == sorted(kept)
    assert pruned["removed"]["segments"] == 2
    assert pruned["kept"]["young"]["segments"] == 4


def test_a_session_with_a_segment_that_no_lake_has_read_stays_whole(
    recordings: Recordings,
) -> None:
    files = recordings.session()
    recordings.read_into_lake(files[:2])

    code, pruned = recordings.pruned("--older-than", "30d")

    assert code == 3
    assert pruned["kept"]["unread"]["segments"] == 3
    assert files_in(recordings.state.recordings) == files
    assert {each["kept_for"] for each in pruned["files"]} == {"unread"}
    code, pruned = recordings.pruned("--older-than", "30d", "--force")
    assert (code, pruned["removed"]["segments"]) == (0, 3)


def test_any_named_lake_may_have_read_a_session_also_under_other_names(
    recordings: Recordings, tmp_path: Path
) -> None:
    files = recordings.session()
    copies = [tmp_path / "copies" / file.name for file in files]
    for file, copy in zip(files, copies, strict=True):
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(file.read_bytes())
    one = recordings.read_into_lake([], tmp_path / "one")
    other = recordings.read_into_lake(copies, tmp_path / "other")

    code, pruned = recordings.pruned(
        "--older-than", "30d", "--lake", str(one), "--lake", str(other)
    )

    assert (code, pruned["removed"]["segments"]) == (0, 3)


def test_the_session_of_a_live_recorder_stays_even_with_force(recordings: Recordings) -> None:
    live = Recording(recordings.state.recordings, longest_s=2.0)
    live.looks(6)
    before = files_in(recordings.state.recordings)
    recordings.read_into_lake(before)

    code, pruned = recordings.pruned("--keep", "0", "--force")

    assert code == 3
    assert pruned["kept"]["live"]["segments"] == len(before) > 2
    assert files_in(recordings.state.recordings) == before
    live.looks(6)
    assert live.recorder.problem is None


@pytest.mark.parametrize("over", [True, False], ids=["over", "not over"])
def test_the_recording_of_a_run_goes_once_the_run_is_over(
    recordings: Recordings, *, over: bool
) -> None:
    run = recordings.state.create_run("drain")
    files = recordings.session(run.recording)
    recordings.read_into_lake(files)
    written(run.journal, [*a_start(), *([ended(3)] if over else [])]).close()

    code, pruned = recordings.pruned("--older-than", "30d")

    assert code == (0 if over else 3)
    assert pruned["removed"]["segments"] == (3 if over else 0)
    assert pruned["kept"]["run"]["segments"] == (0 if over else 3)
    assert recordings.pruned("--older-than", "30d", "--force")[1]["kept"]["run"]["segments"] == 0
    assert run.journal.exists()


def test_recordings_in_another_folder_are_pruned_where_it_is_named(
    recordings: Recordings, tmp_path: Path
) -> None:
    recordings.session(tmp_path / "mine")

    code, pruned = recordings.pruned(
        "--older-than", "30d", "--force", "--recordings", str(tmp_path / "mine")
    )

    assert (code, pruned["removed"]["segments"]) == (0, 3)
    assert list((tmp_path / "mine").iterdir()) == []


def test_without_limits_those_of_the_config_file_hold(recordings: Recordings) -> None:
    recordings.session()
    young = recordings.session(days_old=1)
    recordings.config.mkdir()
    (recordings.config / "config.yaml").write_text(
        "recordings: {older_than: 30d, keep: 20GB, force: on}"
    )

    assert recordings.pruned()[0] == 0
    assert files_in(recordings.state.recordings) == young


def test_a_recorder_removes_what_the_config_file_says_and_warns_of_what_no_lake_has_read(
    recordings: Recordings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KTUI_CONFIG_DIR", str(recordings.config))
    recordings.config.mkdir()
    config = recordings.config / "config.yaml"
    files = recordings.session()

    assert prune_as_configured(recordings.state) == []
    config.write_text("recordings: {keep: lots}")
    (problem,) = prune_as_configured(recordings.state)
    assert problem.startswith(f"old recordings stay: {config}:1: recordings.keep: expected a size")
    config.write_text("recordings: {older_than: 30d}")
    (warning,) = prune_as_configured(recordings.state)
    assert "because no lake has read them" in warning
    assert files_in(recordings.state.recordings) == files
    recordings.read_into_lake(files)
    assert prune_as_configured(recordings.state) == []
    assert files_in(recordings.state.recordings) == []


def test_an_empty_folder_that_a_killed_pruning_left_is_removed(recordings: Recordings) -> None:
    for file in recordings.session():
        file.unlink()

    assert recordings.pruned("--older-than", "30d")[0] == 0
    assert list(recordings.state.recordings.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "prune needs a limit. Give --older-than 30d, --keep 20GB, or both"),
        (("--keep", "much"), "--keep: expected a size"),
        (("--older-than", "old"), "--older-than: expected a time"),
        (("--keep", "0", "--lake", "hdfs://n/lake"), "Copy the lake's ktui-lake.json"),
        (("--keep", "0", "--lake", "nowhere"), "nowhere is not a lake: it has no"),
        (("--keep", "0", "--recordings", "nowhere"), "nowhere: there is no such folder"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused_and_nothing_goes(
    recordings: Recordings, options: tuple[str, ...], words: str
) -> None:
    files = recordings.session()

    done = recordings.prune(*options)

    assert done.returncode == 2
    assert words in done.stderr
    assert files_in(recordings.state.recordings) == files


def test_a_damaged_lake_is_named_and_nothing_goes(recordings: Recordings) -> None:
    files = recordings.session()
    manifest = recordings.read_into_lake(files) / manifests.NAME
    manifest.write_text("{")

    done = recordings.prune("--older-than", "30d")

    assert done.returncode == 2
    assert f"{manifest}: the lake cannot be read" in done.stderr
    assert files_in(recordings.state.recordings) == files


def test_an_option_of_record_before_the_verb_is_refused() -> None:
    done = call_ktui("record", "--json", "prune", "--keep", "0")

    assert done.returncode == 2
    assert "Put --json after the verb: ktui record prune ... --json" in done.stderr
