"""`ktui pipeline run --engine`: what it needs, what it refuses, and where else it is chosen."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pyspark
import pytest
from click.testing import CliRunner

from ktui.cli.pipeline.verbs import run as command
from ktui.pipeline.lake.manifest import PipelineProblem
from ktui.pipeline.spark import sail
from support.cli.call_ktui import call_ktui


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory with a segment, and a folder for config.yaml."""
    (tmp_path / "000000.jsonl.gz").touch()
    monkeypatch.setenv("KTUI_CONFIG_DIR", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pysail", None)  # as where it is not installed
    return tmp_path


def _failed(*words: str) -> str:
    done = CliRunner().invoke(command, words)
    assert done.exception is not None
    return done.stderr if isinstance(done.exception, SystemExit) else str(done.exception)


def test_without_sail_the_line_that_installs_it_is_named(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--engine", "sail", "--state-dir", str(recorded))
    needs = "--engine sail needs pysail, which is not installed. Install it: pip install "

    monkeypatch.setattr(sail, "version", lambda _: "4.3.0")  # of a whole PySpark
    assert _failed(*words) == needs + "'pyspark[connect]==4.2.*' 'pysail==0.7.*'"

    monkeypatch.setattr(sail, "version", _not_found)
    assert _failed(*words) == needs + "'ktui[pipeline-sail]'"


def _not_found(name: str) -> str:
    raise PackageNotFoundError(name)


def test_a_pyspark_that_sail_does_not_take_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sail, "find_spec", lambda name: ModuleSpec(name, None))
    monkeypatch.setattr(sail, "version", lambda _: "5.0.0")
    monkeypatch.setattr(pyspark, "__version__", "5.0.0")

    with pytest.raises(PipelineProblem) as refused:
        sail.check_sail()

    assert str(refused.value) == (
        "--engine sail works with PySpark 4.1 and 4.2, and here is 5.0. "
        "Install one: pip install 'pyspark[connect]==4.2.*' 'pysail==0.7.*'"
    )


def test_where_pyspark_has_no_spark_the_other_engine_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(pyspark, "SparkContext")

    with pytest.raises(PipelineProblem, match=r"here is pyspark-client.* use --engine sail, or"):
        sail.check_jvm()


def test_what_only_spark_does_is_refused_with_sail(recorded: Path) -> None:
    state = ("--engine", "sail", "--state-dir", str(recorded))

    master = call_ktui("pipeline", "run", *state, "--master", "spark://host:7077")
    lake = call_ktui("pipeline", "run", *state, "--lake", "s3a://bucket/lake")

    assert (master.returncode, lake.returncode) == (2, 1)
    assert "--master needs Spark: leave out --engine sail" in master.stderr
    assert lake.stderr == (
        "ktui: s3a://bucket/lake: --engine sail reads and writes files of this machine only. "
        "Leave it out, and Spark does the work\n"
    )


def test_config_yaml_chooses_the_engine_and_an_option_wins(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (recorded / "config.yaml").write_text("pipeline:\n  engine: sail\n")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("JAVA_HOME", "")
    state = ("--state-dir", str(recorded))

    assert _failed(*state).startswith("--engine sail needs pysail")
    assert "Java" in _failed(*state, "--engine", "spark")
    assert "Java" in _failed(*state, "--master", "local[1]")


def test_an_engine_that_does_not_exist_is_named_with_its_line(recorded: Path) -> None:
    (recorded / "config.yaml").write_text("bell: off\npipeline:\n  engine: flink\n")

    told = _failed("--state-dir", str(recorded))

    assert told.startswith(f"{recorded}/config.yaml:3: pipeline.engine: ")
    assert "flink" in told
