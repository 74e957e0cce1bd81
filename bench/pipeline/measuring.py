"""The time of `ktui pipeline run` and of other commands, with all processes they start. Linux."""

from __future__ import annotations

import ctypes
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ktui.pipeline.lake import manifest as manifests

_SET_CHILD_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER: also counts a JVM that outlives its Python process."""


class Taken(msgspec.Struct, frozen=True):
    """The time of a command, in seconds."""

    wall: float
    """Wall time until the end of the command."""
    cpu: float
    """CPU time of all processes it started, including those that outlived the command."""


def count_orphans() -> None:
    """Make this process wait for all descendants, so that their CPU time is counted."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def command_time(command: Sequence[str], **environment: str) -> Taken:
    """Run a command to its end, and wait for all processes that it has started.

    Raises:
        SystemExit: the command failed.
    """
    with tempfile.TemporaryFile() as errors:  # a pipe would stay open as long as any process
        before_s, started = _cpu_s(), time.perf_counter()
        done = subprocess.run(
            command,
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env={**os.environ, **environment},
        )
        wall = time.perf_counter() - started
        _wait_for_all()
        taken = Taken(wall, _cpu_s() - before_s)
        if done.returncode:
            errors.seek(0)
            why = errors.read().decode(errors="replace")[-2_000:]
            raise SystemExit(f"not measured: {' '.join(command)}: {why}")
    return taken


def _wait_for_all() -> None:
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def pipeline_time(recordings: Path, lake: Path, cache: Path, *options: str) -> Taken:
    """Run the pipeline on some recordings.

    Args:
        recordings: the folder.
        lake: the folder of the lake; new, or one that the run adds to.
        cache: the user's cache folder, which keeps Spark's classes.
        options: more options of `ktui pipeline run`.
    """
    command = [sys.executable, "-m", "ktui", "pipeline", "run", "--recordings", str(recordings)]
    command += ["--lake", str(lake), "--state-dir", str(lake.parent / "state"), *options]
    return command_time(command, XDG_CACHE_HOME=str(cache))


def rows_of(lake: Path, table: str) -> int:
    """Return the rows of a table of all clusters, as the lake's manifest counts them."""
    manifest = manifests.decode((lake / manifests.NAME).read_bytes())
    return sum(part.rows for part in manifest.tables.get(table, {}).values())


def as_text(taken: Sequence[Taken]) -> str:
    """Describe the medians of some times."""
    wall, cpu = (statistics.median(s) for s in ([t.wall for t in taken], [t.cpu for t in taken]))
    return f"{wall:.1f} s and {cpu:.1f} s of CPU"


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
