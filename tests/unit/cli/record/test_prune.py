"""Recordings are pruned by age and size, and what a killed recorder left is found."""

import json
import os
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ktui.cli import record as record_command
from ktui.cli.context.terminal import BadInput
from ktui.cli.main import ktui
from ktui.cli.options.outward import recorder
from ktui.cli.record_prune import prune_as_configured, record_run
from ktui.cli.watch import command as watch
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.events import JournalEntry
from ktui.execution.run.run import Run
from ktui.pipeline.lake import manifest as manifests
from ktui.simulated.clock import VirtualClock
from support.cli.call_ktui import Done, NamedCluster, call_ktui
from support.journals.journals import a_start, ended, written
from support.recordings.recordings import Recording, files_in, good, read_into_lake
from support.simulated.moving_clusters import a_cluster

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


def test_a_session_with_a_segment_that_no_lake_has_read_stays_whole(recordings: Recordings) -> None:
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


Begin = Callable[[StateDir], str]  # begins to record, and returns the warnings


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateDir:
    """A state directory with a recording that was last written in 1970, and a cluster to record."""
    named = NamedCluster(reader=a_cluster().reader)
    monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)
    monkeypatch.setenv("KTUI_CONFIG_DIR", str(tmp_path))
    state = StateDir(tmp_path / "state")
    old = Recording(state.recordings)
    old.looks(1)
    old.recorder.close()
    for file in files_in(state.recordings):
        os.utime(file, (0, 0))
    return state


def _config(state: StateDir, recordings: str) -> None:
    (state.path.parent / "config.yaml").write_text(f"recordings: {{{recordings}}}")


def _old(state: StateDir) -> list[Path]:
    return [file for file in files_in(state.recordings) if file.stat().st_mtime == 0]


def _called(state: StateDir, *words: str) -> str:
    done = CliRunner().invoke(ktui, [*words, "--context", "prod", "--state-dir", str(state.path)])
    assert done.exit_code == 0, done.output
    return done.stderr


def record(state: StateDir, *options: str) -> str:
    async def nothing(*_: object, **__: object) -> int:
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_command, "record", nothing)
        return _called(state, "record", *options)


def watch_recorded(state: StateDir) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch, "need_terminal", lambda: None)
        patch.setattr(watch, "show", lambda _: None)
        return _called(state, "watch", "--record")


def engine(state: StateDir, *, is_recorded: bool = True) -> str:
    entries = [JournalEntry(n, datetime.now(UTC), event) for n, event in enumerate(a_start(), 1)]
    run = Run("drain").fold(entries)
    with record_run(state, run, "prod", a_cluster().clock, record=is_recorded):
        return ""


BEGINNINGS = pytest.mark.parametrize("begin", [record, watch_recorded, engine])


@BEGINNINGS
def test_what_begins_to_record_first_prunes_as_the_config_file_says(
    state: StateDir, begin: Begin
) -> None:
    _config(state, "older_than: 30d, force: on")

    begin(state)

    assert _old(state) == []


@BEGINNINGS
def test_without_limits_nothing_is_pruned(state: StateDir, begin: Begin) -> None:
    begin(state)

    assert _old(state)


@BEGINNINGS
def test_what_no_lake_has_read_stays_with_a_warning(
    state: StateDir, begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    _config(state, "older_than: 30d")

    said = begin(state)

    assert _old(state)
    assert "because no lake has read them" in said + caplog.text


def test_an_engine_that_records_nothing_prunes_nothing(state: StateDir) -> None:
    _config(state, "older_than: 30d, force: on")

    engine(state, is_recorded=False)

    assert _old(state)


@pytest.mark.parametrize("limit", [("--older-than", "30d"), ("--keep", "1")])
def test_options_of_record_limit_recordings_like_those_of_prune(
    state: StateDir, limit: tuple[str, str]
) -> None:
    lake = state.path.parent / "lake"
    read_into_lake(_old(state), lake)
    _config(state, f"keep: 1TB, lakes: [{lake}]")

    record(state, *limit)

    assert _old(state) == []


def test_options_of_record_do_not_take_the_force_of_the_config_file(state: StateDir) -> None:
    _config(state, "keep: 1TB, force: on")

    assert "because no lake has read them" in record(state, "--older-than", "30d")
    assert _old(state)


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (("--keep", "much"), "--keep: expected a size"),
        (("--older-than", "old"), "--older-than: expected a time"),
        (("--keep", "1GB", "--to", "there"), "ktui record prune --recordings DIR"),
        (("--keep", "1GB", "--from", "."), "leave out cluster, limits"),
    ],
)
def test_limits_of_record_that_cannot_be_meant_are_refused(
    words: tuple[str, ...], fix: str
) -> None:
    error = CliRunner().invoke(ktui, ["record", *words]).exception

    assert isinstance(error, BadInput)
    assert fix in str(error)


def left_behind(folder: Path) -> Path:
    """Return the file of a recorder that died after a head and three polls."""
    earlier = Recording(folder)
    earlier.looks(3)
    earlier.die()
    (file_left,) = files_in(folder)
    assert file_left.suffix == ".tmp"
    return file_left


def begin(state: Path, to: Path | None = None) -> None:
    """Start to record, as both verbs do."""
    recorder(StateDir(state), to, VirtualClock(), cluster="prod", verb="record", redact=False)


def test_a_recording_that_was_cut_off_is_repaired(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file_left = left_behind(tmp_path / "state" / "recordings")

    begin(tmp_path / "state")

    assert files_in(file_left.parent) == [file_left.with_suffix("")]
    assert len(good(file_left.with_suffix(""))) == 4
    assert capsys.readouterr().err == ""


def test_a_recording_that_cannot_be_repaired_is_kept_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file_left = left_behind(tmp_path / "given")
    file_left.write_bytes(b"no gzip")

    begin(tmp_path / "state", tmp_path / "given")

    warning = capsys.readouterr().err
    assert warning.startswith(f"warning: an earlier recording stays cut off: {file_left}:1: ")
    assert file_left.read_bytes() == b"no gzip"


def test_the_files_of_a_live_recorder_are_left_alone(tmp_path: Path) -> None:
    live = Recording(tmp_path / "given")
    live.looks(3)
    (file,) = files_in(tmp_path / "given")

    begin(tmp_path / "state", tmp_path / "given")

    assert files_in(tmp_path / "given") == [file]
    live.looks(1)
    assert len(good(file)) == 5
