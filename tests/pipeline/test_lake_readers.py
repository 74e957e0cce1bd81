"""Programs without ktui read the rows of one version, by the lines that the lake itself names."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from py4j.protocol import Py4JJavaError
from pyarrow import parquet
from pyspark.sql import SparkSession

from ktui.pipeline.lake.lake import Lake
from ktui.pipeline.lake.manifest import Manifest
from ktui.pipeline.lake.tables import MOVES, POLLS, RUNS, SAMPLES, STATES
from ktui.pipeline.report.lake import ArrowLake
from support.cli.call_ktui import call_ktui
from support.pipeline.lake_rows import into_lake, lines_in, looks, record
from support.simulated.observations import START

_TIMES = "spark.sql.parquet.outputTimestampType"
WITH_ROWS = (MOVES, POLLS, SAMPLES, STATES)


class GrownLake:
    """Two clusters in a lake of an older ktui, of which one has had news twice since."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.lake, self._recorded, self._spark = folder / "lake", folder / "recorded", spark
        for cluster in ("one", "other"):
            record(self._recorded, looks(3, cluster_id=cluster))
        usual = spark.conf.get(_TIMES) or ""
        spark.conf.set(_TIMES, "INT96")
        self.old = self._run()
        spark.conf.set(_TIMES, usual)
        for name in self.old.tables:
            shutil.rmtree(self.lake / name / "_delta_log")
            (self.lake / name / "README.md").unlink()
        (self.lake / "README.md").unlink()
        self.second = self._grown(from_s=60.0)
        self.third = self._grown(from_s=120.0)

    def _grown(self, from_s: float) -> Manifest:
        record(self._recorded, looks(2, from_s=from_s, cluster_id="one"))
        return self._run()

    def _run(self) -> Manifest:
        return into_lake(self._spark, self.lake, self._recorded).manifest


@pytest.fixture(scope="module")
def grown(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> GrownLake:
    return GrownLake(spark, tmp_path_factory.mktemp("readers"))


def asked(lake: Path, query: str) -> list[dict[str, Any]]:
    done = call_ktui("pipeline", "sql", "--lake", str(lake), "--json", query)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def closed() -> Iterator[None]:
    """Close the connection that lines for DuckDB use, which is the process's own."""
    yield
    duckdb.close()


def lines_for(program: str, readme: Path) -> str:
    """Return the lines for a program that a README has."""
    return lines_in(readme.read_text(encoding="utf-8"))[program]


ROWS: dict[str, Callable[[Any], list[dict[str, Any]]]] = {
    "pandas": lambda read: read.to_dict("records"),
    "Polars": lambda read: read.to_dicts(),
    "DuckDB": lambda read: read.to_arrow_table().to_pylist(),
    "Spark": lambda read: [row.asDict() for row in read.collect()],
}
"""The rows of what each program has read."""


@pytest.mark.usefixtures("closed")
@pytest.mark.parametrize("program", ROWS)
def test_by_the_lines_of_a_readme_a_table_has_the_rows_that_ktui_finds(
    grown: GrownLake, spark: SparkSession, program: str
) -> None:
    for table in WITH_ROWS:
        (time,) = (name for name in ("at", "began") if name in table.schema.names)
        names: dict[str, Any] = {"spark": spark}

        exec(lines_for(program, grown.lake / table.name / "README.md"), names)  # noqa: S102 - what the README promises

        rows = ROWS[program](names[table.name])
        query = f'SELECT cluster_id, epoch_ms("{time}")::BIGINT AS ms FROM {table.name}'  # noqa: S608 - ktui's names
        read = [(row["cluster_id"], round(row[time].timestamp() * 1000)) for row in rows]
        assert sorted(read) == sorted(
            (row["cluster_id"], row["ms"]) for row in asked(grown.lake, query)
        )


@pytest.mark.usefixtures("closed")
@pytest.mark.parametrize("program", ROWS)
def test_by_the_lines_of_a_readme_a_table_without_rows_is_empty_with_all_its_columns(
    grown: GrownLake, spark: SparkSession, program: str
) -> None:
    names: dict[str, Any] = {"spark": spark}

    exec(lines_for(program, grown.lake / "runs" / "README.md"), names)  # noqa: S102 - what the README promises

    assert ROWS[program](names["runs"]) == []
    assert {*RUNS.schema.names} - {*names["runs"].columns} == set()


def test_the_readme_of_the_lake_leads_to_every_table(grown: GrownLake) -> None:
    text = (grown.lake / "README.md").read_text(encoding="utf-8")

    names: dict[str, Any] = {}
    exec(lines_for("pandas", grown.lake / "README.md"), names)  # noqa: S102 - what the README promises
    assert len(names["moves"]) == asked(grown.lake, "SELECT count(*) AS n FROM moves")[0]["n"]
    assert {f"| `{name}` |" in text for name in grown.third.tables} == {True}


@pytest.mark.parametrize(
    "by_its_name",
    [
        pd.read_parquet,
        pl.read_parquet,
        lambda folder: pl.scan_parquet(f"{folder}/").collect(),
    ],
)
def test_a_table_read_by_its_folders_name_is_refused_and_the_readme_named(
    grown: GrownLake, by_its_name: Callable[[Path], object]
) -> None:
    with pytest.raises(Exception, match=r"moves/README\.md"):
        by_its_name(grown.lake / "moves")


def test_spark_too_refuses_a_tables_folder_and_names_the_readme(
    grown: GrownLake, spark: SparkSession
) -> None:
    with pytest.raises(Py4JJavaError, match=r"moves/README\.md"):
        spark.read.parquet(f"{grown.lake}/moves").count()


def test_a_reader_of_the_version_before_keeps_its_rows(grown: GrownLake) -> None:
    folder = grown.lake / "samples"

    now, before = DeltaTable(folder), DeltaTable(folder, version=2)

    assert now.version() == grown.third.version == 3
    assert len(before.to_pandas()) == sum(_rows(grown.second, "samples"))
    assert len(now.to_pandas()) == sum(_rows(grown.third, "samples"))
    assert _rows(grown.second, "samples") < _rows(grown.third, "samples")
    before.update_incremental()
    assert sorted(before.file_uris()) == sorted(now.file_uris())


def _rows(manifest: Manifest, table: str) -> list[int]:
    return [part.rows for _, part in sorted(manifest.tables[table].items())]


def test_other_programs_may_not_write_into_a_table(grown: GrownLake) -> None:
    rows = pl.read_delta(str(grown.lake / "moves")).to_arrow()

    with pytest.raises(CommitFailedError, match="Unsupported"):
        write_deltalake(grown.lake / "moves", rows, mode="append")


def test_tables_and_columns_say_what_they_are(grown: GrownLake) -> None:
    table = DeltaTable(grown.lake / "moves")
    find = "SELECT comment FROM duckdb_views() WHERE view_name = 'moves'"
    with duckdb.connect() as views:
        views.execute((grown.lake / "views.sql").read_text(encoding="utf-8"))
        comments = views.sql(find).fetchall()

    (looks_,) = (field for field in table.schema().fields if field.name == "looks")
    assert looks_.metadata == {"comment": "number of samples that show it"}
    assert table.metadata().description == MOVES.about
    assert comments == [(MOVES.about,)]


def test_times_have_a_zone_and_their_least_and_greatest_in_each_file(grown: GrownLake) -> None:
    new = {file.path for file in grown.third.tables["samples"]["one"].files}
    for path in new - {file.path for file in grown.old.tables["samples"]["one"].files}:
        footer = parquet.read_metadata(grown.lake / path)
        assert str(footer.schema.to_arrow_schema().field("at").type) == "timestamp[us, tz=UTC]"
        (at,) = (
            column
            for column in (footer.row_group(0).column(n) for n in range(footer.num_columns))
            if column.path_in_schema == "at"
        )
        assert at.statistics.min < at.statistics.max


def test_a_lake_of_an_older_ktui_goes_on_with_old_files_among_the_new(
    grown: GrownLake, spark: SparkSession
) -> None:
    files = [file.path for part in grown.third.tables["samples"].values() for file in part.files]
    kinds = {str(parquet.read_schema(grown.lake / path).field("at").type): path for path in files}
    assert kinds.keys() == {"timestamp[ns]", "timestamp[us, tz=UTC]"}
    rows = Lake.open(spark, str(grown.lake)).table(SAMPLES)
    arrow = ArrowLake.open(str(grown.lake)).dataset("samples")
    assert arrow is not None

    by_spark = {round(row["at"].astimezone(UTC).timestamp() * 1000) for row in rows.collect()}
    by_arrow = {round(time.timestamp() * 1000) for time in arrow.to_table()["at"].to_pylist()}
    by_sql = {row["t"] for row in asked(grown.lake, "SELECT DISTINCT t FROM samples")}

    assert by_spark == by_arrow == by_sql
    assert min(by_sql) == round(datetime.timestamp(START) * 1000)
