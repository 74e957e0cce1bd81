"""Whatever a verb writes, only a regular file or a new name is ever replaced."""

import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from ktui.cli.engine_log import RunMetrics
from ktui.cli.main import ktui
from ktui.cli.options.common import OutputFile
from ktui.cli.options.outward import metrics_file_option
from ktui.durable import write_output
from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.forecast.progress_text import FIRST_BYTES
from ktui.execution.host.ownership import this_process
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.run import Run
from ktui.simulated.clock import VirtualClock
from ktui.tui.story import save_picture
from support.cli.shell import TwoHosts
from support.cli.start_sandbox import PlanSandbox, cluster
from support.journals.journals import a_start, written

Writes = Callable[[Path], str]
"""Writes to a path, and returns the words of a refusal; empty for none."""


def invoked(*words: str) -> str:
    result = CliRunner().invoke(ktui, words)
    return "" if result.exit_code in (0, 3) else f"{result.output} {result.exception}"


def plan_of_a_run(folder: Path, request: pytest.FixtureRequest) -> Writes:
    del request
    state = StateDir(folder / "state")
    written(state.create_run("drain").journal, a_start(3)).close()
    return lambda path: invoked(
        *("plan", "rollback", "drain", "--state-dir", str(state.path), "-o", str(path))
    )


def made_plan(folder: Path, request: pytest.FixtureRequest) -> Writes:
    del folder
    sandbox: PlanSandbox = request.getfixturevalue("plan_sandbox")
    sandbox.cluster(cluster())
    return lambda path: invoked("plan", "drain", "3", "-o", str(path))


def snapshot(folder: Path, request: pytest.FixtureRequest) -> Writes:
    sandbox: PlanSandbox = request.getfixturevalue("plan_sandbox")
    sandbox.cluster(cluster())
    where = ("--measure", "0", "--state-dir", str(folder / "state"))
    return lambda path: invoked("snapshot", *where, "-o", str(path))


def export(folder: Path, request: pytest.FixtureRequest) -> Writes:
    hosts = TwoHosts(folder, request.getfixturevalue("monkeypatch"))
    hosts.run()

    def write(path: Path) -> str:
        hosts.file = path
        result = hosts.export()
        return f"{result.output} {result.exception}" if result.exit_code else ""

    return write


def metrics(folder: Path, request: pytest.FixtureRequest) -> Writes:
    del request

    @click.command()
    @metrics_file_option
    def verb(metrics_file: str | None) -> None:
        assert metrics_file is not None
        with RunMetrics(VirtualClock()) as written_metrics:
            run = Run("drain")
            written_metrics.begin(
                run, this_process(), metrics_file, EarlierRuns(StateDir(folder / "state"))
            )

    def write(path: Path) -> str:
        result = CliRunner().invoke(verb, ["--metrics-file", str(path)])
        return f"{result.output} {result.exception}" if result.exit_code else ""

    return write


WRITERS = {
    "plan rollback -o": plan_of_a_run,
    "plan drain -o": made_plan,
    "snapshot -o": snapshot,
    "runs export": export,
    "--metrics-file": metrics,
}


@pytest.fixture(params=WRITERS)
def writes(request: pytest.FixtureRequest, tmp_path: Path) -> Writes:
    folder = tmp_path / "work"
    folder.mkdir()
    return WRITERS[request.param](folder, request)


@pytest.fixture
def keeps_regular_files(request: pytest.FixtureRequest) -> bool:
    return "runs export" in request.node.callspec.params.values()


def test_a_new_file_is_made(writes: Writes, tmp_path: Path) -> None:
    assert not writes(tmp_path / "new")
    assert (tmp_path / "new").stat().st_size > 0
    assert not [*tmp_path.glob(".ktui-*")]


def test_a_link_is_followed_to_its_regular_file(
    writes: Writes, tmp_path: Path, *, keeps_regular_files: bool
) -> None:
    (tmp_path / "far").mkdir()
    old, link = tmp_path / "far" / "old", tmp_path / "link"
    old.write_bytes(FIRST_BYTES)
    link.symlink_to("far/old")

    refusal = writes(link)

    assert link.readlink() == Path("far/old")
    if keeps_regular_files:
        assert "exists already" in refusal
        assert old.read_bytes() == FIRST_BYTES
    else:
        assert not refusal
        assert len(old.read_bytes()) > len(FIRST_BYTES)


def test_a_named_pipe_is_written_through(writes: Writes, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert not writes(pipe)
        assert os.read(reader, 10)
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.lstat().st_mode)


def test_a_link_to_a_character_device_stays_one(writes: Writes, tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(os.devnull)

    assert not writes(tmp_path / "out")
    assert (tmp_path / "out").readlink() == Path(os.devnull)


def test_a_stream_of_the_shell_is_written_through(
    writes: Writes, request: pytest.FixtureRequest
) -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    try:
        refusal = writes(Path(f"/dev/fd/{writer}"))
        if "--metrics-file" in request.node.callspec.params.values():
            assert "a stream of this process, which the engine does not have" in refusal
        else:
            assert not refusal
            assert os.read(reader, 10)
    finally:
        os.close(reader)
        os.close(writer)


class Refused:
    """What is put in the way, and how it is refused."""

    def __init__(self, make: Callable[[Path], None], words: str) -> None:
        self.make, self.words = make, words


def _listen(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


REFUSED = {
    "folder": Refused(Path.mkdir, "a folder"),  # click or ktui says so
    "socket": Refused(_listen, "it is a socket. Name a regular file or a named pipe"),
    "link to nowhere": Refused(lambda path: path.symlink_to("gone"), "it is a link to nowhere"),
    "link to itself": Refused(lambda path: path.symlink_to(path.name), "symbolic link"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_nothing_can_be_written_to_is_refused_by_name_and_stays(
    writes: Writes, case: Refused, tmp_path: Path
) -> None:
    place = tmp_path / "p"
    case.make(place)
    before = place.lstat()

    refusal = writes(place)

    assert case.words in refusal
    assert str(place) in refusal
    assert os.path.samestat(place.lstat(), before)


@pytest.fixture
def block_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that looks like a block device: no test may write to a real one."""
    path = tmp_path / "disk"
    path.write_text("somebody's disk")
    status = Path.stat

    def looks(self: Path, **how: Any) -> Any:
        found = status(self, **how)
        if self != path:
            return found
        return SimpleNamespace(st_mode=stat.S_IFBLK | 0o660)

    monkeypatch.setattr(Path, "stat", looks)
    yield path
    assert path.read_text(encoding="utf-8") == "somebody's disk"


def test_a_block_device_is_refused(writes: Writes, block_device: Path) -> None:
    assert "it is a block device. Name a regular file or a named pipe" in writes(block_device)


def test_no_folder_is_made_for_a_file(writes: Writes, tmp_path: Path) -> None:
    assert "there is no folder" in writes(tmp_path / "gone" / "file")
    assert not (tmp_path / "gone").exists()


def test_every_option_for_a_written_file_has_the_one_rule() -> None:
    """A new verb with -o must take the same type."""
    found = [*_options(ktui, click.Context(ktui))]

    assert {"snapshot", "rollback", "undo", "remaining", "drain", "demote"} <= {
        verb for verb, _ in found
    }
    assert [verb for verb, option in found if not isinstance(option.type, OutputFile)] == []


def _options(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Parameter]]:
    for name in group.list_commands(context):
        verb = group.get_command(context, name)
        if isinstance(verb, click.Group):
            yield from _options(verb, click.Context(verb, parent=context))
        elif verb is not None:
            yield from ((name, option) for option in verb.params if "-o" in option.opts)


def test_the_file_keeps_its_mode(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    write = plan_of_a_run(tmp_path, request)
    old = tmp_path / "back.json"
    old.touch(mode=0o640)
    old.chmod(0o640)

    assert not write(old)
    assert stat.S_IMODE(old.stat().st_mode) == 0o640


def test_no_picture_replaces_a_link(tmp_path: Path) -> None:
    (tmp_path / "x.svg").symlink_to("gone")

    assert save_picture(tmp_path, "x", "<svg/>").name == "x-2.svg"
    assert (tmp_path / "x.svg").readlink() == Path("gone")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file of somebody else")
def test_a_private_file_belongs_to_its_writer_whoever_made_the_name_first(tmp_path: Path) -> None:
    place = tmp_path / "twin.yaml"
    place.touch(mode=0o666)
    os.chown(place, 65534, 65534)

    write_output(place, b"theirs", mode=0o600)
    assert (place.stat().st_uid, stat.S_IMODE(place.stat().st_mode)) == (0, 0o600)

    os.chown(place, 65534, 65534)
    write_output(place, b"plan")
    assert place.stat().st_uid == 65534
