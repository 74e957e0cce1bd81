"""The model of a cluster is tested by the cluster's own runs, and by no others."""

from __future__ import annotations

import pytest
from msgspec.structs import astuple
from pyspark.sql import SparkSession

from ktui.pipeline.what_if.model import HeldOutTests
from ktui.pipeline.what_if.table import _tested, held_out_tests

_ROWS = "cluster_id string, own boolean, error_held_out double"


def test_each_cluster_has_the_errors_of_its_own_runs_in_its_ranges(spark: SparkSession) -> None:
    rows = [("a", True, 0.25), ("a", True, -0.5), ("a", False, 9.0), ("a", True, None)]
    rows += [("b", True, -1.0), ("b", True, None)]
    rows += [("c", True, n / 10) for n in range(11)]

    found = _tested(spark.createDataFrame(rows, _ROWS)).collect()

    tests = {row.cluster_id: held_out_tests(row.asDict()) for row in found}
    assert len(found) == len(rows)
    assert {cluster: astuple(each) for cluster, each in tests.items()} == {
        "a": pytest.approx((2, 0.8, 2.0)),
        "b": astuple(HeldOutTests()),
        "c": pytest.approx((11, 1 / 1.9, 1 / 1.1)),
    }
