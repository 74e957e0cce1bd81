"""`ktui pipeline run`: recordings into tables."""

from __future__ import annotations

from ktui.pipeline.job import command

__all__ = ["command"]
