"""`ktui pipeline` names the libraries that it needs, and no other verb loads them."""

import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pytest

from ktui.cli.pipeline.group import VERBS
from ktui.cli.pipeline.sql import findings_text
from ktui.pipeline.lake.files import LocalFiles
from ktui.pipeline.run.follow import following_alone
from ktui.pipeline.run.run import PipelineRequest
from ktui.pipeline.sql import Findings, PollGap
from support.cli.call_ktui import call_ktui

_HEAVY = ("pyspark", "py4j", "pyarrow", "pandas", "numpy", "plotly")


def called_without(libraries: Collection[str], *words: str) -> subprocess.CompletedProcess[str]:
    """Call ktui where libraries are not installed."""
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({[*libraries]!r}))\n"
        f"sys.argv = ['ktui', *{words!r}]\n"
        "from ktui.cli.main import main\n"
        "main()"
    )
    return subprocess.run(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_no_other_verb_loads_the_libraries_of_the_pipeline(tmp_path: Path) -> None:
    calls = [["--help"], ["pipeline", "--help"], ["runs"], ["record", "--help"]]
    code = (
        "import sys\n"
        "from ktui.cli.main import ktui\n"
        f"for words in {calls!r}:\n"
        "    assert not ktui(words, standalone_mode=False)\n"
        f"print('loaded:', *(n for n in {_HEAVY} if sys.modules.get(n)))\n"
    )
    environment = {**os.environ, "KTUI_STATE_DIR": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )

    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == "loaded:"


@pytest.mark.parametrize(
    ("verb", "library"),
    [
        ("run", "pyspark"),
        ("check", "pyspark"),
        ("run", "pyarrow"),
        ("report", "pyarrow"),
        ("sql", "duckdb"),
    ],
)
def test_a_missing_library_is_named_with_the_command_that_installs_it(
    verb: str, library: str
) -> None:
    run = called_without([library], "pipeline", verb, "--lake", "x")

    assert run.returncode == 2, run.stdout + run.stderr
    assert f"needs {library}, which is not installed" in run.stderr
    assert "pip install 'ktui[pipeline]'" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_explains_itself_where_nothing_of_the_extra_is_installed(verb: str) -> None:
    run = called_without([*_HEAVY, "duckdb", "jinja2"], "pipeline", verb, "--help")

    assert (run.returncode, run.stderr) == (0, "")
    assert f"Usage: ktui pipeline {verb} " in run.stdout


def test_where_nothing_is_recorded_no_java_is_started_to_say_so(tmp_path: Path) -> None:
    without = {"PATH": "", "JAVA_HOME": ""}

    state = ("--state-dir", str(tmp_path / "new"))
    run = call_ktui("pipeline", "run", *state, **without)
    check = call_ktui("pipeline", "check", *state, **without)
    missing = call_ktui("pipeline", "run", *state, "--recordings", f"{tmp_path}/no", **without)

    assert (run.returncode, check.returncode, missing.returncode) == (1, 1, 1)
    assert "/new: nothing is recorded. ktui start records its run" in run.stderr
    assert "/lake: no lake. Make one from recordings: ktui pipeline run --lake" in check.stderr
    assert missing.stderr == f"ktui: {tmp_path}/no: no such file or folder\n"


def test_a_lake_that_another_run_writes_is_named_before_java_is_started(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    (tmp_path / "000000.jsonl.gz").touch()

    with LocalFiles(lake).locked():
        run = call_ktui("pipeline", "run", "--state-dir", str(tmp_path), PATH="", JAVA_HOME="")

    assert run.returncode == 1
    assert run.stderr == f"ktui: {lake}: another run is writing this lake; wait for it\n"


def test_a_second_follower_of_the_same_recordings_is_refused_before_java_is_started(
    tmp_path: Path,
) -> None:
    words = ("pipeline", "run", "--follow", "--state-dir", str(tmp_path))

    with following_alone(PipelineRequest((str(tmp_path),), str(tmp_path / "lake"))):
        run = call_ktui(*words, PATH="", JAVA_HOME="")

    assert run.returncode == 1
    lake = tmp_path / "lake"
    assert run.stderr == (
        f"ktui: {lake}: another follower already reads {tmp_path} into this lake\n"
    )


def test_a_place_to_follow_that_is_no_folder_is_refused_before_java_is_started(
    tmp_path: Path,
) -> None:
    follow = ("pipeline", "run", "--follow", "--state-dir", str(tmp_path), "--recordings")

    missing = call_ktui(*follow, str(tmp_path / "no"), PATH="", JAVA_HOME="")

    assert missing.stderr == f"ktui: {tmp_path}/no: no such folder\n"
    assert not (tmp_path / "lake").exists()


def test_a_state_directory_that_is_new_can_be_followed(tmp_path: Path) -> None:
    new = ("--state-dir", str(tmp_path / "new"))

    run = call_ktui("pipeline", "run", "--follow", *new, PATH="", JAVA_HOME="")

    assert "The pipeline needs Java 17, and no java was found" in run.stderr


def test_the_pipeline_without_java_explains_that_it_needs_java(tmp_path: Path) -> None:
    (tmp_path / "000000.jsonl.gz").touch()

    run = call_ktui("pipeline", "run", "--state-dir", str(tmp_path), PATH="", JAVA_HOME="")

    assert run.returncode == 1
    assert "The pipeline needs Java 17, and no java was found" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_spark_that_does_not_start_is_quoted_line_by_line(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    version = "echo 'openjdk version \"17.0.15\"' >&2"
    java.write_text(f"#!/bin/sh\n[ $1 = -version ] && {version} || echo no room >&2\n")
    java.chmod(0o755)
    (tmp_path / "000000.jsonl.gz").touch()

    run = subprocess.run(
        [sys.executable, "-m", "ktui", "pipeline", "run", "--state-dir", str(tmp_path)],
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 1
    assert "\nktui: Spark does not start: " in run.stderr
    assert "\n  | no room\n" in run.stderr
    assert run.stderr.endswith(f"\nThe whole log is in {tmp_path}/pipeline.log\n")


def test_a_java_that_is_too_old_is_named(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    (tmp_path / "000000.jsonl.gz").touch()

    run = call_ktui("pipeline", "run", "--state-dir", str(tmp_path), JAVA_HOME=str(tmp_path))

    assert run.returncode == 1
    assert f"needs Java 17, and {java} is 11" in run.stderr


@pytest.mark.parametrize("words", [["--since", "yesterday"], ["--until", "15:00"]])
def test_a_malformed_time_is_refused_with_examples(words: list[str]) -> None:
    run = call_ktui("pipeline", "run", *words)

    assert run.returncode == 2
    assert "is not a time. Give a date, or a date and time: 2026-11-21" in run.stderr


def findings(**figures: object) -> Findings:
    counts = dict.fromkeys(
        ("segments", "sessions", "sessions_without_end", "lines", "copies", "differing", "missing",
         "looks", "lost_polls", "gaps", "longest_gap_ms", "clock_steps", "largest_clock_step_ms",
         "shadowed_polls", "shadowed_samples"), 0,
    )  # fmt: skip
    rest = {
        "version": 3,
        "written_at": "2026-01-01T00:00:00+00:00",
        "clusters": ("one",),
        "quarantined": {},
        "longest_gaps": (),
        "rows": {"samples": 12_000},
    }
    return Findings(**{**counts, **rest, **figures})  # type: ignore[arg-type]  # given by name


def test_the_findings_confirm_that_a_lake_has_every_line() -> None:
    words = findings_text(findings(segments=1, sessions=1, lines=7, looks=5), "/lake")

    assert "Read: 1 segment, 1 session, 7 lines, 5 polls" in words
    assert "12,000 rows" in words
    assert words.endswith("Every line that was recorded is in the tables.")


def test_the_findings_list_what_a_lake_lacks_and_why() -> None:
    found = findings(missing=2, quarantined={"it is cut off": 1})

    words = findings_text(found, "/lake")

    assert found.lost
    assert "2 lines missing" in words
    assert "1 line left out: it is cut off" in words
    assert "Not every line that was recorded is in the tables" in words


def test_the_findings_name_the_gaps_of_sessions_and_who_else_polled() -> None:
    began = 1_767_268_820_000
    gaps = (
        PollGap("prod", "b40e991c72de", began, began + 180_000, 36),
        PollGap("prod", "77e9d1b2a0f1", began, began + 90_000, 0),
    )

    words = findings_text(findings(gaps=3, longest_gap_ms=180_000, longest_gaps=gaps), "/lake")

    since = "from 2026-01-01 12:00:20 UTC"
    one, other = "session b40e991c of prod", "session 77e9d1b2 of prod"
    assert words.splitlines()[3:7] == [
        "  3 gaps of over a minute in a session, the longest 3m:",
        f"    {one}: no answered poll for 3m {since}; 36 polls of other sessions",
        f"    {other}: no answered poll for 1m 30s {since}; no other session polled",
        "    and 1 shorter",
    ]
