"""A shared class archive (CDS) of Spark's classes, so that later JVMs start faster.

The first JVM writes the archive when it ends: some 150 to 200 MB in the user's cache folder, for
this Java and this Spark. Later JVMs on this machine map that file. An archive that does not fit or
is incomplete is ignored silently. Without a usable cache folder, none is written.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import platformdirs
import pyspark

from ktui.lab.java import Java

_OPTIONS = "SPARK_SUBMIT_OPTS"
"""The variable with the JVM options that Spark's scripts add to a driver's settings."""
_ALWAYS = ("-Xshare:auto", "-XX:+IgnoreUnrecognizedVMOptions", "-Xlog:cds=off,cds+dynamic=off")
_ROOM_BYTES = 1 << 30
"""The free disk space that writing an archive needs."""
_WRITTEN_WITHIN_S = 3600.0
"""A JVM that began to write an archive longer ago than this has died."""
_MOST = 3
"""The archives to keep, over all Javas, Sparks and environments; the oldest are removed first."""


@contextmanager
def shared_classes(java: Java) -> Iterator[None]:
    """Within the block, let JVMs that Spark starts read the archive, or write one if there is none.

    If the block raises, the archive that it used is removed, so that the next attempt does without.
    """
    before = os.environ.get(_OPTIONS)
    archive, options = None, ""
    with suppress(OSError):
        archive = _found(place := _place(java))
        options = _reading(archive) if archive else _writing(place)
    os.environ[_OPTIONS] = " ".join(filter(None, (options, before)))
    try:
        yield
    except Exception:
        if archive is not None:
            with suppress(OSError):
                archive.unlink()
        raise
    finally:
        os.environ.pop(_OPTIONS)
        if before is not None:
            os.environ[_OPTIONS] = before


def _place(java: Java) -> Path:
    """Return the prefix of the archive's path; different jars have a different one.

    Spark's scripts resolve links to PySpark, and an archive is for jars in one place: environments
    that are links to one have one archive.
    """
    jars = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).resolve().parent, "jars")
    parts = (java.program, java.build, pyspark.__version__, jars, jars.stat().st_mtime_ns)
    key = sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]
    return platformdirs.user_cache_path("ktui") / f"spark-{key}"


def _found(place: Path) -> Path | None:
    """Find a complete archive; None without one."""
    for new in place.parent.glob("spark-*-*.new"):  # of other Sparks, too: else they stay for ever
        _settle(new, new.with_name(new.name.rpartition("-")[0]))
    # a JVM that maps a truncated archive dies
    whole = (one for one in place.parent.glob(f"{place.name}-*.jsa") if one == _sized(place, one))
    return next(whole, None)


def _settle(new: Path, place: Path) -> None:
    """Rename an archive once a JVM has written it; remove one whose JVM has died."""
    with new.open("rb") as file:
        is_whole = any(file.read(4))  # written last, and zero until then
    if is_whole:
        for other in place.parent.glob(f"{place.name}-*.jsa"):
            other.unlink()  # of a JVM that ran at the same time
        new.replace(_sized(place, new))
        archives = [(one.stat().st_mtime, one) for one in place.parent.glob("spark-*-*.jsa")]
        for _, old in sorted(archives)[:-_MOST]:
            old.unlink()
    elif time.time() - new.stat().st_mtime > _WRITTEN_WITHIN_S:
        new.unlink()


def _sized(place: Path, file: Path) -> Path:
    return place.with_name(f"{place.name}-{file.stat().st_size}.jsa")


def _reading(archive: Path) -> str:
    option = _quoted(f"-XX:SharedArchiveFile={archive}")
    return " ".join((option, "-XX:+VerifySharedSpaces", *_ALWAYS))


def _writing(place: Path) -> str:
    place.parent.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(place.parent).free < _ROOM_BYTES:
        return ""
    option = _quoted(f"-XX:ArchiveClassesAtExit={place}-{os.getpid()}.new")
    return " ".join((option, *_ALWAYS))


def _quoted(option: str) -> str:
    """Quote an option so that Spark's launcher reads it as one word."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
