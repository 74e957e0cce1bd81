"""The options of the verbs that make a plan: what it may change, how much, and where it goes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from ktui.cli.context import option
from ktui.cli.context.cluster import Cluster, ClusterChoice, cluster_options
from ktui.cli.context.option import Grouped, Verb, add_option
from ktui.cli.context.terminal import BadInput
from ktui.cli.options import common
from ktui.cli.options.common import given_options, json_option, state_option
from ktui.cli.options.plan import rate_option
from ktui.cli.options.run import URGENT_FIRST, RunChoices, run_choices
from ktui.cli.options.throttle import throttle_options
from ktui.cli.output.plan_check import fact_reader, options_of_names
from ktui.cli.plan.from_run import output_option
from ktui.execution.host.state_dir import StateDir
from ktui.ops.start import check_run
from ktui.pacing.limits import INTERNAL
from ktui.planning.check.findings import TO_CHECK, Allowances, Option
from ktui.planning.intents.layout import Layout, without_rack
from ktui.planning.intents.made_plan import CannotMake, Internal, Wishes, check_patterns
from ktui.planning.intents.registry import BOUND, COMMON, FIELDS, FLAG, SIZE, TOPICS, Kind
from ktui.planning.plan import Plan, join_named, join_some
from ktui.preview.facts import steps_of
from ktui.preview.preview import PlanPreview
from ktui.quantities import Share, Size, parse_quantity


class CheckOptions(RunChoices, frozen=True, kw_only=True):
    """The cluster of a plan, and how the plan would be carried out on it."""

    choice: ClusterChoice
    state: StateDir

    def check(
        self,
        plan: Plan,
        cluster: Cluster,
        *,
        source: str,
        run: str,
        allowed: Allowances,
        steps: bool = False,
    ) -> PlanPreview:
        new = self.new_run(cluster.context, run, plan, plan_name=source, allowed=allowed)
        names = self.choice._asdict()
        checked = cluster.ask(
            lambda reader: check_run(
                new, fact_reader(cluster, reader, self.state, names), self.now, TO_CHECK
            )
        )
        shown = checked.previewed()
        if not steps:
            return shown
        seen = checked.facts.seen
        return msgspec.structs.replace(shown, partitions=steps_of(new.plan, seen, new.limits))


check_options = run_choices(
    CheckOptions, cluster_options, common.state_dir_option, throttle_options, rate_option
)


def start_command(output: Path | None, run: str, allowed: Allowances, how: CheckOptions) -> str:
    """Return the command that starts a plan, with the options of its check; no file: a pipe."""
    plan = ["-", "--name", run] if output is None else [str(output)]
    limits = (word for name, value in how.limits.items() for word in (f"--{name}", str(value)))
    named = options_of_names(how.choice._asdict())
    throttle = given_options(throttle_options.names)
    words = [*plan, *named, URGENT_FIRST, *limits, *throttle, *_allowances(allowed)]
    return f"ktui start {shlex.join(words)}{state_option(how.state)}"


def _allowances(allowed: Allowances) -> Iterable[str]:
    if allowed.replication_factor_change:
        yield Option.REPLICATION_FACTOR_CHANGE.value
    if allowed.below_min_isr:
        yield Option.BELOW_MIN_ISR.value
    if allowed.slow:
        yield Option.SLOW.value


WEIGHT, RACK_AWARE = "--weight", "--rack-aware"
EXCLUDE = "--exclude"
_WEIGHT = re.compile(r"([0-9]{1,10})=([0-9]{1,6}(?:\.[0-9]{1,6})?)")
_BROKER = re.compile(r"[0-9]{1,10}")

R = TypeVar("R")


class MakeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan may change, how much, and where it goes."""

    wishes: Wishes
    rack_aware: bool | None  # None where no option says it
    weights: Mapping[int, float]
    output: Path | None  # None for standard output
    json: bool


def parse_patterns(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Read names of topics and shell patterns, also as lists with commas."""
    parts = [[part.strip() for part in text.split(",") if part.strip()] for text in texts]
    if not all(parts):
        raise click.BadParameter("the list is empty.")
    return tuple(part for some in parts for part in some)


def size_of(option: str, text: str) -> int:
    """Read a size, such as 200GB."""
    return int(_quantity(option, Size, text))


def share_of(option: str, text: str) -> float:
    """Read a share from 0 to 1, such as 10%."""
    return float(_quantity(option, Share, text))


def _quantity(option: str, kind: type, text: str) -> float:
    try:
        value: Any = float(text)
    except ValueError:
        value = text
    try:
        quantity: float = parse_quantity(kind, value)
    except ValueError as error:
        raise BadInput(f"{option}: {error}") from None
    return quantity


def _weights(texts: tuple[str, ...]) -> Mapping[int, float]:
    weights = {}
    for text in parse_patterns(texts):
        match = _WEIGHT.fullmatch(text)
        if match is None:
            raise click.BadParameter(
                f"{text!r}: give a broker and its weight, such as 7=2 for twice the share of others"
            )
        weights[int(match[1])] = float(match[2])
    return weights


def parse_brokers(texts: tuple[str, ...] | str) -> tuple[int, ...]:
    """Read the ids of brokers, also as lists with commas, each once."""
    parts = parse_patterns((texts,) if isinstance(texts, str) else texts)
    for part in parts:
        if _BROKER.fullmatch(part) is None:
            raise click.BadParameter(f"{part!r} is not the id of a broker, such as 3")
    return tuple(dict.fromkeys(map(int, parts)))


rack_aware_option = add_option(
    "--rack-aware/--no-rack-aware",
    "Whether a partition stays on as many racks as it is on. Default: where all brokers "
    "have racks.",
    default=None,
)

_INTERNAL = add_option(
    f"--{INTERNAL}",
    "Where Kafka's own topics are in the plan and its run: first, last (default), or exclude.",
    default=Internal.LAST,
)
_KINDS: Mapping[Kind, tuple[str, dict[str, Any]]] = {
    TOPICS: ("T,...", {"multiple": True, "reads": parse_patterns}),
    BOUND: ("N", {"type": click.IntRange(0)}),
    SIZE: ("SIZE", {"reads": partial(size_of, "--max-bytes")}),
    FLAG: ("", {}),
}


def _bound(name: str) -> option.Option:
    """Return the option of a field that every plan has, by its name in `Wishes`."""
    field = FIELDS[name]
    (declared, words), (metavar, how) = *field.options.items(), _KINDS[field.kind]
    return add_option(f"{declared} {metavar}".strip(), words, **how)


_WISHES = Grouped("wishes", Wishes, *map(_bound, COMMON), _INTERNAL)
_WANTED = Grouped(
    "wanted",
    MakeOptions,
    _WISHES,
    rack_aware_option,
    add_option(
        f"{WEIGHT} BROKER=W",
        "Give a broker W times the share of others, such as 7=2. May be repeated.",
        "weights",
        multiple=True,
        reads=_weights,
    ),
    output_option,
    json_option,
)


def make_options(verb: Verb[R], *, without: str = "") -> Verb[R]:
    """Add the options of a verb that makes a plan, but for one of this name, as wanted and how."""
    return _WANTED.without(without)(check_options.without(INTERNAL)(verb))


def wishes_of(options: MakeOptions, layout: Layout, named_by: str) -> Wishes:
    """Return the wishes that options make on a cluster; `named_by` is what names topics."""
    check_names(named_by, options.wishes.topics, layout)
    check_names(EXCLUDE, options.wishes.exclude, layout)
    unracked = without_rack(layout)
    if options.rack_aware and unracked:
        raise BadInput(
            f"{RACK_AWARE}: no rack is known of {join_named('broker', unracked)}. Set broker.rack "
            "there, or leave the option out"
        )
    aware = not unracked if options.rack_aware is None else options.rack_aware
    return msgspec.structs.replace(options.wishes, rack_aware=aware)


def weighted(layout: Layout, options: MakeOptions) -> Layout:
    """Return a layout with the weights of the options."""
    known = layout.known - layout.unregistered
    if unknown := sorted(options.weights.keys() - known):
        has = join_some(sorted(known), most=12)
        raise BadInput(f"{WEIGHT}: the cluster has no {join_named('broker', unknown)}, only {has}")
    return msgspec.structs.replace(layout, weights=options.weights)


def check_names(named_by: str, patterns: Sequence[str], layout: Layout) -> None:
    """Check that each name or shell pattern of an option matches a topic."""
    try:
        check_patterns(layout, patterns)
    except CannotMake as problem:
        raise BadInput(f"{named_by}: {problem}") from None
