"""The sources of a lab's Kafka and Java, and the errors when they are missing."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ktui.lab.java import check_version, fetch, find_java, find_maven, needed_release
from ktui.lab.layout import LabError, WrongInput

FETCHES = """
for word in "$@"; do case "$word" in -DoutputDirectory=*) into="${word#*=}" ;; esac; done
mkdir -p "$into" && touch "$into/kafka_2.13-4.3.1.jar" "$into/a.jar"
echo "[INFO] Downloaded from central: some/a.pom (1 kB)"
for i in 1 2 3 4 5 6 7 8 9 10 11; do
    echo "[INFO] Downloaded from central: some/a$i.jar (1 kB)"
done
echo fetched >> "$RECORD"
"""
NO_SUCH = """
echo '[ERROR] Failed to execute goal on project lab: Could not find \
artifact org.apache.kafka:kafka-tools:jar:9.9.9 in central (somewhere) -> [Help 1]'
echo '[ERROR] '
echo '[ERROR] Re-run Maven using the -X switch to enable full debug logging.'
exit 1
"""
NO_SUCH_REMEMBERED = """
echo '[ERROR] org.apache.kafka:kafka-tools:jar:9.9.9 was not found in central during a previous try'
exit 1
"""
OFFLINE = "echo '[ERROR] Unknown host repo: Temporary failure in name resolution'; exit 1"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An isolated machine: an empty cache, and the programs that the test writes into bin/."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("RECORD", str(tmp_path / "record"))
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path


def program(machine: Path, name: str, script: str) -> None:
    path = machine / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def fetches(machine: Path) -> int:
    return len((machine / "record").read_text().splitlines())


def names(class_path: tuple[str, ...]) -> list[str]:
    return [Path(jar).name for jar in class_path]


def test_jars_are_fetched_through_maven_once_with_progress(machine: Path) -> None:
    program(machine, "mvn", FETCHES)
    progress: list[str] = []
    first = fetch("4.3.1", progress.append)
    assert names(first) == ["a.jar", "kafka_2.13-4.3.1.jar"]
    assert fetch("4.3.1", progress.append) == first
    assert fetches(machine) == 1
    assert progress == [
        "fetching Kafka 4.3.1 through Maven",
        "fetching Kafka 4.3.1 through Maven: 10 jars so far",
    ]


def test_concurrent_fetches_run_maven_once(machine: Path) -> None:
    program(machine, "mvn", FETCHES)
    threads = [threading.Thread(target=fetch, args=("4.3.1", lambda _: None)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fetches(machine) == 1


@pytest.mark.parametrize("maven", [NO_SUCH, NO_SUCH_REMEMBERED])
def test_an_unpublished_version_is_refused_with_the_published_ones(
    machine: Path, maven: str
) -> None:
    program(machine, "mvn", maven)
    with pytest.raises(WrongInput, match=r"(?s)9\.9\.9 is not published in full.*4\.4\.0") as error:
        fetch("9.9.9", lambda _: None)
    assert "Help 1" not in str(error.value)


def test_a_maven_failure_is_quoted_and_leaves_no_partial_files(machine: Path) -> None:
    program(machine, "mvn", OFFLINE)
    with pytest.raises(LabError, match="Temporary failure in name resolution"):
        fetch("4.3.1", lambda _: None)
    assert [path.suffix for path in (machine / "cache" / "ktui").iterdir()] == [".lock"]


def test_a_missing_maven_is_reported_with_how_to_get_it(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(machine / "bin"))
    with pytest.raises(LabError, match=r"no mvn was found.*ensure-java\.sh.*KAFKA_HOME"):
        find_maven()


@pytest.mark.parametrize("version", ["4", "4.3", "latest", "4.3.1-rc1", "../4.3.1", ""])
def test_a_malformed_version_is_refused(version: str) -> None:
    with pytest.raises(WrongInput, match="is not a Kafka version"):
        check_version(version)


def test_a_version_without_kraft_is_refused() -> None:
    with pytest.raises(WrongInput, match=r"Kafka 2\.8\.1 .*Use 3\.9\.2 or later"):
        check_version("2.8.1")


def test_kafka_home_is_used_instead_of_maven(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libs = machine / "kafka" / "libs"
    libs.mkdir(parents=True)
    (libs / "kafka_2.13-4.2.1.jar").touch()
    monkeypatch.setenv("KAFKA_HOME", str(machine / "kafka"))
    assert names(fetch("4.2.1", lambda _: None)) == ["kafka_2.13-4.2.1.jar"]
    with pytest.raises(LabError, match=r"holds Kafka 4\.2\.1, not 4\.3\.1.*--version 4\.2\.1"):
        fetch("4.3.1", lambda _: None)


def test_a_kafka_home_without_kafka_is_named(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_HOME", str(machine))
    with pytest.raises(LabError, match=f"KAFKA_HOME is {machine}"):
        fetch("4.3.1", lambda _: None)


@pytest.mark.parametrize(("kafka", "java"), [("3.9.2", 11), ("4.0.0", 17), ("4.4.0", 17)])
def test_each_kafka_has_a_minimum_java_release(kafka: str, java: int) -> None:
    assert needed_release(kafka) == java


def test_a_missing_java_is_reported_with_the_release_needed(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(machine / "bin"))
    with pytest.raises(LabError, match=r"Kafka 4\.3\.1 needs Java 17, and no java was found"):
        find_java(17, "Kafka 4.3.1")


@pytest.mark.parametrize(
    ("build", "release"), [("1.8.0_432", 8), ("11.0.2", 11), ("16", 16), ("17-ea", None)]
)
def test_a_java_that_is_too_old_is_named(machine: Path, build: str, release: int | None) -> None:
    program(machine, "java", f"""echo 'openjdk version "{build}" 2025-04-15' >&2""")
    if release is None:
        assert find_java(17, "Kafka 4.3.1").release == 17
    else:
        with pytest.raises(LabError, match=f"bin/java is {release}. Install a newer one"):
            find_java(17, "Kafka 4.3.1")


def test_a_java_home_without_java_is_named(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(machine))
    with pytest.raises(LabError, match=r"JAVA_HOME is .*no bin/java in it"):
        find_java(17, "Kafka 4.3.1")


def test_a_java_that_does_not_run_is_named(machine: Path) -> None:
    program(machine, "java", "exit 3")
    with pytest.raises(LabError, match="bin/java does not run"):
        find_java(17, "Kafka 4.3.1")
