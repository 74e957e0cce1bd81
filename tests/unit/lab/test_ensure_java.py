"""scripts/ensure-java.sh: silent if nothing is missing, else it installs or prints the command."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "ensure-java.sh"
ORDINARY = ("sh", "sed", "head", "env", "chmod", "cp")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder that is the whole PATH: the ordinary tools, and no java, mvn or package manager."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ORDINARY:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    program(folder, "id", "echo 1000")
    return folder


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def java(folder: Path, version: str) -> None:
    program(folder, "java", f"""echo 'openjdk version "{version}" 2025-04-15' >&2""")


def ensure_java(programs: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(SCRIPT)],
        env={"PATH": str(programs), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def package_manager(programs: Path, name: str) -> Path:
    """Create one that installs a JDK 17 and Maven, and logs that it did."""
    said, spare = programs.parent / "said", programs.parent / "spare"
    spare.mkdir()
    java(spare, "17.0.15")
    program(spare, "javac", ":")
    program(spare, "mvn", ":")
    program(programs, name, f'echo "$*" >> {said}; cp {spare}/* {programs}')
    return said


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_ensure_java_is_silent_when_nothing_is_missing(programs: Path, version: str) -> None:
    java(programs, version)
    program(programs, "javac", ":")
    program(programs, "mvn", ":")
    done = ensure_java(programs)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_ensure_java_without_rights_stops_with_the_command_to_type(programs: Path) -> None:
    said = package_manager(programs, "apt-get")
    done = ensure_java(programs)
    assert done.returncode == 1
    assert "a JDK, 17 or newer (no java was found)" in done.stderr
    assert "Maven (no mvn was found)" in done.stderr
    assert "  sudo sh -c 'apt-get update && " in done.stderr
    assert not said.exists()


def test_a_sudo_that_asks_for_a_password_counts_as_no_rights(programs: Path) -> None:
    said = package_manager(programs, "dnf")
    program(programs, "sudo", "exit 1")
    done = ensure_java(programs)
    assert done.returncode == 1
    assert "  sudo sh -c 'dnf install -y java-21-openjdk-devel maven'" in done.stderr
    assert not said.exists()


@pytest.mark.parametrize("name", ["apt-get", "dnf", "yum", "apk"])
def test_root_installs_with_the_systems_package_manager(programs: Path, name: str) -> None:
    program(programs, "id", "echo 0")
    said = package_manager(programs, name)
    done = ensure_java(programs)
    assert done.returncode == 0, done.stderr
    assert "maven" in said.read_text()
    assert ensure_java(programs).stderr == ""


def test_a_sudo_without_password_installs(programs: Path) -> None:
    said = package_manager(programs, "apk")
    program(programs, "sudo", 'shift; "$@"')
    assert ensure_java(programs).returncode == 0
    assert said.read_text() == "add openjdk17-jdk maven\n"


@pytest.mark.parametrize(
    ("version", "complaint"), [("1.8.0_432", "java is 8)"), ("11.0.2", "java is 11)")]
)
def test_a_java_that_is_too_old_is_named(programs: Path, version: str, complaint: str) -> None:
    java(programs, version)
    program(programs, "mvn", ":")
    done = ensure_java(programs)
    assert done.returncode == 1
    assert complaint in done.stderr
    assert "Maven" not in done.stderr.split("No known")[0]


def test_a_java_runtime_without_compiler_is_not_enough(programs: Path) -> None:
    java(programs, "17.0.15")
    program(programs, "mvn", ":")
    assert "is only a runtime, without javac" in ensure_java(programs).stderr


def test_java_home_takes_precedence_over_the_path(programs: Path, tmp_path: Path) -> None:
    java(programs, "11.0.2")
    program(programs, "mvn", ":")
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    java(home / "bin", "21.0.1")
    program(home / "bin", "javac", ":")
    assert ensure_java(programs, JAVA_HOME=str(home)).returncode == 0


def test_a_failed_installation_is_reported(programs: Path) -> None:
    program(programs, "id", "echo 0")
    program(programs, "yum", "echo 'no such package'; exit 1")
    done = ensure_java(programs)
    assert done.returncode == 1
    assert "no such package" in done.stderr
    assert "That failed" in done.stderr


def test_an_installation_that_does_not_help_is_reported(programs: Path) -> None:
    program(programs, "id", "echo 0")
    program(programs, "apk", ":")
    done = ensure_java(programs)
    assert done.returncode == 1
    assert "Installed, but still missing:" in done.stderr


def test_a_system_without_a_known_package_manager_is_reported(programs: Path) -> None:
    done = ensure_java(programs)
    assert done.returncode == 1
    assert "No known package manager was found" in done.stderr
