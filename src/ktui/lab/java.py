"""Java, Maven and Kafka's jars on this machine, and an archive of classes that halves a start."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import platformdirs

from ktui.lab.layout import DEFAULT_VERSION, VERSIONS, LabError, ProgressReport, WrongInput

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_INSTALL = "Install it with your package manager, or run scripts/ensure-java.sh of ktui's sources."


class Java(msgspec.Struct, frozen=True):
    """A Java runtime."""

    program: str
    release: int
    build: str  # the whole output of `java -version`; differs from build to build


def needed_release(kafka_version: str) -> int:
    """Return the lowest Java release that runs brokers of this version (KIP-1013)."""
    return 17 if int(kafka_version.split(".", 1)[0]) >= 4 else 11  # noqa: PLR2004 - Kafka 4


def find_java(needed: int, what_for: str) -> Java:
    """Find a Java: the one in JAVA_HOME, else the one on the PATH."""
    program = _java_home() or shutil.which("java")
    if program is None:
        raise LabError(
            f"{what_for} needs Java {needed}, and no java was found",
            fix=f"{_INSTALL} Or set JAVA_HOME to a JDK.",
        )
    build = _version_text(program)
    found = _VERSION.search(build)
    if found is None:
        raise LabError(f"could not read the version of {program}", words=(build,))
    java = Java(str(Path(program).resolve()), int(found[1]), build)
    if java.release < needed:
        raise LabError(
            f"{what_for} needs Java {needed}, and {program} is {java.release}",
            fix="Install a newer one, or set JAVA_HOME to it.",
        )
    return java


def find_maven() -> str:
    """Find mvn on the PATH."""
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
    """Run a small Java program to its end."""
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


_KAFKA_VERSION = re.compile(r"\d+\.\d+\.\d+")
_LOGGING = ("org.apache.logging.log4j:log4j-slf4j-impl:2.25.1",)
"""Kafka 4 brings log4j 2, but no SLF4J binding for it. Without one its brokers log nothing."""
_JARS_PER_REPORT = 10
_NOT_PUBLISHED = re.compile(
    r"(Could not find artifact|Failure to find) org\.apache\.kafka:"
    r"|org\.apache\.kafka:\S+ was not found in "
)  # Maven's messages for a missing artifact: the first time, and later ones from its cache
_SERVER_JAR = re.compile(r"kafka_2\.\d+-(\d+\.\d+\.\d+)\.jar")


def check_version(version: str) -> None:
    """Check that a version looks like a Kafka release that a lab can run."""
    if not _KAFKA_VERSION.fullmatch(version):
        raise WrongInput(
            f"{version!r} is not a Kafka version",
            fix=f"Write it in full, for example {DEFAULT_VERSION}.",
        )
    if version.startswith(("0.", "1.", "2.")):
        raise WrongInput(
            f"Kafka {version} has no KRaft mode that a lab could run",
            fix=f"Use {VERSIONS[-1]} or later.",
        )


def fetch(version: str, report: ProgressReport) -> tuple[str, ...]:
    """Return Kafka's class path: KAFKA_HOME's, or of jars fetched by Maven, one fetch at a time."""
    check_version(version)
    home = os.environ.get("KAFKA_HOME")
    if home:
        return _from_home(Path(home), version)
    folder = platformdirs.user_cache_path("ktui") / f"kafka-{version}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _exclusive(folder.with_name(f"{folder.name}.lock"), report):
            if not folder.exists():
                _fetch_into(folder, version, report)
    return _jars(folder)


def _jars(folder: Path) -> tuple[str, ...]:
    return tuple(str(jar) for jar in sorted(folder.glob("*.jar")))


def _from_home(home: Path, version: str) -> tuple[str, ...]:
    libs = home.resolve() / "libs"
    versions = [found[1] for jar in libs.glob("*.jar") if (found := _SERVER_JAR.match(jar.name))]
    if not versions:
        raise LabError(
            f"KAFKA_HOME is {home}, and there is no Kafka in its libs folder",
            fix="Correct it, or unset it to fetch the jars with Maven.",
        )
    if version not in versions:
        raise LabError(
            f"KAFKA_HOME holds Kafka {versions[0]}, not {version}",
            fix=f"Use --version {versions[0]}, or unset KAFKA_HOME to fetch the jars with Maven.",
        )
    return _jars(libs)


@contextmanager
def _exclusive(path: Path, report: ProgressReport) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("waiting for another ktui that is fetching the same Kafka")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch_into(folder: Path, version: str, report: ProgressReport) -> None:
    maven = find_maven()
    report(f"fetching Kafka {version} through Maven")
    with tempfile.TemporaryDirectory(prefix=folder.name, dir=folder.parent) as scratch:
        pom, jars = Path(scratch) / "pom.xml", Path(scratch) / "jars"
        pom.write_text(_pom(version))
        _run_maven(maven, pom, jars, version, report)
        jars.rename(folder)


def _pom(version: str) -> str:
    kafka = [f"org.apache.kafka:{name}:{version}" for name in ("kafka_2.13", "kafka-tools")]
    artifacts = [*kafka, *_LOGGING] if not version.startswith("3.") else kafka
    dependencies = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId>"
        "<version>{}</version></dependency>".format(*coordinates.split(":"))
        for coordinates in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>ktui</groupId><artifactId>lab</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>\n"
    )


def _run_maven(maven: str, pom: Path, jars: Path, version: str, report: ProgressReport) -> None:
    command = [
        *(maven, "--batch-mode", "--file", str(pom), "dependency:copy-dependencies"),
        *("-DincludeScope=runtime", f"-DoutputDirectory={jars}", "-Dstyle.color=never"),
    ]
    errors: list[str] = []
    fetched = 0
    with subprocess.Popen(  # noqa: S603 - the mvn that was found
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as run:
        try:
            for line in run.stdout or ():
                if "[ERROR]" in line:
                    errors.append(line.split("[ERROR]", 1)[1].strip())
                if line.startswith("[INFO] Downloaded") and ".jar " in line:
                    fetched += 1
                    if fetched % _JARS_PER_REPORT == 0:
                        report(f"fetching Kafka {version} through Maven: {fetched} jars so far")
        except BaseException:
            run.terminate()
            raise
    if run.returncode != 0:
        raise _maven_error(version, [line for line in errors if line])


def _maven_error(version: str, errors: list[str]) -> LabError:
    words = tuple(line.removesuffix(" -> [Help 1]") for line in errors[:1])
    if any(map(_NOT_PUBLISHED.search, errors)):
        return WrongInput(
            f"Kafka {version} is not published in full",
            fix=f"Known to work: {', '.join(VERSIONS)}.",
            words=words,
        )
    return LabError(
        f"Maven could not fetch Kafka {version}",
        fix="Check the network and Maven's settings. The files fetched so far are kept.",
        words=words,
    )
