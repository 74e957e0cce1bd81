"""Which engine computes a session's tables: Spark in a JVM, or Sail in this process.

The same PySpark code runs on both. Everything that differs asks here, or for what only a JVM has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812 - as Spark's own documents name it

try:
    from py4j.protocol import Py4JError, Py4JJavaError
except ModuleNotFoundError:  # PySpark without a JVM: nothing raises them

    class _NoJvm(Exception):
        java_exception: Any = None

    Py4JError = Py4JJavaError = _NoJvm

__all__ = ["Py4JError", "Py4JJavaError", "in_pairs", "on_sail", "schema_of_files", "schema_on"]

T_ = TypeVar("T_")


def on_sail(of: SparkSession | DataFrame) -> bool:
    """Whether a session, or that of some rows, is of Sail, which is reached by Spark Connect."""
    return type(of).__module__.startswith("pyspark.sql.connect.")


def in_pairs(join: Callable[[T_, T_], T_], parts: Sequence[T_]) -> T_:
    """Join parts two by two, as `reduce` does in a row: Spark Connect takes no deep plan."""
    half = len(parts) // 2
    if not half:
        return parts[0]
    return join(in_pairs(join, parts[:half]), in_pairs(join, parts[half:]))


def schema_on(of: SparkSession | DataFrame, schema: T.StructType) -> T.StructType:
    """Return a schema as a session's engine takes it: Sail fails on comments that it has lost."""
    if not on_sail(of):
        return schema
    bare: T.StructType = _bare(schema, read=False)
    return bare


def schema_of_files(schema: T.StructType) -> T.StructType:
    """Return a schema as Sail takes it for files: it fails on a column that may be null there."""
    bare: T.StructType = _bare(schema, read=True)
    return bare


def _bare(kind: T.DataType, *, read: bool) -> Any:
    match kind:
        case T.StructType():
            return T.StructType(
                [
                    T.StructField(each.name, _bare(each.dataType, read=read), read or each.nullable)
                    for each in kind
                ]
            )
        case T.ArrayType():
            return T.ArrayType(_bare(kind.elementType, read=read), read or kind.containsNull)
        case _:
            return kind
