"""The throttles that --verify and --cancel remove: our own, those of the plan, or all if asked."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Collection, Mapping
from contextlib import aclosing
from typing import NamedTuple

import click

from ktui.cli.context.claim import check_no_other_owner
from ktui.cli.context.terminal import print_note
from ktui.cli.reassign.errors import ReassignProblem
from ktui.cli.reassign.left_runs import RunsPlace, left_runs, settle
from ktui.cli.reassign.log_dirs.throttle import LogDirThrottle
from ktui.cli.reassign.plan_throttles import throttles_of_plan
from ktui.cli.reassign.printed import lines
from ktui.cluster.fresh_read import read_cluster_and_reassignments
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.ports import (
    ClusterReader,
    ClusterWriter,
    ConfigChange,
    ConfigOp,
    ConfigResource,
    ConfigScope,
    Verdict,
)
from ktui.cluster.resources import SettingKey, broker_resource, topic_resource
from ktui.cluster.throttle_settings import LOG_DIR_RATE, RATES, REPLICAS
from ktui.execution.errors import RunRefused
from ktui.execution.host.catalog import unfinished_runs
from ktui.execution.run.run import Run
from ktui.planning.names import join_named, join_some


class Over(NamedTuple):
    """What of a file is over, so that its throttles may go."""

    partitions: Collection[TopicPartition]
    """The partitions that are not being reassigned any more."""
    log_dirs: bool
    """Whether no replica moves to a log dir that the file names."""
    cleared: Collection[SettingKey] = ()
    """The settings that a cancel has put back already."""
    listed: Collection[TopicPartition] = ()
    """The reassignments of the cluster. A run with nothing else in flight has nothing to end."""


class Foreign(enum.Enum):
    """Which throttles go, of those that this state directory has not set."""

    KEPT = enum.auto()
    OF_PLAN = enum.auto()
    """Those that equal what an --execute of the plan sets, once nothing moves in the cluster."""
    ALL = enum.auto()


FOREIGN = "clear-foreign-throttles"
_RATES = (*RATES, LOG_DIR_RATE)


def clear_throttles(
    place: RunsPlace,
    targets: Mapping[TopicPartition, Brokers],
    over: Over,
    *,
    foreign: Foreign,
    say: Callable[[str], None] = click.echo,
) -> None:
    """Remove throttles, and name on standard error those that stay.

    Args:
        place: the cluster and the state directory.
        targets: the partitions of the file, with their replicas in it.
        over: what of the file is over.
        foreign: which throttles go besides our own.
        say: prints what was put back.

    Raises:
        ReassignProblem: a setting could not be removed.
        RunRefused, RunProblem: an engine that puts settings back cannot be started.
        ClusterError: the cluster does not answer.
    """
    cluster = place.target.cluster
    if cluster.context.read_only:
        print_note(f"the context of {cluster.name} is read_only: throttles stay as they are")
        return
    ending = [run for run in left_runs(place) if not _goes_on(run, over.listed)]
    cleared = {key for run in ending for key in settle(place, run.name)[1]}
    cleared |= {*over.cleared}
    if over.log_dirs:
        brokers = asyncio.run(_put_log_dir_rates_back(place))
        cleared |= {(broker_resource(broker), LOG_DIR_RATE) for broker in brokers}
    _say_cleared(cleared, say)
    if len(over.partitions) == len(targets):
        asyncio.run(_clear_foreign(place, targets, foreign))


def _goes_on(run: Run, listed: Collection[TopicPartition]) -> bool:
    return run.in_flight > 0 and all(tp in listed for tp in run.tracks_in_flight)


async def _put_log_dir_rates_back(place: RunsPlace) -> list[int]:
    cluster = place.target.cluster
    async with aclosing(cluster.reader()) as reader, aclosing(cluster.writer()) as writer:
        return await LogDirThrottle(place.state, place.cluster_id).put_back(reader, writer)


def _say_cleared(keys: Collection[SettingKey], say: Callable[[str], None]) -> None:
    brokers = {int(r.name) for r, _ in keys if r.scope is ConfigScope.BROKER}
    topics = {r.name for r, _ in keys if r.scope is ConfigScope.TOPIC}
    if brokers:
        say(lines.clearing_broker_throttles(brokers))
    if topics:
        say(lines.clearing_topic_throttles(topics))


async def _clear_foreign(
    place: RunsPlace, targets: Mapping[TopicPartition, Brokers], foreign: Foreign
) -> None:
    """Remove throttles that stay on the brokers and the file's topics, or name them."""
    cluster = place.target.cluster
    async with aclosing(cluster.reader()) as reader, aclosing(cluster.writer()) as writer:
        described, listed = await read_cluster_and_reassignments(reader)
        found = await _set_now(reader, described.online, {tp.topic for tp in targets})
        ours = found.keys() & _of_runs(place)
        others = {key: value for key, value in found.items() if key not in ours}
        going = frozenset(others) if foreign is Foreign.ALL else frozenset[SettingKey]()
        if foreign is Foreign.OF_PLAN and not listed:
            going = await _of_plan(place, targets, others)
        if going:
            await _delete(writer, going)
        if staying := others.keys() - going:
            print_note(
                f"throttles stay on {_named(staying)}: this state directory has not set them. To "
                f"remove them, too: --{FOREIGN}"
            )
        if ours:
            print_note(f"throttles stay on {_named(ours)}: what has not ended needs them")


async def _of_plan(
    place: RunsPlace,
    targets: Mapping[TopicPartition, Brokers],
    settings: Mapping[SettingKey, str],
) -> frozenset[SettingKey]:
    """Return the settings of the plan; none while another state directory owns the cluster."""
    found = throttles_of_plan(targets, settings)
    if found and place.owner is not None:
        try:
            await check_no_other_owner(place.owner)
        except RunRefused as owned:
            print_note(str(owned))
            return frozenset()
    return found


async def _set_now(
    reader: ClusterReader, brokers: Collection[int], topics: Collection[str]
) -> dict[SettingKey, str]:
    """Return the throttle settings that are made on brokers and on topics, with their values."""
    resources = {broker_resource(broker): _RATES for broker in brokers} | {
        topic_resource(topic): REPLICAS for topic in topics
    }
    answer = await reader.settings(resources.keys(), {*_RATES, *REPLICAS})
    return {
        (resource, name): setting.own
        for resource, settings in answer.settings.items()
        for name, setting in settings.items()
        if name in resources[resource] and setting.own is not None
    }


def _of_runs(place: RunsPlace) -> set[SettingKey]:
    """Return the settings that unfinished runs of this state directory have made."""
    runs = unfinished_runs(place.state, place.cluster_id)
    of_log_dirs = LogDirThrottle(place.state, place.cluster_id).set_on
    rates = {(broker_resource(broker), LOG_DIR_RATE) for broker in of_log_dirs}
    return rates | {key for run, _ in runs for key in run.throttled.changed}


async def _delete(writer: ClusterWriter, keys: Collection[SettingKey]) -> None:
    _say_cleared(keys, click.echo)
    changes = [ConfigChange(resource, name, ConfigOp.DELETE) for resource, name in sorted(keys)]
    results = await writer.alter_configs(changes)
    for resource, result in results.items():
        if result.verdict is not Verdict.ACCEPTED:
            raise ReassignProblem(f"{_name(resource)}: {result.message or result.code}")


def _named(keys: Collection[SettingKey]) -> str:
    brokers = sorted({int(r.name) for r, _ in keys if r.scope is ConfigScope.BROKER})
    topics = sorted({r.name for r, _ in keys if r.scope is ConfigScope.TOPIC})
    parts = [join_named("broker", brokers, most=8)] if brokers else []
    if topics:
        parts.append(f"topic{'' if len(topics) == 1 else 's'} {join_some(topics)}")
    return " and ".join(parts)


def _name(resource: ConfigResource) -> str:
    return f"{resource.scope} {resource.name}"
