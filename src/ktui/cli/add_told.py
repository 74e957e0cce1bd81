"""What adding a plan to a run would come to, told without asking for it."""

from __future__ import annotations

from collections import Counter

import msgspec

from ktui.cli.asking import AnswerJson
from ktui.cli.partition_json import SCHEMA_VERSION, encode
from ktui.cli.plan_json import CheckJson, FindingJson, check_json, findings_json
from ktui.cli.plan_report import Checked, report
from ktui.execution.add_events import OnConflict
from ktui.execution.adding_check import Extra
from ktui.execution.adding_scope import Joining
from ktui.execution.states import State
from ktui.planning.finding import Severity


class JoiningJson(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of one partition of the plan."""

    topic: str
    partition: int
    joining: Joining
    state: State | None
    """As it stands in the run; null where the run does not have it."""
    target: tuple[int, ...]
    run_target: tuple[int, ...] | None


class AddJson(CheckJson, frozen=True, kw_only=True):
    """What `ktui add --dry-run --json` prints: as `plan check`, and what becomes of each."""

    run: str
    on_conflict: OnConflict
    counts: dict[Joining, int]
    joinings: tuple[JoiningJson, ...]


class AddedJson(msgspec.Struct, frozen=True, kw_only=True):
    """What `ktui add --json` prints."""

    schema_version: int
    run: str
    on_conflict: OnConflict
    problems: tuple[FindingJson, ...]
    warnings: tuple[FindingJson, ...]
    notes: tuple[FindingJson, ...]
    counts: dict[Joining, int]
    """Partitions of the plan, by what becomes of them."""
    answer: AnswerJson | None
    """Null where nothing was asked for: there is a problem, or nothing to do."""


def added_json(extra: Extra, answer: AnswerJson | None) -> str:
    """Tell a script what was found, and what came of it."""

    def found(severity: Severity) -> tuple[FindingJson, ...]:
        return findings_json(each for each in extra.findings if each.severity is severity)

    shape = AddedJson(
        schema_version=SCHEMA_VERSION,
        run=extra.run.name,
        on_conflict=extra.on_conflict,
        problems=found(Severity.PROBLEM),
        warnings=found(Severity.WARNING),
        notes=found(Severity.NOTE),
        counts=_counts(extra),
        answer=answer,
    )
    return encode(shape)


def checked(extra: Extra, source: str, cluster: str) -> Checked:
    """Give the check of the plan."""
    return Checked(
        plan=source,
        cluster=cluster,
        findings=extra.findings,
        preflight=extra.preflight(),
        throttle=extra.run.throttled.rates,
        throttle_leaders=extra.run.options.throttle_leaders,
    )


def as_json(extra: Extra, check: Checked) -> str:
    """Tell it to a script."""
    told = check_json(check)
    shape = AddJson(
        **{field: getattr(told, field) for field in told.__struct_fields__},
        run=extra.run.name,
        on_conflict=extra.on_conflict,
        counts=_counts(extra),
        joinings=_joinings(extra),
    )
    return encode(shape)


def as_text(extra: Extra, check: Checked) -> str:
    """Tell it to a person: the check of the plan, then what it means for the run."""
    lines = "\n".join(extra.in_run())
    return "\n\n".join([report(check), lines, "Nothing was asked for."])


def _counts(extra: Extra) -> dict[Joining, int]:
    counts = Counter(extra.ways)
    return {how: counts[how] for how in Joining}


def _joinings(extra: Extra) -> tuple[JoiningJson, ...]:
    tracks = extra.run.tracks
    pairs = zip(extra.plan.partitions, extra.ways, strict=True)
    return tuple(
        JoiningJson(
            topic=target.topic,
            partition=target.partition,
            joining=how,
            state=None if track is None else track.state,
            target=target.replicas,
            run_target=None if track is None else track.target,
        )
        for target, how in pairs
        for track in (tracks.get(target.tp),)
    )
