"""`ktui` called as a shell calls it: in this process, which is cheap, or in one of its own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

from ktui.cli.main import main

Done = subprocess.CompletedProcess[str]


def call_ktui(*words: str, **environment: str) -> Done:
    """Call ktui in this process, without a terminal.

    Args:
        words: the verb and its arguments.
        environment: further variables; of those of ktui, only these are set.
    """
    command = ["ktui", *words]
    out, err = _stream(), _stream()
    with (
        mock.patch.dict(os.environ, _environment(environment), clear=True),
        mock.patch.object(sys, "argv", command),
        mock.patch.object(sys, "stdin", _stream()),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        else:
            code = 0
    return _checked(subprocess.CompletedProcess(command, code, _text(out), _text(err)))


def call_ktui_process(*words: str, **environment: str) -> Done:
    """Call ktui as a process, where what libraries print is seen, too."""
    done = subprocess.run(
        [sys.executable, "-m", "ktui", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=_environment(environment),
    )
    return _checked(done)


def _checked(done: Done) -> Done:
    assert "Traceback" not in done.stderr
    return done


def _environment(more: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KTUI_")}
    return {**kept, **more}


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8")


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()
