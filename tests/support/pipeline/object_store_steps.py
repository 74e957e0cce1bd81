"""Steps in a process of its own, whose Spark has the jars for an object store."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from ktui.pipeline.ingest import segments
from ktui.pipeline.lake.files import HadoopFiles
from ktui.pipeline.spark.session import start
from support.pipeline.lake_rows import lines_in
from support.pipeline.sparks import SMALL

_REQUESTS = ("action_http_head_request", "object_list_request", "action_http_get_request")


class _Repeating(HadoopFiles):
    """Loses the answer to each write, and repeats it, as the client of a store does."""

    def replace(self, name: str, content: bytes, state: Any = None) -> bool:
        self._write(self._at(name), content)
        return super().replace(name, content, state)


def replacements(spark: SparkSession, uri: str) -> dict[str, Any]:
    """Replace a file in its present and in an earlier state."""
    files = HadoopFiles(uri, spark)
    none = files.state("file")
    done = [files.replace("file", b"first", none), files.replace("file", b"late", none)]
    first = files.state("file")
    done += [files.replace("file", b"second", first), files.replace("file", b"late", first)]
    repeated = _Repeating(uri, spark).replace("file", b"third", files.state("file"))
    kept = (files.read("file") or b"").decode()
    return {"replaced": done, "repeated": repeated, "kept": kept}


def search(spark: SparkSession, uri: str) -> dict[str, int]:
    """Find segments; return their number, and that of the requests that it took."""
    context: Any = spark._jsc
    jvm: Any = spark._jvm
    system = jvm.org.apache.hadoop.fs.Path(uri).getFileSystem(context.hadoopConfiguration())

    def requests() -> int:
        counters = system.getIOStatistics().counters()
        return sum(int(counters[name]) for name in _REQUESTS)

    before = requests()
    found = len(segments.find(spark, [uri]).files)
    return {"found": found, "requests": requests() - before}


def main() -> None:
    """Print all results as JSON; the arguments are settings, as JSON, and two URIs."""
    settings, files, recorded = sys.argv[1:]
    spark = start("local[1]", more={**SMALL, **json.loads(settings)})
    results = {**replacements(spark, files), **search(spark, recorded)}
    sys.stdout.write(f"{json.dumps(results)}\n")
    sys.stdout.flush()
    spark.stop()


def read_by_readmes() -> None:
    """Run the lines of READMEs; print the rows that each program found in each table, as JSON.

    The arguments are settings, and the READMEs by table, both as JSON.
    """
    settings, readmes = (json.loads(each) for each in sys.argv[1:])
    names: dict[str, Any] = {"spark": start("local[1]", more={**SMALL, **settings})}
    count: dict[str, Callable[[Any], int]] = {
        "pandas": len,
        "Polars": len,
        "DuckDB": lambda rows: rows.to_arrow_table().num_rows,
        "Spark": lambda rows: rows.count(),
    }
    found: dict[str, dict[str, int]] = {}
    for table, readme in readmes.items():
        for program, lines in lines_in(readme).items():
            exec(lines, names)  # noqa: S102 - what the README promises
            found.setdefault(table, {})[program] = count[program](names[table])
    sys.stdout.write(f"{json.dumps(found)}\n")
    sys.stdout.flush()
