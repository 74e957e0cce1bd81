"""`ktui broker remove`: each stage, what keeps it from the next one, and the way back."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ktui.cli.context.errors import BadInput
from ktui.execution.errors import RunProblem, RunRefused
from ktui.execution.host.client import RunClient
from ktui.execution.host.ownership import own_run
from ktui.simulated import layout
from ktui.simulated.layout import MIB, TopicSpec
from support.cli.broker_sandbox import RemovalSandbox
from support.journals.journals import written
from support.simulated.moving_clusters import move

WAITS, LEFT = 3, 130
LOOKS: list[Callable[[], None]] = [lambda: None] * 5
"""What happens while a drained broker is watched, before ktui says to stop it."""
EXPECTED = """\
1/6 cordon: cordoned.log.dirs: not set -> *: 1 of 1 log dir cordoned: /var/lib/kafka/data
2/6 demote: 1 replica stays as it is: no other replica is in sync (audit-0 on broker 3).
2/6 demote: run demote-3: 1 partition, nothing to copy, 1 preferred leader to change
3/6 drain: run drain-3: 4 partitions, 4 replicas to copy (301 MiB), 1 preferred leader to change
4/6 empty: the metadata, proven to be current, names no replica on it, and none is in its 1 log dir
"""


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemovalSandbox:
    return RemovalSandbox(tmp_path, monkeypatch)


def stages(sandbox: RemovalSandbox, *words: str, exit_code: int = 0) -> list[str]:
    """Remove broker 3, and return the lines about its stages."""
    result = sandbox.remove(*words)
    assert result.exit_code == exit_code, (result.output, result.exception)
    return [line for line in result.stdout.splitlines() if line[1:2] == "/"]


def refusal(sandbox: RemovalSandbox, *words: str) -> str:
    """Return the error of a call that sends nothing."""
    before = (sandbox.layout, sandbox.settings)
    error = sandbox.remove(*words).exception
    assert isinstance(error, BadInput | RunRefused), error
    assert (sandbox.layout, sandbox.settings) == before
    return str(error)


def create_on_3(sandbox: RemovalSandbox, name: str = "new") -> None:
    sandbox.do(layout.CreateTopic(TopicSpec(name=name, replicas=((3, 1),), bytes_each=MIB)))


def test_a_broker_is_cordoned_demoted_and_drained_and_once_stopped_unregistered(
    sandbox: RemovalSandbox,
) -> None:
    lines = stages(sandbox, exit_code=WAITS)

    assert lines[:-1] == EXPECTED.splitlines()
    assert lines[-1].startswith("5/6 stop: stop broker 3 now. Then call this again: ktui broker ")
    assert (sandbox.on_broker(), sandbox.settings) == ([], {"3": "*"})

    sandbox.stop()
    assert "--unregister" in stages(sandbox, exit_code=WAITS)[-1]
    assert 3 in sandbox.simulated.controller.registered
    assert stages(sandbox, "--unregister")[-1] == (
        "6/6 unregister: broker 3 is no longer registered: it is removed"
    )
    assert 3 not in sandbox.simulated.controller.registered
    assert sandbox.remove().stdout.startswith("broker 3 was removed already")


def test_what_is_true_already_is_left_out_and_said(sandbox: RemovalSandbox) -> None:
    stages(sandbox, "--until-empty")

    again = stages(sandbox, "--until-empty")

    assert [line.split(":")[0] for line in again] == [
        "1/6 cordon", "2/6 demote", "4/6 empty", "5/6 stop",
    ]  # fmt: skip
    assert sandbox.engines == ["demote-3", "drain-3"]


def test_a_removal_whose_run_was_left_goes_on_with_that_run(sandbox: RemovalSandbox) -> None:
    sandbox.until_s = 5.0
    stages(sandbox, exit_code=LEFT)
    sandbox.until_s = 10_000.0

    lines = stages(sandbox, exit_code=WAITS)

    assert "3/6 drain: going on with run drain-3" in lines
    assert (sandbox.on_broker(), sandbox.engines[1:]) == ([], ["drain-3", "drain-3"])


@pytest.mark.parametrize("journal", [False, True])
def test_a_run_whose_start_was_cut_off_is_begun_again_under_another_name(
    sandbox: RemovalSandbox, *, journal: bool
) -> None:
    before = sandbox.layout
    stages(sandbox, "--no-demote", exit_code=WAITS)
    note = sandbox.note()
    assert note is not None
    folder = sandbox.state.create_run("drain-3-2")
    if journal:
        written(folder.journal, []).close()
    sandbox.file().save(msgspec.structs.replace(note, drains=(*note.drains, "drain-3-2")))
    create_on_3(sandbox)

    stages(sandbox, "--no-demote", exit_code=WAITS)

    assert (sandbox.on_broker(), sandbox.engines[-1]) == ([], "drain-3-3")
    assert sandbox.remove("--undo").exit_code == 0
    assert {**sandbox.layout, **before} == sandbox.layout


def test_a_run_that_an_engine_carries_on_is_followed_and_not_started_again(
    sandbox: RemovalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.until_s = 5.0
    stages(sandbox, exit_code=LEFT)
    sandbox.until_s = 10_000.0
    drain = sandbox.state.run("drain-3")
    engines = len(sandbox.engines)

    with own_run(drain) as owned:

        def later(_seconds: float) -> None:
            owned.release()
            sandbox.finish(drain)

        monkeypatch.setattr("ktui.cli.start.follow.time.sleep", later)
        stages(sandbox, exit_code=WAITS)

    assert (sandbox.on_broker(), len(sandbox.engines)) == ([], engines)


def test_what_others_call_off_is_not_drained_again_behind_their_backs(
    sandbox: RemovalSandbox,
) -> None:
    def others_change(run: str) -> None:
        if run == "drain-3":
            sandbox.do(move("orders-3", 2, 1, 5))
            sandbox.do(move("orders-0", 2, 1, 3))

    sandbox.meanwhile = others_change
    result = sandbox.remove()

    assert (result.exit_code, sandbox.engines[-1]) == (WAITS, "drain-3")
    assert "run drain-3 has ended, and not all of its partitions" in result.stderr
    assert stages(sandbox, exit_code=WAITS)[-1].startswith("5/6 stop")
    assert (sandbox.on_broker(), sandbox.engines[-1]) == ([], "drain-3-2")


def test_a_topic_that_lands_on_the_broker_while_it_is_drained_is_drained_too(
    sandbox: RemovalSandbox,
) -> None:
    sandbox.cluster(version="4.1")
    sandbox.meanwhile = lambda run: create_on_3(sandbox) if run == "drain-3" else None

    lines = stages(sandbox, "--skip-cordon", exit_code=WAITS)

    assert lines[0].startswith("1/6 cordon: left out")
    assert sandbox.engines == ["demote-3", "drain-3", "drain-3-2"]
    assert (sandbox.on_broker(), sandbox.layout["new-0"][0][-1] != 3) == ([], True)


def test_a_topic_that_lands_on_the_empty_broker_before_its_stop_is_drained_at_the_next_call(
    sandbox: RemovalSandbox,
) -> None:
    sandbox.cluster(version="4.1")
    stages(sandbox, "--skip-cordon", "--until-empty")
    create_on_3(sandbox)

    stages(sandbox, "--skip-cordon", "--until-empty")

    assert (sandbox.on_broker(), sandbox.engines[-1]) == ([], "drain-3-2")


def test_what_landed_just_before_the_stop_is_drained_once_the_cluster_knows_of_the_stop(
    sandbox: RemovalSandbox,
) -> None:
    sandbox.cluster(version="4.1")
    stages(sandbox, "--skip-cordon", "--until-empty")
    create_on_3(sandbox)
    sandbox.simulated.do(layout.Kill(3))

    stages(sandbox, "--skip-cordon", "--unregister")

    assert sandbox.on_broker() == []
    assert 3 not in sandbox.simulated.controller.registered


def test_new_topics_do_not_land_on_a_cordoned_broker(sandbox: RemovalSandbox) -> None:
    stages(sandbox, "--until-empty")

    assert all(3 not in replicas for replicas in sandbox.added(30))


def test_a_kafka_without_cordons_is_refused_unless_the_operator_does_without(
    sandbox: RemovalSandbox,
) -> None:
    sandbox.cluster(version="4.1")

    assert "ktui broker remove 3" in (why := refusal(sandbox))
    assert "--skip-cordon" in why


def test_a_topic_that_has_too_few_replicas_already_does_not_keep_the_broker(
    sandbox: RemovalSandbox,
) -> None:
    two = {"min.insync.replicas": "2"}
    audit = TopicSpec(name="audit", replicas=((3,),), bytes_each=MIB, configs=two)
    sandbox.cluster(topics=(audit,))

    result = sandbox.remove("--until-empty")

    assert (result.exit_code, sandbox.on_broker()) == (0, [])
    assert "than min.insync.replicas (2) already" in result.stderr
    assert "audit-0" in result.stderr


def canary_returns(sandbox: RemovalSandbox, name: str = "orders-0", times: int = 10_000) -> None:
    """Let somebody else move a partition back to broker 3, every 8 s, once it has left."""
    wait, left = sandbox.wait, [times]

    def waits(seconds: float) -> None:
        wait(seconds)
        replicas = sandbox.layout[name][0]
        if left[0] and 3 not in replicas and sandbox.simulated.now_s % 8.0 < 2.0:
            left[0] -= 1
            sandbox.simulated.do(move(name, 3, *replicas[1:]))
            wait(60.0)

    sandbox.waits(waits)


def test_what_somebody_else_moves_back_a_second_time_is_named_and_the_broker_is_not_stopped(
    sandbox: RemovalSandbox,
) -> None:
    canary_returns(sandbox)

    result = sandbox.remove()

    assert (result.exit_code, sandbox.engines) == (WAITS, ["demote-3", "drain-3", "drain-3-2"])
    assert "5/6 stop" not in result.stdout
    assert "do not stop broker 3: orders-0 came back to it 2 times" in result.stderr
    assert "Somebody else moves topic orders back" in result.stderr
    assert "--exclude orders. To go on from there: ktui broker remove 3" in result.stderr


def test_once_nobody_moves_it_back_any_more_the_same_command_goes_on(
    sandbox: RemovalSandbox,
) -> None:
    canary_returns(sandbox, times=2)
    assert sandbox.remove().exit_code == WAITS

    assert stages(sandbox, exit_code=WAITS)[-1].startswith("5/6 stop: stop broker 3 now")
    assert (sandbox.on_broker(), sandbox.engines[-1]) == ([], "drain-3-3")


def test_what_lands_on_the_broker_just_before_its_stop_is_seen_before_ktui_says_to_stop_it(
    sandbox: RemovalSandbox,
) -> None:
    canary_returns(sandbox, times=1)

    lines = stages(sandbox, exit_code=WAITS)

    assert [line[:1] for line in lines].index("5") == len(lines) - 1
    assert (sandbox.on_broker(), sandbox.engines[-1]) == ([], "drain-3-2")


def test_a_topic_that_is_left_out_stays_and_the_rest_is_drained(sandbox: RemovalSandbox) -> None:
    result = sandbox.remove("--exclude", "aud*")

    assert (result.exit_code, sandbox.on_broker()) == (WAITS, ["audit-0"])
    assert "4/6 empty: empty but for these: 1 replica of audit" in result.stdout
    stop = (
        "stop broker 3 now, empty but for these: 1 replica of audit; its stop takes audit-0 offline"
    )
    assert stop in result.stdout
    assert "ktui broker remove 3 --exclude 'aud*'" in result.stdout

    empty = sandbox.call("empty", "3", "--exclude", "audit")
    assert (empty.exit_code, empty.stdout) == (
        0,
        "broker 3 is empty but for these: 1 replica of audit\n",
    )
    assert sandbox.call("empty", "3").exit_code == WAITS


def test_a_mistyped_topic_to_leave_out_is_refused_before_anything_is_sent(
    sandbox: RemovalSandbox,
) -> None:
    assert "--exclude: no topic matches 'adit'; did you mean audit?" in refusal(
        sandbox, "--exclude", "adit"
    )


def test_a_broker_that_keeps_what_is_left_out_is_not_unregistered(
    sandbox: RemovalSandbox,
) -> None:
    sandbox.remove("--exclude", "audit")
    sandbox.stop()

    error = sandbox.remove("--exclude", "audit", "--unregister").exception

    assert isinstance(error, RunRefused)
    assert "broker 3 is still among the replicas of 1 partition of topic audit" in str(error)
    assert 3 in sandbox.simulated.controller.registered


def test_the_preview_calls_no_broker_empty_on_which_replicas_stay(sandbox: RemovalSandbox) -> None:
    for broker in (4, 5):
        sandbox.do(layout.Kill(broker))
    sandbox.wait(30.0)

    lines = stages(sandbox, "--dry-run")

    (empty,) = (line for line in lines if line.startswith("4/6"))
    assert empty.startswith("4/6 empty: not reached while 3 replicas stay")
    assert "proven" not in empty
    assert any("3 replicas stay as they are" in line for line in lines)


def test_without_the_demote_nothing_but_the_drain_is_run(sandbox: RemovalSandbox) -> None:
    assert "2/6 demote: left out" in stages(sandbox, "--no-demote", "--until-empty")
    assert sandbox.engines == ["drain-3"]


def test_a_broker_that_is_down_is_drained_from_its_other_replicas(sandbox: RemovalSandbox) -> None:
    sandbox.do(layout.DeleteTopic("audit"))
    sandbox.stop()

    lines = stages(sandbox, "--unregister")

    assert lines[0] == "1/6 cordon: not possible: the broker is down"
    assert lines[1] == "2/6 demote: needless: a broker that is down leads nothing"
    assert lines[3].endswith("It is down, so its log dirs cannot be asked")
    assert sandbox.on_broker() == []
    assert 3 not in sandbox.simulated.controller.registered


def test_a_dead_broker_with_the_only_copy_is_never_unregistered(sandbox: RemovalSandbox) -> None:
    sandbox.stop()

    result = sandbox.remove("--unregister")

    assert result.exit_code == WAITS
    assert "no other replica is in sync (audit-0 on broker 3)" in result.stdout
    assert sandbox.on_broker() == ["audit-0"]
    assert 3 in sandbox.simulated.controller.registered


def test_what_somebody_else_moves_to_the_broker_is_left_to_them(sandbox: RemovalSandbox) -> None:
    stages(sandbox, "--until-empty")
    sandbox.simulated.do(move("orders-0", 1, 2, 3))

    result = sandbox.remove("--until-empty")

    assert result.exit_code == WAITS
    assert "a reassignment is under way" in result.stdout
    assert "1 arriving" in result.stderr


def test_a_broker_whose_log_dir_is_offline_is_never_called_empty(sandbox: RemovalSandbox) -> None:
    sandbox.cluster(log_dirs=2)
    stages(sandbox, "--until-empty")
    sandbox.do(layout.FailLogDir(3, "/var/lib/kafka/data-2"))

    error = sandbox.remove("--until-empty").exception

    assert isinstance(error, RunProblem)
    assert "broker 3 is not known to be empty" in str(error)


def test_the_preview_shows_every_stage_and_how_much_it_does_and_sends_nothing(
    sandbox: RemovalSandbox,
) -> None:
    before = (sandbox.layout, sandbox.settings)

    lines = stages(sandbox, "--dry-run")

    assert [line.split(":")[0][4:] for line in lines] == [
        "cordon", "demote", "demote", "drain", "empty", "stop", "unregister",
    ]  # fmt: skip
    assert lines[0] == "1/6 cordon: cordoned.log.dirs: not set -> *"
    assert "4 replicas to copy (301 MiB)" in lines[3]
    assert (sandbox.layout, sandbox.settings, sandbox.engines) == (*before, [])
    assert sandbox.note() is None


class TestInATerminal:
    """Somebody is there: is asked before the first change and the last one, and waited for."""

    @pytest.fixture
    def waiting(
        self, sandbox: RemovalSandbox, monkeypatch: pytest.MonkeyPatch
    ) -> list[Callable[[], None]]:
        """What happens while the broker is waited for, each during one wait."""
        acts: list[Callable[[], None]] = []

        def sleep(seconds: float) -> None:
            sandbox.wait(seconds)
            acts.pop(0)()

        monkeypatch.setattr("ktui.cli.broker.remove.can_ask", lambda: True)
        monkeypatch.setattr("ktui.ops.broker.removal.time.sleep", sleep)
        return acts

    def test_the_removal_waits_for_the_stop_and_then_asks_for_the_id(
        self, sandbox: RemovalSandbox, waiting: list[Callable[[], None]]
    ) -> None:
        waiting += [*LOOKS, lambda: None, sandbox.stop]

        result = sandbox.remove(typing="y\n3\n")

        assert result.exit_code == 0, (result.output, result.exception)
        assert "Remove broker 3?" in result.stdout
        assert "Waiting for that" in result.stdout
        assert 3 not in sandbox.simulated.controller.registered

    def test_a_no_sends_nothing(
        self, sandbox: RemovalSandbox, waiting: list[Callable[[], None]]
    ) -> None:
        result = sandbox.remove(typing="n\n")

        assert (result.exit_code, sandbox.settings, sandbox.engines) == (2, {}, [])
        assert waiting == []

    def test_another_id_unregisters_nothing(
        self, sandbox: RemovalSandbox, waiting: list[Callable[[], None]]
    ) -> None:
        waiting += [*LOOKS, sandbox.stop]

        result = sandbox.remove("--yes", typing="4\n")

        assert result.exit_code == 2
        assert {3, 4} < sandbox.simulated.controller.registered

    def test_what_lands_on_the_broker_while_it_is_waited_for_is_drained(
        self, sandbox: RemovalSandbox, waiting: list[Callable[[], None]]
    ) -> None:
        lands = [lambda: create_on_3(sandbox), *[lambda: None] * 5]
        waiting += [*LOOKS, *lands, *LOOKS, sandbox.stop]

        result = sandbox.remove("--yes", "--unregister")

        assert result.exit_code == 0, (result.output, result.exception)
        assert sandbox.engines == ["demote-3", "drain-3", "drain-3-2"]
        assert sandbox.on_broker() == []


def test_the_status_of_the_broker_names_the_command_that_goes_on(sandbox: RemovalSandbox) -> None:
    stages(sandbox, "--until-empty")
    line = "it is being removed. Go on: ktui broker remove 3"
    assert line in sandbox.lines("status", "3")

    sandbox.until_s = 5.0
    sandbox.remove("--undo")

    assert f"{line} --undo" in sandbox.lines("status", "3")


def test_two_calls_at_once_are_kept_apart(sandbox: RemovalSandbox) -> None:
    sandbox.until_s = 5.0
    stages(sandbox, exit_code=LEFT)

    with sandbox.file().locked():
        assert "another ktui is removing broker 3" in refusal(sandbox)


def test_a_note_that_cannot_be_read_is_named_and_nothing_is_sent(sandbox: RemovalSandbox) -> None:
    path = sandbox.file().path
    path.parent.mkdir(parents=True)
    path.write_text('{"schema_version": 2}')

    error = sandbox.remove().exception

    assert isinstance(error, RunProblem)
    assert str(path) in str(error)
    assert sandbox.settings == {}


def test_a_dead_broker_that_is_empty_may_be_stopped_at_once(sandbox: RemovalSandbox) -> None:
    stages(sandbox, "--until-empty")
    sandbox.stop()

    lines = stages(sandbox, "--until-empty")

    assert lines[-1] == "5/6 stop: broker 3 may be stopped now, and it is down already"


def test_an_unknown_broker_is_bad_input(sandbox: RemovalSandbox) -> None:
    assert isinstance(sandbox.call("remove", "9").exception, BadInput)


class TestUndo:
    """`ktui broker remove --undo`: all is as before, byte by byte."""

    @pytest.mark.parametrize("left_s", [1.0, 5.0, 10_000.0])
    def test_replicas_order_leaders_and_cordon_are_as_before_wherever_it_begins(
        self, sandbox: RemovalSandbox, left_s: float
    ) -> None:
        before = sandbox.layout
        sandbox.until_s = left_s
        sandbox.remove()
        assert sandbox.layout != before
        sandbox.until_s = 10_000.0

        result = sandbox.remove("--undo")

        assert result.exit_code == 0, (result.output, result.exception)
        assert (sandbox.layout, sandbox.settings) == (before, {})
        assert isinstance(sandbox.remove("--undo").exception, BadInput)

    def test_a_cordon_of_some_log_dirs_comes_back_as_it_was(self, sandbox: RemovalSandbox) -> None:
        sandbox.cluster(log_dirs=2)
        sandbox.cordon(3, "/var/lib/kafka/data-1")
        before = (sandbox.layout, sandbox.settings)
        stages(sandbox, "--until-empty")
        assert sandbox.settings == {"3": "*"}

        assert sandbox.remove("--undo").exit_code == 0

        assert (sandbox.layout, sandbox.settings) == before

    def test_a_leader_that_was_not_the_preferred_one_leads_again(
        self, sandbox: RemovalSandbox
    ) -> None:
        sandbox.do(layout.Kill(3))
        sandbox.wait(30.0)
        sandbox.do(layout.Start(3))
        sandbox.wait(60.0)
        before = sandbox.layout
        assert before["orders-2"] == ((3, 1, 2), 1)
        stages(sandbox, "--until-empty")

        assert sandbox.remove("--undo").exit_code == 0

        assert sandbox.layout == before

    def test_what_others_have_changed_since_stays_and_is_named(
        self, sandbox: RemovalSandbox
    ) -> None:
        stages(sandbox, "--until-empty")
        sandbox.do(move("orders-0", 2, 1, 4))
        sandbox.wait(60.0)
        sandbox.cordon(3, "/var/lib/kafka/data")
        changed = sandbox.layout["orders-0"]

        result = sandbox.remove("--undo")

        assert result.exit_code == 3
        assert "left as it is: orders-0: its replicas are 2,1,4 rather than" in result.stderr
        assert "left as it is: cordoned.log.dirs" in result.stderr
        assert (sandbox.layout["orders-0"], sandbox.settings) == (
            changed,
            {"3": "/var/lib/kafka/data"},
        )

    def test_a_removal_on_its_way_back_goes_back_to_the_end_before_another_begins(
        self, sandbox: RemovalSandbox
    ) -> None:
        before = sandbox.layout
        stages(sandbox, "--until-empty")
        sandbox.until_s = 5.0
        assert sandbox.remove("--undo").exit_code == LEFT
        sandbox.until_s = 10_000.0

        assert "is being undone" in refusal(sandbox)
        assert sandbox.remove("--undo").exit_code == 0
        assert sandbox.layout == before
        stages(sandbox, "--until-empty")
        assert sandbox.on_broker() == []

    def test_it_is_not_complete_where_a_run_was_deleted_since(
        self, sandbox: RemovalSandbox
    ) -> None:
        stages(sandbox, "--until-empty")
        shutil.rmtree(sandbox.state.run("demote-3").path)

        assert "run demote-3 is not there" in sandbox.remove("--undo", "--dry-run").stdout
        result = sandbox.remove("--undo")

        assert "run demote-3 is not there" in result.stderr
        assert (result.exit_code, sandbox.settings) == (WAITS, {})

    def test_a_broker_that_is_down_has_to_be_started_first(self, sandbox: RemovalSandbox) -> None:
        stages(sandbox, "--until-empty")
        sandbox.stop()

        result = sandbox.remove("--undo")

        assert (result.exit_code, sandbox.on_broker()) == (WAITS, [])
        assert "Start it" in result.stderr

    def test_an_unregistered_broker_cannot_be_brought_back(self, sandbox: RemovalSandbox) -> None:
        stages(sandbox, "--until-empty")
        sandbox.stop()
        stages(sandbox, "--unregister")

        assert "broker 3 is unregistered" in refusal(sandbox, "--undo")

    def test_the_preview_names_each_run_and_sends_nothing(self, sandbox: RemovalSandbox) -> None:
        stages(sandbox, "--until-empty")
        before = sandbox.layout

        result = sandbox.remove("--undo", "--dry-run")

        assert result.stdout.splitlines() == [
            "undo run drain-3: 4 partitions put back as before",
            "undo run demote-3: 1 partition put back as before",
            "cordoned.log.dirs: * -> not set",
            "nothing was sent",
        ]
        assert sandbox.layout == before


def test_the_runs_of_a_removal_are_ordinary_runs(sandbox: RemovalSandbox) -> None:
    stages(sandbox, "--until-empty", "--partitions", "1", "--throttle", "5MB")

    runs = [RunClient(folder).read_begun() for folder in sandbox.state.run_dirs()]

    assert [each.run.name for each in runs] == ["demote-3", "drain-3"]
    assert [each.run.limits.partitions for each in runs] == [1, 1]
    assert all(each.run.options.throttle for each in runs)
