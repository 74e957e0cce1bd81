"""Fetch several small results together."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it


def fetch_all(results: Mapping[str, DataFrame]) -> dict[str, list[Row]]:
    """Fetch the rows of several results in one job: each job costs more than so few rows do.

    Args:
        results: by any names.
    """
    named = [rows.select(F.struct(*rows.columns).alias(name)) for name, rows in results.items()]
    together = reduce(lambda one, more: one.unionByName(more, allowMissingColumns=True), named)
    found: dict[str, list[Row]] = {name: [] for name in results}
    for row in together.collect():
        ((name, value),) = ((name, row[name]) for name in results if row[name] is not None)
        found[name].append(value)
    for values in found.values():
        values.sort(key=repr)  # sums of floats depend on the order, which Spark leaves open
    return found
