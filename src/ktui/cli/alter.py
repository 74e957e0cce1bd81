"""`ktui alter-topic`: more partitions, another replication factor, or replicas one by one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import NoReturn

import click
import msgspec

from ktui.cli import start as of_run
from ktui.cli.context.cluster import Cluster, ClusterChoice, Target, cluster_options, warn_of_tls
from ktui.cli.context.option import GroupedCommand, add_option
from ktui.cli.context.terminal import BAD_INPUT, BadInput, confirm, print_note, telling_interrupts
from ktui.cli.options.plan import below_min_isr_option, slow_option
from ktui.cli.output.json_form import SCHEMA_VERSION, encode, shown_json
from ktui.cli.output.plan_check import cancel_cluster_options, check_gate_open
from ktui.cli.start import (
    DryRun,
    StartOptions,
    carry_out,
    check_new_run,
    dry_run_of,
    report_findings,
    start_options,
)
from ktui.cli.topic_change import (
    ASSIGNMENT,
    FACTOR,
    PARTITIONS,
    AlterRequest,
    TopicChange,
    TopicNow,
    change_of,
    find_topic,
    read_request,
    read_topic,
)
from ktui.cluster.asking import LEAVES_WITHIN_S
from ktui.cluster.broker import online_brokers
from ktui.cluster.clock import Clock, SystemClock, read_until
from ktui.cluster.errors import ADDING, ClusterError, Unsupported, what_helps
from ktui.cluster.partition import Brokers, PartitionState, TopicPartition
from ktui.cluster.ports import ClusterReader, ClusterWriter, Verdict, WriteResult
from ktui.execution import RunProblem, RunRefused
from ktui.execution.host.state_dir import LONGEST_NAME
from ktui.execution.run.unanswered import MAY_COME_S
from ktui.ops.start import CheckedRun
from ktui.planning.check.findings import Allowances, FindingKind
from ktui.planning.check.snapshot import read_pool
from ktui.planning.replication_factor import BrokerPool
from ktui.quantities import as_count


def dry_run_text(change: TopicChange, dry_run: DryRun | None) -> str:
    """Describe for people what would be sent."""
    lines = "\n".join(change.lines())
    return f"{lines}\n\n{'Nothing was sent.' if dry_run is None else of_run.dry_run_text(dry_run)}"


def _dry_run_json(cluster: str, change: TopicChange, dry_run: DryRun | None) -> str:
    """Describe for scripts what would be sent; `run` is null if no replicas move."""
    placed = change.placed or [None] * change.adds
    answer = {
        "schema_version": SCHEMA_VERSION,
        "cluster": cluster,
        "topic": change.topic,
        "partitions_before": change.before,
        "partitions": change.count,
        "added": _added(dict(zip(change.added, placed, strict=True))),
        "run": dry_run,
    }
    return encode(answer)


def added_json(change: TopicChange, replicas: Mapping[TopicPartition, Brokers]) -> str:
    """Report partitions that have been added, as one line for scripts."""
    line = {
        "schema_version": SCHEMA_VERSION,
        "event": "partitions_added",
        "topic": change.topic,
        "partitions_before": change.before,
        "partitions": change.count,
        "added": _added({tp: replicas[tp] for tp in change.added}),
    }
    return shown_json(msgspec.json.encode(line).decode())


def _added(replicas: Mapping[TopicPartition, Brokers | None]) -> list[dict[str, object]]:
    """Return new partitions; `replicas` is null where Kafka is still to place them."""
    return [{"partition": tp.partition, "replicas": brokers} for tp, brokers in replicas.items()]


KNOWN_WITHIN_S = 30.0  # seconds in which brokers learn of partitions that the controller has added
_POLL_S = 0.5


class PartitionAdder(msgspec.Struct, frozen=True):
    """Adds the partitions of a change to the topic, as it was seen."""

    reader: ClusterReader
    writer: ClusterWriter
    change: TopicChange
    seen: TopicNow
    clock: Clock

    async def add(self) -> TopicNow:
        """Add the partitions, and return the topic with them.

        Raises:
            RunRefused: nothing was changed: the topic is another one by now, or Kafka refuses.
            RunProblem: the answer was lost, and the partitions are not there or are others.
            ClusterError: nothing was sent.
        """
        now = await find_topic(self.reader, self.change.topic)
        if now is None or not self._still_holds(now):
            raise RunRefused(
                f"nothing was sent: {self.change.topic} has changed since ktui read it. Repeat "
                "the command"
            )
        result = await self.writer.create_partitions(
            self.change.topic,
            self.change.count,
            self.change.placed,
            leaves_within_s=LEAVES_WITHIN_S,
        )
        match result.verdict:
            case Verdict.REFUSED:
                raise RunRefused(f"nothing was changed: {self._refusal(result)}")
            case Verdict.UNKNOWN:
                after = await self._known_within(MAY_COME_S)
                if after is None:
                    raise RunProblem(self._lost(result))
            case Verdict.ACCEPTED:
                after = await self._known_within(KNOWN_WITHIN_S)
                if after is None:
                    raise RunProblem(
                        f"{self.change.topic}: Kafka has added the partitions, but no broker "
                        f"shows them after {KNOWN_WITHIN_S:.0f} s. Repeat the command later"
                    )
        self._check_as_placed(after)
        return after

    def _still_holds(self, now: TopicNow) -> bool:
        seen = self.seen
        if now.id != seen.id or len(now.partitions) != self.change.before:
            return False
        if now.moving or now.factors != seen.factors:
            return False
        return self.change.placed is None or now.replicas == seen.replicas

    async def _known_within(self, seconds: float) -> TopicNow | None:
        def grown(now: TopicNow | None) -> bool:
            return now is not None and len(now.partitions) >= self.change.count

        find = partial(find_topic, self.reader, self.change.topic)
        lost = (ClusterError, BadInput)
        after = await read_until(find, grown, self.clock, seconds, every_s=_POLL_S, lost=lost)
        return after if grown(after) else None

    def _check_as_placed(self, now: TopicNow) -> None:
        """Check that no one else has added partitions in the same moment."""
        placed, topic = self.change.placed, self.change.topic
        begin = self.change.before
        asked = None if placed is None else dict(enumerate(placed, begin))
        added = {tp.partition: s for tp, s in now.partitions.items() if tp.partition >= begin}
        as_asked = asked is None or {n: s.target for n, s in added.items()} == asked
        if now.id != self.seen.id or len(added) != self.change.adds or not as_asked:
            raise RunProblem(
                f"{topic} has {as_count(len(now.partitions), 'partition')} now, but not those that "
                "ktui asked for: someone else has changed it in this moment. Repeat the command"
            )

    def _refusal(self, result: WriteResult) -> str:
        answer = ": ".join(filter(None, (result.code, result.message.rstrip("."))))
        helps = what_helps(result.code, ADDING)
        return f"Kafka does not add partitions to {self.change.topic}: {answer}{helps}"

    def _lost(self, result: WriteResult) -> str:
        before = as_count(self.change.before, "partition")
        return (
            f"the answer was lost ({result.message}), and {self.change.topic} still has {before} "
            f"after {MAY_COME_S:.0f} s. Once brokers answer again, repeat the command: partitions "
            "that the request has added by then are not added twice"
        )


YES = "--yes"
ADDING_NEEDS = "Alter"


@click.command("alter-topic", cls=GroupedCommand)
@click.argument("topic", metavar="TOPIC")
@add_option(
    f"{PARTITIONS} N",
    "Add partitions, up to N in all. Kafka cannot take them away again.",
    "count",
    type=click.IntRange(1),
)
@add_option(f"{FACTOR} N", "Give every partition N replicas.", "factor", type=click.IntRange(1))
@add_option(
    f"{ASSIGNMENT} B:B,B:B,...",
    "The replicas of every partition, as kafka-topics takes them: brokers by colons, "
    "partitions by commas.",
    "assignment",
)
@add_option(YES, "Add partitions without asking.")
@cluster_options
@add_option("--name RUN", "Name of the run. Default: alter, the topic, the time.")
@below_min_isr_option
@slow_option
@start_options.without("partitions")
def command(  # noqa: PLR0913 - an option each
    topic: str,
    choice: ClusterChoice,
    *,
    count: int | None,
    factor: int | None,
    assignment: str | None,
    yes: bool,
    name: str | None,
    below_min_isr: bool,
    slow: bool,
    how: StartOptions,
) -> None:
    """Alter TOPIC: add partitions, change its replication factor, or place its replicas.

    Partitions are added first. Records with a key then go to other partitions, so ktui asks before
    that. Replicas move in a run, as with `ktui start`: a few at a time, under limits that you can
    change meanwhile, and it can be rolled back.

    Exit code 0 when all is done, 3 when some partitions are not at their target, 1 when a failure
    stopped the command or its run, 2 when nothing was changed, 130 when the run was left.
    """
    request = read_request(topic, count, factor, assignment)
    target = choice.target()
    warn_of_tls(target.cluster)
    allowed = Allowances(replication_factor_change=True, below_min_isr=below_min_isr, slow=slow)
    alteration = _Alteration(request, target, how, allowed)
    alteration.read(name)
    if how.dry_run:
        alteration.show()
    alteration.carry_out(yes=yes)


class _Alteration:
    def __init__(
        self, request: AlterRequest, target: Target, how: StartOptions, allowed: Allowances
    ) -> None:
        self._request = request
        self._target = target
        self._how = how
        self._allowed = allowed
        self._start: CheckedRun | None = None
        """The run that moves replicas; None if only partitions are added."""

    def read(self, name: str | None) -> None:
        self._topic, pool = self._target.cluster.ask(partial(_read, self._request))
        self._change = change_of(self._request, self._topic, pool)
        if not self._change.adds and not self._change.plan.partitions:
            partitions = as_count(self._change.before, "partition")
            print_note(f"nothing to do: {self._topic.name} is as requested ({partitions})")
            if self._how.dry_run and self._how.json:
                self.show()
            sys.exit(0)
        if self._change.plan.partitions:
            end = f"-{self._how.now.astimezone():%Y%m%d-%H%M%S}"
            usual = f"alter-{self._topic.name}"[: LONGEST_NAME - len(end)] + end
            self._check_run(name or usual)
        if self._change.adds:
            asyncio.run(_check_permitted(self._target.cluster, self._topic.name))

    def _check_run(self, name: str) -> None:
        if not self._how.dry_run:
            self._how.state.free_name(name)
        new = self._how.new_run(
            self._target.cluster.context,
            name,
            self._change.plan,
            plan_name=f"alter-topic {self._topic.name}",
            allowed=self._allowed,
            source=self._topic.name,
        )
        new = msgspec.structs.replace(
            new,
            created=_created(self._topic, self._change),
            asked_for=frozenset({FindingKind.REPLICATION_FACTOR_CHANGE}),
        )
        self._start = check_new_run(new, self._target, self._how)
        if not self._how.dry_run:
            report_findings(self._start)

    def show(self) -> NoReturn:
        dry_run = None if self._start is None else dry_run_of(self._start)
        if self._how.json:
            click.echo(_dry_run_json(self._target.cluster.name, self._change, dry_run))
        else:
            click.echo(dry_run_text(self._change, dry_run))
        sys.exit(BAD_INPUT if dry_run is not None and dry_run.problems else 0)

    def carry_out(self, *, yes: bool) -> None:
        for line in self._change.lines():
            print_note(line)
        if self._change.adds:
            self._confirm(yes=yes)
        if self._start is not None:
            sys.exit(carry_out(self._start, self._target, self._how, self._add))
        gate = cancel_cluster_options(self._target.names)
        check_gate_open(self._how.state, self._topic.cluster_id, gate)
        self._add()

    def _confirm(self, *, yes: bool) -> None:
        topic = self._topic.name
        print_note(
            f"warning: records with a key go to other partitions of {topic} from then on, and "
            "Kafka cannot take partitions away again"
        )
        if not yes:
            question = f"Add {as_count(self._change.adds, 'partition')} to {topic}?"
            confirm(lambda: click.confirm(question), YES, may_ask=not self._how.json)

    def _add(self) -> None:
        if not self._change.adds:
            return
        with telling_interrupts(
            "interrupted: the request may have been sent. To see whether the partitions are there, "
            "repeat the command: nothing is added twice"
        ):
            now = asyncio.run(self._added())
        if self._how.json:
            replicas = {tp: state.replicas for tp, state in now.partitions.items()}
            click.echo(added_json(self._change, replicas))
        else:
            added, count = self._change.adds, self._change.count
            words = f"{as_count(added, 'partition')} added. It has {as_count(count, 'partition')}"
            click.echo(f"{self._change.topic}: {words} now")

    async def _added(self) -> TopicNow:
        async with self._target.cluster.ports() as (reader, writer):
            adder = PartitionAdder(reader, writer, self._change, self._topic, SystemClock())
            return await adder.add()


async def _read(request: AlterRequest, reader: ClusterReader) -> tuple[TopicNow, BrokerPool | None]:
    topic = await read_topic(reader, request.topic)
    if request.factor is None and request.assignment is None:
        return topic, None
    return topic, await read_pool(reader)


async def _check_permitted(cluster: Cluster, topic: str) -> None:
    with suppress(Unsupported):  # Kafka refuses the request itself then
        permitted = (await cluster.permissions([topic])).topics.get(topic)
        if permitted is not None and ADDING_NEEDS not in permitted:
            raise RunRefused(
                f"nothing was sent: {ADDING_NEEDS} on the topic {topic} is not granted to this "
                f"principal. Grant it with kafka-acls --add --operation {ADDING_NEEDS} --topic "
                f"{topic}"
            )


def _created(topic: TopicNow, change: TopicChange) -> dict[TopicPartition, PartitionState]:
    """Return new partitions as they will be: a broker may have come up before they were placed."""
    online = online_brokers(topic.brokers)
    created = {}
    for tp, replicas in zip(change.added, change.placed or (), strict=True):
        live = tuple(broker for broker in replicas if broker in online) or replicas
        created[tp] = PartitionState(tp, topic.id, replicas, live, live[0])
    return created
