"""Errors of damaged tables, as one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import msgspec
import pyarrow as pa

from ktui.pipeline.errors import PipelineProblem


@contextmanager
def damage_as_problem(place: str) -> Iterator[None]:
    """Turn errors of reading tables within the block into a one-line problem.

    Raises:
        PipelineProblem: a table's files are missing, or not as the pipeline writes them.
    """
    try:
        yield
    except (OSError, pa.ArrowException, msgspec.MsgspecError, duckdb.Error) as error:
        fix = f"Make the lake again: ktui pipeline run --lake {place}"
        raise PipelineProblem(f"{place}: its tables cannot be read: {error}. {fix}") from None
