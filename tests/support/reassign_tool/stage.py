"""A lab on which argument lists and flows are played, by either of the programs."""

import asyncio
import json
import re
import shlex
import tempfile
from collections.abc import AsyncIterator, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Self

import click
from msgspec.structs import replace

from ktui.cli.context.claim import claim_request, release_cluster
from ktui.cli.context.cluster import choose_cluster
from ktui.cli.lab import connect
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, ConfigScope, Verdict
from ktui.cluster.settings import LOG_DIR_RATE, RATES, REPLICAS
from ktui.execution.host.state_dir import StateDir
from ktui.kafka import workload
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.kafka.writer import KafkaWriter
from ktui.lab import control, security
from ktui.lab.layout import HOST, Lab, Node, ProgressReport, Security
from ktui.lab.security import ADMIN
from ktui.lab.up import LabRequest, down, up, wait_until_ready
from support.contract.world import until
from support.reassign_tool.cases import TOPICS, ArgumentList, argument_lists
from support.reassign_tool.flows import (
    FLOWS,
    PRINTED_PLAN,
    CreateTopic,
    Flow,
    Kill,
    Preparation,
    PutInFirstDirs,
    Reassign,
    Restart,
    Run,
    Set,
    Settle,
    SettleDirs,
    Step,
    Where,
)
from support.reassign_tool.programs import ApacheTool, Program, apaches_help
from support.reassign_tool.recording import (
    HELP,
    Answer,
    ClusterState,
    Header,
    Outcome,
    PartitionState,
    RecordedFlow,
    RecordedList,
    Recording,
    file_of,
    load,
    normalised,
    save,
    write_files,
)

_KEYS = (*RATES, LOG_DIR_RATE, *REPLICAS)
_MESSAGE_BYTES = 8192


class Stage:
    """A lab, a folder with the files that the words name, and one of the programs.

    Args:
        lab: a lab whose topics this stage may delete.
        folder: the folder in which the program runs.
        program: the program.
        help_text: the program's own help.
    """

    def __init__(self, lab: Lab, folder: Path, program: Program, help_text: str) -> None:
        self._lab, self._folder, self._program = lab, folder, program
        connection = Connection.of(security.librdkafka_settings(lab), where="the lab")
        self._connection = connection
        self._reader, self._writer = KafkaReader(connection), KafkaWriter(connection)
        self._signs = {"{server}": lab.bootstrap_servers} | {
            "{controller}": f"{HOST}:{lab.controller.port}"
        }
        if lab.layout.passwords:
            right = lab.client_file(ADMIN).read_text()
            wrong = right.replace(lab.layout.passwords[ADMIN], "wrong")
            (folder / "wrong.properties").write_text(wrong)
        self._places = {HELP: help_text, "<lab>": str(lab.folder)}
        self._printed = ""

    async def __aenter__(self) -> Self:
        await self._clear()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._clear()
        await self._reader.aclose()
        await self._writer.aclose()

    async def play_list(self, case: ArgumentList) -> Outcome:
        """Run an argument list; one that needs a cluster with its topics and without throttles."""
        if not case.needs_cluster:
            return Outcome(await self._run(case.words))
        there = await self._topics()
        for name, replicas in TOPICS.items():
            if name not in there:
                await self._create(CreateTopic(name, replicas))
        await self._unthrottle()
        answer = await self._run(case.words)
        return Outcome(answer, await self._state())

    async def play(self, flow: Flow) -> tuple[Outcome, ...]:
        """Play a flow, on a cluster that is empty before and after it."""
        await self._clear()
        try:
            outcomes = [await self._step(step) for step in flow.steps]
        finally:
            await self._clear()
        return tuple(map(_as_far_as_sure, outcomes, (*flow.steps[1:], None)))

    async def _step(self, step: Step) -> Outcome:
        match step:
            case Run():
                if step.plan:
                    self._write_plan(step.plan)
                answer = await self._run(shlex.split(step.words))
                return Outcome(answer, await self._state())
            case Settle(topic=topic):
                await self._settle(topic)
                return Outcome(None, await self._state())
            case _:
                await self._prepare(step)
                return Outcome()

    async def _prepare(self, step: Preparation) -> None:
        match step:
            case CreateTopic():
                await self._create(step)
            case PutInFirstDirs(topic=topic):
                await self._put_in_first_dirs(topic)
            case SettleDirs():
                await self._settle_dirs()
            case Kill(broker=broker):
                await asyncio.to_thread(control.kill, self._lab, broker)
                await self._wait_for(broker, alive=False)
            case Restart(broker=broker):
                await asyncio.to_thread(control.start, self._lab, broker)
                await self._wait_for(broker, alive=True)
            case Reassign():
                await self._reassign({TopicPartition(step.topic, step.partition): step.replicas})
            case Set():
                await self._set([_change(step.scope, step.name, step.key, step.value)])

    async def _run(self, words: Iterable[str]) -> Answer:
        replaced = [self._with_places(word) for word in words]
        answer = await asyncio.to_thread(self._program.run, replaced)
        plans = [line for line in answer.stdout.splitlines() if line.startswith('{"version"')]
        self._printed = plans[-1] if plans else self._printed
        return normalised(answer, self._places)

    def _with_places(self, text: str) -> str:
        for sign, place in self._signs.items():
            text = text.replace(sign, place)
        text = re.sub(r"\{user:(\w+)\}", lambda u: str(self._lab.client_file(u[1])), text)
        return re.sub(r"\{dir:(\d+)\}", lambda d: str(self._data(int(d[1]))), text)

    def _data(self, broker: int) -> Path:
        return self._lab.log_dirs(self._lab.node(broker))[0]

    def _write_plan(self, plan: str) -> None:
        text = self._printed if plan == PRINTED_PLAN else self._with_places(plan)
        key = "topics" if "topics" in json.loads(text) else "plan"
        (self._folder / f"{key}.json").write_text(text)

    async def _create(self, step: CreateTopic) -> None:
        create = workload.create_topic
        await asyncio.to_thread(create, self._connection, step.topic, step.replicas)
        if step.kib:
            await asyncio.to_thread(
                workload.fill,
                self._connection,
                step.topic,
                range(len(step.replicas)),
                bytes_each=step.kib * 1024,
                message_bytes=_MESSAGE_BYTES,
            )

        async def whole() -> bool:
            return await self._whole(step.topic)

        await until(whole)

    async def _whole(self, topic: str) -> bool:
        """Return whether all live replicas have a log: a printed plan names their log dirs."""
        states = (await self._reader.describe_topics([topic], fresh=True)).partitions
        for broker in (await self._reader.describe_cluster()).online:
            wanted = {tp for tp, state in states.items() if broker in state.replicas}
            if not wanted <= (await self._reader.log_dirs(broker, wanted)).replicas.keys():
                return False
        return True

    async def _reassign(self, targets: Mapping[TopicPartition, tuple[int, ...] | None]) -> None:
        results = await self._writer.alter_reassignments(
            targets, allow_replication_factor_change=True
        )
        assert all(each.verdict is Verdict.ACCEPTED for each in results.values()), results

    async def _cancel_all(self) -> None:
        """Cancel what is still being moved; a move may end by itself first."""
        moving = await self._reader.list_reassignments()
        if not moving:
            return
        results = await self._writer.alter_reassignments(
            dict.fromkeys(moving), allow_replication_factor_change=True
        )
        refused = [each for each in results.values() if each.verdict is not Verdict.ACCEPTED]
        assert all(each.code == "NO_REASSIGNMENT_IN_PROGRESS" for each in refused), results

    async def _set(self, changes: Sequence[ConfigChange]) -> None:
        results = await self._writer.alter_configs(changes)
        assert all(each.verdict is Verdict.ACCEPTED for each in results.values()), results

    async def _wait_for(self, broker: int, *, alive: bool) -> None:
        async def seen() -> bool:
            return (broker in (await self._reader.describe_cluster()).online) == alive

        await until(seen)

    async def _settle(self, topic: str | None) -> None:
        """Wait until nothing is being reassigned, and every broker knows it."""

        async def over() -> bool:
            moving = await self._reader.list_reassignments()
            return not any(topic in (None, tp.topic) for tp in moving)

        await until(over)
        topics = await self._topics()
        await self._reader.describe_topics(topics, fresh=True)

    async def _put_in_first_dirs(self, topic: str) -> None:
        states = (await self._reader.describe_topics([topic], fresh=True)).partitions
        for broker in sorted({broker for state in states.values() for broker in state.replicas}):
            paths = {
                tp: str(self._data(broker))
                for tp, state in states.items()
                if broker in state.replicas
            }
            results = await self._writer.alter_log_dirs(broker, paths)
            assert all(each.verdict is Verdict.ACCEPTED for each in results.values()), results
        await self._settle_dirs()

    async def _settle_dirs(self) -> None:
        async def over() -> bool:
            return not any([await self._future(broker) for broker in self._lab.brokers])

        await until(over)

    async def _future(self, broker: Node) -> bool:
        """Return whether a broker moves a replica between its log dirs."""
        topics = (await self._reader.describe_topics(await self._topics())).partitions
        answer = await self._reader.log_dirs(broker.id, topics.keys())
        return any(each.future is not None for each in answer.replicas.values())

    async def _topics(self) -> set[str]:
        found: set[str] = set()
        async for page in self._reader.scan_topics():
            found |= {tp.topic for tp in page.partitions if not tp.topic.startswith("__")}
        return found

    async def _state(self) -> ClusterState:
        topics = await self._topics()
        moving = await self._reader.list_reassignments()
        described = (await self._reader.describe_topics(topics, fresh=True)).partitions
        partitions = {
            str(tp): PartitionState(state.replicas, moving[tp].adding, moving[tp].removing)
            if tp in moving
            else PartitionState(state.replicas)
            for tp, state in sorted(described.items())
        }
        return ClusterState(partitions, await self._throttles(topics))

    async def _throttles(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        online = (await self._reader.describe_cluster()).online
        resources = [ConfigResource(ConfigScope.BROKER, str(broker)) for broker in sorted(online)]
        resources += [ConfigResource(ConfigScope.TOPIC, topic) for topic in sorted(topics)]
        answer = await self._reader.settings(resources, _KEYS)
        assert not answer.failures, answer.failures
        own = {
            f"{resource.scope} {resource.name}": {
                key: each.own for key, each in settings.items() if each.own is not None
            }
            for resource, settings in sorted(answer.settings.items())
        }
        return {resource: settings for resource, settings in own.items() if settings}

    async def _unthrottle(self) -> None:
        # A broker may still list a topic that was deleted a moment ago.
        there = (await self._reader.describe_topics(await self._topics(), fresh=True)).partitions
        found = await self._throttles({tp.topic for tp in there})
        changes = [
            _change(*_scope_and_name(resource), key, None)
            for resource, settings in found.items()
            for key in settings
        ]
        if changes:
            await self._set(changes)

    async def _clear(self) -> None:
        """Bring the cluster back to its beginning: all brokers, no topic, no throttle."""
        down = [n for n in control.status(self._lab) if n.state is control.NodeState.STOPPED]
        for node in down:
            await asyncio.to_thread(control.start, self._lab, node.node.id)
        if down:
            await wait_until_ready(self._lab, connect, lambda _: None)
        await self._unthrottle()
        await self._cancel_all()
        topics = await self._topics()
        await asyncio.to_thread(workload.delete_topics, self._connection, topics)

        async def gone() -> bool:
            return not await self._topics()

        await until(gone)


def _scope_and_name(resource: str) -> tuple[str, str]:
    scope, _, name = resource.partition(" ")
    return scope, name


def _as_far_as_sure(outcome: Outcome, following: Step | None) -> Outcome:
    """Leave out the partitions where it is chance how far their moves have come."""
    if outcome.state is None or not isinstance(following, Settle):
        return outcome
    return Outcome(outcome.answer, ClusterState({}, outcome.state.throttles))


def _change(scope: str, name: str, key: str, value: str | None) -> ConfigChange:
    operation = ConfigOp.DELETE if value is None else ConfigOp.SET
    return ConfigChange(ConfigResource(ConfigScope(scope), name), key, operation, value)


REQUESTS = {
    Where.PLAIN: LabRequest(brokers=3),
    Where.SECURED: LabRequest(brokers=2, security=Security.SASL_SSL),
    Where.LOG_DIRS: LabRequest(brokers=3, log_dirs=2),
}


@contextmanager
def lab_for(request: LabRequest) -> Iterator[Lab]:
    with tempfile.TemporaryDirectory(prefix="ktui-reassign-") as folder:
        lab = up(Path(folder) / "lab", request, connect, click.echo)
        try:
            yield lab
        finally:
            down(lab, keep=False)


@asynccontextmanager
async def state_dir_on(lab: Lab, folder: Path) -> AsyncIterator[Path]:
    """A state directory for one flow. In the end it gives up the cluster, which it may own."""
    yield folder
    config = lab.client_file(ADMIN) if lab.layout.passwords else None
    cluster = choose_cluster(lab.bootstrap_servers, config, None)
    async with aclosing(cluster.reader()) as reader:
        cluster_id = (await reader.describe_cluster()).cluster_id
    claim = claim_request(cluster, StateDir(folder), cluster_id, "a flow")
    if claim is not None:
        assert await release_cluster(claim) is None


def record_missing(version: str, report: ProgressReport) -> Recording:
    """Record what a version's recording does not have, on clusters of that version; keep it."""
    recording = Recording(Header(jar="", help=""), (), ())
    if file_of(version).exists():
        recording = load(version)
    for where, request in REQUESTS.items():
        there = {each.name for each in recording.lists} | {flow.name for flow in recording.flows}
        if _missing(where, there):
            with lab_for(replace(request, version=version)) as lab:
                files = write_files(lab.folder.with_name("files"))
                header, lists, flows = asyncio.run(_record(lab, files, where, there))
            recording = Recording(header, (*recording.lists, *lists), (*recording.flows, *flows))
            save(recording, file_of(version))
            done = f"{len(recording.lists)} argument lists, {len(recording.flows)} flows"
            report(f"{done} with the tool of {version}")
    return recording


def _missing(where: Where, there: Container[str]) -> list[str]:
    names = [case.name for case in argument_lists() if where is Where.PLAIN]
    names += [flow.name for flow in FLOWS if flow.where is where]
    return [name for name in names if name not in there]


async def _record(
    lab: Lab, files: Path, where: Where, there: Container[str]
) -> tuple[Header, list[RecordedList], list[RecordedFlow]]:
    lists = []
    missing = _missing(where, there)
    with ApacheTool(lab.layout, files) as tool:
        header = Header(jar=_jar(lab), help=apaches_help(tool))
        async with Stage(lab, files, tool, header.help) as stage:
            for case in argument_lists():
                if case.name in missing:
                    outcome = await stage.play_list(case)
                    assert outcome.answer is not None
                    lists.append(RecordedList(case.words, outcome.answer, outcome.state))
            flows = [
                RecordedFlow(flow.name, await stage.play(flow))
                for flow in FLOWS
                if flow.name in missing
            ]
    return header, lists, flows


def _jar(lab: Lab) -> str:
    wanted = f"kafka-tools-{lab.layout.kafka_version}.jar"
    return next(jar.name for jar in map(Path, lab.layout.class_path) if jar.name == wanted)
