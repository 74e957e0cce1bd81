"""Errors of a person's query, as one sentence with the place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from ktui.pipeline.errors import PipelineProblem

_PLACE = re.compile(r"\n+(LINE (\d+): )(.*)\n( *)\^")
_UNKNOWN_TABLE = re.compile(r"(Table with name .* does not exist!) Did you mean.*", re.DOTALL)
_LONGEST = 30
"""The most characters that are quoted of a query."""


class BadQuery(PipelineProblem):
    """A query cannot be run; the message names the place in its text."""


@contextmanager
def query_error(*, line_before: int) -> Iterator[None]:
    """Turn DuckDB's errors about a query into `BadQuery`; those about files pass.

    Args:
        line_before: the number of lines before the query in the text that DuckDB runs.

    Raises:
        BadQuery: the query cannot be run.
    """
    try:
        yield
    except duckdb.IOException:
        raise
    except duckdb.Error as error:
        raise BadQuery(_sentence(str(error), line_before)) from None


def _sentence(message: str, line_before: int) -> str:
    found = _PLACE.search(message)
    said = message[: found.start()] if found else message.partition("\n\n")[0]
    said = " ".join(said.partition("Error: ")[2].split()) or message
    said = _UNKNOWN_TABLE.sub(r"\1 `ktui pipeline sql --tables` lists the tables.", said)
    if found is None:
        return f"the query: {said}"
    head, line, shown, indent = found.groups()
    at = shown[len(indent) - len(head) :].removesuffix("...")[:_LONGEST].strip()
    return f"the query, line {int(line) - line_before}, at {at!r}: {said}"
