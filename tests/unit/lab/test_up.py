"""The lab comes up: Java, the release, the brokers."""

import shutil
import subprocess
import threading
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from ktui.cli.lab import connect
from ktui.lab import layout, nodes
from ktui.lab import up as up_module
from ktui.lab.java import Java, check_version, fetch, find_java, find_maven, needed_release
from ktui.lab.layout import Lab, LabError, WrongInput
from ktui.lab.up import LabRequest, up
from support.kafka.labs import written_lab


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def refused(folder: Path, request: LabRequest) -> LabError:
    with pytest.raises(LabError) as error:
        up(folder, request, connect, lambda _: None)
    return error.value


@pytest.mark.parametrize("brokers", [-1, 0, 100])
def test_a_lab_has_at_least_one_broker_and_broker_ids_below_the_controllers(
    tmp_path: Path, brokers: int
) -> None:
    error = refused(tmp_path / "lab", LabRequest(brokers=brokers))
    assert isinstance(error, WrongInput)
    assert str(error) == f"--brokers {brokers}. A lab has 1 to 99 brokers."


@pytest.mark.parametrize("log_dirs", [0, 10])
def test_a_broker_has_one_to_nine_log_dirs(tmp_path: Path, log_dirs: int) -> None:
    error = refused(tmp_path / "lab", LabRequest(log_dirs=log_dirs))
    assert isinstance(error, WrongInput)
    assert str(error) == f"--log-dirs {log_dirs}. A broker has 1 to 9 log dirs."


def test_a_kept_lab_is_only_started_with_as_many_log_dirs(tmp_path: Path) -> None:
    lab = written_lab(tmp_path)
    layout.save(Lab(tmp_path, msgspec.structs.replace(lab.layout, ready=True, log_dirs=2)))

    error = refused(tmp_path, LabRequest(brokers=2))

    found = f"--brokers 2 --version {layout.DEFAULT_VERSION} --security plaintext --log-dirs 2."
    assert found in str(error)


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("all of it")
    assert "is not empty" in str(refused(tmp_path, LabRequest()))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_nothing_is_started_without_disk_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(up_module, "fetch", lambda *_: ("/jars/a.jar",))
    monkeypatch.setattr(up_module, "find_java", lambda *_: Java("/opt/jdk/bin/java", 17, "17"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 10**12, 300 * 1024**2))
    error = refused(tmp_path / "lab", LabRequest())
    assert str(error).startswith(f"a lab needs 1 GiB of disk, and {tmp_path}")
    assert "300 MiB left" in str(error)
    assert not (tmp_path / "lab").exists()


def test_an_interrupted_start_must_be_cleared_first(tmp_path: Path) -> None:
    layout.save(written_lab(tmp_path))
    assert "whose start was interrupted. Clear it with: ktui lab down" in str(
        refused(tmp_path, LabRequest(brokers=2))
    )


def test_the_second_of_two_concurrent_starts_in_a_folder_is_refused(tmp_path: Path) -> None:
    lab = written_lab(tmp_path)
    layout.create(lab)
    with pytest.raises(LabError, match="another ktui is starting a lab"):
        layout.create(lab)
    assert layout.load(tmp_path) == lab


def test_a_malformed_version_is_refused_first(tmp_path: Path) -> None:
    error = refused(tmp_path / "lab", LabRequest(version="latest"))
    assert str(error).startswith("'latest' is not a Kafka version")


def test_a_generated_id_never_looks_like_an_option() -> None:
    ids = [nodes.new_id() for _ in range(2000)]
    assert not [made for made in ids if made.startswith("-")]
    assert {len(made) for made in ids} == {22}
    assert len(set(ids)) == 2000


def test_the_error_lines_of_a_log_are_its_last_errors_without_stack_frames(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        "10:00 INFO  starting\n"
        "10:01 ERROR KafkaServer: cannot start\n"
        "org.apache.kafka.common.config.ConfigException: Invalid value many\n"
        "\tat kafka.Kafka.main(Kafka.scala:1)\n"
        "\t... 3 more\n"
        "10:02 INFO  shutting down\n"
    )
    assert nodes.error_lines(log) == (
        "10:01 ERROR KafkaServer: cannot start",
        "org.apache.kafka.common.config.ConfigException: Invalid value many",
    )


def test_a_log_without_errors_yields_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("".join(f"line {number}\n" for number in range(20)))
    assert nodes.error_lines(log, most=2) == ("line 18", "line 19")


def test_a_missing_log_yields_no_lines(tmp_path: Path) -> None:
    assert nodes.error_lines(tmp_path / "server.log") == ()


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
    ensure_java_program(folder, "id", "echo 1000")
    return folder


def ensure_java_program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def java(folder: Path, version: str) -> None:
    ensure_java_program(folder, "java", f"""echo 'openjdk version "{version}" 2025-04-15' >&2""")


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
    ensure_java_program(spare, "javac", ":")
    ensure_java_program(spare, "mvn", ":")
    ensure_java_program(programs, name, f'echo "$*" >> {said}; cp {spare}/* {programs}')
    return said


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_ensure_java_is_silent_when_nothing_is_missing(programs: Path, version: str) -> None:
    java(programs, version)
    ensure_java_program(programs, "javac", ":")
    ensure_java_program(programs, "mvn", ":")
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
    ensure_java_program(programs, "sudo", "exit 1")
    done = ensure_java(programs)
    assert done.returncode == 1
    assert "  sudo sh -c 'dnf install -y java-21-openjdk-devel maven'" in done.stderr
    assert not said.exists()


@pytest.mark.parametrize("name", ["apt-get", "dnf", "yum", "apk"])
def test_root_installs_with_the_systems_package_manager(programs: Path, name: str) -> None:
    ensure_java_program(programs, "id", "echo 0")
    said = package_manager(programs, name)
    done = ensure_java(programs)
    assert done.returncode == 0, done.stderr
    assert "maven" in said.read_text()
    assert ensure_java(programs).stderr == ""


def test_a_sudo_without_password_installs(programs: Path) -> None:
    said = package_manager(programs, "apk")
    ensure_java_program(programs, "sudo", 'shift; "$@"')
    assert ensure_java(programs).returncode == 0
    assert said.read_text() == "add openjdk17-jdk maven\n"


@pytest.mark.parametrize(
    ("version", "complaint"), [("1.8.0_432", "java is 8)"), ("11.0.2", "java is 11)")]
)
def test_a_java_that_is_too_old_is_named_in_ensure_java(
    programs: Path, version: str, complaint: str
) -> None:
    java(programs, version)
    ensure_java_program(programs, "mvn", ":")
    done = ensure_java(programs)
    assert done.returncode == 1
    assert complaint in done.stderr
    assert "Maven" not in done.stderr.split("No known")[0]


def test_a_java_runtime_without_compiler_is_not_enough(programs: Path) -> None:
    java(programs, "17.0.15")
    ensure_java_program(programs, "mvn", ":")
    assert "is only a runtime, without javac" in ensure_java(programs).stderr


def test_java_home_takes_precedence_over_the_path(programs: Path, tmp_path: Path) -> None:
    java(programs, "11.0.2")
    ensure_java_program(programs, "mvn", ":")
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    java(home / "bin", "21.0.1")
    ensure_java_program(home / "bin", "javac", ":")
    assert ensure_java(programs, JAVA_HOME=str(home)).returncode == 0


def test_a_failed_installation_is_reported(programs: Path) -> None:
    ensure_java_program(programs, "id", "echo 0")
    ensure_java_program(programs, "yum", "echo 'no such package'; exit 1")
    done = ensure_java(programs)
    assert done.returncode == 1
    assert "no such package" in done.stderr
    assert "That failed" in done.stderr


def test_an_installation_that_does_not_help_is_reported(programs: Path) -> None:
    ensure_java_program(programs, "id", "echo 0")
    ensure_java_program(programs, "apk", ":")
    done = ensure_java(programs)
    assert done.returncode == 1
    assert "Installed, but still missing:" in done.stderr


def test_a_system_without_a_known_package_manager_is_reported(programs: Path) -> None:
    done = ensure_java(programs)
    assert done.returncode == 1
    assert "No known package manager was found" in done.stderr
