"""Stories of changes during an await; each fails while its defect is there."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ktui.cluster.broker import BrokerConfig, TopicConfig
from ktui.cluster.errors import Failure, Operation, TimedOut, Unreachable
from ktui.cluster.ports import ConfigChange, ConfigOp, Verdict, WriteResult
from ktui.cluster.settings import ALL, FOLLOWER_RATE, FOLLOWER_REPLICAS, unneeded_throttles
from ktui.execution import RunProblem, RunRefused
from ktui.execution.engine.requests import LAST_IN_SYNC
from ktui.execution.host.catalog import check_one_throttle
from ktui.execution.host.ownership import own_run
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.commands import CancelMoves, LeaveThrottles, Pause, SetThrottle
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import (
    Answered,
    Configure,
    Elect,
    Ended,
    Request,
    StepBegun,
    ThrottleChanged,
)
from ktui.execution.run.options import OnStall
from ktui.execution.run.states import CancelKind, State
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from ktui.simulated import layout as acts
from support.chaos.faults import Call, Hook, Interposed
from support.cli.throttle_sandbox import throttled
from support.journals.journals import a_start, started, written
from support.runs.stories import Story
from support.runs.throttled import ONE, RF3, ThrottledStory, broker, settings_in, topic
from support.simulated.moving_clusters import move, tp
from support.simulated.observations import T0, a_partition, an_observation

UNCLEAN = {"configs": {"unclean.leader.election.enable": "true"}, "messages": 10_000}
STOP = CancelMoves(CancelKind.STOP)


def _slow(story: Story, seconds: Callable[[], float], *methods: str) -> None:
    """Delay the answers of some reads."""

    async def later(call: Call) -> Any:
        answer = await call()
        await story.clock.sleep(seconds())
        return answer

    _reads(story, **dict.fromkeys(methods, later))


def _reads(story: Story, **hooks: Hook) -> None:
    port: Any = Interposed(story.reader, **hooks)
    story.reader = port


def _writes(story: Story, **hooks: Hook) -> None:
    port: Any = Interposed(story.writer, **hooks)
    story.writer = port


def originals_die_while_a_poll_is_pending(folder: Path) -> None:
    """4 is in sync and 5 is not when 1 and 2 die; the stop is requested while a list is pending."""
    ways = {"orders-0": ((1, 2), (4, 5))}
    story = Story(folder, ways, Limits(replicas=2, partitions=1), UNCLEAN)
    story.schedule(0.5, acts.Slow(5, 0.0001))
    began_s = story.clock.monotonic()
    pending: list[float] = []

    def once() -> float:
        if story.clock.monotonic() - began_s < 35.0 or pending:
            return 0.0
        pending.append(story.clock.monotonic())
        return 40.0

    _slow(story, once, "list_reassignments")
    story.schedule(41.0, acts.Kill(1), acts.Kill(2))
    story.asked(58.0, STOP)

    story.played(until_s=120.0)

    assert None not in story.sent("orders-0"), "the only copy in sync is dropped"
    assert 4 in story.replicas(tp("orders-0"))
    assert (story.state("orders-0"), story.reason("orders-0")) == (State.REFUSED, LAST_IN_SYNC)


def somebody_alters_while_metadata_is_read(folder: Path) -> None:
    """The list is read, somebody alters, and the older metadata takes 4.5 s to arrive."""
    story = Story(folder, ONE)
    story.schedule(4.0, move("orders-0", 7, 2, 3))
    _slow(story, lambda: 4.5 if story.clock.monotonic() < 4.0 else 0.0, "describe_topics")

    story.played(until_s=200.0)

    assert story.replicas(tp("orders-0")) == (7, 2, 3)
    assert story.state("orders-0") in {State.FOREIGN, State.CHANGED_ELSEWHERE}
    assert story.sent("orders-0") == []


def somebody_deletes_the_rates(folder: Path) -> None:
    """kafka-reassign-partitions --verify deletes rates and lists between two steps."""
    ways = {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (4, 2, 3))}
    story = ThrottledStory(folder, ways)
    gone = [ConfigChange(broker(b), FOLLOWER_RATE, ConfigOp.DELETE) for b in range(1, 10)]
    gone.append(ConfigChange(topic("orders"), FOLLOWER_REPLICAS, ConfigOp.DELETE))
    story.schedule(10.0, acts.AlterConfigs(tuple(gone)))
    rates: list[str | None] = []

    def arrives(arrival: Any) -> None:
        if any(target for target in arrival.partitions.values() if target and 4 in target):
            rates.append(settings_in(story.cluster).get(broker(4), {}).get(FOLLOWER_RATE))

    story.witness.arrivals.append(arrives)
    story.to_the_end()

    begun = [e for e in story.events if isinstance(e, StepBegun) and e.adding]
    assert len(begun) == 2
    assert rates[: len(begun)] == ["500000"] * 2
    assert any(type(event).__name__ == "SettingChanged" for event in story.events)


def _holds_an_alter(story: Story, seconds: float) -> list[tuple[float, State]]:
    """Have broker 9, suspended for `seconds`, hold the first alter.

    Returns the seconds when the alter was held and released, with the partition's state then."""
    on_its_way: list[asyncio.Task[None]] = []
    held: list[tuple[float, State]] = []

    async def holds(call: Call) -> Any:
        if held:
            return await call()
        held.append((story.clock.monotonic(), story.state("orders-0")))
        story.cluster.do(acts.Hang(9))

        async def late() -> None:
            await story.clock.sleep(seconds)
            story.cluster.do(acts.Resume(9))
            held.append((story.clock.monotonic(), story.state("orders-0")))
            await call()

        on_its_way.append(asyncio.create_task(late()))
        await story.clock.sleep(10.0)
        return dict.fromkeys(story.targets, WriteResult(Verdict.UNKNOWN, node=9))

    _writes(story, alter_reassignments=holds)
    return held


def a_suspended_broker_holds_an_alter(folder: Path) -> None:
    """The broker that holds the alter is suspended for 200 s; the run is stopped in that time."""
    story = Story(folder, ONE)
    held = _holds_an_alter(story, 200.0)
    story.asked(20.0, STOP)

    outcome = story.played(until_s=2_000.0)

    assert outcome.ended
    ended = next(entry for entry in story.entries() if isinstance(entry.event, Ended))
    assert isinstance(ended.event, Ended)
    ended_s = (ended.at - story.told_at(0)).total_seconds()
    assert len(held) == 2, "the request never arrived"
    came_s = held[1][0]
    assert ended_s > came_s or ended.event.open, f"it arrives {came_s - ended_s:.0f} s late"


def a_held_alter_arrives_after_all(folder: Path) -> None:
    """An alter is held for 100 s, and completes its partition, which had given up its place."""
    story = Story(folder, {"orders-0": (RF3, (1, 2))})
    held = _holds_an_alter(story, 100.0)

    outcome = story.played(until_s=600.0)

    assert held[1][1] is State.BLOCKED
    assert story.at_target("orders-0")
    assert outcome.ended, f"it stays {story.state('orders-0')}: {story.reason('orders-0')}"


def a_held_reorder_arrives_before_a_stop(folder: Path) -> None:
    """A reorder is held for 100 s, the run stopped at 60 s; the end reports the new order."""
    story = Story(folder, {"orders-0": (RF3, (2, 1, 3))})
    _holds_an_alter(story, 100.0)
    story.asked(60.0, STOP)

    assert story.played(until_s=600.0).ended
    track = story.folded.tracks[tp("orders-0")]
    assert track.state is State.STOPPED
    assert track.replicas == story.replicas(track.tp) == (2, 1, 3)


def a_partition_without_a_step_is_stopped(folder: Path) -> None:
    """A partition waits for a suspended broker, its place given up; it is stopped at 60 s."""
    story = Story(folder, {"orders-0": (RF3, (4, 5, 3))})
    held = _holds_an_alter(story, 200.0)
    story.asked(60.0, STOP)

    outcome = story.played(until_s=600.0)

    assert len(held) == 2, "it is called stopped, and its alter is to come"
    assert held[1][1] is not State.STOPPED, "it is called stopped, and its alter arrives"
    assert outcome.ended
    assert story.state("orders-0") is State.STOPPED


def a_step_at_a_silent_broker_is_rolled_back(folder: Path) -> None:
    """The alter never arrives: the broker dies with it, and comes back at 200 s."""
    story = Story(folder, {"orders-0": (RF3, (4, 5, 3))})
    held: list[float] = []

    async def holds(call: Call) -> Any:
        if held:
            return await call()
        held.append(story.clock.monotonic())
        story.cluster.do(acts.Kill(9))
        return dict.fromkeys(story.targets, WriteResult(Verdict.UNKNOWN, node=9))

    _writes(story, alter_reassignments=holds)
    story.schedule(200.0, acts.Start(9))
    story.asked(5.0, CancelMoves(CancelKind.ROLLBACK))

    assert story.played(until_s=600.0).ended, story.reason("orders-0")
    assert story.state("orders-0") is State.ROLLED_BACK


def a_list_is_held_while_processes_change(folder: Path) -> None:
    """A suspended broker holds a list's entry; the next process learns it only from the journal."""
    story = ThrottledStory(folder)
    entry = ConfigChange(topic("orders"), FOLLOWER_REPLICAS, ConfigOp.APPEND, "0:4")
    calls: list[float] = []

    async def holds(call: Call) -> Any:
        calls.append(story.clock.monotonic())
        if len(calls) != 2:
            return await call()
        story.cluster.do(acts.Hang(9))
        story.schedule(200.0, acts.Resume(9), acts.AlterConfigs((entry,)))
        return {topic("orders"): WriteResult(Verdict.UNKNOWN, node=9)}

    _writes(story, alter_configs=holds)
    story.played(until_s=15.0)
    story.resumed(until_s=700.0)
    story.clock.pass_time(300.0)
    story.cluster.catch_up()

    assert story.at_target("orders-0")
    left = settings_in(story.cluster).get(topic("orders"), {}).get(FOLLOWER_REPLICAS)
    assert not left, f"{left} stays on the list for good"


def a_rate_is_read_long_before_a_step_leaves(folder: Path) -> None:
    """Three times, settings take 3 s to read and connections 4 s to make."""
    story = ThrottledStory(folder)
    read_s: list[float] = [0.0]
    gaps: list[float] = []
    port = story.writer

    async def reads(call: Call) -> Any:
        asked_s = story.clock.monotonic()
        await story.clock.sleep(3.0 if len(gaps) < 3 else 0.0)
        answer = await call()
        read_s.append(asked_s)
        return answer

    class Connecting:
        def __getattr__(self, name: str) -> Any:
            return getattr(port, name)

        async def alter_reassignments(
            self, targets: Any, *, leaves_within_s: float, **how: Any
        ) -> Any:
            connects_s = 4.0 if len(gaps) < 3 else 0.0
            gaps.append(0.0)
            await story.clock.sleep(connects_s)
            if connects_s > leaves_within_s:
                raise TimedOut("sending", answer="no connection")
            gaps[-1] = story.clock.monotonic() - read_s[-1]
            return await port.alter_reassignments(targets, leaves_within_s=leaves_within_s, **how)

    _reads(story, settings=reads)
    connecting: Any = Connecting()
    story.writer = connecting
    story.played(until_s=300.0)

    assert story.at_target("orders-0")
    assert max(gaps) <= 5.0, f"a step left {max(gaps):.0f} s after its rate was read"


def the_journal_is_locked_before_a_rate_is_put_back(folder: Path) -> None:
    """After the rate was read, the journal is locked for 30 s, and somebody else sets a rate."""
    story = ThrottledStory(folder)
    theirs = ConfigChange(broker(4), FOLLOWER_RATE, ConfigOp.SET, "7000000")
    opened = story.opened

    def locked() -> Journal:
        journal = opened()
        append = journal.append

        def appended(events: Any) -> Any:
            rates = [e for e in events if isinstance(e, Configure) and e.puts_back]
            if any(change.resource == broker(4) for event in rates for change in event.changes):
                story.clock.pass_time(30.0)
                story.cluster.do(acts.AlterConfigs((theirs,)))
            return append(events)

        journal.append = appended  # type: ignore[method-assign]
        return journal

    story.opened = locked  # type: ignore[method-assign]
    assert story.played(until_s=600.0).ended

    left = settings_in(story.cluster).get(broker(4), {}).get(FOLLOWER_RATE)
    assert left == "7000000", f"somebody else's rate is {left}"


def a_topic_is_denied_in_the_middle_of_a_step(folder: Path) -> None:
    """Describe on the topic is withdrawn at 3 s; the stop is requested at 30 s."""
    story = Story(folder, ONE)

    async def denied(call: Call) -> Any:
        answer = await call()
        if not 3.0 < story.clock.monotonic() < 80.0:
            return answer
        partitions = {t: s for t, s in answer.partitions.items() if t.topic != "orders"}
        no = Failure(Operation.METADATA, "TOPIC_AUTHORIZATION_FAILED", topic="orders", denied=True)
        return type(answer)(partitions, answer.absent, (no,))

    _reads(story, describe_topics=denied)
    story.asked(30.0, STOP)

    assert story.played().ended

    assert any("AUTHORIZATION" in why for why in story.said("orders-0", State.STALLED))
    assert any("AUTHORIZATION" in why for why in story.said("orders-0", State.REFUSED))
    assert story.state("orders-0") is State.STOPPED


def throttles_are_given_up_while_settings_are_read(folder: Path) -> None:
    """At the end settings are unreadable, then slow to read; then an operator gives them up."""
    story = ThrottledStory(folder)

    async def told_late(call: Call) -> Any:
        if 15.0 < story.clock.monotonic() < 40.0:
            raise Unreachable("reading settings")
        answer = await call()
        if story.clock.monotonic() > 15.0:
            story.ask(LeaveThrottles())
            await story.clock.sleep(4.0)
        return answer

    _reads(story, settings=told_late)

    assert story.played(until_s=400.0).ended
    words = [each.answer.words for each in story.answers if each.answer is not None]
    assert any(each.startswith("left behind") for each in words)


def two_dead_runs_are_resumed_in_turn(folder: Path) -> None:
    """A died before it touched a rate; B set one and died. A must not be resumed before B."""
    state, cluster_id = StateDir(folder / "state"), started(1).cluster_id
    rated = ThrottleChanged(old=NO_THROTTLE, new=parse_throttle_rates("500kB"))
    for name, events in (("a", [*a_start(1), rated]), ("b", throttled())):
        written(state.create_run(name).journal, events).close()

    check_one_throttle(state, cluster_id, "b", resumed=True)
    try:
        check_one_throttle(state, cluster_id, "a", resumed=True)
    except RunRefused as refused:
        assert "ktui resume b" in str(refused)  # noqa: PT017 - the refusal is the point
    else:
        raise AssertionError("a is resumed, and takes the rate of b for what stood there before")


def the_folder_is_removed_while_it_runs(folder: Path) -> None:
    """Somebody removes the run's folder; nothing may be sent any more."""
    state = StateDir(folder / "state")
    run_dir = state.create_run("run")
    story = Story(run_dir.path, {"orders-0": (RF3, (4, 5, 6))})
    story.path = run_dir.journal
    departed: list[float] = []
    story.witness.departures.append(lambda each: departed.append(each.at_s))

    def removed() -> None:
        for file in (*run_dir.path.glob("*"), run_dir.path):
            file.rmdir() if file.is_dir() else file.unlink()

    story.cluster.at(5.0, removed)
    with own_run(run_dir) as owned:
        story.lost = owned.lost
        with suppress(RunProblem):
            story.played(until_s=200.0)

    assert departed
    assert max(departed) < 5.0, "it sends on without a folder"


def a_cancel_is_executed_twice(folder: Path) -> None:
    """A stalled step is cancelled; the broker sends the cancel to the new controller again."""
    ways = {"orders-0": (RF3, (4, 2, 3))}
    how: dict[str, Any] = {"on_stall": OnStall.CANCEL, "stall_timeout_s": 20.0}
    story = Story(folder, ways, **how)
    story.schedule(2.0, acts.Kill(4))

    async def twice(call: Call) -> Any:
        first = await call()
        return await call() if story.sent("orders-0")[-1:] == [None] else first

    _writes(story, alter_reassignments=twice)
    story.played(until_s=300.0)

    codes = {e.code for e in story.events if isinstance(e, Answered)}
    assert "NO_REASSIGNMENT_IN_PROGRESS" in codes
    assert story.state("orders-0") is State.BLOCKED, story.reason("orders-0")


def a_throttle_is_lifted_while_settings_are_sought(folder: Path) -> None:
    """The first read of a broker's settings takes 4 s; the throttle is lifted in that time."""
    story = ThrottledStory(folder)
    _slow(story, lambda: 4.0 if story.clock.monotonic() < 4.0 else 0.0, "settings")
    story.asked(1.0, SetThrottle(NO_THROTTLE))
    values: list[str | None] = []

    def arrives(arrival: Any) -> None:
        values.extend(c.value for changes in arrival.settings.values() for c in changes)

    story.witness.arrivals.append(arrives)
    assert story.played(until_s=400.0).ended

    assert "None" not in values
    assert story.at_target("orders-0")


def a_pause_is_asked_while_a_throttle_is_set(folder: Path) -> None:
    """The first read of a broker's settings takes 3 s; a pause is requested in that time."""
    story = ThrottledStory(folder)
    _slow(story, lambda: 3.0 if story.clock.monotonic() < 4.0 else 0.0, "settings")
    story.asked(1.5, Pause())

    story.played(until_s=60.0)

    assert story.sent("orders-0") == []
    (paused,) = story.answers
    assert paused.answer is not None
    assert paused.answer.accepted


def a_pause_is_asked_while_a_step_of_an_election_is_read_for(folder: Path) -> None:
    """Only the election of a preferred leader is left to do, and a list takes 3 s."""
    story = Story(folder, {"orders-0": (RF3, RF3)})
    story.already(acts.Kill(1), acts.Start(1))
    _slow(story, lambda: 3.0 if story.clock.monotonic() < 30.0 else 0.0, "list_reassignments")
    story.asked(4.5, Pause())

    story.played(until_s=60.0)

    (paused,) = story.answers
    assert paused.answer is not None
    assert paused.answer.accepted
    assert story.seconds(lambda event: isinstance(event, Elect)), "no election was ever due"
    assert story.witness.elections == []


def an_answer_that_reads_back_cannot_be_read(folder: Path) -> None:
    """A stopped step makes room for another; until 8 s the read of its list is unusable."""
    ways = {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (4, 2, 3))}
    story = ThrottledStory(folder, ways, limits=Limits(replicas=1, partitions=1))

    async def unreadable(call: Call) -> Any:
        answer = await call()
        if story.folded.tracks[tp("orders-1")].step is not None and story.clock.monotonic() < 8.0:
            raise KeyError("no such field")
        return answer

    _reads(story, settings=unreadable)
    story.asked(2.0, CancelMoves(CancelKind.STOP, partitions=(tp("orders-0"),)))

    assert story.played().ended

    assert story.begun_at("orders-1")[0] < 6.0, "what was read for orders-0 is too old to count"
    accepted = story.seconds(
        lambda event: (
            event.tp == tp("orders-1") and event.verdict is Verdict.ACCEPTED
            if isinstance(event, Answered) and event.request is Request.ALTER
            else False
        )
    )
    assert accepted[0] >= 8.0, "it leaves though nobody could read its list back"


def nothing_can_be_sent_for_ten_minutes(folder: Path) -> None:
    """Reads succeed, and no request leaves for ten minutes."""
    story = Story(folder, {f"orders-{n}": (RF3, (4, 2, 3)) for n in range(5)}, Limits(partitions=5))

    async def unreachable(_: Call) -> Any:
        raise Unreachable("altering reassignments")

    _writes(story, alter_reassignments=unreachable)
    story.played(until_s=600.0)

    assert len(story.entries()) < 330


def a_broker_that_has_a_request_never_comes_back(folder: Path) -> None:
    """The answer to the first alter is lost at broker 9, which is dead for good; P is 1."""
    story = Story(folder, {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (5, 2, 3))})
    lost: list[float] = []

    async def loses(call: Call) -> Any:
        if lost:
            return await call()
        lost.append(story.clock.monotonic())
        story.cluster.do(acts.Kill(9))
        return dict.fromkeys(story.targets, WriteResult(Verdict.UNKNOWN, node=9))

    _writes(story, alter_reassignments=loses)
    story.played(until_s=400.0)

    assert story.at_target("orders-1"), "it waits for the place of one that cannot go on"
    assert "broker 9" in story.reason("orders-0")
    assert story.state("orders-0") is State.BLOCKED


def somebody_sets_another_rate(folder: Path) -> None:
    """Under `hold` that broker gets no more replicas, others do; the run's rate can be set."""
    ways = {
        "orders-0": (RF3, (4, 2, 3)),
        "orders-1": (RF3, (4, 2, 3)),
        "orders-2": (RF3, (5, 2, 3)),
    }
    story = ThrottledStory(folder, ways, limits=Limits(replicas=1, partitions=1))
    theirs = ConfigChange(broker(4), FOLLOWER_RATE, ConfigOp.SET, "7000000")
    story.schedule(10.0, acts.AlterConfigs((theirs,)))
    story.asked(200.0, SetThrottle(parse_throttle_rates("500kB")))

    story.played(until_s=190.0)
    assert story.at_target("orders-2"), "it waits for a broker that it does not need"
    assert story.state("orders-1") is State.BLOCKED
    assert "7000000" in story.reason("orders-1")

    assert story.resumed(until_s=600.0).ended
    assert story.at_target("orders-1")


def an_operator_takes_a_rate_over(folder: Path) -> None:
    """Somebody sets another rate in the middle of a copy; the operator sets the run's again."""
    story = ThrottledStory(folder, cluster={"messages": 50_000})
    theirs = ConfigChange(broker(4), FOLLOWER_RATE, ConfigOp.SET, "300000")
    story.schedule(5.0, acts.AlterConfigs((theirs,)))
    story.asked(60.0, SetThrottle(parse_throttle_rates("2MB")))

    assert story.played().ended

    left = settings_in(story.cluster).get(broker(4), {}).get(FOLLOWER_RATE)
    assert left == "300000", f"somebody else's rate is {left}"


def a_budget_moves_a_rate_that_somebody_else_has_set(folder: Path) -> None:
    """Two brokers share a budget; somebody sets the rate of one, and the other's copy ends."""
    ways = {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (5, 2, 3))}
    limits = Limits(replicas=1, partitions=2)
    story = ThrottledStory(folder, ways, "total=800kB", limits=limits)
    theirs = ConfigChange(broker(4), FOLLOWER_RATE, ConfigOp.SET, "300000")
    story.schedule(6.0, acts.AlterConfigs((theirs,)))

    assert story.played().ended

    left = settings_in(story.cluster).get(broker(4), {}).get(FOLLOWER_RATE)
    assert left == "300000", f"somebody else's rate is {left}"


def a_broker_comes_back_with_an_empty_disk(_folder: Path) -> None:
    """Broker 3 catches up under rates and `*` lists that somebody has set by hand."""
    brokers = (1, 2, 3)
    rated = BrokerConfig(follower_throttle_rate=1_000_000, leader_throttle_rate=1_000_000)
    listed = TopicConfig(follower_throttled_replicas=ALL, leader_throttled_replicas=ALL)
    seen = msgspec.structs.replace(
        an_observation([a_partition(T0, replicas=brokers, isr=(1, 2))], 0.0),
        topic_configs={T0.topic: listed},
        broker_configs=dict.fromkeys(brokers, rated),
    )

    assert unneeded_throttles(seen, {}) == set(), "what protects its recovery counts as left behind"
