"""`ktui doctor`: check connections and permissions, and what to fix before a reassignment."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

import click

from ktui.cli.context.claim import TAKE_OVER, reading_claim, take_over_option
from ktui.cli.context.cluster import (
    Cluster,
    ClusterChoice,
    ControllerChoice,
    cluster_options,
    controller_options,
)
from ktui.cli.context.option import add_option
from ktui.cli.context.terminal import BadInput, styled
from ktui.cli.doctor_findings import (
    DoctorFacts,
    DoctorFinding,
    Level,
    check_connection,
    judge_abilities,
    judge_canaries,
    judge_cluster,
    judge_extra_replicas,
    judge_late,
    judge_mixed_factors,
    judge_ownership,
    judge_permissions,
    trouble,
    warning,
)
from ktui.cli.doctor_throttles import clear, judge_throttles
from ktui.cli.options import common
from ktui.cli.output.json_form import SCHEMA_VERSION, encode
from ktui.cluster.clock import SystemClock
from ktui.cluster.errors import ClusterError
from ktui.cluster.partition import PartitionState, Reassignment, TopicPartition
from ktui.cluster.ports import ClusterReader, TopicConfigsAnswer
from ktui.execution import RunProblem
from ktui.execution.forecast.run_progress import live_and_resumable
from ktui.execution.host.catalog import late_requests
from ktui.execution.host.state_dir import StateDir
from ktui.kafka.capabilities import Capabilities
from ktui.kafka.reader import KafkaReader
from ktui.ops.leftovers import Leftovers, ScannedTopics
from ktui.progress.memory import Health, health

A = TypeVar("A")
Visible = Callable[[Collection[str] | None], Awaitable[Collection[str]]]
"""Returns those of the named topics, or of all, that Metadata shows."""


async def gather_facts(reader: ClusterReader, visible: Visible) -> DoctorFacts:
    """Read the whole cluster once. ClusterError: not even its brokers can be listed.

    Anything else that cannot be read becomes a sentence in `unread`.
    """
    cluster = await reader.describe_cluster()
    unread: list[str] = []
    alive = sorted(cluster.online)
    listed = await _tried(reader.list_reassignments(), unread)
    dirs = await _per_broker(alive, [reader.log_dirs(b, ()) for b in alive], unread)
    configs = await _per_broker(alive, [reader.broker_config(b) for b in alive], unread)
    factors, counts, suspects, healthy = await _scan(reader, listed or {}, unread)
    topics = await _tried(reader.topic_configs(factors), unread)
    lost = await _tried(_out_of_reach(reader, visible, factors, topics), unread) or frozenset()
    if topics is not None:
        unread += [f.sentence for f in topics.failures if f.topic not in topics.absent]
    topic_configs = {} if topics is None else topics.configs
    found = Counter(health(s, topic_configs.get(s.tp.topic)) for s in suspects)
    return DoctorFacts(
        brokers=cluster.brokers,
        moving=None if listed is None else frozenset(listed),
        log_dirs=tuple(log_dir for answer in dirs.values() for log_dir in answer.log_dirs),
        broker_configs=configs,
        topic_configs=topic_configs,
        replication_factors=factors,
        mixed_factors={topic: each for topic, each in counts.items() if len(each) > 1},
        health=found + Counter({Health.OK: healthy}),
        out_of_reach=lost,
        unread=tuple(unread),
    )


async def _out_of_reach(
    reader: ClusterReader,
    visible: Visible,
    described: Collection[str],
    settings: TopicConfigsAnswer | None,
) -> frozenset[str]:
    """Return topics that Metadata shows, and that brokers, asked twice, do not know."""
    doubted = set(await visible(None)).difference(described)
    doubted |= set() if settings is None else set(settings.absent)
    if not doubted:
        return frozenset()
    shown = frozenset(await visible(doubted))
    topics, configs = await reader.describe_topics(shown), await reader.topic_configs(shown)
    return shown & topics.absent.union(configs.absent)


async def _tried(call: Coroutine[Any, Any, A], unread: list[str]) -> A | None:
    try:
        return await call
    except ClusterError as error:
        unread.append(str(error))
        return None


async def _per_broker(
    brokers: Collection[int], calls: Collection[Coroutine[Any, Any, A]], unread: list[str]
) -> dict[int, A]:
    answers = await asyncio.gather(*(_tried(call, unread) for call in calls))
    return {b: answer for b, answer in zip(brokers, answers, strict=True) if answer is not None}


async def _scan(
    reader: ClusterReader, listed: Mapping[TopicPartition, Reassignment], unread: list[str]
) -> tuple[dict[str, int], dict[str, Counter[int]], list[PartitionState], int]:
    """Return each topic's replication factor, the partitions to judge, and the healthy count.

    The second value has each topic's partitions at rest, counted by their number of replicas.
    """
    factors: dict[str, int] = {}
    counts: dict[str, Counter[int]] = {}
    suspects: list[PartitionState] = []
    healthy = 0
    try:
        async for page in reader.scan_topics():
            unread += [failure.sentence for failure in page.failures]
            for tp, state in page.partitions.items():
                true = state.with_reassignment(listed[tp]) if tp in listed else state
                factors[tp.topic] = min(len(true.original), factors.get(tp.topic, 1_000_000))
                if not true.reassigning:
                    counts.setdefault(tp.topic, Counter())[len(true.replicas)] += 1
                if true.leader is None or true.out_of_sync:
                    suspects.append(true)
                else:
                    healthy += 1
    except ClusterError as error:
        unread.append(str(error))
    return factors, counts, suspects, healthy


SIGNS = {Level.GOOD: "ok  ", Level.NOTE: "note", Level.WARNING: "WARN", Level.TROUBLE: "BAD "}
COLOURS = {Level.GOOD: "green", Level.NOTE: "cyan", Level.WARNING: "yellow", Level.TROUBLE: "red"}

Sections = dict[str, list[DoctorFinding]]


@click.command("doctor")
@cluster_options
@add_option(
    "--clear-throttles", "Remove throttles that were left behind. ktui shows each one first."
)
@add_option("--yes", "With --clear-throttles: remove them even while something moves or changes.")
@add_option("--dry-run", "With --clear-throttles: show the throttles, change nothing.")
@controller_options
@take_over_option
@common.state_dir_option
@common.json_option
def command(  # noqa: PLR0913 - one for each option
    choice: ClusterChoice,
    *,
    clear_throttles: bool,
    yes: bool,
    dry_run: bool,
    controllers: ControllerChoice,
    take_over: bool,
    state: StateDir,
    json: bool,
) -> None:
    """Connect with each client, and check what matters to reassignments.

    Changes nothing. Exit code 1 if a finding is BAD.

    With --clear-throttles, ktui removes the throttles that nobody needs any more, and nothing
    else. It watches the cluster for some seconds first. If something is being reassigned or
    changes, ktui asks before it goes on; without a terminal it refuses. Rates of a broker that is
    down are deleted through a controller. Exit code 1 if one of these throttles remains, 2 if ktui
    refused, or if every throttle is still needed, 3 if a broker is down, or something else could
    not be read, and may have one.
    """
    for option, is_set in (
        ("--dry-run", dry_run),
        ("--yes", yes),
        ("--bootstrap-controller", any(controllers)),
        (TAKE_OVER, take_over),
    ):
        if is_set and not clear_throttles:
            raise BadInput(
                f"{option} needs --clear-throttles: without it, the doctor changes nothing"
            )
    if clear_throttles:
        cluster = choice.cluster() if dry_run else choice.target().cluster
        cluster = controllers.of(cluster)
        clearing = clear(cluster, state, dry_run=dry_run, json=json, yes=yes, take_over=take_over)
        sys.exit(asyncio.run(clearing))
    cluster = choice.cluster()
    sections = asyncio.run(_examine(cluster, state))
    answer = {"schema_version": SCHEMA_VERSION, "cluster": cluster.name, "findings": sections}
    click.echo(encode(answer) if json else _as_text(cluster, sections))
    findings = [finding for found in sections.values() for finding in found]
    if any(finding.level is Level.TROUBLE for finding in findings):
        sys.exit(1)


async def _examine(cluster: Cluster, state: StateDir) -> Sections:
    connection = cluster.connection
    sections: Sections = {"connection": await check_connection(connection)}
    if any(finding.level is Level.TROUBLE for finding in sections["connection"]):
        return sections
    capabilities, reader = Capabilities(connection), cluster.reader()
    try:
        sections["brokers"] = judge_abilities(await capabilities.brokers())
        sections["permissions"] = judge_permissions(await capabilities.permissions())
        facts = await gather_facts(reader, capabilities.visible_topics)
        sections["cluster"] = judge_cluster(facts)
        sections["cluster"] += await _runs(reader, facts, state)
        throttles = _throttles(reader, facts.replication_factors, state)
        sections["throttles"] = await _checked("read the throttles", throttles)
        sections["cluster"] += await _checked("check for late requests", _late(reader, state))
        sections["ownership"] = await _ownership(cluster, reader, state)
    except ClusterError as error:
        sections.setdefault("cluster", []).append(trouble(str(error)))
    finally:
        await asyncio.gather(capabilities.aclose(), reader.aclose())
    return sections


async def _checked(
    what: str, findings: Coroutine[Any, Any, Iterable[DoctorFinding]]
) -> list[DoctorFinding]:
    try:
        return [*await findings]
    except (ClusterError, RunProblem) as problem:
        return [warning(f"could not {what}: {problem}")]


async def _ownership(cluster: Cluster, reader: KafkaReader, state: StateDir) -> list[DoctorFinding]:
    cluster_id = (await reader.describe_cluster()).cluster_id
    try:
        claim = reading_claim(cluster, state, cluster_id, reader)
    except RunProblem as problem:
        return [warning(f"could not read who owns the cluster: {problem}")]
    status, preview = await claim.read(), await claim.preview()
    return judge_ownership(status, preview, off=not cluster.context.ownership)


async def _late(reader: ClusterReader, state: StateDir) -> Iterable[DoctorFinding]:
    cluster, listed = await reader.describe_cluster(), await reader.list_reassignments()
    return map(judge_late, late_requests(state, cluster.cluster_id, listed))


async def _runs(reader: ClusterReader, facts: DoctorFacts, state: StateDir) -> list[DoctorFinding]:
    mixed = facts.mixed_factors
    try:
        live, resumable = live_and_resumable(state, (await reader.describe_cluster()).cluster_id)
    except (ClusterError, RunProblem) as problem:
        failed = warning(f"could not check the runs: {problem}")
        return [failed, *judge_mixed_factors(mixed, ())]
    names, left = ({run.name for run in runs} for runs in (live, resumable))
    return [
        *judge_canaries(facts.replication_factors, names, left),
        *judge_extra_replicas(resumable),
        *judge_mixed_factors(mixed, names),
    ]


async def _throttles(
    reader: ClusterReader, topics: Collection[str], state: StateDir
) -> list[DoctorFinding]:
    topics_read = ScannedTopics(topics)
    return judge_throttles(await Leftovers(reader, state, SystemClock(), topics_read).scan())


def _as_text(cluster: Cluster, sections: Sections) -> str:
    servers = ", ".join(cluster.connection.bootstrap_servers)
    lines = [servers if cluster.name in servers else f"{cluster.name}: {servers}"]
    for name, findings in sections.items():
        lines += ["", name.capitalize()]
        for finding in findings:
            sign = styled(SIGNS[finding.level], fg=COLOURS[finding.level])
            lines.append(f"  {sign}  {finding.what}")
            if finding.fix:
                lines.append(f"        {finding.fix}")
    return "\n".join(lines)
