"""A shared class archive (CDS) of Kafka's classes: it halves the time that brokers take to start.

Taken once from a running broker, per Java build and class path; a JVM that finds it unfit goes on
without it.
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
_LONGEST_S = 60


def place(java: Java, class_path: tuple[str, ...]) -> Path | None:
    """Where the archive lies, made or not; None where this Java cannot make one."""
    if java.release < _FIRST_RELEASE or not Path(java.program).with_name("jcmd").exists():
        return None
    key = hashlib.sha256("\0".join([java.program, java.build, *class_path]).encode()).hexdigest()
    return platformdirs.user_cache_path("ktui") / f"classes-{key[:16]}.jsa"


def record(pid: int, java: str, archive: Path) -> None:
    """Take the archive from a broker started with RECORD_FLAG; without success, nothing is lost."""
    new = archive.with_name(f"{archive.stem}-{pid}.new")
    jcmd = Path(java).with_name("jcmd")
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        archive.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(  # noqa: S603 - the jcmd beside the java that was found
            [jcmd, str(pid), "VM.cds", "dynamic_dump", str(new)],
            capture_output=True,
            check=True,
            timeout=_LONGEST_S,
        )
        new.replace(archive)
    new.unlink(missing_ok=True)
