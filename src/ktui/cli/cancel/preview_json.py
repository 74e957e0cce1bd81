"""The JSON form of a cancel's preview and answer; scripts rely on it."""

from __future__ import annotations

import msgspec

from ktui.cli.process.send_command import AnswerJson
from ktui.cluster.partition import Brokers
from ktui.execution.cancel.preview import CancelPreview, PartitionPreview
from ktui.execution.host.cancel_gate import ShutGate
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.cancel_scope import CancelEffect
from ktui.execution.run.states import State


class CancelStepJson(msgspec.Struct, frozen=True):
    """One step of a rollback, with the keys of the `step` event."""

    replicas: Brokers
    adding: Brokers
    removing: Brokers
    elect: int | None


class CancelledJson(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of a cancel on one partition."""

    topic: str
    partition: int
    state: State
    """The present state."""
    act: CancelEffect
    cancels: bool
    """Whether ktui sends a cancel for the partition."""
    steps: tuple[CancelStepJson, ...]
    replicas: Brokers
    """The final replicas, in order."""
    leader: int | None
    """The final leader."""
    planned: int
    """The number of replicas in the plan."""
    original: int
    """The number of replicas before the run."""
    extra: int
    """How many replicas beyond both numbers the partition keeps."""
    refused: str | None
    way_out: str | None
    danger: str | None


class CancelJson(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `ktui cancel RUN --json`."""

    run: str
    kind: CancelKind
    dry_run: bool
    acts: dict[CancelEffect, int]
    """For each effect, the number of partitions in the scope."""
    partitions: tuple[CancelledJson, ...] | None
    """Every partition in the scope; null if the cluster did not answer."""
    problem: str | None
    """Why the cluster did not answer; null if it did."""
    shuts_gate: bool
    gate: ShutGate | None
    """The cancel gate as it is now; null while it is open."""
    answer: AnswerJson | None
    """The engine's answer; null if nothing was requested."""


def cancel_json(
    preview: CancelPreview,
    *,
    dry_run: bool,
    shuts_gate: bool,
    gate: ShutGate | None,
    answer: AnswerJson | None,
) -> CancelJson:
    """Return the JSON form of a preview and of the engine's answer."""
    effects = list(preview.scope.effects.values())
    return CancelJson(
        run=preview.scope.run.name,
        kind=preview.scope.kind,
        dry_run=dry_run,
        acts={effect: effects.count(effect) for effect in CancelEffect},
        partitions=None if preview.problem else tuple(map(_partition_json, preview.partitions)),
        problem=preview.problem,
        shuts_gate=shuts_gate,
        gate=gate,
        answer=answer,
    )


def _partition_json(each: PartitionPreview) -> CancelledJson:
    return CancelledJson(
        topic=each.tp.topic,
        partition=each.tp.partition,
        state=each.state,
        act=each.effect,
        cancels=each.cancels,
        steps=tuple(CancelStepJson(s.target, s.adds, s.drops, s.elects) for s in each.steps),
        replicas=each.replicas,
        leader=each.leader,
        planned=each.planned,
        original=each.original,
        extra=each.extra,
        refused=each.refused,
        way_out=each.way_out,
        danger=each.danger,
    )
