"""Names from a cluster can neither control nor deceive a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.errors import ClusterError, NotAuthorized, TimedOut, Unreachable
from ktui.cluster.text import clean


@pytest.mark.parametrize("kind", [Unreachable, NotAuthorized, TimedOut])
def test_nothing_that_a_server_says_in_an_error_reaches_a_terminal_as_it_is(
    kind: type[ClusterError],
) -> None:
    hostile = "x\x1b[2J\x9b1m\u202e\n"

    error = kind("connecting", where=hostile, answer=hostile, fix=hostile)

    shown = r"x\x1b[2J\x9b1m\u202e\n"
    assert (error.where, error.answer, error.fix) == (shown, shown, shown)
    assert str(error).isprintable()


@pytest.mark.parametrize("name", ["orders", "payments.eu-west_1", "Überweisung", "注文"])
def test_ordinary_names_are_unchanged(name: str) -> None:
    assert clean(name) == name


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("a\nb", r"a\nb"),
        ("a\u202eb", r"a\u202eb"),
        ("a\u200bb", r"a\u200bb"),
        ("a\x9bb", r"a\x9bb"),
    ],
)
def test_control_and_invisible_characters_are_spelt_out(hostile: str, shown: str) -> None:
    assert clean(hostile) == shown


@given(st.text())
def test_nothing_unprintable_is_left_in_any_text(text: str) -> None:
    assert clean(text).isprintable()
    assert clean(clean(text)) == clean(text)
