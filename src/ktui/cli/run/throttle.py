"""`ktui throttle`: show or change how fast a run may copy, and show its settings on Kafka."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import TypeVar

import click
import msgspec

from ktui.cli.context.cluster import ClusterChoice, Target, check_cluster, check_same_cluster
from ktui.cli.context.option import add_option
from ktui.cli.context.terminal import NOT_ALL_DONE, BadInput, print_note
from ktui.cli.options import common
from ktui.cli.options.plan import slow_option
from ktui.cli.options.throttle import (
    parse_budget_option,
    parse_objective_option,
    parse_rates_option,
)
from ktui.cli.output.json_form import encode_record
from ktui.cli.process import send_command
from ktui.cluster.clock import SystemClock
from ktui.cluster.errors import ClusterError
from ktui.cluster.ports import ClusterReader, ConfigScope, SettingsAnswer
from ktui.cluster.text import clean
from ktui.columns import column, table_of
from ktui.execution import RunRefused
from ktui.execution.engine.add_plan import settled
from ktui.execution.host.client import RunClient, undo_throttle
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.commands import LeaveThrottles, SetThrottle
from ktui.execution.run.run import Run
from ktui.execution.run.throttle_status import (
    StandingSetting,
    ThrottleStatus,
    name_resources,
    prior_value_text,
    throttle_status,
)
from ktui.inputfile import FileProblem
from ktui.ops.start import find_missing_for_throttle
from ktui.planning.check.findings import FindingKind, Severity
from ktui.planning.check.snapshot import take_snapshot
from ktui.planning.plan import PartitionTarget, Plan, join_some
from ktui.planning.throttle_rates import ThrottleRates
from ktui.preview.facts import ClusterFacts, Terms
from ktui.preview.preview import PreviewBase
from ktui.quantities import as_rate

_T = TypeVar("_T")
MOST_ENTRIES = 10  # entries shown of a list; --json has all


_CHECKED_WITHIN_S = 5.0  # a brake must not wait for a cluster that is slow to answer


@click.command("throttle")
@common.run_argument
@click.argument("rate", metavar="[RATE]", required=False)
@add_option(
    "--budget RATE", "Change the rate of all brokers together; none lifts it. The other rates stay."
)
@add_option(
    "--slo OBJECTIVE", "Change the objective, such as p99<150ms; none lifts it. The rates stay."
)
@add_option("--undo", "Restore the rate from before your last change.")
@add_option(
    "--leave-behind",
    "End a run that has nothing left to move, and leave its throttle where it cannot be removed.",
)
@slow_option
@common.state_dir_option
@common.json_option
def command(  # noqa: PLR0913 - one for each option
    name: str,
    rate: str | None,
    *,
    budget: str | None,
    slo: str | None,
    undo: bool,
    leave_behind: bool,
    slow: bool,
    state: StateDir,
    json: bool,
) -> None:
    """Show the throttle of RUN and all that it has set, or change its RATE.

    RATE is the bytes a second that each broker may receive for replicas being added: 50MB, or
    50MB,3=20MB with another rate for broker 3, total=400MB for all brokers together, or none to
    lift the throttle. A new rate takes effect at once, also for steps in flight. Before a lower
    one, ktui measures for some seconds whether any copy ends under it; --allow-slow does without.
    Waits up to 30 s for the engine's answer.

    Exit code 3 after --leave-behind if a broker or topic may keep the throttle.
    """
    given = None if rate is None else parse_rates_option("RATE", rate)
    total = None if budget is None else parse_budget_option(budget)
    objective = None if slo is None else parse_objective_option(slo)
    changes = not rate is budget is slo is None
    if leave_behind and changes:
        raise BadInput("--leave-behind and RATE exclude each other. Give one of the two")
    if undo and (leave_behind or changes):
        other = "--leave-behind" if leave_behind else "RATE"
        raise BadInput(f"--undo and {other} exclude each other. Give one of the two")
    client = RunClient.find(state, name)
    if undo:
        _undo(client, json=json)
        return
    if changes:
        run = client.read_live()
        rates = run.throttled.rates if given is None else given
        if budget is not None:
            rates = msgspec.structs.replace(rates, budget=total)
        if slo is not None:
            rates = msgspec.structs.replace(rates, objective=objective)
        if rates:
            check_throttle_permitted(run, rates)
            _check_copies_end(run, rates, slow=slow)
        send_command(client, SetThrottle(rates), json=json)
        return
    if leave_behind:
        _leave_behind(client, json=json)
        return
    run = client.read().run
    settings = _at_present(run, throttle_status(run).settings)
    owned = client.owner is not None  # asked last: without an engine, the throttle may stay
    throttle = msgspec.structs.replace(throttle_status(run, owned=owned), settings=settings)
    if json:
        click.echo(encode_record({"run": name, "throttle": throttle}))
    else:
        shown = [table_of(_COLUMNS, throttle.settings)] if throttle.settings else []
        click.echo("\n\n".join(["\n".join(_facts(name, throttle)), *shown]))


def _at_present(run: Run, settings: tuple[StandingSetting, ...]) -> tuple[StandingSetting, ...]:
    """Return a run's settings, with the rates that brokers have now, not 30 s ago."""
    rates = [each.setting for each in settings if each.scope is ConfigScope.BROKER]
    if not rates:
        return settings
    resources, names = {key[0] for key in rates}, {key[1] for key in rates}
    unread = "what its brokers have now could not be read"
    found = _asked(run, unread, lambda reader: reader.settings(resources, names))
    if found is None:
        return settings
    return tuple(_found_now(each, found) for each in settings)


def _found_now(ours: StandingSetting, found: SettingsAnswer) -> StandingSetting:
    resource, key = ours.setting
    if ours.scope is not ConfigScope.BROKER or resource not in found.settings:
        return ours
    there = found.settings[resource].get(key)  # a broker reports a rate only once it is set
    own = None if there is None else there.own
    if own is None and ours.sure:
        return msgspec.structs.replace(ours, ours=(), theirs=None)
    theirs = None if own is None or own in ours.ours else own
    return msgspec.structs.replace(ours, theirs=theirs)


def _asked(run: Run, unread: str, read: Callable[[ClusterReader], Awaitable[_T]]) -> _T | None:
    """Ask the run's cluster at once; None on a simulated cluster, and after a warning."""
    begun = run.started
    if begun is None or not begun.connection:
        return None

    async def ask(where: Target) -> _T:
        async with asyncio.timeout(_CHECKED_WITHIN_S), aclosing(where.cluster.reader()) as reader:
            check_same_cluster(
                where, (await reader.describe_cluster()).cluster_id, begun.cluster_id
            )
            return await read(reader)

    try:
        return asyncio.run(ask(ClusterChoice().or_of_run(begun).target(changes=False)))
    except (BadInput, FileProblem, RunRefused, ClusterError, TimeoutError) as error:
        late = f"the cluster did not answer within {_CHECKED_WITHIN_S:.0f} s"
        print_note(f"warning: {unread}: {str(error) or late}")
        return None


def check_throttle_permitted(run: Run, rates: ThrottleRates | None = None) -> None:
    """Check that a run's principal may set a throttle on the partitions still to be moved.

    The run's engine sets the throttle. So a check that fails here only prints a warning. The run's
    canary may have to measure the objective of the new rates.
    """
    begun = run.started
    if begun is None or not begun.connection:  # a run on a simulated cluster
        return
    try:
        where = ClusterChoice().or_of_run(begun).target(changes=False)
        asyncio.run(check_cluster(where, begun.cluster_id))
        missing = asyncio.run(find_missing_for_throttle(run, where.cluster, rates))
    except (BadInput, FileProblem, RunRefused, ClusterError) as error:
        print_note(f"warning: ktui could not check whether this throttle is permitted: {error}")
        return
    if missing:
        sentences = "; ".join(finding.sentence for finding in missing)
        raise BadInput(f"run {run.name} is unchanged: {sentences}")


def _check_copies_end(run: Run, rates: ThrottleRates, *, slow: bool) -> None:
    """Check that, by the estimate, new rates let some copy of what a run has left end."""
    left = [track for track in run.tracks.values() if not track.state.ended]
    if slow or not left or not rates.lower_than(run.throttled.rates):
        return
    plan = Plan(
        tuple(PartitionTarget(each.tp.topic, each.tp.partition, each.target) for each in left)
    )
    unread = "ktui could not check whether a copy ends under this rate"
    seen = _asked(run, unread, lambda reader: take_snapshot(reader, plan, SystemClock()))
    if seen is None:
        return
    facts = ClusterFacts(seen=settled(seen, run, run.tracks))
    leaders = run.options.throttle_leaders
    terms = Terms(limits=run.limits, throttle=rates, throttle_leaders=leaders)
    preview = PreviewBase(plan, facts, check=lambda _: ()).under(terms)
    for found in preview.findings:
        if found.severity is Severity.PROBLEM:
            words = f"run {run.name} is unchanged: {found.sentence}"
            raise BadInput(f"{words}{'' if words.endswith('?') else '.'} To insist: {found.option}")
        if found.kind is FindingKind.SLOWER_THAN_A_FETCH:
            print_note(f"warning: {found.sentence}")


def _undo(client: RunClient, *, json: bool) -> None:
    run = client.read_live()
    command = undo_throttle(run).command
    if isinstance(command, SetThrottle) and command.rates:
        check_throttle_permitted(run, command.rates)
    send_command(client, command, json=json)


def _leave_behind(client: RunClient, *, json: bool) -> None:
    """Let a run end without its throttle; end the program with NOT_ALL_DONE if some of it stays."""
    run = client.read_live()
    if run.over < len(run.tracks):  # by the end all that can be unthrottled is
        raise BadInput(
            f"--leave-behind: run {run.name} still moves partitions, and removes its throttle "
            f"after them. To lift it now: ktui throttle {run.name} none"
        )
    left = run.throttled.changed
    send_command(client, LeaveThrottles(), json=json)
    if left:
        print_note(
            f"{name_resources(left)} may keep the throttle, which binds again once the broker is "
            "back. To delete it through a controller: ktui doctor --clear-throttles"
        )
        sys.exit(NOT_ALL_DONE)


def _facts(run: str, throttle: ThrottleStatus) -> Iterator[str]:
    none = "" if throttle.settings else "; not set on any broker or topic now"
    yield f"throttle of {run}: {throttle.words}{none}"
    if throttle.refusal:
        yield f"refused: {clean(throttle.refusal)}"
    if throttle.waits:
        yield f"{throttle.waits}. If that never changes: ktui throttle {run} --leave-behind"
    if throttle.stays:
        yield f"{throttle.stays}; to resume it: ktui resume {run}"


def _ours(each: StandingSetting) -> str:
    of_broker = each.scope is ConfigScope.BROKER
    there = " or ".join(map(_rate, each.ours)) if of_broker else ""
    mine = there or join_some(each.ours, most=MOST_ENTRIES) or "none"
    if not each.sure:
        mine += " (not confirmed)"
    if of_broker and each.sure and not each.ours:
        mine = "none: somebody else deleted it"
    if each.theirs is not None:
        mine = f"none: somebody else set {clean(_rate(each.theirs))}"
    return mine


_COLUMNS = (
    column("ON", lambda each: f"{each.scope} {each.name}"),
    column("SETTING", lambda each: each.key),
    column("OURS", _ours),
    column("BEFORE", lambda each: clean(_rate(prior_value_text(each.before)))),
)


def _rate(text: str) -> str:
    return f"{text} ({as_rate(int(text))})" if text.isdecimal() else text
