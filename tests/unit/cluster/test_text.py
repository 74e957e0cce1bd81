"""Names from a cluster can neither control nor deceive a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.text import clean


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
