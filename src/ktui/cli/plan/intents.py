"""`ktui plan drain` and its like: plans made from what an operator wants of brokers and topics."""

from __future__ import annotations

from collections.abc import Callable, Collection
from fnmatch import fnmatchcase
from pathlib import Path

import click
import msgspec

from ktui.cli.context.errors import BadInput
from ktui.cli.options.plan import below_min_isr_option
from ktui.cli.plan.check_options import CheckOptions
from ktui.cli.plan.intention import Intention
from ktui.cli.plan.make import make_plan
from ktui.cli.plan.make_options import (
    MakeOptions,
    broker_argument,
    brokers_argument,
    make_options,
    make_options_without_topics,
    parse_brokers,
    parse_patterns,
    share_of,
    size_of,
)
from ktui.planning.check.findings import Allowances
from ktui.planning.intents.demote import demote
from ktui.planning.intents.disk_use import bytes_above
from ktui.planning.intents.drain import drain
from ktui.planning.intents.fill import fill
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.leaders import leaders
from ktui.planning.intents.placement import placement
from ktui.planning.intents.rack_repair import rack_repair
from ktui.planning.intents.replication_factor import replication_factor
from ktui.planning.intents.rules_file import read_rules
from ktui.planning.intents.shed import shed
from ktui.planning.intents.spread import By, spread
from ktui.planning.intents.swap import swap
from ktui.planning.names import join_named, join_some
from ktui.quantities import as_bytes, as_count

BELOW, FREE, WITHIN, BROKERS = "--below", "--free", "--within", "--brokers"
TOPIC = "TOPIC"


@click.command("drain")
@brokers_argument
@make_options
def drain_command(brokers: tuple[int, ...], *, wanted: MakeOptions, how: CheckOptions) -> None:
    """Plan to take all replicas off BROKERs, which may be down.

    No other replica moves. A new one goes to a rack that the partition lacks, then to the brokers
    with the fewest replicas of the topic, then with the fewest bytes.

    The plan goes to standard output or FILE, its summary to standard error. Nothing is sent. Exit
    code 0, 3 if something is left undone, 2 if there is nothing to do or an error.
    """
    intention = Intention(
        name=_name("drain", brokers),
        words=f"drain {join_named('broker', brokers)}",
        make=lambda layout, wishes: drain(layout, brokers, wishes),
    )
    make_plan(intention, wanted, how)


@click.command("fill")
@brokers_argument
@make_options
def fill_command(brokers: tuple[int, ...], *, wanted: MakeOptions, how: CheckOptions) -> None:
    """Plan to give BROKERs their share of the replicas.

    Replicas go only to these brokers, which are new for instance. They come from those with the
    most bytes.

    The plan goes to standard output or FILE, its summary to standard error. Nothing is sent. Exit
    code 0, 3 if something is left undone, 2 if there is nothing to do or an error.
    """
    intention = Intention(
        name=_name("fill", brokers),
        words=f"fill {join_named('broker', brokers)}",
        make=lambda layout, wishes: fill(layout, brokers, wishes),
        amount=_replicas,
    )
    make_plan(intention, wanted, how)


@click.command("swap")
@broker_argument("old", "OLD")
@broker_argument("new", "NEW")
@make_options
def swap_command(old: int, new: int, *, wanted: MakeOptions, how: CheckOptions) -> None:
    """Plan to let broker NEW take over from broker OLD.

    NEW comes into the places of OLD, also as the preferred leader. A replica goes elsewhere, as
    with drain, where NEW has one of the partition already, has no room, or is on a rack that the
    partition is on.

    The plan goes to standard output or FILE, its summary to standard error. Nothing is sent. Exit
    code 0, 3 if something is left undone, 2 if there is nothing to do or an error.
    """
    intention = Intention(
        name=_name("swap", (old, new)),
        words=f"swap broker {old} for broker {new}",
        make=lambda layout, wishes: swap(layout, old, new, wishes),
    )
    make_plan(intention, wanted, how)


@click.command("replication-factor")
@click.argument("factor", metavar="N", type=click.IntRange(1))
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True, callback=parse_patterns)
@below_min_isr_option
@make_options_without_topics
def replication_factor_command(
    factor: int,
    topics: tuple[str, ...],
    *,
    below_min_isr: bool,
    wanted: MakeOptions,
    how: CheckOptions,
) -> None:
    """Plan to give all partitions of TOPICs N replicas.

    A TOPIC is a name or a shell pattern such as 'orders-*'. No other replica moves, and a preferred
    leader that is alive stays.

    The plan goes to standard output or FILE, its summary to standard error. Nothing is sent. Exit
    code 0, 3 if something is left undone, 2 if there is nothing to do or an error.
    """
    named = msgspec.structs.replace(wanted, topics=topics)
    intention = Intention(
        name=f"replication-factor-{factor}",
        words=f"replication factor {factor} for {join_some(topics)}",
        make=lambda layout, wishes: replication_factor(
            layout, matching(layout, topics), factor, wishes
        ),
        allowed=Allowances(replication_factor_change=True, below_min_isr=below_min_isr),
        topics_by=TOPIC,
    )
    make_plan(intention, named, how)


@click.command("spread")
@click.option(
    BROKERS,
    "brokers",
    metavar="BROKER,...",
    callback=parse_brokers,
    help="Spread only among these brokers. Default: all that are up.",
)
@click.option(
    "--by",
    type=click.Choice([each.value for each in By]),
    default=By.BYTES.value,
    help="What is even afterwards: bytes (default), replicas, or preferred leaders.",
)
@click.option(
    WITHIN,
    metavar="SHARE",
    default="10%",
    show_default=True,
    help="How far a broker may be off its share.",
)
@make_options
def spread_command(
    brokers: tuple[int, ...], by: str, within: str, *, wanted: MakeOptions, how: CheckOptions
) -> None:
    """Plan to make brokers even with the least copying.

    Afterwards each broker is within a tolerance of its share of what they all have. With --by
    leaders only the order of replicas changes, and nothing is copied.

    The plan goes to standard output or FILE, its summary to standard error. Nothing is sent. Exit
    code 0, 3 if something is left undone, 2 if there is nothing to do or an error.
    """
    tolerance = share_of(WITHIN, within)
    among = f" among {join_named('broker', brokers)}" if brokers else ""
    intention = Intention(
        name=_name(f"spread-{by}", brokers),
        words=f"spread {by}{among} within {within}",
        make=lambda layout, wishes: spread(layout, wishes, brokers or None, By(by), tolerance),
        amount={By.REPLICAS: _replicas, By.LEADERS: _leaders}.get(By(by), as_bytes),
    )
    make_plan(intention, wanted, how)


@click.command("shed")
@broker_argument("broker", "BROKER")
@click.option(
    BELOW, metavar="SHARE", help="Until no more than this is in use on its disks, such as 80%."
)
@click.option(FREE, metavar="SIZE", help="Until it has given up this much, such as 200GB.")
@make_options
def shed_command(
    broker: int,
    *,
    below: str | None,
    free: str | None,
    wanted: MakeOptions,
    how: CheckOptions,
) -> None:
    """Plan to take just enough bytes off BROKER.

    It gives up as few bytes more as can be. Replicas go where drain would put them, but never to
    fewer racks.

    The plan goes to standard output or FILE, its summary to standard error. Nothing is sent. Exit
    code 0, 3 if something is left undone, 2 if there is nothing to do or an error.
    """
    amount, until = _to_shed(broker, below, free)
    intention = Intention(
        name=_name("shed", [broker]),
        words=f"shed from broker {broker}: {until}",
        make=lambda layout, wishes: shed(layout, broker, amount(layout), wishes),
    )
    make_plan(intention, wanted, how)


def _to_shed(
    broker: int, below: str | None, free: str | None
) -> tuple[Callable[[Layout], int], str]:
    """Return how many bytes a broker is to give up, by the cluster, and that in words."""
    if below is not None and free is None:
        share = share_of(BELOW, below)
        return lambda layout: bytes_above(layout, broker, share), f"disks at most {below} full"
    if free is not None and below is None:
        size = size_of(FREE, free)
        return lambda _: size, f"{free} less"
    raise BadInput(f"give one of {BELOW} SHARE and {FREE} SIZE")


@click.command("leaders")
@make_options
def leaders_command(*, wanted: MakeOptions, how: CheckOptions) -> None:
    """Plan to spread preferred leaders evenly.

    Only the order of replicas changes, of as few partitions as possible. Nothing is copied.

    The plan goes to standard output or FILE, its summary to standard error. Nothing is sent. Exit
    code 0, 3 if something is left undone, 2 if there is nothing to do or an error.
    """
    intention = Intention(
        name="leaders", words="spread preferred leaders", make=leaders, amount=_leaders
    )
    make_plan(intention, wanted, how)


@click.command("demote")
@brokers_argument
@make_options
def demote_command(brokers: tuple[int, ...], *, wanted: MakeOptions, how: CheckOptions) -> None:
    """Plan to take the leadership off BROKERs.

    Each comes last in every list of replicas. Only the order changes. Nothing is copied.

    The plan goes to standard output or FILE, its summary to standard error. Nothing is sent. Exit
    code 0, 3 if something is left undone, 2 if there is nothing to do or an error.
    """
    intention = Intention(
        name=_name("demote", brokers),
        words=f"demote {join_named('broker', brokers)}",
        make=lambda layout, wishes: demote(layout, brokers, wishes),
    )
    make_plan(intention, wanted, how)


@click.command("rack-repair")
@make_options
def rack_repair_command(*, wanted: MakeOptions, how: CheckOptions) -> None:
    """Plan to put partitions on as many racks as they can be on.

    Only replicas that share a rack with another one of their partition move.

    The plan goes to standard output or FILE, its summary to standard error. Nothing is sent. Exit
    code 0, 3 if something is left undone, 2 if there is nothing to do or an error.
    """
    intention = Intention(name="rack-repair", words="repair racks", make=rack_repair)
    make_plan(intention, wanted, how)


@click.command("placement")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@make_options
def placement_command(path: Path, *, wanted: MakeOptions, how: CheckOptions) -> None:
    """Plan to place topics by the rules in FILE, a list in YAML.

    A topic follows the first rule whose `topics` it matches: a name or a shell pattern. Its
    `strategy` is any, balanced-leaders, in-rack, cross-rack, or static with `lists`. Topics without
    a rule stay as they are, and as few replicas move as the rules need.

    The plan goes to standard output or to the file of -o, its summary to standard error. Nothing is
    sent. Exit code 0, 3 if something is left undone, 2 if there is nothing to do or an error.
    """
    rules = read_rules(path)
    intention = Intention(
        name="placement",
        words=f"place topics by {as_count(len(rules), 'rule')}",
        make=lambda layout, wishes: placement(layout, rules, wishes),
    )
    make_plan(intention, wanted, how)


def matching(layout: Layout, patterns: Collection[str]) -> list[str]:
    """Return the topics that match one of some shell patterns, sorted."""
    topics = {tp.topic for tp in layout.partitions}
    return sorted(
        topic for topic in topics if any(fnmatchcase(topic, pattern) for pattern in patterns)
    )


def _name(verb: str, brokers: Collection[int]) -> str:
    return "-".join([verb, *map(str, brokers)])


def _replicas(count: int) -> str:
    return as_count(count, "replica")


def _leaders(count: int) -> str:
    return as_count(count, "preferred leader")


COMMANDS = (
    drain_command,
    fill_command,
    swap_command,
    replication_factor_command,
    spread_command,
    shed_command,
    leaders_command,
    demote_command,
    rack_repair_command,
    placement_command,
)
