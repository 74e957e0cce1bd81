"""The two programs, each called as a shell calls it, in a folder with the files of a plan."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self
from urllib.parse import quote_plus, unquote_plus

from click.testing import CliRunner

from ktui.cli.reassign.command import command
from ktui.execution.host.state_dir import STATE_DIR
from ktui.lab.java import sharing_flags
from ktui.lab.layout import Layout
from support.kafka.labs import MAIN
from support.reassign_tool.recording import Answer

PROGRAM = "ktui reassign"
_LAUNCHER = Path(__file__).with_name("ManyRuns.java")
_QUIET_LOG = "-Dlog4j2.level=OFF"
"""The log of Kafka's client is a setting of the machine, and no output of the tool."""


class Program(Protocol):
    """One of the two programs."""

    def run(self, words: Sequence[str]) -> Answer: ...


class ApacheTool:
    """Apache's tool, run many times in one JVM, inside a `with` block."""

    def __init__(self, layout: Layout, folder: Path) -> None:
        self._process = subprocess.Popen(
            [*_java(layout), str(_LAUNCHER)],
            cwd=folder,
            env=_java_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def run(self, words: Sequence[str]) -> Answer:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(f"={quote_plus(word)}" for word in words) + "\n")
        self._process.stdin.flush()
        code, *streams = self._process.stdout.readline().split(" ")
        out, err = (unquote_plus(stream.strip()[1:]) for stream in streams)
        return Answer(int(code), out, err)


class ApacheProcess:
    """Apache's tool, each time in a process of its own."""

    def __init__(self, layout: Layout, folder: Path) -> None:
        self._layout, self._folder = layout, folder

    def run(self, words: Sequence[str]) -> Answer:
        return _run([*_java(self._layout), MAIN, *words], self._folder, _java_environment())


class KtuiProcess:
    """`ktui reassign`, each time in a process of its own, with one state directory."""

    def __init__(self, folder: Path, state_dir: Path) -> None:
        self._folder = folder
        self._environment = {**os.environ, STATE_DIR: str(state_dir)}

    def run(self, words: Sequence[str]) -> Answer:
        command_line = [str(Path(sys.executable).with_name("ktui")), "reassign", *words]
        return _run(command_line, self._folder, self._environment)


class KtuiHere:
    """`ktui reassign` in this process, which is cheap."""

    def __init__(self, folder: Path, state_dir: Path) -> None:
        self._folder, self._runner = folder, CliRunner(env={STATE_DIR: str(state_dir)})

    def run(self, words: Sequence[str]) -> Answer:
        with contextlib.chdir(self._folder):
            result = self._runner.invoke(command, list(words), prog_name=PROGRAM)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(result.exit_code, result.stdout, result.stderr)


def apaches_help(tool: Program) -> str:
    """Return the help text of Apache's tool, without the line before it."""
    return tool.run([]).stderr.partition("\n")[2]


def _java(layout: Layout) -> list[str]:
    return [
        *(layout.java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", _QUIET_LOG),
        *sharing_flags(layout.class_archive),
        *("-cp", layout.joined_class_path),
    ]


def _java_environment() -> dict[str, str]:
    """Let Java print UTF-8 whatever the language of the machine is."""
    return {**os.environ, "LC_ALL": "C.UTF-8"}


def _run(words: Sequence[str], folder: Path, environment: dict[str, str]) -> Answer:
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return Answer(done.returncode, done.stdout, done.stderr)
