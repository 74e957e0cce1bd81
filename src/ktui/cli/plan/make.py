"""`ktui plan`: check a plan, or make one from what is wanted."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import click
import msgspec

from ktui.cli.context.option import GroupedCommand, add_option
from ktui.cli.context.terminal import BAD_INPUT, NOT_ALL_DONE, BadInput, print_note
from ktui.cli.options import common
from ktui.cli.options.plan import allowance_options, below_min_isr_option, read_plan_argument
from ktui.cli.options.throttle import GivenLimits, complete_limits
from ktui.cli.output.json_form import SCHEMA_VERSION, encode, failure_json
from ktui.cli.output.plan_check import finding_lines, report
from ktui.cli.plan.from_run import output_plan, remaining_command, rollback_command, undo_command
from ktui.cli.plan.make_options import (
    CheckOptions,
    MakeOptions,
    check_options,
    make_options,
    parse_brokers,
    parse_patterns,
    share_of,
    size_of,
    start_command,
    weighted,
    wishes_of,
)
from ktui.cluster.broker import INTERNAL_TOPICS
from ktui.cluster.errors import Failure
from ktui.cluster.text import clean
from ktui.columns import Column, column, figures, table_of
from ktui.execution.host.state_dir import default_name
from ktui.pacing.limits import INTERNAL, Limits, Order, Shape
from ktui.planning.check.findings import Allowances
from ktui.planning.intents.layout import (
    UNKNOWN_BYTES,
    BeforeAfter,
    Holding,
    Layout,
    before_after,
    rack_warnings,
    read_layout,
    unread_warnings,
)
from ktui.planning.intents.made_plan import (
    REASONS,
    CannotMake,
    Internal,
    Left,
    MadePlan,
    Why,
    Wishes,
    left_name,
    reason_of,
)
from ktui.planning.intents.registry import (
    BROKER,
    BROKERS,
    COMMON,
    COUNT,
    FIELDS,
    INTENTS,
    TOPICS,
    Amount,
    Field,
    Intent,
    Kind,
    Values,
)
from ktui.planning.plan import VERSION, Plan, join_some
from ktui.preview.preview import PlanPreview, sizes_phrase
from ktui.preview.text import room_lines, time_text
from ktui.quantities import as_bytes, as_count

_WHY = {
    **REASONS,
    Why.RACK: f"{REASONS[Why.RACK]}; --no-rack-aware allows that",
    Why.MAX_MOVES: "--max-moves is reached",
    Why.MAX_BYTES: "--max-bytes would be exceeded",
    Why.MAX_LEADER_CHANGES: "--max-leader-changes is reached",
}
"""The same reasons, with the options that they are about."""


class _Made(msgspec.Struct, frozen=True, kw_only=True):
    words: str  # what was wanted: drain broker 3
    amount: Callable[[int], str]  # formats how far a broker stays off what is wanted of it
    wishes: Wishes
    made: MadePlan
    failures: tuple[Failure, ...]
    change: BeforeAfter
    preview: PlanPreview
    start: str


def made_json(made: _Made) -> str:
    """Return a plan that was made as one JSON object."""
    change = made.change
    return encode(
        {
            "schema_version": SCHEMA_VERSION,
            "intention": made.words,
            "plan": {"version": VERSION, "partitions": made.made.plan.partitions},
            "replicas": change.replicas,
            "bytes": change.bytes,
            "leaders": change.leaders,
            "sizes_unknown": change.sizes_unknown,
            "rack_aware": made.wishes.rack_aware,
            "brokers": change.brokers,
            "racks": change.racks,
            "left": made.made.left,
            "failures": [*map(failure_json, made.failures)],
            "start": made.start,
            "preview": made.preview,
        }
    )


def _made_text(made: _Made) -> str:
    preview = made.preview
    blocks = [
        [_headline(made)],
        finding_lines(preview),
        _before_after_lines(made.change),
        room_lines(preview),
        [f"time  {time_text(preview)}"] if preview.moves else [],
        left_lines(made.made.left, made.amount),
        [f"start it: {made.start}"],
    ]
    return "\n\n".join("\n".join(lines) for lines in blocks if lines)


def _headline(made: _Made) -> str:
    change = made.change
    copied = (
        f"{as_count(change.replicas, 'replica')} to copy ({as_bytes(change.bytes)})"
        if change.replicas
        else "nothing to copy"
    )
    leaders = f"{as_count(change.leaders, 'preferred leader')} to change"
    partitions = as_count(len(made.made.plan.partitions), "partition")
    return f"{made.words}: {partitions}, {copied}, {leaders}"


def _figure(heading: str, words: Callable[[Holding], str], *, after: bool = False) -> Column[str]:
    return figures(heading, lambda each: words(each.after if after else each.before))


def _count(name: str) -> Callable[[Holding], str]:
    return lambda holding: f"{getattr(holding, name):,}"


_BROKER = figures("BROKER", lambda each: str(each.broker))
_RACK = column("RACK", lambda each: clean(each.rack or ""))
_FIGURES = tuple(
    _figure("AFTER" if after else heading, words, after=after)
    for heading, words in (
        ("REPLICAS", _count("replicas")),
        ("BYTES", lambda holding: as_bytes(holding.bytes)),
        ("LEADERS", _count("leaders")),
    )
    for after in (False, True)
)


def _before_after_lines(change: BeforeAfter) -> list[str]:
    racked = (_RACK,) if change.racks else ()
    lines = table_of((_BROKER, *racked, *_FIGURES), change.brokers).splitlines()
    if change.racks:
        lines += ["", *table_of((_RACK, *_FIGURES), change.racks).splitlines()]
    if change.sizes_unknown:
        unknown = sizes_phrase(change.sizes_unknown)
        lines.append(f"{unknown} not known: each counts as {as_bytes(UNKNOWN_BYTES)}")
    return lines


def left_lines(left: Iterable[Left], amount: Callable[[int], str]) -> list[str]:
    """Return what stays undone, one line for each reason."""
    by_why: dict[str, list[str]] = {}
    for each in left:
        by_why.setdefault(reason_of(each, _WHY), []).append(_left_in_words(each, amount))
    return [f"not done: {join_some(named)}: {why}" for why, named in by_why.items()]


def _left_in_words(left: Left, amount: Callable[[int], str]) -> str:
    of_broker = left.tp is None and left.amount
    return left_name(left) + (f" (off by {amount(left.amount)})" if of_broker else "")


def _make_plan(
    intent: Intent,
    values: Values,
    wanted: MakeOptions,
    how: CheckOptions,
    *,
    allowed: Allowances,
    topics_by: str,
) -> NoReturn:
    """Make a plan, write it with its summary, and end the program; `topics_by` names topics."""
    cluster = how.choice.cluster()
    layout = weighted(cluster.ask(read_layout), wanted)
    wishes = wishes_of(wanted, layout, topics_by)
    if not wanted.json:
        for line in unread_warnings(layout.failures):
            print_note(line)
        for line in rack_warnings(layout) if wanted.rack_aware is None else ():
            print_note(line)
    words, amount = intent.words(values), intent.amount(values)
    made = _make(intent, values, layout, wishes)
    in_force = complete_limits(cluster.context.limits, how.limits)
    limits = in_its_order(how.limits, made.plan, in_force, wishes.internal)
    how = msgspec.structs.replace(how, limits=limits)
    name = wanted.output or Path(intent.run_name(values))
    run = default_name(name)
    preview = how.check(
        made.plan,
        cluster,
        source=clean(str(name)),
        run=run,
        # nothing is started here: `ktui start` refuses a rate that is too low
        allowed=msgspec.structs.replace(allowed, slow=True),
    )
    whole = _Made(
        words=words,
        amount=amount,
        wishes=wishes,
        made=made,
        failures=layout.failures,
        change=before_after(layout, made.plan),
        preview=preview,
        start=start_command(wanted.output, run, allowed.used_by(preview.findings), how),
    )
    _write(whole, wanted)
    sys.exit(NOT_ALL_DONE if made.left else 0)


def _make(intent: Intent, values: Values, layout: Layout, wishes: Wishes) -> MadePlan:
    try:
        made = intent.make(layout, values, wishes)
    except CannotMake as problem:
        raise BadInput(str(problem)) from None
    if made.plan.partitions:
        return made
    for line in left_lines(made.left, intent.amount(values)):
        print_note(line)
    raise BadInput(f"{intent.words(values)}: nothing can be moved, so no plan was written")


def in_its_order(
    given: GivenLimits, plan: Plan, in_force: Limits, internal: Internal = Internal.LAST
) -> GivenLimits:
    """Let a run follow the order of a plan with some of Kafka's own topics: first, or last."""
    if not any(each.topic in INTERNAL_TOPICS for each in plan.partitions):
        return given
    if in_force.shape is Shape.GENTLE:
        return given if in_force.internal == internal.value else {**given, INTERNAL: internal.value}
    return given if "order" in given else {**given, "order": Order.PLAN.value}


def _write(whole: _Made, wanted: MakeOptions) -> None:
    """Write a plan and its summary. A plan with a problem is only shown, and only with --json."""
    if wanted.json:
        click.echo(made_json(whole))
    if whole.preview.problems:
        for line in () if wanted.json else finding_lines(whole.preview):
            print_note(line)
        print_note(f"ktui: {whole.words}: such a plan cannot be started, so none is written")
        sys.exit(BAD_INPUT)
    if wanted.output is not None or not wanted.json:
        output_plan(whole.made.plan, wanted.output)
    if not wanted.json:
        print_note(_made_text(whole))


TOPIC = "TOPIC"
_ENDING = (
    "The plan goes to standard output or {file}, its summary to standard error. Nothing is sent.\n"
    "Exit code 0, 3 if something is left undone, 2 if there is nothing to do or an error."
)
_READERS: Mapping[Kind, Callable[[Any], Any]] = {BROKERS: parse_brokers, TOPICS: parse_patterns}
_LEAST = {BROKER: 0, COUNT: 1}
"""The kinds of which click or a list with commas has words of its own for what is wrong."""
_AMOUNTS: Mapping[str, tuple[str, Callable[[str, str], Amount]]] = {
    "--within": ("SHARE", lambda option, text: Amount(text, share=share_of(option, text))),
    "--below": ("SHARE", lambda option, text: Amount(text, share=share_of(option, text))),
    "--free": ("SIZE", lambda option, text: Amount(text, bytes=size_of(option, text))),
}
"""The options for a quantity: its metavar, and how it is read."""

Decorator = Callable[[Callable[..., None]], Callable[..., None]]


def _argument(field: Field) -> Decorator:
    kind = field.kind

    def read(_context: click.Context, _argument: click.Parameter, given: Any) -> Any:
        if kind in _READERS:
            return _READERS[kind](given)
        try:
            return kind.read(field, " ".join(given) if kind.many else given)
        except CannotMake as problem:
            raise BadInput(str(problem)) from None

    how: dict[str, Any] = (
        {"type": click.IntRange(_LEAST[kind])} if kind in _LEAST else {"callback": read}
    )
    many: dict[str, Any] = {"nargs": -1, "required": True} if kind.many else {}
    return click.argument(field.name, metavar=field.metavar, **many, **how)


def _options(field: Field) -> Iterable[Decorator]:
    shown: dict[str, Any] = (
        {"default": field.default, "show_default": not field.choices} if field.default else {}
    )
    for option, words in field.options.items():
        metavar = "" if field.choices else field.metavar
        if field.choices:
            shown["type"] = click.Choice([*field.choices])
        elif option in _AMOUNTS:
            metavar = _AMOUNTS[option][0]
        else:
            shown["reads"] = _READERS[field.kind]
        name = field.name if len(field.options) == 1 else option.strip("-")
        yield add_option(f"{option} {metavar}".strip(), words, name, **shown)


def _value(field: Field, given: dict[str, Any]) -> Any:
    if field.options.keys().isdisjoint(_AMOUNTS):
        return given[field.name]
    one = len(field.options) == 1
    texts = {each: given[field.name if one else each.strip("-")] for each in field.options}
    found = [(option, text) for option, text in texts.items() if text is not None]
    if len(found) != 1:
        ways = [f"{option} {_AMOUNTS[option][0]}" for option in field.options]
        raise BadInput(f"give one of {' and '.join(ways)}")
    option, text = found[0]
    return _AMOUNTS[option][1](option, text)


def _command(intent: Intent) -> click.Command:
    own = (*intent.may_have, *intent.needs)
    fields = [FIELDS[name] for name in own if name not in COMMON]
    names_topics = TOPICS in {field.kind for field in fields}
    may_lack_isr = intent.allowed.replication_factor_change

    def verb(*, wanted: MakeOptions, how: CheckOptions, **given: Any) -> None:
        values = {
            each.name: _value(each, given) if each.options else given[each.name] for each in fields
        }
        allowed = intent.allowed
        if may_lack_isr:
            allowed = msgspec.structs.replace(allowed, below_min_isr=given["below_min_isr"])
        if names_topics:
            wishes = msgspec.structs.replace(wanted.wishes, topics=values["topics"])
            wanted = msgspec.structs.replace(wanted, wishes=wishes)
        topics_by = TOPIC if names_topics else "--topics"
        _make_plan(intent, values, wanted, how, allowed=allowed, topics_by=topics_by)

    has_file = any(field.metavar == "FILE" for field in fields)
    ending = _ENDING.format(file="to the file of -o" if has_file else "FILE")
    decorators: list[Decorator] = [_argument(each) for each in fields if not each.options]
    decorators += [option for each in fields for option in _options(each)]
    decorators += [below_min_isr_option] if may_lack_isr else []
    decorated: Callable[..., None] = make_options(verb, without="topics" if names_topics else "")
    for decorate in reversed(decorators):
        decorated = decorate(decorated)
    words = f"{inspect.cleandoc(intent.help)}\n\n{ending}"
    return click.command(intent.name, cls=GroupedCommand, help=words)(decorated)


COMMANDS = tuple(map(_command, INTENTS.values()))


@click.group("plan")
def command() -> None:
    """Check reassignment plans, or make them: from what you want, or from runs. Changes nothing."""


@command.command("check", cls=GroupedCommand)
@click.argument("path", metavar="PLAN", type=click.Path(path_type=Path))
@common.json_option
@add_option("--steps", "Also show each partition's steps under the limits.")
@check_options
@allowance_options
def check(path: Path, *, json: bool, steps: bool, how: CheckOptions, allowed: Allowances) -> None:
    """Check PLAN against the cluster, and show what it would do. Sends nothing.

    PLAN is a file in the format of kafka-reassign-partitions, or - for standard input. All mistakes
    in a file that is not a plan are reported before ktui connects to anything.

    Exit code 2 if there is a problem, 0 if there are only warnings or none.
    """
    name, plan = read_plan_argument(path)
    preview = how.check(
        plan,
        how.choice.cluster(),
        source=name,
        run=default_name(path),
        allowed=allowed,
        steps=steps,
    )
    click.echo(encode(preview) if json else report(preview))
    if preview.problems:
        sys.exit(BAD_INPUT)


for verb in (*COMMANDS, remaining_command, rollback_command, undo_command):
    command.add_command(verb)
