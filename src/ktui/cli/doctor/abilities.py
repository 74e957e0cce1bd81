"""Judge operations that brokers lack, and permissions that the principal lacks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktui.cli.doctor.findings import DoctorFinding, Level, name_some
from ktui.kafka.capabilities import BrokerAbilities, Grant, NeededApi, Permissions

SUPPORTED = ("3.9", "4.0", "4.1", "4.2", "4.3")


def judge_abilities(abilities: Sequence[BrokerAbilities]) -> list[DoctorFinding]:
    """Judge the brokers' releases and the operations they support."""
    return [
        *(
            DoctorFinding(Level.WARNING, f"broker {ability.broker}: {ability.error}")
            for ability in abilities
            if ability.error is not None
        ),
        *_releases(sorted({a.release for a in abilities if a.release is not None})),
        *_operations(abilities),
    ]


def judge_permissions(permissions: Permissions) -> list[DoctorFinding]:
    """Judge the permissions that the principal lacks."""
    lacking = permissions.missing().items()
    missing = [_denied(grant, topics, all_of_them=permissions.none) for grant, topics in lacking]
    found = missing or [DoctorFinding(Level.GOOD, "everything ktui can do is permitted")]
    if not permissions.topics and not permissions.none:
        # Without Describe, a topic looks as if it did not exist.
        fix = (
            "If there are topics, grant it with kafka-acls --add --operation Describe --topic '*'."
        )
        found.append(
            DoctorFinding(
                Level.NOTE, "no topic is visible: none exists, or Describe is not granted", fix
            )
        )
    return found


def _releases(releases: list[str]) -> Iterator[DoctorFinding]:
    if len(releases) > 1:
        fix = "Finish the upgrade first. Releases differ in how they complete a reassignment."
        yield DoctorFinding(Level.WARNING, f"brokers run {' and '.join(releases)}", fix)
    for release in releases:
        if release in SUPPORTED:
            yield DoctorFinding(Level.GOOD, f"ktui is tested with Kafka {release}")
        else:
            fix = (
                f"It may well work. ktui is tested with {SUPPORTED[0]} to {SUPPORTED[-1]} in KRaft "
                "mode."
            )
            yield DoctorFinding(Level.WARNING, f"ktui is not tested with Kafka {release}", fix)


def _operations(abilities: Sequence[BrokerAbilities]) -> Iterator[DoctorFinding]:
    answered = [ability for ability in abilities if ability.error is None]
    lacking: dict[NeededApi, list[int]] = {}
    for ability in answered:
        for need in ability.lacks:
            lacking.setdefault(need, []).append(ability.broker)
    for need, brokers in lacking.items():
        do_not = "does not support it" if len(brokers) == 1 else "do not support it"
        who = f"{name_some('broker', brokers)} {do_not}"
        if len(brokers) == len(answered):
            who = "no broker supports it"
        level = Level.TROUBLE if need.required else Level.NOTE
        yield DoctorFinding(level, f"{need.what}: {who}, so {need.without}")
    if answered and not lacking:
        yield DoctorFinding(Level.GOOD, "every operation ktui needs is supported")


def _denied(grant: Grant, topics: tuple[str, ...], *, all_of_them: bool) -> DoctorFinding:
    """Judge a missing grant; with no grants at all, every missing one blocks all work."""
    on_cluster = grant.resource == "cluster"
    where = "the cluster" if on_cluster else name_some("topic", topics) if topics else "any topic"
    level = Level.NOTE if grant.writes else Level.WARNING
    if all_of_them or grant.vital:
        level = Level.TROUBLE
    use = "needed only to change things" if grant.writes else "needed to watch"
    return DoctorFinding(
        level,
        f"{grant.operation} on {where} is not granted: cannot {grant.purpose}",
        f"It is {use}. {grant_command(grant)}.",
    )


def grant_command(grant: Grant) -> str:
    """Return the advice with the command that grants a permission."""
    to = "--cluster" if grant.resource == "cluster" else "--topic NAME"
    return f"Grant it with kafka-acls --add --operation {grant.operation} {to}"
