"""Runs of plans: what is decided, the engine that does it, and the journal that remembers it.

What stands here are the errors that stop a run, or a command to it; their messages are for people.
"""

from __future__ import annotations


class RunProblem(Exception):
    """Part of a run cannot be used; the message says what, where and what to do."""


class RunRefused(RunProblem):
    """A request cannot be met in the present state; nothing was written, and nothing sent."""


class JournalProblem(RunProblem):
    """A journal cannot be read or written; the message names the file."""
