"""Past defects around an await, each with a story that shows that it is fixed.

`put_back` restores a defect by replacing the function that fixes it. So tests can show that the
story, or the seeds, would find the defect again.
"""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

from ktui.cluster import settings as cluster_settings
from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigResource, ConfigScope, WriteResult
from ktui.cluster.settings import parse_throttled_list
from ktui.execution.engine import in_flight, requests
from ktui.execution.engine.between_steps import BetweenSteps
from ktui.execution.engine.decider import Decider
from ktui.execution.engine.engine import EventRecorder
from ktui.execution.engine.in_flight import StepsInFlight
from ktui.execution.engine.observed import Observed
from ktui.execution.engine.requests import LastCheck
from ktui.execution.engine.working_state import AnswerHandler, Hold, NodeProbe, WorkingState
from ktui.execution.host import catalog
from ktui.execution.run import run
from ktui.execution.run.events import AnyRunEvent, Configured, SettingChanged
from ktui.execution.run.throttle_ledger import ThrottleLedger
from ktui.execution.run.track import Track
from ktui.execution.throttle import write_settings
from ktui.execution.throttle.apply import ThrottleManager
from ktui.execution.throttle.write_settings import FOUND_STALE_S, SettingsWriter
from ktui.pacing.situation import Situation
from support.chaos import stories


class Defect(msgspec.Struct, frozen=True):
    """One defect, and how to restore it."""

    name: str
    symptom: str
    mended_by: str
    story: Callable[[Path], None]  # fails while the defect is there
    puts_back: tuple[Any, str, Any]
    """The module or class, the name of the fix in it, and the replacement."""


@contextmanager
def put_back(defect: Defect) -> Iterator[None]:
    """Restore a defect inside a `with` block."""
    with mock.patch.object(*defect.puts_back):
        yield


def _trusts_its_knowledge(
    self: ThrottleManager, seen: Observation, adding: Collection[TopicPartition]
) -> Any:
    """Assume that every setting is as the run has set it."""

    async def nothing() -> None:
        now_s = self._clock.monotonic()
        self._read_back_s |= dict.fromkeys(self._due(seen).promised(adding), now_s)

    return nothing()


async def _tightens_by_one_due(
    self: ThrottleManager, seen: Observation, adding: Collection[TopicPartition]
) -> None:
    """Compute what is due only once, before anything is awaited."""
    due = self._due(seen)
    await self._settings.find(due.unread())
    await self._settings.change(list(due.rates()))
    await self._settings.change(list(due.additions()))
    await self._read_back(seen, adding)


async def _puts_back_by_old_keys(self: ThrottleManager, keys: Collection[Any]) -> None:
    """Assume that settings are still the run's after they have been read."""
    found = await self._settings.read(keys)
    changes = [self._putting_back(key, now) for key, now in found.items()]
    await self._settings.change([change for change in changes if change], puts_back=True)


def _rests_a_second(
    self: AnswerHandler, tp: TopicPartition, _result: WriteResult, _tries: int, now_s: float
) -> None:
    self._retry_at[tp] = now_s + 1.0


def _files_what_is_done(
    self: BetweenSteps, track: Track, situation: Situation, _look: Observed
) -> list[AnyRunEvent]:
    """Note the situation of a held partition, and report nothing if it has ended."""
    if track.tp not in self._memory.unanswered:
        self._memory.release(track.tp, Hold.UNANSWERED)
    if track.tp not in self._memory.held(Hold.UNANSWERED):
        return self._record(track, situation)
    self._memory.roster.seen(track.tp, situation)
    return self._memory.hold_unanswered(track)


class _Nothing:
    """A type that no next step has."""


def _answers_without_a_node(resource: ConfigResource, result: WriteResult) -> Configured:
    return Configured(resource=resource, verdict=result.verdict, code=result.code)


_sent = SettingsWriter._sent


async def _changes_and_forgets_nothing(
    self: ThrottleManager,
    changes: Sequence[ConfigChange],
    *,
    begins_step: bool,
    leaves_within_s: float = FOUND_STALE_S,
) -> None:
    await self._settings.change(changes, begins_step=begins_step, leaves_within_s=leaves_within_s)


async def _sends_what_was_read_once(
    self: SettingsWriter, changes: Sequence[ConfigChange], _leaves_within_s: float
) -> dict[ConfigResource, WriteResult]:
    return await _sent(self, changes, FOUND_STALE_S)


def _keeps_what_was_found_first(self: ThrottleLedger, event: SettingChanged) -> None:
    """Note that somebody else has set a rate, and restore the one from before the run."""
    key, found = (event.resource, event.key), event.found
    ours = self.ours.get(key)
    self.foreign.pop(key, None)
    if ours is None or ours.unsure:  # the operator takes over
        return
    is_list = event.resource.scope is ConfigScope.TOPIC
    present = parse_throttled_list(found or "") if is_list else {found}
    if not is_list and found is not None and found not in ours.values:
        self.foreign[key] = found
    else:
        kept = frozenset(value for value in ours.values if value in present)
        self.ours[key] = msgspec.structs.replace(ours, values=kept)


async def _looks_at_nothing(manager: Any, seen: Any) -> set[Any]:
    """Take every rate that is to be changed for one that was read."""
    return {(change.resource, change.key) for change in manager._due(seen).rates()}


DEFECTS = (
    Defect(
        "a cancel by an old look",
        "stop drops the only in-sync copy: acknowledged records are lost",
        "in_flight.may_cancel judges by a list and metadata read for the cancel",
        stories.originals_die_while_a_poll_is_pending,
        (in_flight, "may_cancel", lambda track, _look: track.step is not None),
    ),
    Defect(
        "an alter by an old look",
        "somebody's reassignment that came after the list was read is overridden",
        "requests.why_not_sent holds each alter to a list read for it",
        stories.somebody_alters_while_metadata_is_read,
        (requests, "why_not_sent", lambda *_: None),
    ),
    Defect(
        "rates deleted by others",
        "after kafka-reassign-partitions --verify the rest of the run goes unthrottled",
        "ThrottleManager._read_back reads the rates of a step's brokers before it is sent",
        stories.somebody_deletes_the_rates,
        (ThrottleManager, "_read_back", _trusts_its_knowledge),
    ),
    Defect(
        "a request in a suspended broker",
        "an alter arrives at 200 s on a run that has ended as stopped",
        "Unanswered waits until the broker that has the request answers something",
        stories.a_suspended_broker_holds_an_alter,
        (NodeProbe, "heard", lambda *_: float("inf")),
    ),
    Defect(
        "a topic denied in the middle of a step",
        "the step stays adding without a reason; a stop is neither sent nor refused",
        "StepsInFlight._undescribed reports that the cluster does not describe it",
        stories.a_topic_is_denied_in_the_middle_of_a_step,
        (StepsInFlight, "_undescribed", lambda *_: []),
    ),
    Defect(
        "throttles given up while settings are read",
        "KeyError, and no end of the run",
        "ThrottleManager._put_back goes by what is the run's after the read",
        stories.throttles_are_given_up_while_settings_are_read,
        (ThrottleManager, "_put_back", _puts_back_by_old_keys),
    ),
    Defect(
        "two dead runs resumed in turn",
        "the rate of one run stays on a broker for good, as what stood there before the other",
        "catalog.refuse_second_throttle keeps the order in which runs touch a broker's rate",
        stories.two_dead_runs_are_resumed_in_turn,
        (catalog, "refuse_second_throttle", lambda *_, **__: None),
    ),
    Defect(
        "a run whose folder is gone",
        "the engine sends on, without anybody able to see or stop it",
        "EventRecorder.check_owned compares what is held with what is there",
        stories.the_folder_is_removed_while_it_runs,
        (EventRecorder, "check_owned", lambda *_: None),
    ),
    Defect(
        "an own cancel executed twice",
        "NO_REASSIGNMENT_IN_PROGRESS is taken for somebody else's cancel; the partition is lost",
        "Run counts a cancel that found nothing to cancel as asked for",
        stories.a_cancel_is_executed_twice,
        (run, "means", lambda *_: False),
    ),
    Defect(
        "a throttle lifted while settings are sought",
        "a rate of None is sent (INVALID_REQUEST)",
        "ThrottleManager.tighten works out what is due after each read",
        stories.a_throttle_is_lifted_while_settings_are_sought,
        (ThrottleManager, "tighten", _tightens_by_one_due),
    ),
    Defect(
        "a pause while a throttle is set",
        "a pause is answered, and then an alter leaves",
        "LastCheck._forbidden holds what was paused since it was decided",
        stories.a_pause_is_asked_while_a_throttle_is_set,
        (LastCheck, "_forbidden", lambda *_: {}),
    ),
    Defect(
        "a broker that has a request and is gone",
        "its partition keeps its place for good, and nothing else of the run begins",
        "WorkingState.yields_place gives the place up once the broker is silent for 30 s",
        stories.a_broker_that_has_a_request_never_comes_back,
        (WorkingState, "yields_place", lambda *_: False),
    ),
    Defect(
        "a rate of somebody else on one broker",
        "partitions that do not need that broker wait for a place, without a reason",
        "Decider._no_throttle_reason holds those whose throttle cannot be set, and lets others go",
        stories.somebody_sets_another_rate,
        (Decider, "_no_throttle_reason", lambda *_: None),
    ),
    Defect(
        "a writer that cannot be reached",
        "108,000 events an hour in the journal",
        "AnswerHandler._back_off leaves a partition alone for longer each time",
        stories.nothing_can_be_sent_for_ten_minutes,
        (AnswerHandler, "_back_off", _rests_a_second),
    ),
    Defect(
        "a held alter that arrives after all",
        "its partition, at its target, stays blocked for good, and the run never ends",
        "BetweenSteps._hold_back reports the end of a partition also while it is held",
        stories.a_held_alter_arrives_after_all,
        (BetweenSteps, "_hold_back", _files_what_is_done),
    ),
    Defect(
        "a stop of a partition whose request is open",
        "it is called stopped at once, and a minute later its alter arrives",
        "requeue_cancelled has it wait as a step in flight does, by hold_unanswered",
        stories.a_partition_without_a_step_is_stopped,
        (WorkingState, "hold_unanswered", lambda *_: []),
    ),
    Defect(
        "a rollback of a step that a silent broker has",
        "it stays refused for good, also once that broker has answered",
        "StepsInFlight._end_step keeps a step that nothing follows until its request cannot come",
        stories.a_step_at_a_silent_broker_is_rolled_back,
        (in_flight, "Done", _Nothing),
    ),
    Defect(
        "a pause while a step of an election is read for",
        "the election is held back once, and leaves two seconds later all the same",
        "AnswerHandler._not_elected gives a step up of which nothing has left",
        stories.a_pause_is_asked_while_a_step_of_an_election_is_read_for,
        (AnswerHandler, "_not_elected", lambda *_: []),
    ),
    Defect(
        "a list read back before the run's own change of it",
        "a step leaves on the grounds of what was read before its entry was put in",
        "ThrottleManager._change forgets what was read of a setting before it is changed",
        stories.an_answer_that_reads_back_cannot_be_read,
        (ThrottleManager, "_change", _changes_and_forgets_nothing),
    ),
    Defect(
        "a change of settings held while processes change",
        "an entry comes back onto a throttled list after the run has ended",
        "Configured.node keeps the broker that has the change in the journal",
        stories.a_list_is_held_while_processes_change,
        (write_settings, "_answer", _answers_without_a_node),
    ),
    Defect(
        "a rate read long before its step leaves",
        "a step leaves 7 s after its brokers' rates were read back",
        "ThrottleManager.holds_for_s bounds how long a request may take to leave",
        stories.a_rate_is_read_long_before_a_step_leaves,
        (ThrottleManager, "holds_for_s", lambda *_: math.inf),
    ),
    Defect(
        "a journal locked before a rate is put back",
        "somebody else's rate, set meanwhile, is deleted",
        "SettingsWriter.change counts the time that its journal takes",
        stories.the_journal_is_locked_before_a_rate_is_put_back,
        (SettingsWriter, "_sent", _sends_what_was_read_once),
    ),
    Defect(
        "somebody else's rate taken over",
        "it is deleted at the end of the run, and their move goes on at full speed",
        "ThrottleLedger._changed_by_others keeps what others last made of a rate",
        stories.an_operator_takes_a_rate_over,
        (ThrottleLedger, "_changed_by_others", _keeps_what_was_found_first),
    ),
    Defect(
        "somebody else's rate moved by a budget",
        "it is replaced unseen, and deleted at the end of the run",
        "ThrottleManager._look_at_rates reads a rate before it is set again",
        stories.a_budget_moves_a_rate_that_somebody_else_has_set,
        (ThrottleManager, "_look_at_rates", _looks_at_nothing),
    ),
    Defect(
        "throttles that protect a recovering broker",
        "ktui doctor --clear-throttles removes them, as nothing is being reassigned",
        "settings.CatchingUp counts what binds a replica out of sync as in use",
        stories.a_broker_comes_back_with_an_empty_disk,
        (cluster_settings, "_bound_by", lambda *_, **__: iter(())),
    ),
)
