"""The JSON form of what a cancel comes to: a contract."""

from __future__ import annotations

import msgspec

from ktui.cli.cancel.preview import Preview
from ktui.cli.output.gate import CancelGateJson
from ktui.cli.output.json_form import SCHEMA_VERSION
from ktui.cli.process.send_command import AnswerJson
from ktui.cluster.partition import Brokers
from ktui.execution.cancel.preview import Foreseen
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.cancel_scope import CancelEffect
from ktui.execution.run.states import State
from ktui.execution.run.track import Track


class CancelStepJson(msgspec.Struct, frozen=True):
    """One step of the way back, with the keys of the `step` event."""

    replicas: Brokers
    adding: Brokers
    removing: Brokers
    elect: int | None


class CancelledJson(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of one partition."""

    topic: str
    partition: int
    state: State
    """As it stands now."""
    act: CancelEffect
    cancels: bool
    """Whether a cancel is sent."""
    steps: tuple[CancelStepJson, ...]
    replicas: Brokers
    """In the end, in order."""
    leader: int | None
    """In the end."""
    planned: int
    """The number of replicas in the plan."""
    original: int
    """The number of replicas before the run."""
    extra: int
    """How many replicas more than both it is left with."""
    refused: str | None
    way_out: str | None
    danger: str | None


class CancelJson(msgspec.Struct, frozen=True, kw_only=True):
    """What `ktui cancel RUN --json` prints."""

    schema_version: int
    run: str
    kind: CancelKind
    dry_run: bool
    acts: dict[CancelEffect, int]
    """How many partitions of the scope each is done to."""
    partitions: tuple[CancelledJson, ...] | None
    """All of the scope; null where the cluster cannot be asked."""
    problem: str | None
    """Why it cannot."""
    shuts_gate: bool
    gate: CancelGateJson | None
    """The cancel gate as it is now; null while it is open."""
    answer: AnswerJson | None
    """Null where nothing was asked for."""


def cancel_json(
    preview: Preview,
    *,
    shuts_gate: bool,
    gate: CancelGateJson | None,
    answer: AnswerJson | None,
) -> CancelJson:
    """Put a preview and what came of it in their JSON form."""
    acts = preview.acts
    told = tuple(map(_cancelled, preview.tracks, preview.partitions))
    return CancelJson(
        schema_version=SCHEMA_VERSION,
        run=preview.run.name,
        kind=preview.wanted.kind,
        dry_run=preview.wanted.dry_run,
        acts={act: acts.count(act) for act in CancelEffect},
        partitions=None if preview.problem else told,
        problem=preview.problem,
        shuts_gate=shuts_gate,
        gate=gate,
        answer=answer,
    )


def _cancelled(track: Track, told: Foreseen) -> CancelledJson:
    return CancelledJson(
        topic=told.tp.topic,
        partition=told.tp.partition,
        state=track.state,
        act=told.act,
        cancels=told.cancels,
        steps=tuple(CancelStepJson(s.target, s.adds, s.drops, s.elects) for s in told.steps),
        replicas=told.replicas,
        leader=told.leader,
        planned=told.planned,
        original=told.original,
        extra=told.extra,
        refused=told.refused,
        way_out=told.way_out,
        danger=told.danger,
    )
