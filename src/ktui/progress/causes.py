"""Why a replica makes no headway: the first cause in the observation, most specific first."""

from __future__ import annotations

from ktui.cluster.partition import PartitionState
from ktui.progress.catchup import CatchUp
from ktui.progress.memory import StillClock, falling_behind, stalled, starved
from ktui.progress.poll import Poll
from ktui.progress.throttle import format_rate
from ktui.progress.timeline import Cause, Stall, StallKind

_ADVICE = {
    Cause.TARGET_DOWN: "Start broker {broker}, or cancel the reassignment{key}.",
    Cause.LOG_DIR_OFFLINE: (
        "Mend or replace the log dir of broker {broker} and restart it, or cancel the"
        " reassignment{key}."
    ),
    Cause.KEPT_OUT_OF_SYNC: (
        "Bring broker {broker} back into the ISR: before Kafka 4.3 the reassignment cannot"
        " complete without it."
    ),
    Cause.NO_LEADER: "Start a broker of the ISR: without a leader there is nothing to copy from.",
    Cause.THROTTLED: (
        "Raise the throttle: of a run by t or ktui throttle, else"
        " follower.replication.throttled.rate on broker {broker}, and the leader's."
    ),
    Cause.NOT_FETCHING: (
        "Look for fetcher errors in the log of broker {broker}; restart it if its fetcher has died."
    ),
    Cause.UNKNOWN: "Look into the logs of broker {broker} and of the leader.",
}


def advice(cause: Cause, broker: int, cancel_key: str = "") -> str:
    """Return what the operator can do about a stall of a replica on a broker."""
    return _ADVICE[cause].format(broker=broker, key=f" ({cancel_key})" if cancel_key else "")


def copy_blocker(state: PartitionState, broker: int, poll: Poll) -> tuple[Cause, str] | None:
    """Return why the replica cannot copy, if the observation itself shows it."""
    if broker not in poll.alive:
        return Cause.TARGET_DOWN, f"broker {broker} is down"
    if broker in state.offline:
        return _log_dir_offline(broker, poll)
    if state.described and state.leader is None:
        return Cause.NO_LEADER, "no leader to copy from"
    return None


def replica_stall(
    state: PartitionState,
    broker: int,
    catch_up: CatchUp,
    poll: Poll,
    hindered: tuple[Cause, str] | None,
    before: Stall | None = None,
) -> Stall | None:
    """Judge one adding replica."""
    still, rising_s = catch_up.memory.still, catch_up.memory.rising_s
    is_stalled = stalled(still)
    if hindered is not None:
        kind = StallKind.STALLED if is_stalled else StallKind.WAITING
        return Stall(kind, hindered[0], still.since_s, broker, hindered[1])
    starving_s = catch_up.memory.starving_s
    if starved(starving_s) or (is_stalled and starving_s):
        bound = poll.throttles.starving(state, broker, already=True)
        if bound is not None:
            bound = bound.steadied(None if before is None else before.demand)
        detail, demand = ("", None) if bound is None else (bound.too_low, bound.demand)
        since_s = poll.now_s - starving_s
        return Stall(StallKind.FALLING_BEHIND, Cause.THROTTLED, since_s, broker, detail, demand)
    shared = poll.throttles.in_use(state, broker) if is_stalled else None
    if is_stalled and shared is None:
        cause, detail = _of_stalled(state, broker, poll)
        return Stall(StallKind.STALLED, cause, still.since_s, broker, detail)
    if falling_behind(rising_s) and shared is None:
        detail, since_s = _of_falling(catch_up), poll.now_s - rising_s
        return Stall(StallKind.FALLING_BEHIND, Cause.UNKNOWN, since_s, broker, detail)
    if shared is not None:
        detail = f"waits for its turn: {shared.detail}"
        return Stall(StallKind.WAITING, Cause.THROTTLED, still.since_s, broker, detail)
    return None


def uncompleted_stall(state: PartitionState, clock: StillClock, poll: Poll) -> Stall | None:
    """Judge a reassignment that is still listed although every adding replica is in sync."""
    if not stalled(clock):
        return None
    out = state.out_of_sync
    if out:
        down = " and down" if out[0] not in poll.alive else ""
        detail = f"broker {out[0]} is out of the ISR{down}"
        return Stall(StallKind.STALLED, Cause.KEPT_OUT_OF_SYNC, clock.since_s, out[0], detail)
    broker = (*state.adding, *state.removing)[0]
    detail = "all in sync, yet not completed"
    return Stall(StallKind.STALLED, Cause.UNKNOWN, clock.since_s, broker, detail)


def _of_stalled(state: PartitionState, broker: int, poll: Poll) -> tuple[Cause, str]:
    if broker in poll.failed_dirs:
        return _log_dir_offline(broker, poll)
    if state.leader is None:
        return Cause.UNKNOWN, ""
    bound = poll.throttles.binding(state, broker)
    if bound is None:
        return Cause.NOT_FETCHING, f"broker {broker} does not fetch from {state.leader}"
    if bound.slower_than_a_fetch:
        return Cause.THROTTLED, bound.detail
    return Cause.UNKNOWN, f"cause unknown ({bound.detail})"


def _log_dir_offline(broker: int, poll: Poll) -> tuple[Cause, str]:
    path = poll.failed_dirs.get(broker)
    # Without a failed log dir, the broker may be going down: metadata can know it before the
    # list of brokers, which is read first.
    which = f"log dir {path}" if path else "its replica"
    return Cause.LOG_DIR_OFFLINE, f"{which} on broker {broker} is offline"


def _of_falling(catch_up: CatchUp) -> str:
    copied, inbound = catch_up.bytes_s, catch_up.inbound_bytes_s
    if copied is None or inbound is None:
        return ""
    return f"{format_rate(copied)} copied, {format_rate(inbound)} in"
