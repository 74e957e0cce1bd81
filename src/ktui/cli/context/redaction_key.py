"""The key that hides names in recordings.

Each user has a key of their own, so that nobody else can test guesses of names.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from ktui.execution.host.state_dir import StateDir
from ktui.fileproblem import FileProblem
from ktui.recording.redact import Redaction

_BYTES = 32
_FIX = (
    "Remove the file, and ktui makes a new key. Later recordings then hide the same names "
    "differently"
)


def redaction(state: StateDir) -> Redaction:
    """Return the redaction of a state directory, which hides a name alike in all its recordings.

    The key is made when it is first needed.

    Raises:
        StateDirProblem: the state directory cannot be used.
        FileProblem: the key's file cannot be read, or does not hold a key.
    """
    path = state.redaction_key
    if not path.exists():
        state.make(state.path)
        _make(path)
    try:
        key = bytes.fromhex(path.read_text())
    except OSError as error:
        raise FileProblem(path, None, f"cannot be read: {error.strerror}") from None
    except ValueError:
        key = b""
    if len(key) < _BYTES:
        raise FileProblem(path, None, f"is not a key of {_BYTES} bytes in hexadecimal. {_FIX}")
    return Redaction(key)


def _make(path: Path) -> None:
    """Make a key, or keep that of a quicker process. The file is there whole or not at all."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    file = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(file, "w") as key:
            key.write(secrets.token_hex(_BYTES))
        with suppress(FileExistsError):
            os.link(beside, path)
    finally:
        beside.unlink()
