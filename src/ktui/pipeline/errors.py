"""Errors of the pipeline, with messages for people."""

from __future__ import annotations


class PipelineProblem(Exception):
    """The pipeline cannot go on. The message names the problem, its place and what to do."""


class LakeLocked(PipelineProblem):
    """Another run is writing the lake, which is free again once that run has ended."""


class SparkFailed(PipelineProblem):
    """Spark failed; its log has the details."""
