"""What stands in the way of the pipeline, in words for people."""

from __future__ import annotations


class PipelineProblem(Exception):
    """The pipeline cannot go on; says what, where and what to do."""


class LakeLocked(PipelineProblem):
    """Another run writes the lake; it is free again when that has ended."""


class SparkFailed(PipelineProblem):
    """Spark gave up; its log says more."""
