"""The Java and the Maven of this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import msgspec

from ktui.lab.errors import LabError

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_INSTALL = "Install it your system's way; scripts/ensure-java.sh of ktui's sources does so."


class Java(msgspec.Struct, frozen=True):
    """A Java runtime."""

    program: str
    release: int
    """The feature release: 17, 21."""
    build: str
    """All that it says about its version; differs from build to build."""


def needed_release(kafka_version: str) -> int:
    """The lowest Java release that brokers of this version run on (KIP-1013)."""
    return 17 if int(kafka_version.split(".", 1)[0]) >= 4 else 11  # noqa: PLR2004 - Kafka 4


def find_java(needed: int, what_for: str) -> Java:
    """Find a Java: JAVA_HOME's, else the one on the PATH.

    Args:
        needed: the lowest release that will do.
        what_for: who needs it, for the error.

    Raises:
        LabError: there is none, or it is too old.
    """
    program = _java_home() or shutil.which("java")
    if program is None:
        raise LabError(
            f"{what_for} needs Java {needed}, and no java was found",
            fix=f"{_INSTALL} Or let JAVA_HOME name one.",
        )
    build = _version_text(program)
    found = _VERSION.search(build)
    if found is None:
        raise LabError(f"{program} does not say its version", words=(build,))
    java = Java(str(Path(program).resolve()), int(found[1]), build)
    if java.release < needed:
        raise LabError(
            f"{what_for} needs Java {needed}, and {program} is {java.release}",
            fix="Install a newer one, or let JAVA_HOME name it.",
        )
    return java


def find_maven() -> str:
    """Find mvn on the PATH.

    Raises:
        LabError: there is none.
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise LabError(
            "Kafka's jars come through Maven, and no mvn was found",
            fix=f"{_INSTALL} Or let KAFKA_HOME name an unpacked Kafka.",
        )
    return maven


def _java_home() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if not home:
        return None
    program = Path(home) / "bin" / "java"
    if not os.access(program, os.X_OK):
        raise LabError(f"JAVA_HOME is {home}, and there is no bin/java in it", fix="Correct it.")
    return str(program)


def _version_text(program: str) -> str:
    try:
        answer = subprocess.run(  # noqa: S603 - the java that was found
            [program, "-version"], capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise LabError(f"{program} does not run: {error}", fix=_INSTALL) from error
    return (answer.stderr + answer.stdout).strip()


def run_java(
    java: str, *arguments: str, doing: str, environment: dict[str, str] | None = None
) -> None:
    """Run a small Java program to its end.

    Args:
        java: the program.
        arguments: what java itself takes, then the program's own.
        doing: what it is for, as a phrase for an error.
        environment: its environment; None for this process's.

    Raises:
        LabError: it failed; its last lines are quoted.
    """
    flags = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
    run = subprocess.run(  # noqa: S603 - the java that was found
        [java, *flags, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env=environment,
    )
    if run.returncode != 0:
        lines = [line for line in run.stdout.splitlines() if line.strip()]
        raise LabError(f"{doing} failed", words=tuple(lines[-8:]))
