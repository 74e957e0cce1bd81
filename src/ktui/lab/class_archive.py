"""A shared class archive (CDS) of Kafka's classes: brokers and tools start in half the time.

It is recorded once per Java build and class path, from a running broker. A JVM that cannot use the
archive runs without it.
"""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
from pathlib import Path

import platformdirs

from ktui.lab.java import Java

RECORD_FLAG = "-XX:+RecordDynamicDumpInfo"
_FIRST_RELEASE = 17
_LIMIT_S = 60


def archive_path(java: Java, class_path: tuple[str, ...]) -> Path | None:
    """Return the archive's path, whether or not it exists; None if this Java cannot make one."""
    if java.release < _FIRST_RELEASE or not Path(java.program).with_name("jcmd").exists():
        return None
    key = hashlib.sha256("\0".join([java.program, java.build, *class_path]).encode()).hexdigest()
    return platformdirs.user_cache_path("ktui") / f"classes-{key[:16]}.jsa"


def sharing_flags(archive: str | None) -> list[str]:
    """Return JVM flags that use the archive if it exists, and print nothing if it does not fit."""
    use = [f"-XX:SharedArchiveFile={archive}"] if archive and Path(archive).exists() else []
    return ["-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr", *use]


def record_archive(pid: int, java: str, archive: Path) -> None:
    """Record the archive from a broker that runs with RECORD_FLAG; a failure is ignored."""
    new = archive.with_name(f"{archive.stem}-{pid}.new")
    jcmd = Path(java).with_name("jcmd")
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        archive.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(  # noqa: S603 - the jcmd beside the java that was found
            [jcmd, str(pid), "VM.cds", "dynamic_dump", str(new)],
            capture_output=True,
            check=True,
            timeout=_LIMIT_S,
        )
        new.replace(archive)
    new.unlink(missing_ok=True)
