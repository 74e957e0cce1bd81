"""The Java and Maven installations of this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import msgspec

from ktui.lab.errors import LabError

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_INSTALL = "Install it with your package manager, or run scripts/ensure-java.sh of ktui's sources."


class Java(msgspec.Struct, frozen=True):
    """A Java runtime."""

    program: str
    release: int
    """The feature release: 17, 21."""
    build: str
    """The whole output of `java -version`; differs from build to build."""


def needed_release(kafka_version: str) -> int:
    """Return the lowest Java release that runs brokers of this version (KIP-1013)."""
    return 17 if int(kafka_version.split(".", 1)[0]) >= 4 else 11  # noqa: PLR2004 - Kafka 4


def find_java(needed: int, what_for: str) -> Java:
    """Find a Java: the one in JAVA_HOME, else the one on the PATH.

    Args:
        needed: the lowest release that suffices.
        what_for: the name of what needs Java, for the error.

    Raises:
        LabError: there is no Java, or it is too old.
    """
    program = _java_home() or shutil.which("java")
    if program is None:
        raise LabError(
            f"{what_for} needs Java {needed}, and no java was found",
            fix=f"{_INSTALL} Or set JAVA_HOME to a JDK.",
        )
    build = _version_text(program)
    found = _VERSION.search(build)
    if found is None:
        raise LabError(f"{program} does not say its version", words=(build,))
    java = Java(str(Path(program).resolve()), int(found[1]), build)
    if java.release < needed:
        raise LabError(
            f"{what_for} needs Java {needed}, and {program} is {java.release}",
            fix="Install a newer one, or set JAVA_HOME to it.",
        )
    return java


def find_maven() -> str:
    """Find mvn on the PATH.

    Raises:
        LabError: there is no mvn.
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise LabError(
            "Kafka's jars are fetched with Maven, and no mvn was found",
            fix=f"{_INSTALL} Or set KAFKA_HOME to an unpacked Kafka.",
        )
    return maven


def _java_home() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if not home:
        return None
    program = Path(home) / "bin" / "java"
    if not os.access(program, os.X_OK):
        raise LabError(
            f"JAVA_HOME is {home}, and there is no bin/java in it", fix="Set it to a JDK."
        )
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
        arguments: the arguments of java itself, then the program's own.
        doing: the purpose as a phrase, for the error.

    Raises:
        LabError: the program failed; the error quotes its last lines.
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
