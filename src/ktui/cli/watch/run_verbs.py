"""The verbs that change the run of a view, with the options and refusals of the shell's verbs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import click

from ktui.cli.context.terminal import BadInput
from ktui.cli.options import common
from ktui.cli.options.run import (
    cancel_options,
    check_scope_given,
    read_cancel_request,
    schedule_options,
)
from ktui.cli.options.throttle import (
    GivenLimits,
    limit_changes,
    limits_brokers_option,
    limits_change,
    parse_rates_option,
)
from ktui.cluster.partition import TopicPartition
from ktui.execution.journal.commands import CancelMoves, Continue, Pause, SetSchedule, SetThrottle
from ktui.execution.run.run import Run
from ktui.pacing.limits import CHOICES, KIP_435_NAMES, LETTERS, NUMBERS, PACE, PACES
from ktui.tui.run_view.launchers import BadCommand, OpenGate, RunChange

_OPTION_OF = {letter: option for option, letter in LETTERS.items()} | dict(KIP_435_NAMES)
_MOST_NAMES = 50  # names offered where a word was begun; more are no help
_SETTINGS: dict[str, list[str]] = {"help_option_names": []}
"""The view's line offers completions in place of --help."""

_names = click.argument("names", metavar="[PARTITION|TOPIC ...]", nargs=-1)


@click.command("limits", context_settings=_SETTINGS)
@limits_brokers_option
@limit_changes
@click.pass_obj
def _limits(run: Run, *, limits: GivenLimits, brokers: tuple[int, ...]) -> RunChange:
    return limits_change(run, limits, brokers)


@click.command("throttle", context_settings=_SETTINGS)
@click.argument("rate", metavar="RATE")
def _throttle(*, rate: str) -> RunChange:
    return SetThrottle(parse_rates_option("RATE", rate))


@click.command("schedule", context_settings=_SETTINGS)
@schedule_options
def _schedule(*, schedule: SetSchedule) -> RunChange:
    if schedule == SetSchedule():
        raise BadInput("schedule: nothing to change. Give --window, --start-at, --while or --by")
    return schedule


@click.command("pause", context_settings=_SETTINGS)
@_names
@common.scope_options
@click.pass_obj
def _pause(run: Run, *, names: tuple[str, ...], scope: common.Scope) -> RunChange:
    topics, partitions = _with_names(run, names, scope).within(run)
    return Pause(topics=topics, partitions=partitions)


@click.command("continue", context_settings=_SETTINGS)
@_names
@common.scope_options
@click.pass_obj
def _continue(run: Run, *, names: tuple[str, ...], scope: common.Scope) -> RunChange:
    topics, partitions = _with_names(run, names, scope).within(run, ever=True)
    return Continue(topics=topics, partitions=partitions)


@click.command("cancel", context_settings=_SETTINGS)
@_names
@cancel_options
@click.pass_obj
def _cancel(run: Run, *, names: tuple[str, ...], chosen: dict[str, Any]) -> RunChange:
    named = _with_names(run, names, chosen["scope"])
    common.check_scope(run, named.topics, named.partitions)
    request = read_cancel_request({**chosen, "scope": named})
    if request is None:
        return OpenGate()
    on_brokers = common.find_on_brokers(run, request.brokers)
    if request.dry_run or request.take_over:
        option = "--dry-run" if request.dry_run else "--take-over"
        raise BadInput(
            f"{option}: only in a shell. Leave it out: the view shows what would be done first"
        )
    if not run.ended:
        check_scope_given(request)
    partitions = (*request.partitions, *on_brokers)
    return CancelMoves(request.kind, topics=request.topics, partitions=partitions)


_VERBS: Mapping[str, click.Command] = {
    each.name or "": each for each in (_limits, _throttle, _schedule, _pause, _continue, _cancel)
}
_SCOPED = ("pause", "continue", "cancel")


class ShellVerbs:
    """Parses what follows `:` in a view by the options of the shell's verbs."""

    usage: Mapping[str, str] = {
        "limits": "P=10 R=none --mode wave …: new limits, from the next decision on",
        "throttle": "50MB, or 50MB,3=20MB, or none: a new rate, at once",
        "schedule": "--window 22:00-05:00, --start-at 22:00, --while CMD, --by 05:00; or none",
        "pause": "the run, or partitions and topics of it",
        "continue": "the run, or partitions and topics of it",
        "cancel": "orders-3 --stop, or --rollback, --trim; orders for a topic, --all for the run",
    }

    def parse(self, verb: str, words: Sequence[str], run: Run) -> RunChange:
        command = _VERBS[verb]
        given = [*_as_options(words)] if verb == "limits" else [*words]
        try:
            with command.make_context(verb, given, obj=run) as context:
                change: RunChange = command.invoke(context)
        except click.ClickException as problem:
            raise BadCommand(problem.format_message()) from None
        except BadInput as problem:
            raise BadCommand(str(problem)) from None
        return change

    def complete(self, verb: str, begun: str, run: Run) -> Iterable[str]:
        offered = chain(_limit_words() if verb == "limits" else (), _options(_VERBS[verb]))
        if verb in _SCOPED and not begun.startswith("-"):
            topics = dict.fromkeys(tp.topic for tp in run.tracks)
            offered = chain(topics, map(str, run.tracks) if begun else (), offered)
        return islice((word for word in offered if word.startswith(begun)), _MOST_NAMES)


def _as_options(words: Sequence[str]) -> Iterator[str]:
    """Turn `P=10` and `partitions=10` into the shell's `--partitions=10`."""
    for word in words:
        name, equals, value = word.partition("=")
        option = _OPTION_OF.get(name, name)
        known = option in NUMBERS or option in CHOICES or option == PACE
        yield f"--{option}={value}" if equals and known else word


def _limit_words() -> Iterator[str]:
    yield from (f"{letter}=" for letter in LETTERS.values())
    yield from (f"{PACE}={pace}" for pace in PACES)
    yield from (f"{option}={word}" for option, some in CHOICES.items() for word in some)


def _options(command: click.Command) -> Iterator[str]:
    for option in command.params:
        if isinstance(option, click.Option):
            yield from option.opts


def _with_names(run: Run, names: Sequence[str], scope: common.Scope) -> common.Scope:
    """Add bare names to a scope: partitions of the run, else topics; the run's own is all of it."""
    topics, partitions = [*scope.topics], [*scope.partitions]
    for name in names:
        topic, _, number = name.rpartition("-")
        tp = TopicPartition(topic, int(number)) if number.isdecimal() else None
        if tp in run.tracks and tp is not None:
            partitions.append(tp)
        elif name != run.name:
            topics.append(name)
    return scope._replace(topics=tuple(topics), partitions=tuple(partitions))
