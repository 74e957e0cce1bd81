"""The engine process of a run: started or joined, its last poll, and how it ended."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from ktui.cluster.text import clean
from ktui.durable import open_regular
from ktui.execution import RunProblem
from ktui.execution.host.client import RunClient
from ktui.execution.host.operator_command import exit_text
from ktui.execution.host.ownership import Holder
from ktui.execution.host.state_dir import RunDir
from ktui.execution.journal.commands import StopEngine
from ktui.execution.journal.journal import RunFollower
from ktui.execution.run.events import Owned
from ktui.execution.run.run import Run
from ktui.quantities import as_duration

_SHORTEST_S = 30.0
_POLLS = 5  # a silence of fewer polls means nothing: an answer may be slow


def note_poll(run: RunDir) -> None:
    """Record that an engine has just polled; if that is not possible, the run goes on."""
    with suppress(OSError):
        file = open_regular(run.last_poll, os.O_WRONLY | os.O_CREAT)
        try:
            os.utime(file)
        finally:
            os.close(file)


def last_poll_at(run: RunDir) -> datetime | None:
    """Return when an engine of a run last polled the cluster; None if that was not recorded."""
    try:
        return datetime.fromtimestamp(run.last_poll.stat().st_mtime, UTC)
    except OSError:
        return None


def silence(
    run: Run, owner: Holder | None, last_poll: datetime | None, now: datetime
) -> str | None:
    """Return for how long the owner of a run has not polled, in words, if that is too long."""
    if owner is None or last_poll is None or run.outage is not None or run.ended:
        return None
    silent_s = (now - max(last_poll, owner.since)).total_seconds()
    if silent_s <= max(_SHORTEST_S, _POLLS * run.options.poll_s):
        return None
    why = "its process may be suspended, or wait for a locked journal"
    return f"no poll for {as_duration(silent_s)}: {why}"


_MOST_BYTES = 4096


_INNOCENT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d{3}Z (?:DEBUG|INFO) ")
"""A log's line about what goes as it should, with its time in UTC."""


def engine_death(folder: RunDir, run: Run) -> str:
    """Return how the engine of a run that nobody owns died; empty if it left by itself.

    An engine that leaves says why in the journal. One that is killed, or whose host goes down,
    says nothing; then the times of its last poll and of its last line are all there is. A line
    below WARNING is no cause: it is merely the last thing that the engine did.
    """
    if run.owner is None or run.left is not None or run.ended:
        return ""
    line = _last_line(folder, run.owner.since)
    if cause := "".join(possible_causes([line])):
        return clean(cause)
    words = "it was killed, or its host went down"
    polled = last_poll_at(folder)
    if polled is not None and polled >= run.owner.since:
        words += f", after {polled.astimezone():%H:%M:%S}"
    if innocent := _INNOCENT.match(line):
        ends = datetime.fromisoformat(f"{innocent[1]}+00:00").astimezone()
        words += f"; its log ends at {ends:%H:%M:%S}"
    return words


def possible_causes(lines: Iterable[str]) -> list[str]:
    """Return the lines that may say why a process ended: warnings, errors, the interpreter's."""
    return [line for line in lines if line.strip() and not _INNOCENT.match(line)]


def _last_line(folder: RunDir, since: datetime) -> str:
    try:
        if datetime.fromtimestamp(folder.log.stat().st_mtime, UTC) < since:
            return ""
        lines = _log_lines(folder)
    except OSError:
        return ""
    return lines[-1].strip() if lines else ""


def _log_lines(folder: RunDir, start: int = 0) -> list[str]:
    with folder.log.open("rb") as log:
        log.seek(max(start, os.fstat(log.fileno()).st_size - _MOST_BYTES))
        return log.read().decode(errors="replace").splitlines()


PYTHON = (sys.executable, "-P", "-m", "ktui")  # -P: no modules of the current folder
_PATIENCE_S = 300.0  # an engine reads its whole journal first: some 20 s for a million events
_PAUSE_S = 0.05
_LAST_WORDS = 3
_OPEN_FILES = Path("/dev/fd")  # a name for each open file of this process, on Linux and on a Mac
_STANDARD_ERROR = 2


class EngineProcess:
    """A child of this process that owns a run, or is about to. Raises RunProblem: no start.

    It has a session of its own, this process's environment and folder, and the run's log as output.
    """

    def __init__(self, run: RunDir, arguments: Sequence[str]) -> None:
        self.run = run
        self._log_before = _log_now(run)
        self.pid = _spawned(run, arguments)
        self._gone = False
        self._code: int | None = None

    @property
    def gone(self) -> bool:
        if not self._gone:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # its exit status was collected elsewhere
                self._gone = True
            else:
                self._gone = pid != 0
                self._code = os.waitstatus_to_exitcode(status) if self._gone else None
        return self._gone

    @property
    def ended_well(self) -> bool:
        return self.gone and not self._code

    @property
    def killed(self) -> bool:
        return self.gone and (self._code or 0) < 0

    @property
    def last_words(self) -> str:
        """The signal that ended it, or the last lines of its log."""
        if self._code is not None and self._code < 0:
            return f"it was ended by {exit_text(self._code)}"
        try:
            before, now = self._log_before, self.run.log.stat()
            is_same = before is not None and before.st_ino == now.st_ino
            lines = _log_lines(self.run, before.st_size if before is not None and is_same else 0)
        except OSError as error:
            return f"its log cannot be read: {error.strerror}"
        return "\n".join(possible_causes(lines)[-_LAST_WORDS:]) or "its log names no error"

    def leave(self) -> None:
        if not self.gone:
            os.kill(self.pid, signal.SIGTERM)

    def wait(self, seconds: float) -> bool:
        return _wait_for(lambda: self.gone, seconds)


def start_engine(run: RunDir, arguments: Sequence[str]) -> EngineProcess:
    """Return once the engine owns the run, which has its first events. Raises RunProblem."""
    with RunFollower(run.journal) as follower:
        follower.refresh()
        engine = EngineProcess(run, arguments)
        if _wait_until_owned(engine, follower):
            return engine
    if engine.gone:
        raise RunProblem(f"the engine of run {run.name} has died: {engine.last_words}")
    raise RunProblem(
        f"the engine of run {run.name}, process {engine.pid}, has not taken it up after "
        f"{_PATIENCE_S:.0f} s, and may still do so. See: ktui status {run.name}, and {run.log}"
    )


def close_inherited() -> None:
    """Close inherited files of the caller, such as cron's lock.

    A process that outlives its caller must call this first. Otherwise a lock of the caller would be
    held for as long, and a pipe would not end. Files that this process has opened itself are not
    inheritable, and stay open.
    """
    for path in _OPEN_FILES.iterdir() if _OPEN_FILES.exists() else ():
        file = int(path.name)
        with suppress(OSError):  # the folder's own file is closed by now
            if file > _STANDARD_ERROR and os.get_inheritable(file):
                os.close(file)


def _spawned(run: RunDir, arguments: Sequence[str]) -> int:
    to_log = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    try:
        os.close(open_regular(run.log, to_log))
    except OSError as error:
        raise RunProblem(f"{run.log}: cannot be written: {error.strerror}") from None
    try:
        return os.posix_spawn(
            sys.executable,
            [*PYTHON, *arguments],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(run.log), to_log, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
    except OSError as error:
        raise RunProblem(f"the engine cannot be started: {error.strerror}") from None


def _wait_until_owned(engine: EngineProcess, follower: RunFollower) -> bool:
    owned = False

    def settled() -> bool:
        nonlocal owned
        gone = engine.gone
        owned = any(isinstance(entry.event, Owned) for entry in follower.refresh())
        return owned or gone

    _wait_for(settled, _PATIENCE_S)
    return owned


def _wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= until:
            return False
        time.sleep(_PAUSE_S)
    return True


def _log_now(run: RunDir) -> os.stat_result | None:
    try:
        return run.log.stat()
    except OSError:
        return None


class AttachedEngine:
    """An engine that owns a run already, and that ends whether or not somebody follows it."""

    killed = False  # not known of a process of somebody else

    def __init__(self, run: RunDir, holder: Holder) -> None:
        self.run = run
        self.pid = holder.pid
        self._client = RunClient(run)

    @property
    def gone(self) -> bool:
        return self._client.owner is None

    @property
    def last_words(self) -> str:
        """Where the end of the process is to be read."""
        return f"its log is {self.run.log}"

    def leave(self) -> None:
        self._client.ask(StopEngine())

    def wait(self, seconds: float) -> bool:
        return _wait_for(lambda: self.gone, seconds)
