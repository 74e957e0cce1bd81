"""Recordings for the pipeline's benchmarks: `python -m bench.pipeline.recordings DIR SAMPLES`.

Four clusters, each recorded day by day: a run of ktui, with a view beside it for half of the
time; moves by others; and another run. The same samples and seed give the same files.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from random import Random

from bench.pipeline import moves, run_events, session
from bench.pipeline.session import SessionSpec, record

SEED = 7
FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
CLUSTERS = ("prod-east", "prod-west", "old-logs", "_test")
_IN_FLIGHT = (0.5, 1.0, 2.0, 1.0)
"""By cluster, how many moves are under way at a time, relative to the usual number."""
A_DAY = 4
"""The sessions of a cluster a day, one every six hours."""
_VIEW, _OF_OTHERS = 1, 2
"""Of each day's sessions, the view beside the first one, and the one without a run."""
MOST_OF_A_SESSION = 62_500
"""Samples; more are recorded as further days, so that large recordings are like smaller ones."""


def write(folder: Path, samples: int, seed: int = SEED) -> int:
    """Write recordings with so many samples into a new folder, on all cores.

    Returns:
        The number of polls.
    """
    return _record(folder, _sessions(samples, seed, 0, A_DAY))


def write_more(folder: Path, samples: int, more: int, seed: int = SEED) -> int:
    """Write what each cluster records next after `write`: a session of a run a day.

    Args:
        folder: a new folder.
        samples: those of `write`.
        more: samples to write now.
        seed: that of `write`.

    Returns:
        The number of polls.
    """
    begin = _days(samples)
    return _record(folder, _sessions(more, seed, begin, a_day=1))


def kept(samples: int, more: int) -> tuple[Path, Path]:
    """Return folders from `write` and `write_more` in the user's cache; write them if missing."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ktui-bench"
    whole = cache / f"recordings-{samples}-{more}-{_version()}"
    if not whole.exists():
        cache.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix="new-", dir=cache))
        try:
            write(new / "first", samples)
            write_more(new / "more", samples, more)
            new.rename(whole)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return whole / "first", whole / "more"


def _version() -> str:
    """Identify what the files depend on here, so that a change of it makes new ones."""
    sources = (__file__, moves.__file__, run_events.__file__, session.__file__)
    text = b"".join(Path(str(source)).read_bytes() for source in sources)
    return sha256(text).hexdigest()[:8]


def _record(folder: Path, specs: Iterator[SessionSpec]) -> int:
    folder.mkdir(parents=True)
    with ProcessPoolExecutor() as processes:
        return sum(processes.map(partial(record, folder), specs))


def _days(samples: int, a_day: int = A_DAY) -> int:
    return max(1, round(samples / (len(CLUSTERS) * a_day * MOST_OF_A_SESSION)))


def _sessions(samples: int, seed: int, begin: int, a_day: int) -> Iterator[SessionSpec]:
    """Yield each cluster's first sessions of each day, from the day `begin` on."""
    days = _days(samples, a_day)
    shares = iter(_split(samples, days * len(CLUSTERS) * a_day))
    for day in range(begin, begin + days):
        for number in range(len(CLUSTERS)):
            for nth in range(a_day):
                yield _spec(number, day, nth, next(shares), seed)


def _split(samples: int, parts: int) -> list[int]:
    return [samples * (n + 1) // parts - samples * n // parts for n in range(parts)]


def _spec(number: int, day: int, nth: int, samples: int, seed: int) -> SessionSpec:
    is_view = nth == _VIEW
    usual = min(50, max(4, round((samples / 25) ** 0.5)))
    place = f"{seed} {CLUSTERS[number]} {day}"
    name = Random(f"session {place} {nth}")  # noqa: S311 - figures for a measurement
    return SessionSpec(
        cluster=CLUSTERS[number],
        story=f"{place} {0 if is_view else nth}",
        session=f"{name.getrandbits(128):032x}",
        began=FIRST_DAY + timedelta(days=day, hours=6 * (0 if is_view else nth)),
        samples=samples,
        in_flight=max(2, round(usual * _IN_FLIGHT[number])),
        by_run=nth != _OF_OTHERS,
        is_view=is_view,
    )


def main() -> None:
    """Write the recordings that the command line asks for."""
    if len(sys.argv) != 3 or not sys.argv[2].isdigit():  # noqa: PLR2004 - DIR and SAMPLES
        sys.exit("use: python -m bench.pipeline.recordings DIR SAMPLES")
    folder, samples = Path(sys.argv[1]), int(sys.argv[2])
    if folder.exists():
        sys.exit(f"{folder} exists; name a new folder")
    print(f"{samples:,} samples in {write(folder, samples):,} polls: {folder}")


if __name__ == "__main__":
    main()
