"""New runs: prepared from a plan and made in the state directory, with the plan for a rollback."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.durable import write_whole
from ktui.execution import RunProblem, RunRefused
from ktui.execution.host.catalog import check_one_throttle
from ktui.execution.host.ownership import LiveRun, lock_starts
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.journal import Journal, RunFollower
from ktui.execution.run.events import AnyRunEvent
from ktui.execution.run.options import RunOptions
from ktui.execution.run.plans import first_events
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import (
    TO_START,
    Allowances,
    Finding,
    FindingKind,
    NeededPermission,
    Severity,
)
from ktui.planning.plan import PartitionTarget, Plan, plan_as_json
from ktui.preview.facts import ClusterFacts, Terms
from ktui.preview.preview import PreviewBase, start_findings
from ktui.quantities import Rate


def rollback_plan(run: Run) -> Plan:
    """Return a run's original replicas, without topics that are gone: no tool takes them.

    In the format of Kafka's tool, with KIP-236's `original_replicas`.
    """
    tracks = (track for track in run.tracks.values() if track.state is not State.TOPIC_GONE)
    return Plan(
        tuple(
            PartitionTarget(
                track.tp.topic, track.tp.partition, track.original, original_replicas=track.original
            )
            for track in tracks
        )
    )


def write_rollback(folder: RunDir, run: Run) -> None:
    """Write the rollback plan of a run, whole, or leave the old one. Raises RunProblem."""
    try:
        write_whole(folder.rollback, plan_as_json(rollback_plan(run)).encode())
    except OSError as error:
        raise RunProblem(f"{folder.rollback}: cannot be written: {error.strerror}") from None


def rewrite_rollback(folder: RunDir) -> None:
    """With extra plans' partitions. RunProblem: not possible; has the next command."""
    with RunFollower(folder.journal) as follower:
        follower.refresh()
    try:
        write_rollback(folder, follower.run)
    except RunProblem as problem:
        fix = f"Print the same plan: ktui plan rollback {folder.name}"
        raise RunProblem(f"{problem}. {fix}") from None


class NewRun(msgspec.Struct, frozen=True, kw_only=True):
    """A planned run: what a verb or a screen asks for, to be checked, rehearsed or started."""

    name: str
    plan: Plan
    plan_name: str  # the file's name
    source: str = ""  # what findings call the plan, cleaned for the terminal; empty: its file
    limits: Limits
    allowed: Allowances
    options: RunOptions = RunOptions()
    concurrent: bool = False  # it may go on next to another live run of the cluster
    until: datetime | None = None
    rate: Rate | None = None  # into each broker, for estimates, where the operator names them
    left_out: tuple[Finding, ...] = ()  # of the plan, before
    created: Mapping[TopicPartition, PartitionState] = {}  # new ones, as they will be
    asked_for: frozenset[FindingKind] = frozenset()  # by the operator: not shown

    @property
    def terms(self) -> Terms:
        return self.options.terms(self.limits, self.allowed, self.name)

    def preview_base(self, facts: ClusterFacts, need: NeededPermission = TO_START) -> PreviewBase:
        source = self.source or self.plan_name
        return PreviewBase(self.plan, facts, source=source, need=need, rate=self.rate)

    def first_events(
        self, facts: ClusterFacts, connection: Mapping[str, str] | None = None
    ) -> list[AnyRunEvent]:
        """Its plan was checked; `connection` names the cluster, as options."""
        return first_events(
            self.plan,
            facts.seen,
            self.limits,
            self.options,
            cluster_id=facts.cluster_id,
            plan_name=self.plan_name,
            connection=connection,
        )


def prepare_run(
    new: NewRun, facts: ClusterFacts, *, connection: Mapping[str, str] | None = None
) -> list[AnyRunEvent]:
    """Return a run's first events, checked just now. RunRefused: every problem, or no figure."""
    options = new.options
    if (problem := options.figure_problem(options.throttle.objective)) is not None:
        raise RunRefused(f"nothing was sent: {problem}")
    findings = start_findings(new.plan, facts, new.terms)
    problems = [each.sentence for each in findings if each.severity is Severity.PROBLEM]
    if problems:
        raise RunRefused(f"nothing was sent: {'; '.join(problems)}")
    return new.first_events(facts, connection)


@contextmanager
def reserve_start(
    state: StateDir,
    cluster_id: str,
    name: str,
    *,
    throttled: bool,
    beside: Callable[[Sequence[LiveRun]], None],
) -> Iterator[None]:
    """Keep other starts on the cluster out while a run is made, and refuse a forbidden one.

    `beside` gets the cluster's live runs, and raises if they forbid this one. Raises RunRefused:
    the name is taken, or another run has a throttle; RunProblem: another start takes too long.
    """
    with lock_starts(state, cluster_id) as live:
        beside(live)
        if throttled:
            check_one_throttle(state, cluster_id, name)
        state.free_name(name)
        yield


def make_run(state: StateDir, name: str, first: Sequence[AnyRunEvent], clock: Clock) -> RunDir:
    """Make a run's folder, whole or not at all. RunRefused: the name is taken; RunProblem."""
    run = state.create_run(name)
    try:
        with Journal.create(run.journal, clock) as journal:
            entries = journal.append(first)
        write_rollback(run, Run(name).fold(entries))
    except BaseException:
        shutil.rmtree(run.path, ignore_errors=True)
        raise
    return run
