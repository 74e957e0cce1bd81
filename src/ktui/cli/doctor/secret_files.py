"""Check whether anyone but the owner can read files with secrets."""

from __future__ import annotations

import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ktui.cli.doctor.findings import DoctorFinding, Level

_OTHERS = stat.S_IRWXO
_GROUP = stat.S_IRWXG


def judge_secret_files(files: Mapping[Path, Sequence[str]]) -> Iterator[DoctorFinding]:
    """Judge the files with a connection's secrets, each mapped to the settings it holds."""
    for path, settings in files.items():
        try:
            mode = path.stat().st_mode
        except OSError:  # readable a moment ago; if it is gone now, nobody else can read it either
            continue
        if not stat.S_ISREG(mode) or not mode & (_OTHERS | _GROUP):
            continue
        who = "everyone on its machine" if mode & _OTHERS else "its group"
        yield DoctorFinding(
            Level.WARNING,
            f"{path}: readable by {who} (mode {stat.S_IMODE(mode):03o}), and holds "
            f"{_named(settings)}",
            f"Restrict it to its owner: chmod 600 {shlex.quote(str(path))}",
        )


def _named(settings: Sequence[str]) -> str:
    return " and ".join((", ".join(settings[:-1]), settings[-1]) if settings[1:] else settings)
