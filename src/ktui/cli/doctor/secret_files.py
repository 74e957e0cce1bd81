"""Whether files with secrets can be read by others than their owner, and what to do about it."""

from __future__ import annotations

import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ktui.cli.doctor.findings import DoctorFinding, Level

_OTHERS = stat.S_IRWXO
_GROUP = stat.S_IRWXG


def judge_secret_files(files: Mapping[Path, Sequence[str]]) -> Iterator[DoctorFinding]:
    """Judge the files that have secrets of a connection, each given with its settings."""
    for path, settings in files.items():
        try:
            mode = path.stat().st_mode
        except OSError:  # it was read a moment ago; whatever became of it, others cannot read it
            continue
        if not stat.S_ISREG(mode) or not mode & (_OTHERS | _GROUP):
            continue
        who = "everyone on its machine" if mode & _OTHERS else "its group"
        yield DoctorFinding(
            Level.WARNING,
            f"{path}: open to {who} (mode {stat.S_IMODE(mode):03o}), and has {_named(settings)}",
            f"Keep it to its owner: chmod 600 {shlex.quote(str(path))}",
        )


def _named(settings: Sequence[str]) -> str:
    return " and ".join((", ".join(settings[:-1]), settings[-1]) if settings[1:] else settings)
