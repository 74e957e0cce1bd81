"""`ktui pipeline run --follow`, in its own process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

from ktui.lab.nodes import wait_for
from support.pipeline.sparks import small_settings

LIMIT_S = 900.0
"""Spark starts slowly on a busy machine."""


class FollowerProcess:
    """Follows recordings into a lake, every second, without backtests, simulations or insights.

    Args:
        folder: the parent of `lake`, `recorded` and `state`, and of its output, `said.txt`.
    """

    def __init__(self, folder: Path) -> None:
        self._said = folder / "said.txt"
        recorded, lake, state = (str(folder / name) for name in ("recorded", "lake", "state"))
        words = ["--recordings", recorded, "--lake", lake, "--state-dir", state, "--no-insights"]
        how = ["--follow", "--every=1s", "--master=local[1]"]
        with self._said.open("w") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ktui", "pipeline", "run", *how, *words],
                stdin=subprocess.DEVNULL,
                stdout=said,
                env={**os.environ, **small_settings()},
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that its JVM dies with it
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def said(self) -> str:
        return self._said.read_text()

    def says(self, words: str) -> None:
        """Wait until its output contains `words`."""
        wait_for(lambda: words in self.said or self._process.poll() is not None, seconds=LIMIT_S)
        assert words in self.said

    def kill(self) -> None:
        """Kill it at once, with all processes that it has started."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
