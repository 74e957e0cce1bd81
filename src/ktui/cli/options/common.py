"""Options that several verbs share."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from ktui.cli.context.option import AS_GIVEN, Grouped, Option, add_option
from ktui.cli.context.terminal import BadInput
from ktui.cluster.asking import FRESH_WITHIN_S, PATIENCE, FreshMetadata
from ktui.cluster.clock import Clock
from ktui.cluster.figures import topic_names
from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterReader, TopicsAnswer
from ktui.durable import find_place
from ktui.execution.host.state_dir import STATE_DIR, StateDir, resolve_state_dir
from ktui.planning.plan import closest_names, join_named, join_some, shortened
from ktui.quantities import parse_typed

if TYPE_CHECKING:
    from ktui.execution.run.run import Run


Q = TypeVar("Q", int, float)


def check_scope(run: Run, topics: Sequence[str], partitions: Sequence[TopicPartition]) -> None:
    """Check that a run has all these topics and partitions."""
    known = {tp.topic for tp in run.tracks}
    unknown = dict.fromkeys([*topics, *(tp.topic for tp in partitions)])
    missing = [unknown_topic(topic, known) for topic in unknown if topic not in known]
    missing += [
        f"partition {tp.partition} of topic {tp.topic}"
        for tp in dict.fromkeys(partitions)
        if tp.topic in known and tp not in run.tracks
    ]
    if missing:
        raise BadInput(f"run {run.name} does not have {join_some(missing, most=10)}")


def unknown_topic(topic: str, known: Collection[str]) -> str:
    """Name a topic that is not there, with the one that was probably meant."""
    near = closest_names(topic, known)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"topic {shortened(topic)!r}{hint}"


class OutputFile(click.Path):
    """A file to write: checked before any work is done for it, and written by `write_output`."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        del ctx
        path = Path(value)
        try:
            find_place(path)
        except OSError as error:
            option = "" if param is None else f"{param.opts[0]} "
            raise BadInput(f"{option}{path}: {error.strerror}") from None
        return path


def output_option(purpose: str, default: Path | None = None) -> Option:
    """Return -o, the file that a verb writes to."""
    how: dict[str, Any] = {"default": default, "show_default": default is not None, "help": purpose}
    return Option(
        "output", click.option("-o", "--output", type=OutputFile(), metavar="FILE", **how)
    )


def _state_dir(context: click.Context, _option: click.Parameter, folder: str | None) -> StateDir:
    state = resolve_state_dir(folder)
    if state.of_another is not None and not context.resilient_parsing:
        click.echo(f"ktui: {state.of_another}", err=True)
    return state


state_dir_option = add_option(
    "--state-dir DIR",
    f"Folder that keeps the runs, on a local disk. Default: ${STATE_DIR}, else the platform's "
    "folder for state.",
    "state",
    type=click.Path(file_okay=False),
    callback=_state_dir,
)


def state_option(state: StateDir) -> str:
    """Return the --state-dir of a suggested command; empty for the default state directory."""
    return (
        "" if state == resolve_state_dir(None) else f" --state-dir {shlex.quote(str(state.path))}"
    )


def given_options(names: Collection[str]) -> Iterator[str]:
    """Yield the options of the command line with these names of click, as they were given."""
    context = click.get_current_context()
    for option in context.command.params:
        name = option.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if name not in names or not given or not isinstance(option, click.Option):
            continue
        value = context.meta.get(AS_GIVEN, {}).get(name, context.params[name])
        if option.is_flag:
            yield (option.opts if value else option.secondary_opts)[0]
        else:
            yield from (option.opts[0], *map(str, value if isinstance(value, tuple) else (value,)))


def _refuse_nan(value: float) -> float:
    """Refuse nan, which a click range accepts."""
    if math.isnan(value):
        raise click.BadParameter("nan is not a number.")
    return value


def speed_option(
    slowest: float, fastest: float, purpose: str, default: float | None = None
) -> Option:
    """Add --speed, a factor by which time passes faster."""
    return add_option(
        "--speed N",
        purpose,
        type=click.FloatRange(slowest, fastest),
        default=default,
        reads=_refuse_nan,
    )


theme_option = add_option("--theme NAME", "The colour theme to start with.")

poll_interval_option = add_option(
    "--poll-interval SECONDS",
    "Time between two polls; 1 s unless the context sets it.",
    type=click.FloatRange(0.1, 3600),
)


def patience_s(interval_s: float) -> float:
    """Return how long a poll waits for a slow broker, however short the interval is."""
    return max(0.5, PATIENCE * interval_s)


def parse_amount(option: str, kind: type[Q], text: str) -> Q:
    """Read a quantity that an option names, such as 90s, 20GB or 50MB/s."""
    try:
        amount: Q = parse_typed(kind, text)
    except ValueError as error:
        raise BadInput(f"{option}: {error}") from None
    return amount


json_option = add_option("--json", "Print one JSON object on standard output.")


def complete_run(context: click.Context, _argument: click.Parameter, begun: str) -> list[str]:
    """Return the runs of the state directory whose names begin so, for a shell."""
    state: StateDir = context.params["state"]
    return [folder.name for folder in state.run_dirs() if folder.name.startswith(begun)]


def files_and(names: Iterable[str], begun: str) -> list[CompletionItem[str]]:
    """Return names after files: what comes before files, click's script for bash drops."""
    return [CompletionItem(begun, type="file"), *map(CompletionItem, names)]


run_argument = click.argument("name", metavar="RUN", shell_complete=complete_run)


def topics_option(purpose: str) -> Option:
    """Add --topic, which may be repeated, as `topics`."""
    return add_option("--topic T", purpose, "topics", multiple=True)


def partitions_option(purpose: str) -> Option:
    """Add --partition, which may be repeated, as `partitions`, each a TopicPartition."""
    return add_option("--partition T:P", purpose, "partitions", multiple=True, reads=_partitions)


def brokers_option(purpose: str) -> Option:
    """Add --broker, which may be repeated, as `brokers`, each a broker's id."""
    return add_option("--broker ID", purpose, "brokers", type=click.IntRange(0), multiple=True)


def find_on_brokers(
    run: Run, brokers: Sequence[int], *, ever: bool = False
) -> tuple[TopicPartition, ...]:
    """Return the partitions of a run that the option --broker selects, as `partitions_on` does."""
    from ktui.execution.run.scope import partitions_on  # noqa: PLC0415 - only verbs about runs

    found = partitions_on(run, brokers, ever=ever)
    if brokers and not found:
        raise BadInput(
            f"run {run.name} has no partition that holds, gains or loses a replica on "
            f"{join_named('broker', brokers)}"
        )
    return found


class Scope(NamedTuple):
    """The part of a run that a verb is about; empty for the whole run."""

    topics: tuple[str, ...]
    partitions: tuple[TopicPartition, ...]
    brokers: tuple[int, ...]

    def within(
        self, run: Run, *, ever: bool = False
    ) -> tuple[tuple[str, ...], tuple[TopicPartition, ...]]:
        """Return its topics and partitions, also those on its brokers; `ever`: once on them."""
        check_scope(run, self.topics, self.partitions)
        on_brokers = find_on_brokers(run, self.brokers, ever=ever)
        return self.topics, (*self.partitions, *on_brokers)


def _partitions(texts: tuple[str, ...]) -> tuple[TopicPartition, ...]:
    return tuple(map(_partition, texts))


def _partition(text: str) -> TopicPartition:
    match = re.fullmatch(r"(.+):([0-9]{1,9})", text)
    if match is None:
        raise click.UsageError(f"--partition {text!r}: expected TOPIC:NUMBER, such as orders:3.")
    return TopicPartition(match[1], int(match[2]))


scope_options = Grouped(
    "scope",
    Scope,
    topics_option("Only this topic; may be repeated."),
    partitions_option("Only this partition; may be repeated."),
    brokers_option(
        "Only partitions that hold, gain or lose a replica on this broker now; may be repeated."
    ),
)


LEARNED_WITHIN_S = 1.0
"""Seconds within which brokers learn of a new topic: it takes them tenths of a second."""


async def check_on_cluster(
    reader: ClusterReader,
    clock: Clock,
    seen: Observation,
    topics: Sequence[str],
    partitions: Sequence[TopicPartition] = (),
    brokers: Sequence[int] = (),
) -> None:
    """Check that a cluster has what options name, moving or not.

    A broker may not have learned of a topic or a partition that was created a moment ago. So what
    the poll lacks is read again before it counts as missing, from fresh metadata where the cluster
    can prove its age.

    Args:
        clock: for the wait where the cluster cannot prove the age of its metadata.
        seen: a poll that was interested in all of this.
        brokers: ids, which may also be those of brokers that only reassignments name.
    """
    visible = {tp.topic for tp in seen.partitions} | {each.topic for each in seen.failures}
    lost = [topic for topic in topics if topic not in visible]
    absent = [tp for tp in partitions if tp in seen.absent]
    if (lost or absent) and not seen.fresh:
        again = await _read_again(reader, clock, {*lost, *(tp.topic for tp in absent)})
        lost = [topic for topic in lost if topic in again.absent]
        described = again.partitions.keys()
        hidden = {each.topic for each in again.failures}
        absent = [tp for tp in absent if tp not in described and tp.topic not in hidden]
    known = {*seen.brokers, *(b for state in seen.reassigning.values() for b in state.replicas)}
    missing = [f"broker {broker}" for broker in brokers if broker not in known]
    if not (lost or absent or missing):
        return
    names = {*await topic_names(reader)}
    lost += [tp.topic for tp in absent if names and tp.topic not in names]
    missing = [
        *(unknown_topic(topic, names) for topic in dict.fromkeys(lost)),
        *(
            f"partition {tp.partition} of topic {shortened(tp.topic)!r}"
            for tp in absent
            if tp.topic not in lost
        ),
        *missing,
    ]
    raise BadInput(f"the cluster does not have {join_some(missing, most=10)}")


async def _read_again(reader: ClusterReader, clock: Clock, topics: Collection[str]) -> TopicsAnswer:
    answer, fresh = await FreshMetadata(reader, clock).describe(topics, within_s=FRESH_WITHIN_S)
    if fresh:
        return answer
    await clock.sleep(LEARNED_WITHIN_S)
    return await reader.describe_topics(topics)
