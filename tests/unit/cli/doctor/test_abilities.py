"""The doctor reports which operations brokers lack and which permissions are missing, and why."""

from __future__ import annotations

import pytest

from ktui.cli.doctor.findings import Level, judge_abilities, judge_permissions
from ktui.cluster.errors import TimedOut
from ktui.cluster.permissions import GRANTS, Grant, Permissions
from ktui.kafka.capabilities import NEEDS, BrokerAbilities, release_of

EVERYTHING = frozenset(grant.operation for grant in GRANTS)


def test_brokers_of_one_tested_release_are_good() -> None:
    found = judge_abilities([BrokerAbilities(1, "4.3"), BrokerAbilities(2, "4.3")])

    assert {finding.level for finding in found} == {Level.GOOD}


@pytest.mark.parametrize(
    ("known", "level"),
    [
        (20, Level.WARNING),
        (21, Level.GOOD),
        (30, Level.GOOD),
        (33, Level.GOOD),
        (34, Level.WARNING),
    ],
)
def test_3_9_to_4_4_are_tested_by_the_newest_metadata_version_that_they_know(
    known: int, level: Level
) -> None:
    (release, _) = judge_abilities([BrokerAbilities(1, release_of(known))])

    assert release.level is level


def test_an_untested_release_is_a_warning() -> None:
    (release, _) = judge_abilities([BrokerAbilities(1, "before 3.9")])

    assert release.level is Level.WARNING
    assert "not tested with" in release.what


def test_a_cluster_in_the_middle_of_an_upgrade_is_a_warning() -> None:
    found = judge_abilities([BrokerAbilities(1, "4.2"), BrokerAbilities(2, "4.3")])

    assert any(f.what == "brokers run 4.2 and 4.3" for f in found)


def test_a_missing_operation_is_reported_with_its_consequence() -> None:
    required = next(need for need in NEEDS if need.required)
    optional = next(need for need in NEEDS if not need.required)

    found = judge_abilities(
        [BrokerAbilities(1, "4.3", lacks=(required, optional)), BrokerAbilities(2, "4.3")]
    )

    levels = {f.what.split(":")[0]: f.level for f in found}
    assert levels[required.what] is Level.TROUBLE
    assert levels[optional.what] is Level.NOTE
    assert any(f"broker 1 does not support it, so {required.without}" in f.what for f in found)


def test_an_operation_that_no_broker_offers_may_be_left_out_by_a_proxy() -> None:
    (found,) = (
        f for f in judge_abilities([BrokerAbilities(1, "4.3", lacks=(NEEDS[0],))]) if "so" in f.what
    )

    assert "no broker supports it, or a proxy on the way does not pass it on" in found.what


def test_a_broker_that_does_not_answer_is_named() -> None:
    found = judge_abilities([BrokerAbilities(3, error=TimedOut("asking for versions"))])

    assert [f.what.partition(" (")[0] for f in found] == [
        "broker 3: asking for versions: no answer in time"
    ]


def test_full_permissions_are_good() -> None:
    (found,) = judge_permissions(Permissions(EVERYTHING, {"orders": EVERYTHING}))

    assert found.level is Level.GOOD


def test_a_missing_read_is_a_warning_and_a_missing_write_only_a_note() -> None:
    reads = EVERYTHING - {"Alter"}

    (alter,) = judge_permissions(Permissions(reads, {"orders": EVERYTHING}))
    (describe,) = judge_permissions(Permissions(EVERYTHING, {"orders": EVERYTHING - {"Describe"}}))

    assert alter.level is Level.NOTE
    assert "Alter on the cluster is not granted" in alter.what
    assert describe.level is Level.WARNING
    assert "Describe on topic orders is not granted" in describe.what
    assert "kafka-acls" in describe.fix


def test_seeing_no_topic_is_noted_with_the_permission_that_may_be_missing() -> None:
    (good, note) = judge_permissions(Permissions(EVERYTHING, {}))

    assert (good.level, note.level) == (Level.GOOD, Level.NOTE)
    assert "Describe is not granted" in note.what


def test_having_no_permission_at_all_is_trouble_for_each_permission() -> None:
    found = judge_permissions(Permissions(frozenset(), {}))

    assert {finding.level for finding in found} == {Level.TROUBLE}
    assert [finding.what.partition(" is not granted: cannot ")[0] for finding in found] == [
        "Describe on the cluster",
        "DescribeConfigs on the cluster",
        "Alter on the cluster",
        "AlterConfigs on the cluster",
        "Describe on any topic",
        "DescribeConfigs on any topic",
        "AlterConfigs on any topic",
    ]
    assert "--operation Alter --cluster" in found[2].fix
    assert "--operation Describe --topic NAME" in found[4].fix


def test_a_user_who_may_not_list_reassignments_is_in_trouble_regardless_of_other_grants() -> None:
    found = judge_permissions(Permissions(frozenset(), {"orders": EVERYTHING}))

    assert found[0].level is Level.TROUBLE
    assert "Describe on the cluster is not granted: cannot list reassignments" in found[0].what


@pytest.mark.parametrize("grant", GRANTS)
def test_each_grant_describes_its_purpose_with_a_verb(grant: Grant) -> None:
    verbs = "list", "read", "start", "set", "see"

    assert grant.purpose.split()[0] in verbs
