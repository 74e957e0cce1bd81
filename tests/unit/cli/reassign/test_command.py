"""What `ktui reassign` does to a cluster, and says of it."""

import asyncio
import json
import os
import threading
from collections.abc import Collection
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest
from click.shell_completion import get_completion_class
from click.testing import CliRunner, Result
from man_pages import page

from ktui import __version__
from ktui.cli.main import ktui
from ktui.cli.reassign.changes import PlanOutcome, cancelled_targets, plan_outcomes
from ktui.cli.reassign.command import Arguments, command, help_text
from ktui.cli.reassign.options import OPTIONS, Action, Group
from ktui.cluster.partition import Brokers, PartitionState, Reassignment, Replica, TopicPartition
from ktui.cluster.ports import ClusterDescription, ClusterReader, ConfigOp
from ktui.cluster.settings import LONGEST_LIST
from ktui.execution.engine.gates import LeaveSubmitted
from ktui.execution.foreign_cancels import ForeignCancelLine, ForeignOutcome
from ktui.ops.reassign.runs import UNANSWERED, not_taken
from ktui.ops.reassign.tool import Verified, verified_log_dirs, verified_partitions
from ktui.ops.start import CheckedRun
from ktui.planning.plan import PartitionTarget, Plan
from ktui.simulated import layout
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import LoseAnswer, LoseRequest
from support.cli.call_ktui import NamedCluster
from support.runs.pacing import WHOLE
from support.runs.stories import Story, refuses
from support.runs.throttled import ThrottledStory, change_list, many_entries
from support.simulated.moving_clusters import a_cluster, tp, wait

HINT = "Try 'ktui reassign --help' for help.\n"
SHOWN = [name for name, option in OPTIONS.items() if not option.refusal]


def reassign(*words: str) -> Result:
    result = CliRunner().invoke(command, words, prog_name="ktui reassign")
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[Arguments]:
    """The arguments of the actions that were performed; each ends with exit code 1."""
    performed: list[Arguments] = []

    def act(arguments: Arguments) -> int:
        performed.append(arguments)
        return 1

    monkeypatch.setattr("ktui.cli.reassign.command.act", act)
    return performed


def test_checked_words_reach_the_action_and_its_exit_code_the_shell(done: list[Arguments]) -> None:
    result = reassign("-list", "ignored", "--bootstrap-server=a:9092")

    assert (result.exit_code, result.output) == (1, "")
    assert [arguments.action for arguments in done] == [Action.LIST]
    assert done[0].text("bootstrap-server") == "a:9092"


def test_a_hostile_word_is_escaped_in_the_tools_message(done: list[Arguments]) -> None:
    result = reassign("--a\n\x1b[2J")

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"ktui: a\\n\\x1b[2J is not a recognized option\n{HINT}"
    assert done == []


def test_the_version_is_printed_as_by_ktui_itself(done: list[Arguments]) -> None:
    result = reassign("--version", "--list")

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == CliRunner().invoke(ktui, ["--version"], prog_name="ktui").stdout
    assert __version__ in result.stdout
    assert done == []


@pytest.mark.parametrize("program", ["ktui reassign", "kafka-reassign-partitions.sh"])
def test_the_help_fits_80_columns_and_names_the_program(program: str) -> None:
    text = help_text(program)

    assert text.startswith(f"Usage: {program} ACTION")
    assert text.count(f"  {program} --") == len(Action)
    assert max(map(len, text.splitlines())) <= 80
    assert text.isascii()


def test_the_help_groups_every_option_but_the_refused_one() -> None:
    text = help_text("ktui reassign")

    terms = [line.split()[0] for line in text.splitlines() if line.startswith("  --")]
    assert {*SHOWN} == {term.lstrip("-").rstrip(":;") for term in terms}
    assert "zookeeper" not in text
    assert [text.index(f"\n{group}:\n") for group in Group] == sorted(
        text.index(f"\n{group}:\n") for group in Group
    )


def complete(*words: str) -> list[str]:
    """The words that a shell offers for the last one."""
    shell = get_completion_class("bash")
    assert shell is not None
    found = shell(command, {}, "ktui reassign", "_X").get_completions([*words[:-1]], words[-1])
    return [each.value if each.type == "plain" else f"<{each.type}>" for each in found]


def test_tab_completes_options_files_and_contexts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.yaml").write_text("contexts: {prod-eu: {}, test: {}}", encoding="utf-8")
    monkeypatch.setenv("KTUI_CONFIG_DIR", str(tmp_path))

    assert complete("--cancel") == ["--cancel", "--cancel-all"]
    assert complete("--execute", "--throttle", "5", "--ti") == ["--timeout"]
    assert complete("--bootstrap-server", "a:9092", "--re") == [
        option for option in (f"--{name}" for name in SHOWN) if option.startswith("--re")
    ]
    assert complete("--execute", "--reassignment-json-file", "") == ["<file>"]
    assert complete("--list", "--state-dir", "") == ["<dir>"]
    assert complete("--list", "--context", "p") == ["prod-eu"]
    assert complete("--zoo") == []


def test_the_manual_page_has_every_option_of_the_help() -> None:
    text = page(click.Context(command, info_name="reassign")).replace("\\-", "-")

    for name in SHOWN:
        option = OPTIONS[name]
        assert f".B {f'--{name} {option.metavar}'.rstrip()}\n" in text
    assert "zookeeper" not in text


class Tool:
    """Calls `ktui reassign` on a simulated cluster, with a plan for orders-0."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, of: SimulatedCluster) -> None:
        self._folder = folder
        named = NamedCluster(reader=of.reader, writer=of.writer)
        monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)

    def call(self, action: str, *words: str, **more: list[str]) -> Result:
        rows = [{"topic": "orders", "partition": 0, "replicas": [4, 2, 3], **more}]
        plan = self._folder / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": rows}), encoding="utf-8")
        where = ["--bootstrap-server", "a:9092", "--state-dir", str(self._folder / "state")]
        file = ["--reassignment-json-file", str(plan)]
        return CliRunner().invoke(command, [action, *where, *file, *words])


def test_a_partition_that_was_over_before_its_cancel_is_not_called_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = a_cluster({"orders": [(4, 2, 3)]})
    tool = Tool(tmp_path, monkeypatch, cluster)
    listed = {tp("orders-0"): Reassignment((4, 2, 3, 1), (4,), (1,))}  # until a moment ago

    async def read(reader: ClusterReader) -> tuple[ClusterDescription, object]:
        return await reader.describe_cluster(), listed

    monkeypatch.setattr("ktui.cli.reassign.changes.read_cluster_and_reassignments", read)

    done = tool.call("--cancel")

    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "Error cancelling partition reassignment for:",
        "orders-0: No partition reassignment is in progress.",
    ]


def test_a_broker_that_is_down_is_named_since_it_may_keep_its_throttles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = a_cluster({"orders": [(4, 2, 3)]})
    cluster.do(layout.Kill(7))
    wait(cluster, 15.0)

    done = Tool(tmp_path, monkeypatch, cluster).call("--verify")

    assert done.exit_code == 0
    assert done.stderr == "throttles may stay on broker 7: it is down\n"


def test_a_broker_that_does_not_say_what_moves_between_its_log_dirs_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = a_cluster({"orders": [(4, 2, 3)]})
    cluster.do(layout.Kill(4))
    wait(cluster, 15.0)
    tool = Tool(tmp_path, monkeypatch, cluster)

    done = tool.call("--cancel", "--preserve-throttles", log_dirs=["/data-2", "any", "any"])

    assert done.exit_code == 1
    assert "None of the specified partition moves are active." not in done.stdout
    assert done.stderr.startswith("broker 4 did not say what moves between its log dirs: nothing")


SIX = {f"orders-{n}": ((1, 2), (1, 3)) for n in range(6)}
TWO = {name: SIX[name] for name in ("orders-0", "orders-1")}


def not_started(story: Story, names: Collection[str]) -> dict[str, str]:
    """Play a run as `--execute` does; return why it does not call partitions started."""

    async def read() -> dict[str, str]:
        async with aclosing(story.cluster.reader()) as reader:
            listed = await reader.list_reassignments()
        tracks = [run.tracks[tp(name)] for name in names]
        rows = (PartitionTarget(t.tp.topic, t.tp.partition, t.target) for t in tracks)
        return {str(tp): why for tp, why in not_taken(run, Plan(tuple(rows)), listed).items()}

    story.leaving = LeaveSubmitted
    run = story.played()
    return asyncio.run(read())


def test_partitions_without_room_in_a_list_of_throttled_replicas_are_named_and_not_started(
    tmp_path: Path,
) -> None:
    story = ThrottledStory(tmp_path, SIX, limits=WHOLE, throttle_leaders=True)
    story.cluster.configure([change_list(ConfigOp.SET, many_entries(LONGEST_LIST - 10))])

    left_out = not_started(story, SIX)

    sent = {str(alter.tp) for alter in story.witness.alters}
    assert 0 < len(sent) < len(SIX)
    assert {*left_out} == {*SIX} - sent
    (why,) = {*left_out.values()}
    assert why == (
        "not sent: its throttle could not be set: follower.replication.throttled.replicas of "
        "orders is full"
    )


def test_a_partition_whose_answer_was_lost_is_started_once_kafka_lists_it(tmp_path: Path) -> None:
    story = Story(tmp_path, TWO, WHOLE)
    story.already(LoseAnswer())

    assert not_started(story, TWO) == {}
    assert story.folded.left == "all of its partitions are submitted"


def test_a_partition_whose_request_was_lost_is_not_called_started(tmp_path: Path) -> None:
    story = Story(tmp_path, TWO, WHOLE)
    story.already(LoseRequest())

    assert not_started(story, TWO) == dict.fromkeys(TWO, UNANSWERED)


@pytest.mark.parametrize("code", ["POLICY_VIOLATION", "CLUSTER_AUTHORIZATION_FAILED"])
def test_a_partition_that_kafka_refuses_is_not_called_started(code: str, tmp_path: Path) -> None:
    story = Story(tmp_path, TWO, WHOLE)
    refuses(story, code=code)

    left_out = not_started(story, TWO)

    assert {*left_out} == {*TWO}
    assert all(code in why for why in left_out.values())


def as_run(plan: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[list[Plan], Result]:
    """Call --execute --as-run; return the plans of the runs that it would start, and the end."""
    cluster = a_cluster({"orders": [(1, 2)]})
    named = NamedCluster(reader=cluster.reader, writer=cluster.writer)
    monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)
    plans: list[Plan] = []

    def carry_out(checked: CheckedRun, *_: object) -> int:
        plans.append(checked.new.plan)
        return 0

    monkeypatch.setattr("ktui.cli.start.carry_out", carry_out)
    where = ["--bootstrap-server", "a:9092", "--state-dir", str(plan.parent / "state")]
    file = ["--reassignment-json-file", str(plan)]
    return plans, CliRunner().invoke(command, ["--execute", "--as-run", *where, *file, *words])


def test_a_plan_that_comes_through_a_named_pipe_becomes_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    row = {"topic": "orders", "partition": 0, "replicas": [1, 3]}
    text = json.dumps({"version": 1, "partitions": [row]})
    writer = threading.Thread(target=pipe.write_text, args=(text,))
    writer.start()

    plans, done = as_run(pipe, monkeypatch)

    writer.join()
    assert done.exit_code == 0, done.output
    assert [plan.partitions[0].replicas for plan in plans] == [(1, 3)]


def test_a_run_is_not_begun_either_under_a_throttle_of_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans, done = as_run(tmp_path / "plan.json", monkeypatch, "--throttle", "0")

    assert not plans
    assert "--throttle 0 lets nothing through" in done.output


def test_a_low_throttle_is_taken_as_bytes_with_a_warning_as_kafkas_tool_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = a_cluster({"orders": [(1, 2)]})
    named = NamedCluster(reader=cluster.reader, writer=cluster.writer)
    monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)
    monkeypatch.setattr("ktui.ops.reassign.execute.submit", lambda *_: {})
    plan = tmp_path / "plan.json"
    row = {"topic": "orders", "partition": 0, "replicas": [1, 3]}
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}), encoding="utf-8")
    words = ["--execute", "--bootstrap-server", "a:9092", "--reassignment-json-file", str(plan)]

    done = CliRunner().invoke(
        command, [*words, "--throttle", "50", "--state-dir", str(tmp_path / "state")]
    )

    head, _, assignment, _, use = done.stdout.splitlines()[:5]
    assert head == "Current partition replica assignment"
    assert json.loads(assignment)["partitions"][0]["replicas"] == [1, 2]
    assert use == "Save this to use as the --reassignment-json-file option during rollback"
    assert "throttle limit was set to 50 B/s" in done.stdout
    assert "warning: at 50 B/s into each broker one fetch of 1 MiB takes" in done.stderr
    assert "did you mean --throttle 50000000?" in done.stderr


@pytest.mark.parametrize("batch", [0, 3])
def test_a_plan_that_the_lists_cannot_hold_is_refused_before_anything_is_sent(
    batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = a_cluster({"orders": [(1, 2)] * 6})
    cluster.configure([change_list(ConfigOp.SET, many_entries(LONGEST_LIST - 10))])
    named = NamedCluster(reader=cluster.reader, writer=cluster.writer)
    monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)
    submitted: list[object] = []

    def submit(_place: object, _request: object, plan: object, _left: object) -> dict[object, str]:
        submitted.append(plan)
        return {}

    monkeypatch.setattr("ktui.ops.reassign.execute.submit", submit)
    rows = [{"topic": "orders", "partition": n, "replicas": [1, 3]} for n in range(6)]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": rows}), encoding="utf-8")
    words = ["--execute", "--bootstrap-server", "a:9092", "--reassignment-json-file", str(plan)]
    words += ["--throttle", "1000000", "--state-dir", str(tmp_path / "state")]
    words += ["--reassignment-batch-size", str(batch)] if batch else []

    done = CliRunner().invoke(command, words)

    assert bool(submitted) == bool(batch)
    assert ("Successfully started" in done.stdout) == bool(batch)
    if not batch:
        assert done.exit_code == 1
        assert done.stderr.endswith(
            "follower.replication.throttled.replicas of orders takes 32,767 bytes, and has room "
            "for 3 of the 6 partitions to be throttled at once. Nothing was sent. A run lists only "
            "what is in flight: use --as-run, or submit fewer at once: --reassignment-batch-size 3"
            "\n"
        )


def test_generate_prints_the_current_and_the_proposed_assignment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = a_cluster({"orders": [(1, 2)]})
    named = NamedCluster(reader=cluster.reader, writer=cluster.writer)
    monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)
    topics = tmp_path / "topics.json"
    topics.write_text('{"version": 1, "topics": [{"topic": "orders"}]}', encoding="utf-8")
    words = ["--generate", "--bootstrap-server", "a:9092", "--broker-list", "3,4"]

    done = reassign(*words, "--topics-to-move-json-file", str(topics))

    first, current, blank, second, proposed = done.stdout.splitlines()
    assert (first, blank) == ("Current partition replica assignment", "")
    assert second == "Proposed partition reassignment configuration"
    assert json.loads(current)["partitions"][0]["replicas"] == [1, 2]
    assert sorted(json.loads(proposed)["partitions"][0]["replicas"]) == [3, 4]


FOO0, FOO1, FOO2, BAR0, QUUX0 = (
    TopicPartition("foo", 0),
    TopicPartition("foo", 1),
    TopicPartition("foo", 2),
    TopicPartition("bar", 0),
    TopicPartition("quux", 0),
)
MOVING = Reassignment(replicas=(0, 1, 3, 2), adding=(3,), removing=(2,))


def test_a_listed_partition_is_in_progress_and_the_others_are_done_in_order() -> None:
    targets = {QUUX0: (4, 5, 6), FOO2: (3, 2, 1), FOO1: (1, 2, 3), FOO0: (0, 1, 3)}
    described = {FOO0: (0, 1, 2), FOO1: (1, 2, 3), FOO2: (1, 2, 3)}

    found = verified_partitions(targets, {FOO0: MOVING, BAR0: MOVING}, described)

    assert [*found.items()] == [
        (FOO0, Verified("Reassignment of partition foo-0 is still in progress.", done=False)),
        (FOO1, Verified("Reassignment of partition foo-1 is completed.", done=True)),
        (
            FOO2,
            Verified(
                "There is no active reassignment of partition foo-2, "
                "but replica set is 1,2,3 rather than 3,2,1.",
                done=True,
            ),
        ),
        (
            QUUX0,
            Verified(
                "There is no active reassignment of partition quux-0, "
                "but replica set is  rather than 4,5,6.",
                done=True,
            ),
        ),
    ]


def test_after_a_cancel_the_partition_is_done_and_where_it_was() -> None:
    found = verified_partitions({FOO0: (0, 1, 3)}, {}, {FOO0: (0, 1, 2)})

    assert found[FOO0].done
    assert "replica set is 0,1,2 rather than 0,1,3" in found[FOO0].line


def test_a_replica_is_missing_or_moving_or_in_its_log_dir_or_elsewhere() -> None:
    missing, unknown = Replica(FOO0, 0), Replica(QUUX0, 0)
    active, other, there = Replica(FOO0, 1), Replica(FOO1, 1), Replica(FOO2, 1)
    cancelled = Replica(BAR0, 2)

    found = verified_log_dirs(
        dict.fromkeys([there, unknown, cancelled, other, active, missing], "/d1"),
        current={missing: None, active: "/d0", other: "/d0", there: "/d1", cancelled: "/d0"},
        future={active: "/d1", other: "/d2"},
    )

    assert [*found] == [missing, unknown, active, other, there, cancelled]
    assert "\n".join(each.line for each in found.values()) == (
        "Partition foo-0 is not found in any live log dir on broker 0. "
        "There is likely an offline log directory on the broker.\n"
        "Partition quux-0 cannot be found in any live log directory on broker 0.\n"
        "Reassignment of replica foo-0-1 is still in progress.\n"
        "Partition foo-1 on broker 1 is being moved to log dir /d2 instead of /d1.\n"
        "Reassignment of replica foo-2-1 completed successfully.\n"
        "Partition bar-0 on broker 2 is not being moved from log dir /d0 to /d1."
    )
    assert [replica for replica in found if found[replica].done] == [there, cancelled]


def test_a_hostile_name_reaches_the_terminal_escaped() -> None:
    hostile = TopicPartition("f\x1b[2J\no", 0)
    replica = Replica(hostile, 1)
    found = [
        *verified_partitions({hostile: (1,)}, {}, {}).values(),
        *verified_log_dirs({replica: "/d\u202e"}, {replica: "/d0"}, {replica: "/\x9bd"}).values(),
        *verified_log_dirs({replica: "/d\u202e"}, {replica: "/\x9bd"}, {}).values(),
        *verified_log_dirs({replica: "/d1"}, {replica: None}, {}).values(),
    ]

    assert all(each.line.isprintable() for each in found)


TP = TopicPartition("orders", 0)
TARGET = (4, 2)


def at_rest(*replicas: int) -> PartitionState:
    return PartitionState(TP, "an-id", replicas, replicas, replicas[0])


PLAN_OUTCOME_MOVING = Reassignment(replicas=(4, 2, 1), adding=(4,), removing=(1,))
ELSEWHERE = Reassignment(replicas=(5, 2, 1), adding=(5,), removing=(1,))


@pytest.mark.parametrize(
    ("state", "listed", "cancelled", "outcome"),
    [
        (at_rest(4, 2), None, None, PlanOutcome.COMPLETED),
        (at_rest(4, 2), None, TARGET, PlanOutcome.COMPLETED),
        (at_rest(2, 4), None, None, PlanOutcome.DIFFERENT),
        (at_rest(1, 2), None, TARGET, PlanOutcome.CANCELLED),
        (at_rest(1, 2), None, (5, 2), PlanOutcome.DIFFERENT),
        (at_rest(1, 2), PLAN_OUTCOME_MOVING, TARGET, PlanOutcome.IN_PROGRESS),
        (at_rest(1, 2), ELSEWHERE, TARGET, PlanOutcome.DIFFERENT),
        (None, None, None, PlanOutcome.ABSENT),
    ],
)
def test_the_outcome_follows_from_replicas_the_list_and_the_last_cancel(
    state: PartitionState | None,
    listed: Reassignment | None,
    cancelled: Brokers | None,
    outcome: PlanOutcome,
) -> None:
    (found,) = plan_outcomes(
        {TP: TARGET},
        {} if state is None else {TP: state},
        {} if listed is None else {TP: listed},
        {} if cancelled is None else {TP: cancelled},
    )

    assert found.outcome is outcome
    assert found.target == TARGET


def in_log(at: int, outcome: ForeignOutcome, target: Brokers = TARGET) -> ForeignCancelLine:
    return ForeignCancelLine(
        at=datetime(2026, 11, 21, 12, at, tzinfo=UTC),
        who="ada@host (7)",
        cluster_id="c",
        topic=TP.topic,
        topic_id=None,
        partition=TP.partition,
        original=(1, 2),
        target=target,
        outcome=outcome.value,
    )


@pytest.mark.parametrize(
    ("log", "cancelled"),
    [
        ([in_log(1, ForeignOutcome.STOPPED)], TARGET),
        ([in_log(1, ForeignOutcome.REFUSED)], None),
        ([in_log(1, ForeignOutcome.COMPLETED)], None),
        ([in_log(2, ForeignOutcome.STOPPED, (5, 2)), in_log(1, ForeignOutcome.STOPPED)], (5, 2)),
    ],
)
def test_only_the_last_cancel_that_was_carried_out_counts(
    log: list[ForeignCancelLine], cancelled: Brokers | None
) -> None:
    assert cancelled_targets([], log).get(TP) == cancelled
