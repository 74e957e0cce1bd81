"""Spark starts faster with the classes archived by an earlier JVM, and never fails by them."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pyspark
import pytest

from ktui.lab.java import Java, find_java
from ktui.pipeline.spark.session import shared_classes

JAVA = Java("/usr/bin/java", 17, "17.0.15+6")
WRITTEN = b"\xf0\x0b\xab\xa8"
"""The first bytes of a complete archive."""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / 'a "blank" place'))
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    return tmp_path / 'a "blank" place' / "ktui"


def _jvm_options(java: Java = JAVA) -> Mapping[str, str]:
    """Return the -XX options, with their values, that a JVM would be started with."""
    with shared_classes(java):
        words = shlex.split(os.environ["SPARK_SUBMIT_OPTS"])
    named = (word.removeprefix("-XX:").partition("=") for word in words)
    return {name: value for name, _, value in named}


def _leave_behind(content: bytes = WRITTEN + b"classes", java: Java = JAVA) -> Path:
    """Write the archive that a first JVM leaves at its end."""
    archive = Path(_jvm_options(java)["ArchiveClassesAtExit"])
    archive.write_bytes(content)
    return archive


def test_later_jvms_share_the_classes_archived_by_the_first(cache: Path) -> None:
    assert _leave_behind().parent == cache

    for _ in range(2):
        archive = Path(_jvm_options()["SharedArchiveFile"])
        assert archive.read_bytes() == WRITTEN + b"classes"
        assert "ArchiveClassesAtExit" not in _jvm_options()


@pytest.mark.usefixtures("cache")
def test_an_archive_still_being_written_is_not_used() -> None:
    new = _leave_behind(bytes(4) + b"classes")

    assert "SharedArchiveFile" not in _jvm_options()

    new.write_bytes(WRITTEN + b"classes")
    assert "SharedArchiveFile" in _jvm_options()


@pytest.mark.usefixtures("cache")
def test_an_old_unfinished_archive_is_removed() -> None:
    new = _leave_behind(bytes(4))
    os.utime(new, (0, 0))

    assert "SharedArchiveFile" not in _jvm_options()
    assert not new.exists()


@pytest.mark.usefixtures("cache")
def test_a_truncated_archive_is_not_used() -> None:
    _leave_behind()
    archive = Path(_jvm_options()["SharedArchiveFile"])
    archive.write_bytes(WRITTEN)

    assert "SharedArchiveFile" not in _jvm_options()


@pytest.mark.usefixtures("cache")
def test_each_java_has_its_own_archive() -> None:
    _leave_behind()

    assert "SharedArchiveFile" not in _jvm_options(Java("/usr/bin/java", 17, "17.0.16+8"))


@pytest.mark.usefixtures("cache")
def test_environments_that_are_links_to_one_spark_share_its_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _leave_behind()
    link = tmp_path / "linked"
    link.symlink_to(Path(pyspark.__file__).parent)

    monkeypatch.setattr(pyspark, "__file__", str(link / "__init__.py"))

    assert "SharedArchiveFile" in _jvm_options()


@pytest.mark.parametrize("used_again", [True, False])
def test_only_the_latest_few_archives_are_kept(cache: Path, *, used_again: bool) -> None:
    for age in range(5, 0, -1):
        java = Java("/usr/bin/java", 17, f"build {age}")
        os.utime(_leave_behind(java=java), (10**9 - age, 10**9 - age))
        _jvm_options(java if used_again or age == 1 else JAVA)

    assert len(list(cache.iterdir())) == 3
    assert "SharedArchiveFile" in _jvm_options(Java("/usr/bin/java", 17, "build 1"))


@pytest.mark.usefixtures("cache")
def test_an_archive_that_breaks_the_start_of_spark_is_dropped() -> None:
    _leave_behind()
    assert "SharedArchiveFile" in _jvm_options()

    with pytest.raises(RuntimeError), shared_classes(JAVA):
        raise RuntimeError

    assert "SharedArchiveFile" not in _jvm_options()


def test_spark_starts_without_an_archive_when_the_cache_is_unusable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    assert _jvm_options() == {}


def test_nothing_is_written_to_a_disk_that_is_nearly_full(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(cache.parents[1])._replace(free=2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)

    assert _jvm_options() == {}


@pytest.mark.usefixtures("cache")
def test_spark_options_of_the_user_are_kept_and_take_precedence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Xss4m")

    with shared_classes(JAVA):
        words = shlex.split(os.environ["SPARK_SUBMIT_OPTS"])

    assert words[-1] == "-Xss4m"
    assert len(words) > 1
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Xss4m"


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("content", [b"junk" * 5000, WRITTEN * 5000, b""])
def test_a_damaged_archive_neither_stops_a_jvm_nor_changes_its_output(content: bytes) -> None:
    java = find_java(17, "This test").program
    quiet = ["-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-version"]
    _leave_behind(content)
    with shared_classes(JAVA):
        options = shlex.split(os.environ["SPARK_SUBMIT_OPTS"])

    usual = subprocess.run([java, *quiet], capture_output=True, text=True, check=True)
    found = subprocess.run([java, *options, *quiet], capture_output=True, text=True, check=True)

    assert found.stderr.replace(", sharing", "") == usual.stderr.replace(", sharing", "")
    assert found.stdout == usual.stdout
