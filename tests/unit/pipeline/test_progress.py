"""How far Spark is stands in one line on a terminal, and in plain lines elsewhere."""

from __future__ import annotations

import io

import pytest

from ktui.pipeline.spark.progress import SparkProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_the_line_is_drawn_over_and_gone_in_the_end() -> None:
    terminal = Terminal()
    line = SparkProgress(terminal)

    line.tell("decoding")
    line.tell("moves")
    line.close()

    assert "\n" not in terminal.getvalue()
    assert terminal.getvalue().split("\r\x1b[K") == ["", "decoding ...", "moves ...", ""]


def test_elsewhere_each_thing_that_is_begun_is_a_line() -> None:
    pipe = io.StringIO()
    line = SparkProgress(pipe)

    line.tell("decoding")
    line.tell("moves")
    line.close()

    assert pipe.getvalue() == "decoding\nmoves\n"


def test_what_stays_is_a_line_of_its_own_above_the_one_that_is_drawn_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    terminal = Terminal()
    line = SparkProgress(terminal)

    line.show("waiting")
    line.say("version 1")

    assert capsys.readouterr().out == "version 1\n"
    assert terminal.getvalue().split("\r\x1b[K") == ["", "waiting ...", "waiting ..."]


def test_elsewhere_what_is_only_shown_is_left_out_and_what_is_said_stays(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pipe = io.StringIO()
    line = SparkProgress(pipe)

    line.show("waiting")
    line.say("version 1")

    assert (pipe.getvalue(), capsys.readouterr().out) == ("", "version 1\n")
