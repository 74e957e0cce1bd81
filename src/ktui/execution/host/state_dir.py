"""The home of runs on this machine: a folder for each under the state directory, and its id."""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import secrets
import shlex
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import platformdirs

from ktui.cluster.text import clean
from ktui.durable import make_folder, open_regular, read_note, sync_folder, write_whole
from ktui.execution import RunProblem, RunRefused
from ktui.inputfile import Unreadable, expand_home
from ktui.json_text import decode_untrusted

MOUNTS = Path("/proc/mounts")  # Linux's list, in fstab(5)'s format; elsewhere nothing is known

# keep their files on another machine, or on this machine's host
_NETWORK = re.compile(
    r"nfs[0-9]*|cifs|smb.*|9p|afs|ceph|coda|ncpfs|lustre|glusterfs|gpfs|beegfs|davfs|orangefs|pvfs2"
    r"|virtiofs|vboxsf|vmhgfs|prl_fs|wekafs|juicefs"
    r"|fuse\.(sshfs|s3fs|rclone|glusterfs|ceph.*|davfs.*|curlftpfs|smb.*|gcsfuse|goofys"
    r"|juicefs|wekafs|vmhgfs-fuse|mount-s3|blobfuse2?|geesefs|seaweedfs|moosefs|mfs|nfs.*)"
)
_ESCAPED = re.compile(r"\\([0-7]{3})")
STATE_DIR = "KTUI_STATE_DIR"  # where no option names it
LONGEST_NAME = 100
_ROOT = 0
_WRITTEN_BY_OTHERS = 0o022
_ANOTHER = f"Name one of your own: --state-dir DIR, or {STATE_DIR}"
_LOCKS = "locks"
_RUN_LOCK = "run-"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_-]")
T = TypeVar("T")


def file_system_of(path: Path) -> str | None:
    """Return the kind of file system of a path, which need not exist; None if it is unknown."""
    try:
        mounts = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    place, kind, longest = Path(os.path.realpath(path)), None, -1
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) > 2:  # noqa: PLR2004 - device, mount point, kind
            point = Path(_ESCAPED.sub(lambda escaped: chr(int(escaped[1], 8)), fields[1]))
            if len(point.parts) >= longest and place.is_relative_to(point):
                kind, longest = fields[2], len(point.parts)
    return kind


class StateDirProblem(RunRefused):
    """The state directory, or a run's folder in it, cannot be used; has the cause and a fix."""


class RunDir(msgspec.Struct, frozen=True):
    """The folder of one run."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def journal(self) -> Path:
        return self.path / "journal.db"

    @property
    def log(self) -> Path:
        return self.path / "engine.log"

    @property
    def rollback(self) -> Path:
        return self.path / "rollback.json"

    @property
    def recording(self) -> Path:
        return self.path / "recording"

    @property
    def speed(self) -> Path:
        return self.path / "speed.json"

    @property
    def last_poll(self) -> Path:
        """Empty; touched after each poll of the run's process."""
        return self.path / "last-look"

    @property
    def lock(self) -> Path:
        """Outside the folder, so that it outlasts it."""
        return self.path.parent.parent / _LOCKS / f"{_RUN_LOCK}{self.name}.lock"


class StateDir(msgspec.Struct, frozen=True):
    """The folder in which ktui remembers its runs. It is made when a run needs it."""

    path: Path

    @property
    def runs(self) -> Path:
        return self.path / "runs"

    @property
    def locks(self) -> Path:
        return self.path / _LOCKS

    @property
    def recordings(self) -> Path:
        return self.path / "recordings"

    @property
    def redaction_key(self) -> Path:
        """Hides names, in the same way in all recordings."""
        return self.path / "redaction.key"

    @property
    def id_file(self) -> Path:
        """A random id, by which clusters know their owner."""
        return self.path / "id"

    def cluster_note(self, kind: str, cluster_id: str) -> Path:
        return self.path / kind / f"{_NOT_IN_IDS.sub('-', cluster_id)}.json"

    def check(self) -> None:
        """Raises StateDirProblem: on a network (weak locks and syncs), or open to others."""
        refuse_network(self.path)
        if os.geteuid() != _ROOT and self.of_another is not None:
            raise StateDirProblem(f"{self.of_another}. {_ANOTHER}")
        found = _stat(self.path)
        if found is not None and found.st_mode & _WRITTEN_BY_OTHERS:
            folder = shlex.quote(str(self.path))
            raise StateDirProblem(
                f"{self.path}: others may write to it, and put runs or locks there in place of "
                f"yours. If it is ktui's alone: chmod go-w {folder}. Else name another: "
                f"--state-dir DIR, or {STATE_DIR}"
            )

    @property
    def of_another(self) -> str | None:
        """The owner, in words; None if the folder is ours, or does not exist yet."""
        found = _stat(self.path)
        if found is None or found.st_uid == os.geteuid():
            return None
        owner, us = _user_name(found.st_uid), _user_name(os.geteuid())
        return f"{self.path}: the state directory belongs to {owner}, and ktui runs as {us}"

    def run(self, name: str) -> RunDir:
        """Raises StateDirProblem: no run can have that name."""
        problem = run_name_problem(name)
        if problem is not None:
            raise StateDirProblem(problem)
        return RunDir(self.runs / name)

    def free_name(self, name: str) -> str:
        """Return a name that a new run can have. Raises StateDirProblem: not allowed, or taken."""
        self.check()
        if self.run(name).path.exists():
            raise _name_taken(name)
        return name

    def create_run(self, name: str) -> RunDir:
        """Make a run's folder. Raises StateDirProblem: bad or taken name, unwritable."""
        folder = self.run(name)
        self.check()
        self.make(self.runs)
        try:
            folder.path.mkdir(mode=0o700)
            sync_folder(self.runs)
        except FileExistsError:
            raise _name_taken(name) from None
        except OSError as error:
            raise _problem(folder.path, "made", error) from None
        return folder

    def make(self, folder: Path) -> None:
        """Make it if missing, readable by its owner only. Raises StateDirProblem."""
        try:
            make_folder(folder)
        except OSError as error:
            raise _problem(folder, "made", error) from None
        if not os.access(folder, os.W_OK | os.X_OK):
            fix = f"Name another: --state-dir DIR, or {STATE_DIR}"
            raise StateDirProblem(f"{folder}: may not be written to. {fix}")

    def run_dirs(self) -> list[RunDir]:
        """Return all, by name; none without a state directory. Raises StateDirProblem."""
        try:
            return [RunDir(path) for path in sorted(self.runs.iterdir())]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _problem(self.runs, "read", error) from None

    def removed_runs(self) -> list[RunDir]:
        """Return those with a lock, but without a folder. Raises StateDirProblem: not readable."""
        try:
            locks = sorted(self.locks.glob(f"{_RUN_LOCK}*.lock"))
        except OSError as error:
            raise _problem(self.locks, "read", error) from None
        runs = [RunDir(self.runs / lock.stem.removeprefix(_RUN_LOCK)) for lock in locks]
        return [run for run in runs if not run.path.exists()]


class NoteFile(Generic[T]):
    """A small JSON file of the state directory; `problem` says what cannot be done with it."""

    def __init__(
        self, state: StateDir, path: Path, kind: Any, problem: Callable[[str], RunProblem]
    ) -> None:
        self.path = path
        self._state = state
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind)
        self._problem = problem

    def load(self) -> T | None:
        """None without a file. Raises the problem, or DecodeError: it is damaged."""
        try:
            return decode_untrusted(self._decoder, read_note(self.path))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._problem(f"read: {error.strerror}") from None

    def save(self, note: T) -> None:
        """In place of the one before, which stays if this raises."""
        self._state.check()
        self._state.make(self.path.parent)
        try:
            write_whole(self.path, msgspec.json.encode(note))
        except OSError as error:
            raise self._problem(f"written: {error.strerror}") from None

    def delete(self) -> None:
        try:
            self.path.unlink(missing_ok=True)
            sync_folder(self.path.parent)
        except OSError as error:
            raise self._problem(f"removed: {error.strerror}") from None


def refuse_network(path: Path) -> None:
    """Check that a folder, there or not, is on a local disk: else locks and syncs mean little."""
    kind = file_system_of(path)
    if kind is not None and _NETWORK.fullmatch(kind):
        raise StateDirProblem(
            f"{path}: is on a network file system ({kind}), where journals and locks are not safe. "
            f"Name a state directory on a local disk: --state-dir DIR, or {STATE_DIR}"
        )


def resolve_state_dir(option: Path | str | None) -> StateDir:
    """Return the option's, else KTUI_STATE_DIR's, else the platform's. StateDirProblem."""
    if option == "":
        raise StateDirProblem("--state-dir is empty. Name a folder, or leave the option out")
    named = option or os.environ.get(STATE_DIR)
    try:
        path = expand_home(named) if named else platformdirs.user_state_path("ktui")
    except Unreadable as why:
        fix = f"Name another: --state-dir DIR, or {STATE_DIR}"
        raise StateDirProblem(f"{clean(str(named))}: {why}. {fix}") from None
    found = _stat(path)
    if found is not None and not stat.S_ISDIR(found.st_mode):
        raise StateDirProblem(
            f"{clean(str(path))}: is a file, not a state directory. Name its folder: --state-dir "
            f"DIR, or {STATE_DIR}"
        )
    return StateDir(path.absolute())


def run_name_problem(name: str) -> str | None:
    """Return why no run can have this name: it names a folder, and appears in commands."""
    shown = clean(name[:LONGEST_NAME])
    if not name:
        return "a run's name cannot be empty"
    if len(name) > LONGEST_NAME:
        return f"a run's name has at most {LONGEST_NAME} characters, {shown!r}... has {len(name)}"
    if _NAME.fullmatch(name) is None:
        allowed = 'letters A to Z, digits, ".", "_" and "-", not beginning with "." or "-"'
        return f'no run can be named "{shown}": a name has only {allowed}'
    return None


def default_name(plan: Path) -> str:
    """Derive a run's name from its plan's file, without characters that no name can have."""
    name = _UNSAFE.sub("-", plan.stem).strip(".-")[:LONGEST_NAME].rstrip(".-")
    return name or "run"


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:  # the next use of the folder reports the cause
        return None


def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _name_taken(name: str) -> StateDirProblem:
    return StateDirProblem(
        f"there is a run {name} already. Give this one another name with --name, "
        f"or go on with that one: ktui resume {name}"
    )


def _problem(path: Path, what: str, error: OSError) -> StateDirProblem:
    fix = f"Name another state directory: --state-dir DIR, or {STATE_DIR}"
    return StateDirProblem(f"{path}: cannot be {what}: {error.strerror}. {fix}")


_BYTES = 16
_MOST_BYTES = 4096


class _Id(msgspec.Struct):
    id: str
    inode: int  # of the file itself


def read_id(state: StateDir) -> str | None:
    """Return a state directory's id, if it has one. Raises StateDirProblem: not readable."""
    path = state.id_file
    try:
        file = open_regular(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StateDirProblem(f"{path}: cannot be read: {error.strerror}") from None
    try:
        found = msgspec.json.decode(os.read(file, _MOST_BYTES), type=_Id)
        return found.id if found.inode == os.fstat(file).st_ino else None
    except msgspec.DecodeError:
        return None
    finally:
        os.close(file)


def ensure_id(state: StateDir) -> str:
    """Return a state directory's own id, or create it. Raises StateDirProblem: unusable."""
    if (known := read_id(state)) is not None:
        return known
    state.check()
    state.make(state.path)
    try:
        with _exclusive(state.path):
            return read_id(state) or _make_id(state.id_file)
    except OSError as error:
        raise StateDirProblem(f"{state.id_file}: cannot be made: {error.strerror}") from None


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _make_id(path: Path) -> str:
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    beside.unlink(missing_ok=True)
    file = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        new = _Id(secrets.token_hex(_BYTES), os.fstat(file).st_ino)
        with os.fdopen(file, "wb") as content:
            content.write(msgspec.json.encode(new) + b"\n")
            content.flush()
            os.fsync(content.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    sync_folder(path.parent)
    return new.id
