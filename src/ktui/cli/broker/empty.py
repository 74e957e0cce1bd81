"""`ktui broker empty`: whether a broker may go, for operators and scripts."""

from __future__ import annotations

import asyncio
import sys

import click

from ktui.cli.broker.read import broker_argument, exclude_option, read_view
from ktui.cli.context.cluster import ClusterChoice
from ktui.cli.options import common
from ktui.cli.options.cluster import cluster_options
from ktui.cluster.text import clean
from ktui.execution.broker.holdings import Stay
from ktui.execution.broker.status import EMPTY, BrokerStatus
from ktui.execution.errors import RunProblem
from ktui.execution.host.state_dir import StateDir
from ktui.planning.names import join_all, join_named, join_some
from ktui.quantities import as_bytes, as_count

NOT_EMPTY = 3
_CANARIES = {
    Stay.CANARY: "{} of the canary of {}, which goes with it",
    Stay.LEFT_CANARY: "{} left by the canary of {}",
}


@click.command("empty")
@broker_argument
@cluster_options
@exclude_option("Do not count these topics: names or shell patterns.")
@common.state_dir_option
def command(
    broker: int, choice: ClusterChoice, *, exclude: tuple[str, ...], state: StateDir
) -> None:
    """Check whether broker ID is empty: it holds no replica, and none is on its way to it.

    ktui never guesses: metadata must be proven to be current, and the broker's own log dirs must
    agree with it. A broker that is down cannot be asked, and is not known to be empty.

    Exit code 0 if it is empty, also but for the topics of --exclude, which are then named; 3 if it
    is not, 1 if that is not known, 2 for bad input.
    """
    view = asyncio.run(read_view(choice.cluster(), state, broker, fresh=True, exclude=exclude))
    if view.holdings.replicas:
        click.echo(held_line(view))
        sys.exit(NOT_EMPTY)
    if view.facts.unread:
        raise RunProblem(f"broker {broker} is not known to be empty: {clean(why_unknown(view))}")
    click.echo(clean(f"broker {broker} is {EMPTY if not but_for(view) else but_for(view)}"))


def why_unknown(view: BrokerStatus) -> str:
    """Return why a broker without known replicas is not known to be empty."""
    unread = view.facts.unread
    return f"the metadata names no replica on it, but {join_some(unread)}"


def but_for(view: BrokerStatus) -> str:
    """Return that a broker is empty but for what is left out; empty where nothing is left out."""
    if not view.excluded.replicas:
        return ""
    topics = (
        f"{as_count(len(each.replicas), 'replica')} of {each.topic}"
        for each in view.excluded.topics()
    )
    return f"empty but for these: {join_some(topics, most=8)}"


def held_line(view: BrokerStatus) -> str:
    """Describe in one line how much a broker holds, and which of that is on its way."""
    holdings = view.holdings
    replicas, topics = as_count(len(holdings.replicas), "replica"), holdings.topics()
    size = f", {as_bytes(holdings.bytes)}" if holdings.bytes is not None else ""
    line = f"broker {view.facts.id} holds {replicas} of {as_count(len(topics), 'topic')}{size}"
    parts = [*_on_their_way(view)]
    for why, text in _CANARIES.items():
        if runs := sorted({each.run for each in holdings.replicas if each.why is why}):
            parts.append(text.format(f"{holdings.count(why):,}", join_named("run", runs)))
    if view.facts.unread:
        parts.append(f"not all could be read: {join_some(view.facts.unread)}")
    return clean(f"{line}: {'; '.join(parts)}" if parts else line)


def _on_their_way(view: BrokerStatus) -> list[str]:
    templates = {
        Stay.LEAVING: "{} leaving",
        Stay.ARRIVING: "{} arriving",
        Stay.STRAY: "{} only on its disk, unknown to the metadata",
    }
    counted = ((text, view.holdings.count(why)) for why, text in templates.items())
    parts = [text.format(f"{count:,}") for text, count in counted if count]
    moving = sum(each.moves_dirs for each in view.holdings.replicas)
    if moving:
        parts.append(f"{moving:,} moving to another of its log dirs")
    return [join_all(parts)] if parts else []
