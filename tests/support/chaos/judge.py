"""What a run may never do, judged by the simulated controller and never by the run's own view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import replace

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import (
    ConfigChange,
    ConfigOp,
    ConfigResource,
    ConfigScope,
    Setting,
    SettingsAnswer,
)
from ktui.cluster.settings import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    SettingKey,
    broker_resource,
    parse_throttled_list,
    topic_resource,
)
from ktui.execution.run.events import (
    Answered,
    AnyRunEvent,
    Cancel,
    Configure,
    Configured,
    Elect,
    Ended,
    JournalEntry,
    LimitsChanged,
    Outage,
    Owned,
    Request,
    SettingChanged,
    SettingsFound,
    SettingsGivenUp,
    StepBegun,
)
from ktui.execution.run.options import OnForeignThrottle
from ktui.execution.run.states import State
from ktui.execution.run.track import Track
from ktui.execution.run.unanswered import MAY_COME_S
from ktui.simulated.controller.records import RecordChange, Registration
from support.chaos.faults import ENGINE, POLL, Poll
from support.chaos.waits import Waits
from support.rule_book import (
    against_cancel,
    cancel_loses,
    loses,
    may_still_come,
    not_as_begun,
    unthrottled,
    why_held,
)
from support.runs.witnessed import WitnessedRun
from support.simulated.witness import Arrival

STALE_S = 5.0  # the greatest age of a request's grounds, in seconds, when it leaves
UNSUPPORTED_S = 60.0
"""Seconds until a cluster that cannot prove fresh metadata is asked for it again."""
GIVEN_UP_S = 600.0
"""The longest time in seconds that a silent broker may hold back a stopped partition."""

QUIET_LOOKS, QUIET_S = 20, 90.0
"""Polls and seconds after which a partition that stands still must have a reason."""
LOOKS_A_CHECK = 5

MOVES, LAST, OTHERS, LOST = WINDOW = (
    "alter of what moves",
    "cancel with nothing else in sync",
    "alter of other replicas",
    "last copy in sync dropped",
)
"""Changes that are allowed between a request's read and its effect."""
LATE_ELECTION = "election after the end"
"""It elects the preferred leader, as Kafka's own rebalancing does, so nothing prevents it."""
ON_A_RESUME, ON_MORE = "throttled step after a resume", "throttled step after P was raised"
TAKEN_OVER, GIVEN_BACK = "rate of somebody else taken over", "rate of somebody else put back"

Partitions = Mapping[TopicPartition, Registration | None]
States = Mapping[TopicPartition, PartitionState]
Settings = Mapping[ConfigResource, Mapping[str, str]]
Targets = Mapping[TopicPartition, tuple[int, ...] | None]


class Seen(msgspec.Struct):
    """One read, and the controller's state when the read took effect."""

    what: str
    asked_s: float
    engine: int
    poll: Poll | None
    names: frozenset[str] = frozenset()
    fresh: bool = False
    partitions: Partitions = {}
    described: States = {}  # the partitions in the answer
    settings: Settings = {}
    read_s: float = 0.0
    answered: bool = False

    @property
    def known(self) -> bool:
        """Whether the engine has received the answer."""
        return self.answered and (self.poll is None or self.poll.over)


Grounds = Sequence[Seen]  # the reads that an engine knows at the moment when it sends

Check = TypeVar("Check", bound=Callable[..., Any])


def _kept(check: Check) -> Check:
    """Keep the failure of a check, as the engine treats an exception of a port as no answer."""

    @wraps(check)
    def checked(self: Judge, *args: Any, **how: Any) -> Any:
        try:
            return check(self, *args, **how)
        except AssertionError as wrong:
            self.wrong.append(wrong)
            raise

    return cast("Check", checked)


def _own(settings: Mapping[str, Setting]) -> dict[str, str]:
    """Return the settings that were set on the resource itself."""
    return {name: setting.own for name, setting in settings.items() if setting.own is not None}


class _OnItsWay(msgspec.Struct, eq=False):
    tp: TopicPartition
    target: tuple[int, ...] | None
    engine: int
    sent_s: float

    def __str__(self) -> str:
        return f"{self.target} of {self.sent_s:.1f} s"


class Judge:
    """Checks each request against earlier reads as it leaves, and against the end as it arrives.

    Attributes:
        wrong: every broken promise; the first one stops the run at its next event.
        disowned: by engine number, the second since which an engine no longer owns the run.
        changed_since: counts of changes between a request's read and its effect: the window.
    """

    def __init__(self, run: WitnessedRun, min_isr: int) -> None:
        self._run, self._min_isr = run, min_isr
        self.wrong: list[AssertionError] = []
        self._reads: list[Seen] = []
        self._unsupported_s = float("-inf")
        self.departed: set[tuple[TopicPartition, int]] = set()
        """The steps, by their number, whose first request has left."""
        self.ended: Ended | None = None
        self.told_to_leave: set[int] = set()  # the engines that have answered that they are leaving
        self.disowned: dict[int, float] = {}
        self._quiet: dict[TopicPartition, tuple[float, int]] = {}
        """Second and poll since which a partition could proceed and has no reason."""
        self.changed_since = Counter[str]()
        self.requests = Counter[str]()
        self._on_their_way: list[_OnItsWay] = []
        self._ours: dict[SettingKey, set[str]] = {}  # the values that were sent for each setting
        self._journaled: dict[SettingKey, str | None] = {}
        """What the journal says that somebody else last made of each rate."""
        self._theirs: set[SettingKey] = set()
        """The rates of others that came after the run's, and are journaled."""
        self.overwritten: dict[SettingKey, float] = {}
        """By setting, the second of others' last change that a request of the run met unseen.

        It came after the read on which the request rests, as Kafka has no compare-and-set."""
        self._putting_back: set[ConfigChange] = set()
        self._left_behind: set[tuple[ConfigResource, str]] = set()
        self._unanswered: set[tuple[ConfigResource, str]] = set()
        self._of_killed: set[tuple[ConfigResource, str]] = set()
        """The settings of which an engine died with a request that was not answered."""
        self._unanswered_moves: set[TopicPartition] = set()
        self._moved_by_killed: set[TopicPartition] = set()
        """The partitions of which an engine died with an alter or cancel that was not answered."""
        self.set_late: set[tuple[ConfigResource, str, str | None]] = set()
        """Values that late changes set, and may leave behind where there was nothing before."""
        self._next: set[str] = set()
        run.checks.append(self._written)
        run.witness.arrivals.append(self._arrives)
        run.witness.watchers.append(self._decided)

    def check(self) -> None:
        """Raise the first failure."""
        if self.wrong:
            raise self.wrong[0]

    @property
    def _now_s(self) -> float:
        return self._run.clock.monotonic()

    # ------------------------------------------------------------------ reads

    def listing(self) -> Seen:
        return self._asked("list")

    def describing(self, names: Collection[str], *, fresh: bool) -> Seen:
        seen = self._asked("describe")
        seen.names, seen.fresh = frozenset(names), fresh
        return seen

    def reading_settings(self) -> Seen:
        return self._asked("settings")

    def takes_effect(self, seen: Seen, answer: object) -> None:
        """Keep the controller's state now; for settings, the values in the answer."""
        controller = self._run.cluster.controller
        seen.read_s = self._now_s
        if isinstance(answer, SettingsAnswer):
            seen.settings = {each: _own(settings) for each, settings in answer.settings.items()}
        elif seen.what == "list":
            seen.partitions = {tp: controller.get(tp) for tp in self._run.folded.tracks}

    def answered(self, seen: Seen, described: States | None = None) -> None:
        seen.answered = True
        seen.described = described or {}

    def cannot_be_fresh(self) -> None:
        self._unsupported_s = self._now_s

    def _asked(self, what: str) -> Seen:
        now_s = self._now_s
        self._reads = [read for read in self._reads if now_s - read.asked_s <= 4 * STALE_S]
        seen = Seen(what, now_s, ENGINE.get(), POLL.get())
        self._reads.append(seen)
        return seen

    def _latest(self, grounds: Grounds, what: str, such: Callable[[Seen], bool]) -> Seen | None:
        """Return the last read of a kind, or None if it is not recent."""
        reads = [read for read in grounds if read.what == what and such(read)]
        last = max(reversed(reads), key=lambda read: read.asked_s, default=None)
        recent = last is not None and self._now_s - last.asked_s <= STALE_S + 1e-6
        return last if recent else None

    # -------------------------------------------------------------- departures

    @_kept
    def called(self) -> Grounds:
        """Note that a request begins now, and return the reads that it may rest on."""
        engine = ENGINE.get()
        assert engine not in self.disowned, f"engine {engine} sends, and does not own the run"
        assert engine == self._run.engines, f"engine {engine} sends beside {self._run.engines}"
        return [read for read in self._reads if read.known and read.engine == engine]

    @_kept
    def alter_leaves(self, targets: Targets, grounds: Grounds) -> None:
        """Check alters and cancels against their grounds, and against the answers to operators."""
        self._owned()
        for tp, target in targets.items():
            if target is None:
                self.requests["cancel"] += 1
                self._cancel_leaves(tp, grounds)
            else:
                self.requests["alter"] += 1
                self._alter_leaves(tp, target, grounds)

    def on_its_way(self, targets: Targets) -> Callable[[], None]:
        """Keep requests that have left; call the result once they have arrived or never will.

        An engine that was killed in between does not know which broker holds its request.
        """
        engine = ENGINE.get()
        sent = [_OnItsWay(tp, target, engine, self._now_s) for tp, target in targets.items()]
        self._on_their_way += sent

        def arrived() -> None:
            for each in sent:
                self._on_their_way.remove(each)

        return arrived

    def _read_of(self, tp: TopicPartition, grounds: Grounds) -> tuple[Registration, PartitionState]:
        """Return a partition by the last metadata, and by the list that was read before it.

        A topic that has just been deleted does not move, and a broker may still report it.
        """
        read = self._latest(grounds, "describe", lambda read: tp.topic in read.names)
        assert read, f"{tp} is altered, and no metadata was read for {STALE_S} s"
        listed = self._latest(grounds, "list", lambda each: each.asked_s <= read.asked_s)
        assert listed, f"{tp} is altered, and nothing was listed before that for {STALE_S} s"
        self._was_fresh(tp, read)
        known, state = listed.partitions.get(tp), read.described.get(tp)
        assert state is not None, f"{tp} is altered, and the last metadata lacks it"
        return known or Registration(state.replicas, state.isr, state.leader), state

    def _was_fresh(self, tp: TopicPartition, read: Seen) -> None:
        """Check that old metadata is used only if fresh metadata was requested in vain."""
        tried = any(
            each.fresh and each.engine == read.engine and tp.topic in each.names
            for each in self._reads
            if self._now_s - each.asked_s <= STALE_S + 1e-6
        )
        cannot = self._now_s - self._unsupported_s <= UNSUPPORTED_S + STALE_S
        assert read.fresh or tried or cannot, f"{tp} rests on metadata that may be old"

    def _cancel_leaves(self, tp: TopicPartition, grounds: Grounds) -> None:
        _, state = self._read_of(tp, grounds)
        last = self._latest(grounds, "list", lambda _: True)
        known = None if last is None else last.partitions.get(tp)
        assert known is not None, f"{tp} is cancelled, and was not listed for {STALE_S} s"
        assert known.reassigning, f"{tp} is cancelled, and is not being reassigned"
        moving = replace(state, adding=known.adding)
        assert not (why := cancel_loses(moving)), f"{tp}: {why}"

    def _alter_leaves(self, tp: TopicPartition, target: tuple[int, ...], grounds: Grounds) -> None:
        known, state = self._read_of(tp, grounds)
        self._may_be_met(tp, target)
        track = self._run.folded.tracks[tp]
        assert track.step is not None, f"{tp} is altered without a step"
        begun = track.step.begun
        now = replace(state, adding=known.adding, removing=known.removing)
        assert not (why := not_as_begun(now, begun.before)), f"{tp}: {why}"
        assert begun.replicas == target, f"{tp}: no intent for {target}"
        assert not track.step.cancelled_by_operator, f"{tp} is altered though it was cancelled"
        self._keeps_data(tp, track, target, state)
        self._not_being_left(tp)
        self._new_step(tp)
        for broker in begun.adding:
            self._throttled(tp, broker, grounds)

    def _may_be_met(self, tp: TopicPartition, target: tuple[int, ...]) -> None:
        """Check that no other alter of this engine for the partition may still arrive."""
        others = [each for each in self._on_their_way if each.tp == tp and each.target != target]
        mine = [str(each) for each in others if each.engine == ENGINE.get()]
        assert not mine, f"{tp} is altered to {target} while {mine} may arrive yet"

    def _keeps_data(
        self, tp: TopicPartition, track: Track, target: tuple[int, ...], state: PartitionState
    ) -> None:
        """Check an alter against the ISR that was read: if any member goes, enough stay in sync."""
        stays = {*state.isr} & {*target} or {*target} - {*state.replicas}
        assert stays, f"{tp} to {target}: no replica in sync stays of {state}"
        assert state.isr, f"{tp} is altered to {target} while none is in sync: {state}"
        goal = track.planned.target if track.cancel is None else track.original
        known = self._run.seen is not None and tp.topic in self._run.seen.topic_configs
        least = min(self._min_isr, len(goal)) if known else 1
        assert not (why := loses(state, target, least)), f"{tp}: {why}"

    @_kept
    def election_leaves(self, partitions: Collection[TopicPartition], grounds: Grounds) -> None:
        self._owned()
        for tp in partitions:
            self.requests["election"] += 1
            track = self._run.folded.tracks[tp]
            assert track.step is not None, f"{tp} is elected without a step"
            known, state = self._read_of(tp, grounds)
            assert not known.reassigning, f"{tp} is elected while it moves"
            leader = track.step.begun.elect
            assert state.replicas[0] == leader, f"{tp}: {leader} is not preferred: {state}"
            self._not_being_left(tp)
            if not track.step.begun.alters:
                self._new_step(tp)

    def _owned(self) -> None:
        """Check each request against the lock: the check before it left is at most 5 s old."""
        since_s = self.disowned.get(ENGINE.get())
        if since_s is not None:
            age_s = self._now_s - since_s
            assert age_s <= STALE_S, f"something is sent {age_s:.0f} s after the lock is gone"

    def _not_being_left(self, tp: TopicPartition) -> None:
        assert ENGINE.get() not in self.told_to_leave, f"{tp} is altered though the run is left"

    def _new_step(self, tp: TopicPartition) -> None:
        """Check the first request of a step against all answers to operators so far."""
        run, track = self._run.folded, self._run.folded.tracks[tp]
        if (tp, track.steps) in self.departed or track.step is None:
            return
        self.departed.add((tp, track.steps))
        begun = track.step.begun
        why = why_held(run, tp, adds=bool(begun.adding), decides=False)
        why = why or against_cancel(track.cancel, begun.before, begun.replicas, track.original)
        assert not why, f"a step of {tp} leaves: {why}"

    def _throttled(self, tp: TopicPartition, broker: int, grounds: Grounds) -> None:
        """Check a step that adds a replica against its promised rate, by the last read."""
        throttled, options = self._run.folded.throttled, self._run.options
        wanted = throttled.in_force.of(broker)
        if wanted is None:
            return
        machine, topic = broker_resource(broker), topic_resource(tp.topic)
        rate = self._latest(grounds, "settings", lambda read: machine in read.settings)
        listed = self._latest(grounds, "settings", lambda read: topic in read.settings)
        assert rate, f"{tp} onto {broker} at a rate that nobody has read"
        assert listed, f"{tp} onto {broker}, and nobody has read the list"
        allowed = {str(wanted)}
        if options.on_foreign_throttle is OnForeignThrottle.GO_ON:
            allowed |= {throttled.foreign.get((machine, FOLLOWER_RATE), "")}
        found = rate.settings[machine].get(FOLLOWER_RATE)
        there = parse_throttled_list(listed.settings[topic].get(FOLLOWER_REPLICAS, ""))
        assert not (why := unthrottled(tp, broker, there, found, allowed)), why
        self.requests.update(self._next)
        self._next.clear()

    @_kept
    def settings_leave(self, changes: Sequence[ConfigChange], grounds: Grounds) -> None:
        """Check changes of settings against what they replace, and whose it is."""
        self._owned()
        for change in changes:
            key = change.resource, change.key
            self.requests[f"settings {change.op}"] += 1
            assert change.value != "None", f"a rate of nothing is sent: {change}"
            left = key in self._left_behind and self._run.folded.over == len(self._run.targets)
            assert not left, f"{change} is sent though it was left behind"
            if change in self._putting_back:
                self._puts_back(change, grounds)
            elif change.value is not None:
                self._sets_a_rate(change, grounds)
                self._ours.setdefault(key, set()).add(change.value)

    def _sets_a_rate(self, change: ConfigChange, grounds: Grounds) -> None:
        """Check that a rate replaces only what was read for it, and is in the journal if theirs."""
        if change.resource.scope is not ConfigScope.BROKER:
            return
        key = change.resource, change.key
        read = self._latest(grounds, "settings", lambda read: change.resource in read.settings)
        assert read, f"{change} replaces what nobody has read"
        found, mine = read.settings[change.resource].get(change.key), self._ours.get(key, set())
        known = found in mine or found == self._journaled.get(key)
        assert known, f"{change} replaces {found} of somebody else, which is not in the journal"
        self.requests[TAKEN_OVER] += found is not None and key in self._theirs

    def _puts_back(self, change: ConfigChange, grounds: Grounds) -> None:
        resource, key = change.resource, change.key
        read = self._latest(grounds, "settings", lambda read: resource in read.settings)
        assert read, f"{change} puts back what nobody has read"
        found = read.settings[resource].get(key)
        is_rate = resource.scope is ConfigScope.BROKER
        mine = self._ours.get((resource, key), set()) if is_rate else {""}
        assert found in mine, f"{change} puts back in place of {found}, which is not the run's"
        self.requests[GIVEN_BACK] += change.value is not None and (resource, key) in self._theirs

    def met_unseen(
        self,
        changes: Sequence[ConfigChange],
        grounds: Grounds,
        changed_s: Mapping[SettingKey, float],
    ) -> None:
        """Note, as changes arrive, others' last changes that came after the reads for them."""
        for change in changes:
            key, resource = (change.resource, change.key), change.resource
            reads = [r for r in grounds if r.what == "settings" and resource in r.settings]
            read_s = max((read.read_s for read in reads), default=0.0)
            if change.op in (ConfigOp.SET, ConfigOp.DELETE) and changed_s.get(key, -1.0) >= read_s:
                self.overwritten[key] = changed_s[key]

    # --------------------------------------------------------------- standstill

    @_kept
    def looked(self) -> None:
        """Check that each partition proceeds or has a reason after a while."""
        if self._run.looks % LOOKS_A_CHECK:
            return
        still = dict.fromkeys(self._silent_steps(), "its step is not listed, without a word")
        still |= dict(Waits(self._run, self._min_isr).unexplained(at_rest=False))
        quiet: dict[TopicPartition, tuple[float, int]] = {}
        for tp, why in still.items():
            since_s, look = self._quiet.get(tp, (self._now_s, self._run.looks))
            quiet[tp] = (since_s, look)
            long = self._run.looks - look >= QUIET_LOOKS and self._now_s - since_s >= QUIET_S
            assert not long, f"{tp} stands still for {self._now_s - since_s:.0f} s: {why}"
        self._quiet = quiet

    def _silent_steps(self) -> list[TopicPartition]:
        """Return the partitions in flight that are not being reassigned and have no reason."""
        moving = self._run.cluster.controller.reassigning.keys()
        flying = self._run.folded.tracks_in_flight.items()
        return [tp for tp, track in flying if not track.reason and tp not in moving]

    # ----------------------------------------------------------------- arrivals

    @_kept
    def arrives(self, tp: TopicPartition, target: tuple[int, ...] | None, sent_s: float) -> None:
        """Check an alter of the run's present engine against the answers to operators."""
        track, known = self._run.folded.tracks[tp], self._run.cluster.controller.get(tp)
        settled = track.state in {State.STOPPED, State.ROLLED_BACK}
        changes = known is not None and (known.reassigning or known.replicas != target)
        late_s = self._now_s - sent_s
        if settled and changes and target is not None and ENGINE.get() == self._run.engines:
            assert late_s >= GIVEN_UP_S, f"{tp} is {track.state}, and an alter to {target} arrives"

    def settings_arrive(self, changes: Sequence[ConfigChange], sent_s: float) -> None:
        """Note the values of a change that nobody waits for any more: see docs/runs.md."""
        if self._now_s - sent_s >= MAY_COME_S:
            for change in changes:
                left = "" if change.op is ConfigOp.SUBTRACT else change.value
                self.set_late.add((change.resource, change.key, left))

    @_kept
    def _arrives(self, arrival: Arrival) -> None:
        # Which broker has the request of a killed engine nobody knows: see docs/runs.md.
        killed = ENGINE.get() != self._run.engines
        if self.ended is not None:
            named = may_still_come(self.ended)
            named |= self._moved_by_killed if killed else set()
            for tp, target in arrival.partitions.items():
                if target == ():  # see execution/run/unanswered.py
                    self.changed_since[LATE_ELECTION] += 1
                else:
                    assert tp in named, f"{tp}: {arrival} arrives after an end without its name"
            kept = {
                (each.resource, each.key) for some in arrival.settings.values() for each in some
            }
            # An operator who leaves a setting behind does not wait for a request about it either.
            excused = self._left_behind | (self._of_killed if killed else set())
            assert kept <= excused, f"{arrival} arrives after the end"
        for tp, target in arrival.partitions.items():
            known = self._run.cluster.controller.get(tp)
            step = self._run.folded.tracks[tp].step
            if known is None:
                continue
            if target is None and known.reassigning:
                self.changed_since[LAST] += not {*known.isr} - {*known.adding}
            elif target and known.reassigning:
                ours = step is not None and {*step.begun.adding} >= {*known.adding}
                self.changed_since[MOVES] += not ours
            elif target and step is not None and step.begun.replicas == target:
                self.changed_since[OTHERS] += known.replicas not in (step.begun.before, target)

    def _decided(self, change: RecordChange) -> None:
        """Count lost copies if all has changed between a request's read and its effect."""
        if self._run.witness.acts and change.before is not None and change.after is not None:
            lost = change.before.isr and not {*change.before.isr} & {*change.after.isr}
            self.changed_since[LOST] += bool(lost)

    def _written(self, written: Sequence[JournalEntry]) -> None:
        self.check()
        for entry_ in written:
            self._hear(entry_.event)
            self._await_answers(entry_.event)
            match entry_.event:
                case Ended() as ended:
                    self.ended = ended
                case StepBegun() | Cancel() | Elect():
                    assert self.ended is None or self._reopened, "an intent after the end"
                case Configure(puts_back=puts_back, changes=changes):
                    self._putting_back.difference_update(changes)
                    self._putting_back.update(changes if puts_back else ())
                case SettingsGivenUp(reason=reason) as left if reason.startswith("left behind"):
                    self._left_behind |= {(left.resource, key) for key in left.keys}
                case Owned() if self._run.engines > 1:
                    self._next.add(ON_A_RESUME)
                case LimitsChanged(old=old, new=new) if old.partitions is not None:
                    if new.partitions is None or new.partitions > old.partitions:
                        self._next.add(ON_MORE)

    def _hear(self, event: AnyRunEvent) -> None:
        """Note others' rates; restart the standstill count of partitions paused for a reason."""
        match event:
            case StepBegun():  # other partitions have had their turn
                flying = self._run.folded.tracks_in_flight
                self._quiet = {tp: since for tp, since in self._quiet.items() if tp in flying}
            case Owned() | Outage():
                self._quiet = {}
            case SettingsFound(found=found):
                self._journaled |= {
                    (each.resource, each.key): None if each.before is None else each.before.own
                    for each in found
                }
            case SettingChanged(resource=resource, key=key, found=now):
                self._journaled[resource, key] = now
                self._theirs.add((resource, key))

    def _await_answers(self, event: AnyRunEvent) -> None:
        """Note which requests an engine has left unanswered at its death."""
        match event:
            case StepBegun(alters=True) | Cancel():
                self._unanswered_moves.add(event.tp)
            case Answered(request=Request.ALTER | Request.CANCEL):
                self._unanswered_moves.discard(event.tp)
            case Configure(changes=changes):
                self._unanswered |= {(each.resource, each.key) for each in changes}
            case Configured(resource=resource):
                self._unanswered -= {key for key in self._unanswered if key[0] == resource}
            case Owned():
                self._of_killed |= self._unanswered
                self._moved_by_killed |= self._unanswered_moves
                self._unanswered, self._unanswered_moves = set(), set()

    @property
    def _reopened(self) -> bool:
        return not self._run.folded.ended
