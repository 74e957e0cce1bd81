"""Row and null counts from the footers of Parquet files, which take no job of Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq

from ktui.pipeline.errors import PipelineProblem
from ktui.pipeline.lake.schema import Table


class Footer(msgspec.Struct, frozen=True):
    """What the footer of a file says."""

    rows: int
    nulls: Mapping[str, int]  # by column; columns of arrays, maps and structs are left out


def footer_of(path: Path) -> Footer:
    """Read the footer of a file on this machine."""
    found = pq.read_metadata(path)
    groups = (found.row_group(number) for number in range(found.num_row_groups))
    columns = (group.column(at) for group in groups for at in range(found.num_columns))
    known = (
        (column.path_in_schema, column.statistics.null_count)
        for column in columns
        if column.statistics is not None and column.statistics.has_null_count
    )
    return Footer(found.num_rows, _summed(known))


def hadoop_footer_of(jvm: Any, path: Any, conf: Any) -> Footer:
    """Read the footer of a file, a Hadoop `Path`, by Spark's Hadoop client."""
    hadoop = jvm.org.apache.parquet.hadoop
    reader = hadoop.ParquetFileReader.open(hadoop.util.HadoopInputFile.fromPath(path, conf))
    try:
        blocks = list(reader.getFooter().getBlocks())
        columns = [column for block in blocks for column in block.getColumns()]
        known = ((each.getPath().toDotString(), _nulls(each.getStatistics())) for each in columns)
        return Footer(sum(block.getRowCount() for block in blocks), _summed(known))
    finally:
        reader.close()


def check_nulls(table: Table, footers: Iterable[Footer]) -> None:
    """Raise PipelineProblem, which names it, for a null in a column that allows none."""
    needed = {field.name for field in table.schema if not field.nullable}
    for footer in footers:
        for name in needed & footer.nulls.keys():
            if footer.nulls[name]:
                raise PipelineProblem(
                    f"{table.name}.{name} is null in {footer.nulls[name]:,} of {footer.rows:,} "
                    "rows, and may never be. The lake is as it was. This is a defect of ktui"
                )


def _nulls(statistics: Any) -> int:
    return int(statistics.getNumNulls()) if statistics.isNumNullsSet() else 0


def _summed(known: Iterable[tuple[str, int]]) -> Mapping[str, int]:
    nulls: Counter[str] = Counter()
    for name, count in known:
        if "." not in name:
            nulls[name] += count
    return nulls
