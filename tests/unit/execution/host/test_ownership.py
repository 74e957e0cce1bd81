"""One process owns a run; when it dies, however suddenly, another may take it."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ktui.execution import RunProblem
from ktui.execution.forecast.run_progress import all_runs
from ktui.execution.host import ownership, state_dir
from ktui.execution.host.catalog import RunState
from ktui.execution.host.ownership import OwnedElsewhere, holder, live_runs, lock_starts, own_run
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.file import sqlite_side_files
from support.journals.journals import CLUSTER, a_start, planned, started, written

OWNER = """
import subprocess, sys
from pathlib import Path
from ktui.execution.host.ownership import own_run
from ktui.execution.forecast.run_progress import all_runs
from ktui.execution.host.catalog import RunState
from ktui.execution.host.state_dir import RunDir
owned = own_run(RunDir(Path(sys.argv[1])))
child = subprocess.Popen(["sleep", "600"], close_fds=False)
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def here(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


@pytest.fixture
def run(here: StateDir) -> RunDir:
    return here.create_run("drain-b3")


@contextmanager
def an_owner(run: RunDir) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that owns a run and starts a program that outlives it."""
    command = [sys.executable, "-c", OWNER, str(run.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        child = int(owner.stdout.readline())
        try:
            yield owner
        finally:
            os.kill(child, 9)
            owner.kill()


def test_a_new_run_has_no_owner(run: RunDir) -> None:
    assert holder(run) is None


def test_an_owner_is_named_with_process_host_user_and_time(run: RunDir) -> None:
    with own_run(run) as owned:
        who = holder(run)

        assert who == owned.holder
        assert who is not None
        assert who.pid == os.getpid()
        assert f"process {os.getpid()} of {who.user} on {who.host}, since 2" in str(who)


def test_a_run_owned_by_another_process_is_refused_and_its_owner_named(run: RunDir) -> None:
    with an_owner(run) as owner:
        with pytest.raises(OwnedElsewhere) as held:
            own_run(run)

        assert held.value.holder.pid == owner.pid
        assert f"run drain-b3 is owned by process {owner.pid} of " in str(held.value)
        assert "ktui status drain-b3" in str(held.value)


def test_a_run_cannot_be_owned_twice_even_by_the_same_process(run: RunDir) -> None:
    with own_run(run), pytest.raises(OwnedElsewhere):
        own_run(run)


def test_a_killed_owner_holds_nothing_even_with_its_name_still_in_the_lock(run: RunDir) -> None:
    with an_owner(run) as owner:
        assert holder(run) is not None
        owner.kill()
        owner.wait()

        assert str(owner.pid) in run.lock.read_text(encoding="utf-8")
        assert holder(run) is None
        with own_run(run) as owned:
            assert holder(run) == owned.holder


def test_a_released_run_can_be_taken_at_once(run: RunDir) -> None:
    first = own_run(run)
    first.release()
    first.release()

    with own_run(run):
        assert holder(run) is not None
    assert holder(run) is None


def test_asking_who_holds_a_run_never_keeps_it_from_being_taken(run: RunDir) -> None:
    own_run(run).release()
    leave = threading.Event()

    def ask() -> None:
        while not leave.is_set():
            holder(run)

    askers = [threading.Thread(target=ask) for _ in range(3)]
    for asker in askers:
        asker.start()
    try:
        for _ in range(50):
            own_run(run).release()
    finally:
        leave.set()
        for asker in askers:
            asker.join()


def test_a_lock_whose_holder_does_not_name_itself_is_reported(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "_PATIENCE_S", 0.0)
    with own_run(run):
        run.lock.write_text("", encoding="utf-8")

        with pytest.raises(RunProblem, match="locked by a process that does not name itself"):
            holder(run)


def test_a_lock_that_cannot_be_opened_is_named(run: RunDir) -> None:
    run.lock.mkdir(parents=True)

    with pytest.raises(RunProblem, match=r"lock: cannot be opened: Is a directory"):
        own_run(run)


PARTS: dict[str, Callable[[RunDir], Path]] = {
    "its lock": lambda run: run.lock,
    "its journal": lambda run: run.journal,
    "its journal's log": lambda run: sqlite_side_files(run.journal)[0],
    "its folder": lambda run: run.path,
    "the state directory": lambda run: run.path.parent.parent,
}


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("part", PARTS)
def test_an_owner_learns_what_was_removed_or_replaced_under_it(
    here: StateDir, part: str, *, replaced: bool
) -> None:
    run = here.create_run("drain-b3")
    path = PARTS[part](run)
    with own_run(run) as owned, written(run.journal, a_start()):
        owned.watch_journal()
        assert owned.lost() is None

        before = path.rename(here.path.parent / "before")
        if replaced and before.is_dir():
            shutil.copytree(before, path)
        elif replaced:
            shutil.copy(before, path)
        lost = owned.lost()

        assert lost is not None
        assert lost.startswith(str(path))
        assert ("was replaced while" if replaced else "was removed or renamed while") in lost
        assert "another one may own it now" in lost


def test_a_run_whose_folder_was_removed_cannot_be_taken_while_its_owner_lives(
    here: StateDir,
) -> None:
    run = a_run(here, "drain-b3")
    with own_run(run) as owned:
        shutil.rmtree(run.path)
        here.create_run("drain-b3")

        assert holder(run) == owned.holder
        with pytest.raises(OwnedElsewhere):
            own_run(run)


def test_a_run_whose_folder_was_removed_counts_as_live_while_its_owner_lives(
    here: StateDir,
) -> None:
    run = a_run(here, "drain-b3")
    with own_run(run) as owned:
        shutil.rmtree(run.path)

        assert [(each.name, each.holder) for each in live_runs(here, CLUSTER)] == [
            ("drain-b3", owned.holder)
        ]
        (listed,) = all_runs(here)
        assert listed.state is RunState.UNREADABLE
        assert f"and {owned.holder} still owns the run" in str(listed.problem)
    assert live_runs(here, CLUSTER) == []
    assert all_runs(here) == []


@pytest.mark.parametrize("part", ["its lock", "its journal"])
def test_a_pipe_or_a_link_in_place_of_a_file_is_reported_without_waiting(
    here: StateDir, part: str
) -> None:
    run = a_run(here, "drain-b3")
    path = PARTS[part](run)
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)

    (listed,) = all_runs(here)

    assert listed.state is RunState.UNREADABLE
    assert f"{path.name}: cannot be read: it is not a regular file" in str(listed.problem)
    if part != "its journal":
        with pytest.raises(RunProblem, match="cannot be opened: it is not a regular file"):
            own_run(run)
        path.unlink()
        path.symlink_to(run.path / "elsewhere")
        with pytest.raises(RunProblem, match="cannot be opened: it is a symbolic link"):
            own_run(run)


def test_a_run_on_a_network_file_system_is_refused(
    run: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mounts").write_text("server:/ / nfs4 rw 0 0\n", encoding="utf-8")
    monkeypatch.setattr(state_dir, "MOUNTS", tmp_path / "mounts")

    with pytest.raises(RunProblem, match=r"network file system \(nfs4\)"):
        own_run(run)


def a_run(here: StateDir, name: str, cluster_id: str = CLUSTER) -> RunDir:
    run = here.create_run(name)
    written(run.journal, [started(1, cluster_id), planned(1)]).close()
    return run


def test_the_live_runs_of_a_cluster_are_those_owned_by_a_process(here: StateDir) -> None:
    a_run(here, "left")
    with own_run(a_run(here, "live")) as live, own_run(a_run(here, "other", "another-cluster")):
        (only,) = live_runs(here, CLUSTER)

        assert (only.name, only.holder) == ("live", live.holder)
    assert live_runs(here, CLUSTER) == []


def test_a_live_run_of_an_unknown_cluster_counts_for_every_cluster(here: StateDir) -> None:
    with own_run(here.create_run("no-journal-yet")):
        assert [run.name for run in live_runs(here, CLUSTER)] == ["no-journal-yet"]


def test_two_runs_are_never_started_on_one_cluster_at_the_same_time(here: StateDir) -> None:
    begun: list[str] = []
    refused: list[str] = []

    def start(name: str) -> None:
        with lock_starts(here, CLUSTER) as live:
            if live:
                refused.append(name)
            else:
                owned.append(own_run(a_run(here, name)))
                begun.append(name)

    owned: list[ownership.Ownership] = []
    starts = [threading.Thread(target=start, args=(f"run-{n}",)) for n in range(6)]
    for one in starts:
        one.start()
    for one in starts:
        one.join()
    for one_owned in owned:
        one_owned.release()

    assert len(begun) == 1
    assert len(refused) == 5


def test_starts_on_different_clusters_do_not_wait_for_each_other(here: StateDir) -> None:
    with lock_starts(here, CLUSTER), lock_starts(here, "../another cluster") as live:
        assert live == []


def test_a_start_that_takes_too_long_is_reported_to_the_next(
    here: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "_START_PATIENCE_S", 0.0)
    with (
        lock_starts(here, CLUSTER),
        pytest.raises(RunProblem, match="another run is being started on this cluster"),
        lock_starts(here, CLUSTER),
    ):
        pass
