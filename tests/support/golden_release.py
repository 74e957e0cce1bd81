"""Write the golden files of a release: a run's journal, its recording, and a lake of that.

Run `python -m support.golden_release` in `tests/` once, with the release that the files are of.
They are never written again: later versions have to read them as they are.
"""

from __future__ import annotations

import shutil
import sqlite3
import tarfile
import tempfile
from pathlib import Path

from ktui import __version__
from ktui.pacing.limits import Limits
from ktui.pipeline.run.run import PipelineRequest, run
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.recording.segments import ENGINE
from support.pipeline.sparks import a_small_spark
from support.recordings.drained_recordings import MB, drained

RELEASES = Path(__file__).parents[1] / "golden"
RUN, CLUSTER = "drain", "golden"
JOURNAL, RECORDING, LAKE = "journal.sql", "recording.jsonl.gz", "lake.tar.xz"
_PRAGMAS = ("application_id", "user_version")


def main() -> None:
    """Drain brokers of a simulated cluster under a throttle, and write what ktui keeps of it."""
    target = RELEASES / __version__
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="golden") as scratch:
        folder = Path(scratch)
        sizes = [(1 + n) * 40 * MB for n in range(4)]
        limits = Limits(partitions=2, replicas=1)
        throttle = parse_throttle_rates("10MB")
        drained(
            folder,
            sizes=sizes,
            limits=limits,
            name=RUN,
            cluster=CLUSTER,
            program=f"ktui {__version__}{ENGINE}",
            throttle=throttle,
        )
        (journal,) = folder.rglob("*.db")
        (segment,) = folder.rglob("*.jsonl.gz")
        (target / JOURNAL).write_text(_dumped(journal), encoding="utf-8")
        shutil.copyfile(segment, target / RECORDING)
        for session in a_small_spark(folder):  # the lake names the scratch folder, as any path does
            run(session, PipelineRequest((str(segment),), str(folder / "lake")))
        with tarfile.open(target / LAKE, "w:xz") as packed:
            packed.add(folder / "lake", "lake", filter=_without_owner)


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    return member.replace(uid=0, gid=0, uname="", gname="", deep=False)


def _dumped(journal: Path) -> str:
    with sqlite3.connect(journal) as connection:
        marks = [(name, *connection.execute(f"PRAGMA {name}").fetchone()) for name in _PRAGMAS]
        lines = [f"PRAGMA {name} = {value};" for name, value in marks]
        return "\n".join((*lines, *connection.iterdump(), ""))


if __name__ == "__main__":
    main()
