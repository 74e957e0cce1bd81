"""The doctor says who owns a cluster, what owning it creates, and which permission it wants."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktui.cli.doctor.findings import DoctorFinding, Level
from ktui.cli.doctor.ownership_findings import judge_ownership
from ktui.cluster.ownership import (
    ClaimPreview,
    ClaimStatus,
    OwnedByOthers,
    OwnedHere,
    OwnerUnknown,
    Unowned,
)
from support.journals.owners import owner

PREVIEW = ClaimPreview(
    groups=("ktui-a", "ktui-a-engine"),
    topic="__consumer_offsets",
    makes_topic=False,
    permission='Read on the groups with the prefix "ktui-"',
    permitted=True,
)
BOB = owner("bob")


def found(
    standing: ClaimStatus = Unowned(),  # noqa: B008 - it is frozen
    *,
    off: bool = False,
    **preview: Any,
) -> list[DoctorFinding]:
    return judge_ownership(standing, msgspec.structs.replace(PREVIEW, **preview), off=off)


@pytest.mark.parametrize(
    ("standing", "level", "words"),
    [
        (Unowned(), Level.GOOD, "nobody owns the cluster"),
        (OwnedHere(BOB), Level.GOOD, "this state directory owns the cluster: bob on ops1"),
        (OwnedByOthers(BOB, lives=False), Level.WARNING, "bob on ops1 (run orders, since "),
        (OwnedByOthers(BOB, lives=True), Level.WARNING, "its engine is alive"),
        (OwnerUnknown("no coordinator"), Level.WARNING, "no coordinator"),
    ],
)
def test_who_owns_it_is_said_first(standing: ClaimStatus, level: Level, words: str) -> None:
    first = found(standing)[0]

    assert first.level is level
    assert words in first.what


def test_another_owner_is_told_with_the_way_to_take_over() -> None:
    assert "--take-over" in found(OwnedByOthers(BOB, lives=True))[0].fix


@pytest.mark.parametrize(
    ("makes_topic", "words"),
    [
        (True, "brokers create __consumer_offsets for them"),
        (None, "brokers create __consumer_offsets if it does not exist"),
    ],
)
def test_what_a_run_will_create_is_said(*, makes_topic: bool | None, words: str) -> None:
    what = found(makes_topic=makes_topic)[1].what

    assert "ktui-a and ktui-a-engine" in what
    assert words in what
    assert "__consumer_offsets" not in found()[1].what


def test_a_missing_permission_is_told_with_what_grants_it_and_the_way_without() -> None:
    for lacking in (found(permitted=False)[-1], found(OwnerUnknown("denied", denied=True))[0]):
        assert lacking.level is Level.WARNING
        assert "kafka-acls --add --operation Read --group ktui-" in lacking.fix
        assert "ownership: off" in lacking.fix


def test_where_ownership_is_off_that_is_said_in_place_of_what_it_takes() -> None:
    _, off = found(off=True, permitted=False)

    assert off.level is Level.NOTE
    assert "ownership is off" in off.what
