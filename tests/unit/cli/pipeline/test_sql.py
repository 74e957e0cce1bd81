"""`ktui pipeline sql` answers queries about a lake, and touches nothing else."""

import csv
import io
import json
import os
import re
import signal
import sys
import threading
from pathlib import Path

import pytest

from ktui.cli.pipeline import sql
from ktui.pipeline.sql import DuckLake, Result
from support.cli.call_ktui import Done, call_ktui
from support.pipeline.report_facts import a_run
from support.pipeline.report_lake import rows_of, write_lake

PAGE = Path(__file__).parents[4] / "docs" / "pipeline.md"
DOCUMENTED = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake of a run, and of another cluster with a hostile topic."""
    rows = rows_of(a_run(24))
    rows["moves"].append({"cluster_id": "other", "topic": "\x1b[31m\u202eevil", "partition": 7})
    return write_lake(tmp_path_factory.mktemp("sql") / "lake", rows)


def asked(lake: Path, *words: str) -> Done:
    where = ("--lake", str(lake), "--state-dir", str(lake.parent / "state"))
    return call_ktui("pipeline", "sql", *where, *words)


def contents(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_no_thread_outlives_a_query_and_holds_the_lake_at_the_exit(lake: Path) -> None:
    with_bound = DuckLake.open(str(lake), most_s=600.0)
    assert with_bound.rows("SELECT count(*) AS n FROM moves") == [{"n": 25}]
    assert not [each for each in threading.enumerate() if isinstance(each, threading.Timer)]


def test_rows_are_printed_as_a_table_as_csv_and_as_lines_of_json(lake: Path) -> None:
    query = (
        "SELECT topic, partition, bytes, original, to_timestamp(began_t / 1000) AS began, batch "
        "FROM moves WHERE cluster_id = 'cluster-one' ORDER BY partition DESC LIMIT 2; "
    )

    table, comma, lines = (asked(lake, query, *more) for more in ([], ["--csv"], ["--json"]))

    assert table.stdout.splitlines() == [
        "topic   partition       bytes  original  began                 batch",
        "orders         23  1000000023  [1,2,3]   2026-05-04T13:10:00Z      5",
        "orders         22  1000000022  [1,2,3]   2026-05-04T13:10:00Z      5",
    ]
    assert list(csv.reader(io.StringIO(comma.stdout)))[1] == [
        "orders", "23", "1000000023", "[1,2,3]", "2026-05-04T13:10:00Z", "5",
    ]  # fmt: skip
    assert json.loads(lines.stdout.splitlines()[0]) == {
        "topic": "orders", "partition": 23, "bytes": 1000000023, "original": [1, 2, 3],
        "began": "2026-05-04T13:10:00Z", "batch": 5,
    }  # fmt: skip


@pytest.mark.parametrize("query", DOCUMENTED)
def test_the_documented_queries_find_something(lake: Path, query: str) -> None:
    done = asked(lake, query, "--json")

    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_text('{outside}')",
        "FROM '{outside}'",
        "SELECT * FROM glob('{folder}/*')",
        "COPY moves TO '{folder}/out.csv'",
        "COPY moves TO '{inside}'",
        "WITH x AS (COPY (SELECT 1) TO '{inside}' (USE_TMP_FILE false)) SELECT * FROM x",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{inside}' (USE_TMP_FILE false)",
        "SELECT * FROM query('COPY (SELECT 1) TO ''{inside}'' (USE_TMP_FILE false)')",
        "SELECT 1) TO '{inside}'; COPY (SELECT 1",
        "SELECT 1; COPY (SELECT 1) TO '{inside}' (USE_TMP_FILE false)",
        "ATTACH '{folder}/new.db'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
    ],
)
def test_nothing_outside_of_the_lake_is_read_and_nothing_at_all_is_written(
    lake: Path, query: str
) -> None:
    outside = lake.parent / "secret.txt"
    outside.write_text("secret", encoding="utf-8")
    inside = next(lake.rglob("*.parquet"))
    before = contents(lake.parent)

    done = asked(lake, query.format(outside=outside, folder=lake.parent, inside=inside))

    assert done.returncode == 2, done.stdout
    assert done.stderr.startswith("ktui: the query")
    assert done.stderr.count("\n") == 1
    assert contents(lake.parent) == before


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT 1 +\n  topc FROM moves", "line 2, at 'topc FROM moves': Referenced column"),
        ("SELEC 1", "line 1, at 'SELEC 1': syntax error at or near"),
        ("FROM mvoes", "line 1, at 'mvoes': Table with name mvoes does not exist! `ktui pip"),
        (
            "SELECT CAST(topic AS INT) FROM moves WHERE cluster_id = 'cluster-one'",
            "Could not convert string 'orders' to INT32",
        ),
        ("", "the query: give one SELECT, WITH, FROM, DESCRIBE or SUMMARIZE"),
    ],
)
def test_a_query_that_cannot_run_is_reported_with_its_place(
    lake: Path, query: str, said: str
) -> None:
    done = asked(lake, query)

    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_tables_are_listed_with_their_columns_as_a_query_has_to_write_them(lake: Path) -> None:
    listed = asked(lake, "--tables").stdout

    assert listed == asked(lake).stdout
    assert "moves  25 rows  One row for each move of a partition" in listed
    assert "eta_backtest  a view" in listed
    assert re.search(r'^  "at" +TIMESTAMP WITH TIME ZONE +t as a timestamp$', listed, re.MULTILINE)
    assert re.search(r"^  bytes +BIGINT +copied, by sizes on disk", listed, re.MULTILINE)


def test_text_of_a_cluster_cannot_drive_the_terminal(lake: Path) -> None:
    query = "SELECT topic FROM moves WHERE cluster_id = 'other'"

    assert asked(lake, query).stdout.splitlines()[1] == r"\x1b[31m\u202eevil"
    assert json.loads(asked(lake, query, "--json").stdout) == {"topic": "\x1b[31m\u202eevil"}


def test_a_result_wider_than_the_terminal_is_shown_column_by_column(
    lake: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    query = "SELECT * FROM moves WHERE topic = 'orders' ORDER BY partition"

    sql._print_table(DuckLake.open(str(lake)).query(query))

    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["row 1", "  cluster_id         cluster-one", "  topic              orders"]
    assert lines.count("row 24") == 1


def test_a_long_table_says_that_it_is_cut(lake: Path) -> None:
    done = asked(lake, "SELECT * FROM range(1500)")

    assert len(done.stdout.splitlines()) == 1001
    assert "Only the first 1,000 rows are shown" in done.stderr
    assert len(asked(lake, "FROM range(1500)", "--csv").stdout.splitlines()) == 1501


def test_a_query_ends_after_its_time_and_names_the_option_that_gives_more(lake: Path) -> None:
    query = "SELECT count(*) FROM range(10000000) a, range(10000000) b"

    done = asked(lake, query, "--timeout", "1s")

    assert done.returncode == 2
    assert done.stderr == ("ktui: the query: took longer than 1 s. Give it more: --timeout\n")


def test_a_query_may_use_a_quarter_of_the_memory(lake: Path) -> None:
    said = asked(lake, "SELECT current_setting('memory_limit')", "--csv").stdout.splitlines()[1]

    figure, unit = said.split()
    limit = float(figure) * 1024 ** ("KiB", "MiB", "GiB", "TiB").index(unit) * 1024
    assert limit <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 4 * 1.01


def test_a_query_may_come_from_a_file(lake: Path, tmp_path: Path) -> None:
    file = tmp_path / "query.sql"
    file.write_text("SELECT 42 AS answer -- and no more", encoding="utf-8")

    assert asked(lake, "--file", str(file), "--csv").stdout == "answer\n42\n"
    assert asked(lake, "--file", str(tmp_path / "no")).returncode == 2


def test_without_a_lake_the_command_that_makes_one_is_named(tmp_path: Path) -> None:
    done = asked(tmp_path / "no", "SELECT 1")

    assert done.returncode == 1
    assert f"no lake. Make one from recordings: ktui pipeline run --lake {tmp_path}" in done.stderr


def test_a_lake_without_rows_has_empty_tables(tmp_path: Path) -> None:
    lake = write_lake(tmp_path / "lake", {})

    assert asked(lake, "SELECT count(*) AS moves FROM moves", "--csv").stdout == "moves\n0\n"


def test_damaged_tables_are_reported_with_the_command_that_makes_them_again(
    tmp_path: Path,
) -> None:
    lake = write_lake(tmp_path / "lake", {"moves": [{"cluster_id": "a"}]})
    next(lake.rglob("*.parquet")).write_bytes(b"PAR1 and nothing else PAR1")

    done = asked(lake, "FROM moves")

    assert done.returncode == 1
    assert "its tables cannot be read: " in done.stderr
    assert done.stderr.endswith(f"Make the lake again: ktui pipeline run --lake {lake}\n")


def test_a_lake_may_be_named_by_a_uri(lake: Path) -> None:
    done = asked(Path(lake.as_uri()), "SELECT count(*) FROM moves", "--csv")

    assert done.stdout.splitlines()[1:] == ["25"]


def test_ctrl_c_ends_a_query_at_once_though_duckdb_holds_back_what_python_handles(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled: list[object] = []
    query = DuckLake.query

    def seen(opened: DuckLake, text: str) -> Result:
        handled.append(signal.getsignal(signal.SIGINT))
        return query(opened, text)

    monkeypatch.setattr(DuckLake, "query", seen)

    assert asked(lake, "SELECT 1").returncode == 0
    assert handled[-1] is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
