"""Spark progress takes one redrawn line on a terminal, and plain lines elsewhere."""

from __future__ import annotations

import io

import pytest

from ktui.pipeline.spark.session import SparkProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_redraws_the_progress_line_and_clears_it_at_the_end() -> None:
    terminal = Terminal()
    line = SparkProgress(terminal)

    line.tell("decoding")
    line.tell("moves")
    line.close()

    assert "\n" not in terminal.getvalue()
    assert terminal.getvalue().split("\r\x1b[K") == ["", "decoding ...", "moves ...", ""]


def test_a_pipe_gets_one_line_per_progress_step() -> None:
    pipe = io.StringIO()
    line = SparkProgress(pipe)

    line.tell("decoding")
    line.tell("moves")
    line.close()

    assert pipe.getvalue() == "decoding\nmoves\n"


def test_a_permanent_line_is_printed_above_the_progress_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    terminal = Terminal()
    line = SparkProgress(terminal)

    line.show("waiting")
    line.say("version 1")

    assert capsys.readouterr().out == "version 1\n"
    assert terminal.getvalue().split("\r\x1b[K") == ["", "waiting ...", "waiting ..."]


def test_a_pipe_omits_transient_lines_and_keeps_permanent_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pipe = io.StringIO()
    line = SparkProgress(pipe)

    line.show("waiting")
    line.say("version 1")

    assert (pipe.getvalue(), capsys.readouterr().out) == ("", "version 1\n")
