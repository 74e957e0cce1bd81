"""The doctor reports who owns a cluster, what ownership creates, and which permission it needs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktui.cli.doctor.findings import DoctorFinding, Level, judge_ownership
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
def test_the_doctor_reports_the_owner_of_the_cluster_first(
    standing: ClaimStatus, level: Level, words: str
) -> None:
    first = found(standing)[0]

    assert first.level is level
    assert words in first.what


def test_the_doctor_reports_another_owner_with_the_way_to_take_over() -> None:
    assert "--take-over" in found(OwnedByOthers(BOB, lives=True))[0].fix


@pytest.mark.parametrize(
    ("makes_topic", "words"),
    [
        (True, "brokers create __consumer_offsets for them"),
        (None, "brokers create __consumer_offsets if it does not exist"),
    ],
)
def test_the_doctor_reports_the_groups_and_the_topic_that_a_run_creates(
    *, makes_topic: bool | None, words: str
) -> None:
    what = found(makes_topic=makes_topic)[1].what

    assert "ktui-a and ktui-a-engine" in what
    assert words in what
    assert "__consumer_offsets" not in found()[1].what


def test_a_missing_group_permission_is_reported_with_its_grant_and_the_way_without() -> None:
    for finding in (found(permitted=False)[-1], found(OwnerUnknown("denied", denied=True))[0]):
        assert finding.level is Level.WARNING
        assert "kafka-acls --add --operation Read --group ktui-" in finding.fix
        assert "ownership: off" in finding.fix


def test_the_doctor_notes_ownership_that_is_off_instead_of_its_needs() -> None:
    _, off = found(off=True, permitted=False)

    assert off.level is Level.NOTE
    assert "ownership is off" in off.what
