"""Spark's classes in a shared class archive (CDS), so that its JVM need not read them anew.

The first JVM leaves the archive behind when it ends: some 150 to 200 MB in the user's cache folder,
for this Java and this Spark. Later ones on this machine map it. One that does not fit is passed
over in silence, and so is one that is not whole; without a place for it nothing is kept.
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
"""What Spark's scripts give the JVM of a driver, beside what its settings say."""
_ALWAYS = ("-Xshare:auto", "-XX:+IgnoreUnrecognizedVMOptions", "-Xlog:cds=off,cds+dynamic=off")
_ROOM_BYTES = 1 << 30
_WRITTEN_WITHIN_S = 3600.0
"""A JVM that began to write one longer ago has died of something."""
_MOST = 3
"""Archives that are kept; those of other Javas, Sparks and environments go, the oldest first."""


@contextmanager
def sharing(java: Java) -> Iterator[None]:
    """Let a JVM that Spark starts meanwhile share the classes, or leave them behind for others.

    An archive with which none starts is removed, so that the next attempt goes without.
    """
    given = os.environ.get(_OPTIONS)
    archive, options = None, ""
    with suppress(OSError):
        archive = _found(place := _place(java))
        options = _reading(archive) if archive else _writing(place)
    os.environ[_OPTIONS] = " ".join(filter(None, (options, given)))
    try:
        yield
    except Exception:
        if archive is not None:
            with suppress(OSError):
                archive.unlink()
        raise
    finally:
        os.environ.pop(_OPTIONS)
        if given is not None:
            os.environ[_OPTIONS] = given


def _place(java: Java) -> Path:
    """Say how the archive's path begins; other jars have another one."""
    jars = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent, "jars")
    parts = (java.program, java.build, pyspark.__version__, jars, jars.stat().st_mtime_ns)
    key = sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]
    return platformdirs.user_cache_path("ktui") / f"spark-{key}"


def _found(place: Path) -> Path | None:
    """Find the archive, where there is one and all of it is there."""
    for new in place.parent.glob(f"{place.name}-*.new"):
        _settle(new, place)
    # a JVM that maps one which was cut short dies of it
    whole = (one for one in place.parent.glob(f"{place.name}-*.jsa") if one == _sized(place, one))
    return next(whole, None)


def _settle(new: Path, place: Path) -> None:
    """Give an archive its name once a JVM has written it; remove it where none ever will."""
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
    """Give an option as Spark's launcher reads it: one word, whatever is in it."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
