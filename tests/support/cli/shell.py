"""A shell in which `ktui` is called as a process, with a state directory of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from ktui.execution.errors import RunProblem
from ktui.execution.host.ownership import Holder, holder
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.run.events import AnyRunEvent, JournalEntry
from ktui.lab.layout import Lab
from ktui.lab.nodes import wait_for
from support.journals.seen_journal import SeenJournal

E = TypeVar("E")
Done = subprocess.CompletedProcess[str]
LIMIT_S = 240.0
"""The longest wait. Each lost answer to a step, as by a kill, may take a minute longer."""


class Shell:
    """Calls ktui on a lab; `close` ends every process that it has started and not ended.

    Args:
        lab: the cluster that ktui works on.
        folder: the folder for plans and the state directory.
    """

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.folder = folder
        self.state = StateDir(folder / "state")
        self.environment = {
            **os.environ,
            "KTUI_STATE_DIR": str(self.state.path),
            "KTUI_BOOTSTRAP_SERVER": lab.bootstrap_servers,
        }
        self._begun: list[subprocess.Popen[str]] = []
        self._journals: dict[str, SeenJournal] = {}

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """Call ktui, and return while it runs."""
        command = [sys.executable, "-m", "ktui", *words]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        )
        self._begun.append(process)
        return process

    def ktui(self, *words: str) -> Done:
        """Call ktui, and wait for its end."""
        return ended(self.begin(*words))

    def plan(self, name: str, partitions: Sequence[dict[str, Any]]) -> str:
        """Write a plan, and return its path."""
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps({"version": 1, "partitions": list(partitions)}))
        return str(path)

    def run_dir(self, name: str) -> RunDir:
        return self.state.run(name)

    def entries(self, name: str) -> list[JournalEntry]:
        """Return the entries of the run's journal; none while there is no journal.

        Tests ask many times a second: a journal that nobody has written to is not read again.
        """
        path = self.run_dir(name).journal
        try:
            if name not in self._journals:
                self._journals[name] = SeenJournal(path)
            return self._journals[name].entries()
        except RunProblem:
            return []

    def events(self, name: str, kind: type[E]) -> list[E]:
        events: list[AnyRunEvent] = [entry.event for entry in self.entries(name)]
        return [event for event in events if isinstance(event, kind)]

    def wait_for(self, name: str, kind: type[Any], count: int = 1) -> None:
        """Wait until the run's journal has ``count`` events of a kind."""
        came = wait_for(lambda: len(self.events(name, kind)) >= count, seconds=LIMIT_S)
        assert came, (name, kind, self.log(name))

    def owner(self, name: str) -> Holder:
        who = holder(self.run_dir(name))
        assert who is not None, self.log(name)
        return who

    def unowned(self, name: str) -> bool:
        """Wait until no process owns the run."""
        return wait_for(lambda: holder(self.run_dir(name)) is None, seconds=LIMIT_S)

    def log(self, name: str) -> str:
        path = self.run_dir(name).log
        return path.read_text() if path.exists() else "no log"

    def close(self) -> None:
        for run in self.state.run_dirs():
            who = holder(run)
            if who is not None:
                os.kill(who.pid, signal.SIGKILL)
        for process in self._begun:
            if process.poll() is None:
                process.kill()
            process.communicate()
        while self._journals:
            self._journals.popitem()[1].close()


def ended(process: subprocess.Popen[str]) -> Done:
    """Wait until a process has ended, and return its output."""
    out, err = process.communicate(timeout=LIMIT_S)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
