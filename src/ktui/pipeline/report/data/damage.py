"""Tables that cannot be read, told in a line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pyarrow as pa

from ktui.pipeline.errors import PipelineProblem


@contextmanager
def damage_in_words(place: str) -> Iterator[None]:
    """Say that a table's files are missing, or not what the pipeline writes.

    Raises:
        PipelineProblem: they are.
    """
    try:
        yield
    except (OSError, pa.ArrowException, msgspec.MsgspecError) as error:
        fix = f"Make the lake anew: ktui pipeline run --lake {place}"
        raise PipelineProblem(f"{place}: its tables cannot be read: {error}. {fix}") from None
