"""Where runs live: a folder each, on a disk of this machine, for their owner's eyes only."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from ktui import durable
from ktui.cli.main import ktui
from ktui.execution.host import state_dir as mounts
from ktui.execution.host import state_dir as statedir
from ktui.execution.host.launch import write_rollback
from ktui.execution.host.ownership import CancelGateFile, own_run
from ktui.execution.host.state_dir import StateDir, StateDirProblem, default_name, resolve_state_dir
from ktui.execution.run.run import Run
from ktui.simulated.clock import FIRST_MOMENT
from support.journals.journals import planned, written


@pytest.fixture
def here(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


def mounted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *lines: str) -> None:
    table = tmp_path / "mounts"
    table.write_text("".join(f"{line} rw 0 0\n" for line in lines), encoding="utf-8")
    monkeypatch.setattr(mounts, "MOUNTS", table)


def test_a_run_gets_a_folder_with_its_journal_and_its_log_and_a_lock_beside_it(
    here: StateDir,
) -> None:
    run = here.create_run("drain-b3")

    assert run.name == "drain-b3"
    assert run.path == here.path / "runs" / "drain-b3"
    assert run.path.is_dir()
    assert {path.parent for path in (run.journal, run.log, run.rollback)} == {run.path}
    assert run.lock == here.locks / "run-drain-b3.lock"
    assert here.run_dirs() == [run]


def test_only_its_owner_may_read_the_state_directory(here: StateDir) -> None:
    run = here.create_run("drain-b3")

    assert {path.stat().st_mode & 0o777 for path in (here.path, here.runs, run.path)} == {0o700}


def test_everything_created_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o000)
    try:
        deep = StateDir(tmp_path / "home" / "state" / "ktui")
        run = deep.create_run("drain-b3")
        write_rollback(run, Run("drain-b3"))
        CancelGateFile(deep, "cluster").shut(FIRST_MOMENT, "ada@ops1 (1)", "stop")
        own_run(run).release()
        written(run.journal, [planned(1)]).close()
    finally:
        os.umask(before)

    made = [path for path in (tmp_path / "home").rglob("*") if path.exists()]
    modes = {path.name: oct(path.stat().st_mode & 0o077) for path in made}
    assert {"state", "rollback.json", "journal.db", "gates", "cluster.json"} <= set(modes)
    assert set(modes.values()) == {"0o0"}


def test_the_folders_of_a_run_outlast_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(durable, "sync_folder", synced.append)
    monkeypatch.setattr(statedir, "sync_folder", synced.append)

    here = StateDir(tmp_path / "home" / "state")
    here.create_run("drain-b3")

    assert synced == [tmp_path, tmp_path / "home", here.path, here.runs]


def test_a_taken_run_name_is_refused_with_advice(here: StateDir) -> None:
    here.create_run("drain-b3")

    with pytest.raises(StateDirProblem) as refused:
        here.create_run("drain-b3")

    assert "there is a run drain-b3 already" in str(refused.value)
    assert "--name" in str(refused.value)
    assert "ktui resume drain-b3" in str(refused.value)


@pytest.mark.parametrize("name", ["a", "drain-b3", "2026-11-21", "_x", "a.b.c", "A" * 100])
def test_a_run_name_may_have_letters_digits_and_signs(here: StateDir, name: str) -> None:
    assert here.create_run(name).path.is_dir()


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", ".hidden", "-x", "a/b", "../up", "a b", "é", "a\nb", "\x1b[31m", "A" * 101],
)
def test_any_other_run_name_is_refused_with_a_printable_message(here: StateDir, name: str) -> None:
    with pytest.raises(StateDirProblem, match="name") as refused:
        here.create_run(name)

    assert str(refused.value).isprintable()
    assert not here.path.exists()


@pytest.mark.parametrize(
    ("plan", "name"),
    [
        ("plans/drain-b3.json", "drain-b3"),
        ("my plan (2).json", "my-plan-2"),
        (".hidden.json", "hidden"),
        ("-", "run"),
        ("déjà vu.json", "d-j-vu"),
        ("€.json", "run"),
        (f"{'x' * 300}.json", "x" * 100),
        (f"{'x' * 99}. .json", "x" * 99),
    ],
)
def test_a_run_is_named_after_its_plan_without_forbidden_characters(
    here: StateDir, plan: str, name: str
) -> None:
    assert default_name(Path(plan)) == name
    assert here.create_run(name).path.is_dir()


def test_the_state_dir_option_takes_precedence_over_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KTUI_STATE_DIR", str(tmp_path / "environment"))

    assert resolve_state_dir(tmp_path / "option").path == tmp_path / "option"
    assert resolve_state_dir(None).path == tmp_path / "environment"


def test_an_empty_option_is_refused_and_does_not_mean_the_current_folder() -> None:
    called = CliRunner().invoke(ktui, ["runs", "--state-dir", ""])

    assert isinstance(called.exception, StateDirProblem)
    assert str(called.exception) == "--state-dir is empty. Name a folder, or leave the option out"


def test_an_empty_environment_variable_counts_as_unset(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KTUI_STATE_DIR", "")
    monkeypatch.setattr("platformdirs.user_state_path", lambda name: tmp_path / name)

    assert resolve_state_dir(None).path == tmp_path / "ktui"


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o1777])
def test_a_state_directory_writable_by_others_is_refused_with_the_fix(
    here: StateDir, mode: int
) -> None:
    run = here.create_run("drain-b3")
    here.path.chmod(mode)

    for use in (lambda: here.create_run("another"), lambda: own_run(run)):
        with pytest.raises(StateDirProblem, match="others may write to it") as refused:
            use()
        assert f"chmod go-w {here.path}" in str(refused.value)


def test_the_state_directory_of_somebody_else_is_refused_by_name(
    here: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = here.create_run("drain-b3")
    monkeypatch.setattr("os.geteuid", lambda: 65_000)

    for use in (lambda: here.create_run("another"), lambda: own_run(run)):
        with pytest.raises(StateDirProblem, match="and ktui runs as user 65000"):
            use()


def test_root_is_warned_that_a_state_directory_belongs_to_somebody_else(
    here: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.create_run("drain-b3")
    mine = here.path.stat()
    monkeypatch.setattr("ktui.execution.host.state_dir._stat", lambda _path: as_if_of(mine, 65_000))
    monkeypatch.setattr("os.geteuid", lambda: 0)

    called = CliRunner().invoke(ktui, ["runs", "--state-dir", str(here.path)])

    assert called.exit_code == 0
    assert "belongs to user 65000, and ktui runs as root" in called.stderr
    assert here.create_run("another").path.is_dir()


def as_if_of(found: os.stat_result, user: int) -> os.stat_result:
    return os.stat_result((*found[:4], user, *found[5:]))


def test_the_state_directory_defaults_to_where_the_platform_keeps_state(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KTUI_STATE_DIR", raising=False)
    monkeypatch.setattr("platformdirs.user_state_path", lambda name: tmp_path / name)

    assert resolve_state_dir(None).path == tmp_path / "ktui"


def test_listing_runs_creates_no_folder(here: StateDir) -> None:
    assert here.run_dirs() == []
    assert not here.path.exists()


@pytest.mark.parametrize(
    "kind",
    [
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "lustre", "virtiofs", "vboxsf"),
        *("fuse.sshfs", "fuse.juicefs", "fuse.wekafs", "wekafs", "fuse.vmhgfs-fuse"),
    ],
)
def test_a_network_file_system_is_refused_and_the_option_named(
    here: StateDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    mounted(monkeypatch, tmp_path, "/dev/sda / ext4", f"server:/home {tmp_path} {kind}")

    with pytest.raises(StateDirProblem) as refused:
        here.create_run("drain-b3")

    assert f"on a network file system ({kind})" in str(refused.value)
    assert "--state-dir" in str(refused.value)
    assert "KTUI_STATE_DIR" in str(refused.value)
    assert not here.path.exists()


def test_a_state_directory_that_is_a_circular_link_is_named(tmp_path: Path) -> None:
    circle = tmp_path / "circle"
    circle.symlink_to(circle)

    with pytest.raises(StateDirProblem, match="circle"):
        StateDir(circle).create_run("drain-b3")


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "fuse.mergerfs"])
def test_a_local_file_system_is_accepted(
    here: StateDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    mounted(monkeypatch, tmp_path, "server:/ / nfs", f"/dev/sda {tmp_path} {kind}", "bad line")

    assert here.create_run("drain-b3").path.is_dir()


def test_the_innermost_and_last_mount_counts_even_under_a_name_with_spaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "my disk"
    point = str(folder).replace(" ", "\\040")
    mounted(monkeypatch, tmp_path, f"a {point} nfs", f"b {tmp_path} nfs4", f"c {point} ext4")

    assert mounts.file_system_of(folder / "state") == "ext4"
    assert mounts.file_system_of(tmp_path / "my disks") == "nfs4"


def test_no_folder_is_refused_when_the_system_lists_no_mounts(
    here: StateDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "MOUNTS", tmp_path / "none")

    assert here.create_run("drain-b3").path.is_dir()


def test_a_state_directory_that_cannot_be_created_is_named_with_the_option(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StateDirProblem) as refused:
        StateDir(tmp_path / "file" / "state").create_run("drain-b3")

    assert f"{tmp_path / 'file'}" in str(refused.value)
    assert "cannot be made" in str(refused.value)
    assert "--state-dir" in str(refused.value)


def test_an_unwritable_state_directory_is_named(
    here: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write anywhere

    with pytest.raises(StateDirProblem, match=r"may not be written to\. Name another: --state-dir"):
        here.create_run("drain-b3")


def test_a_state_directory_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").touch()

    with pytest.raises(StateDirProblem, match="cannot be read: Not a directory"):
        StateDir(tmp_path).run_dirs()
