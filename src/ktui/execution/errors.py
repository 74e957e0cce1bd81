"""What stands in the way of a run, in words for people."""

from __future__ import annotations


class RunProblem(Exception):
    """Something of a run cannot be used; says what, where and what to do."""


class RunRefused(RunProblem):
    """What was asked for cannot be, as things are: nothing was written, and nothing sent."""


class JournalProblem(RunProblem):
    """A journal cannot be read or written; names the file."""
