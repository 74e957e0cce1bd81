"""The JSON form of a cancel's preview and answer; scripts rely on it."""

from __future__ import annotations

import msgspec

from ktui.cli.cancel.preview import Preview
from ktui.cli.output.gate import CancelGateJson
from ktui.cli.output.json_form import SCHEMA_VERSION
from ktui.cli.process.send_command import AnswerJson
from ktui.cluster.partition import Brokers
from ktui.execution.cancel.preview import CancelPreview
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.cancel_scope import CancelEffect
from ktui.execution.run.states import State
from ktui.execution.run.track import Track


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

    schema_version: int
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
    gate: CancelGateJson | None
    """The cancel gate as it is now; null while it is open."""
    answer: AnswerJson | None
    """The engine's answer; null if nothing was requested."""


def cancel_json(
    preview: Preview,
    *,
    shuts_gate: bool,
    gate: CancelGateJson | None,
    answer: AnswerJson | None,
) -> CancelJson:
    """Return the JSON form of a preview and of the engine's answer."""
    acts = preview.acts
    partitions = tuple(map(_partition_json, preview.tracks, preview.partitions))
    return CancelJson(
        schema_version=SCHEMA_VERSION,
        run=preview.run.name,
        kind=preview.wanted.kind,
        dry_run=preview.wanted.dry_run,
        acts={act: acts.count(act) for act in CancelEffect},
        partitions=None if preview.problem else partitions,
        problem=preview.problem,
        shuts_gate=shuts_gate,
        gate=gate,
        answer=answer,
    )


def _partition_json(track: Track, foreseen: CancelPreview) -> CancelledJson:
    return CancelledJson(
        topic=foreseen.tp.topic,
        partition=foreseen.tp.partition,
        state=track.state,
        act=foreseen.act,
        cancels=foreseen.cancels,
        steps=tuple(CancelStepJson(s.target, s.adds, s.drops, s.elects) for s in foreseen.steps),
        replicas=foreseen.replicas,
        leader=foreseen.leader,
        planned=foreseen.planned,
        original=foreseen.original,
        extra=foreseen.extra,
        refused=foreseen.refused,
        way_out=foreseen.way_out,
        danger=foreseen.danger,
    )
