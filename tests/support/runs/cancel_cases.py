"""The ways to cancel a run: at which stage of which run, the kind of cancel, and its scope."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from ktui.execution.run.events import Request
from ktui.execution.run.states import CancelKind, State
from ktui.pacing.limits import SHAPES, Shape

Replicas = tuple[int, ...]


class Stage(enum.StrEnum):
    """The progress of a partition at the time of the cancel."""

    QUEUED = "queued"
    ADDING = "adding"
    LEADS = "leader-first done"
    MID = "mid"
    LAST = "last step"
    DONE = "done"


class Scope(enum.StrEnum):
    """The partitions to cancel."""

    PARTITION = "partition"
    TOPIC = "topic"
    ALL = "all"


class Case(NamedTuple):
    """One way to cancel a run."""

    shape: Shape
    replicas: int | None
    stage: Stage
    kind: CancelKind
    scope: Scope

    @property
    def name(self) -> str:
        """The case in characters that fit into a topic's name."""
        return "-".join(str(part).replace(" ", "-").lower() for part in self)


class Moment(NamedTuple):
    """When to cancel, and the copies that make no progress until then."""

    at: tuple[Request, int] | State
    """The nth answer to such a request about the partition, or a state of the partition."""
    held: Mapping[int, Replicas] = MappingProxyType({})
    """By partition of its topic, the brokers whose copy of it makes no progress."""
    partitions: int = 1
    """P, the limit of partitions at once."""
    holds_other: bool = False
    """Whether the partition of the other topic makes no progress either."""


def moment(case: Case) -> Moment:  # noqa: PLR0911 - a case a stage
    """Return the moment of a case's stage."""
    both, last = {0: (4, 5)}, {0: (5,)}
    match case.stage, case.shape, case.replicas:
        case (Stage.QUEUED, _, _):
            return Moment((Request.ALTER, 1), holds_other=True)
        case (Stage.ADDING, _, _):
            return Moment((Request.ALTER, 1), both)
        case (Stage.LEADS, Shape.KIP_435, _):
            return Moment((Request.ELECT, 1), last)
        case (Stage.MID, Shape.GENTLE, 2):  # ready to be cut, and waiting for the other partition
            return Moment(State.READY, {1: (4, 5)}, partitions=2, holds_other=True)
        case (Stage.MID, _, 1):
            return Moment((Request.ALTER, 2), last)
        case (Stage.LAST, Shape.GENTLE, int() as at_once):
            return Moment((Request.ALTER, 4 - at_once), {1: (4, 5)})
        case (Stage.LAST, Shape.KIP_435, int() as at_once):
            return Moment((Request.ALTER, 4 - at_once), last)
        case (Stage.DONE, _, _):
            return Moment(State.DONE, {} if case.scope is Scope.ALL else {1: (4, 5)})
    raise LookupError(case)


def a_grid() -> Iterator[Case]:
    """Yield every possible case."""
    for shape in SHAPES:
        for replicas in (1, 2, None):
            for stage in Stage:
                for kind in CancelKind:
                    for scope in Scope:
                        case = Case(shape, replicas, stage, kind, scope)
                        if can_be(case):
                            yield case


def can_be(case: Case) -> bool:
    """Return whether a run of three replicas reaches such a stage with something left to cancel."""
    one_step = case.replicas is None
    match case.stage:
        case Stage.LEADS:
            return case.shape is Shape.KIP_435 and not one_step
        case Stage.MID:
            return not one_step and (case.shape is Shape.GENTLE or case.replicas == 1)
        case Stage.LAST:
            return not one_step
        case Stage.DONE:
            return case.scope is not Scope.ALL or case.kind is CancelKind.ROLLBACK
    return True
