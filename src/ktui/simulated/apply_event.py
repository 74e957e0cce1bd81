"""Apply each kind of outside event to a simulated cluster."""

from __future__ import annotations

from ktui.simulated import events
from ktui.simulated.clock import ScheduledCall
from ktui.simulated.core import SimulatedCore
from ktui.simulated.events import OutsideEvent
from ktui.simulated.layout import Power

_ELECTION_S = 1.0
"""Seconds without a controller while another takes over."""

_NEEDS_CONTROLLER = (
    events.Alter
    | events.ElectLeaders
    | events.AlterConfigs
    | events.CreateTopic
    | events.DeleteTopic
    | events.Shutdown
    | events.FailLogDir
)


def apply_event(cluster: SimulatedCore, act: OutsideEvent) -> None:  # noqa: C901, PLR0912 - one line an event
    """Apply an event now; if it needs a controller, as soon as there is one."""
    if isinstance(act, _NEEDS_CONTROLLER) and cluster.now_s < cluster.controller_from_s:
        cluster.at(cluster.controller_from_s, lambda: apply_event(cluster, act))
        return
    match act:
        case events.Kill(broker):
            _fall_silent(cluster, broker, Power.DEAD)
        case events.Hang(broker):
            _fall_silent(cluster, broker, Power.HANGING)
        case events.Shutdown(broker):
            _shut_down(cluster, broker)
        case events.Start(broker):
            _start(cluster, broker)
        case events.Resume(broker):
            _resume(cluster, broker)
        case events.Slow(broker, share):
            cluster.replication.slow(broker, share)
        case events.FillDisk(broker, leave):
            cluster.replication.fill_disk(broker, leave)
        case events.FailLogDir(broker, path):
            _fail_log_dir(cluster, broker, path)
        case events.ChangeController():
            cluster.controller_from_s = cluster.now_s + _ELECTION_S
        case events.SetInbound(topic, inbound):
            cluster.replication.set_inbound(topic, inbound)
        case events.Append(tp, messages):
            cluster.replication.append(tp, messages)
        case events.CreateTopic(topic_spec):
            cluster.create_topic(topic_spec)
        case events.DeleteTopic(topic):
            cluster.controller.delete_topic(topic)
        case events.Alter(targets):
            cluster.controller.alter(targets, allow_replication_factor_change=True)
        case events.ElectLeaders(partitions):
            cluster.controller.elect(partitions)
        case events.AlterConfigs(changes):
            cluster.configure(changes)
        case events.LoseRequest() | events.LoseAnswer() | events.DelayRequest():
            cluster.mishaps.append(act)
        case events.Deny(call):
            cluster.denied.add(call)
        case events.Allow(call):
            cluster.denied.discard(call)


def _fail_log_dir(cluster: SimulatedCore, broker: int, path: str) -> None:
    if cluster.machines.power(broker) is not Power.UP:
        return
    if path == cluster.replication.log_dirs(broker).paths[0]:
        _fall_silent(cluster, broker, Power.DEAD)
    else:
        lost = cluster.replication.fail_log_dir(broker, path)
        cluster.controller.lose_log_dir(broker, path, lost)


def _fall_silent(cluster: SimulatedCore, broker: int, power: Power) -> None:
    """Stop a broker without a shutdown; the controller notices when the session times out."""
    machines = cluster.machines
    before = machines.power(broker)
    running = (Power.UP,) if power is Power.HANGING else (Power.UP, Power.HANGING, Power.STARTING)
    if before not in running:
        return
    if before is Power.UP:
        machines.silent_from_s[broker] = cluster.now_s
    spell = machines.turn(broker, power)
    cluster.replication.broker_down(broker)
    _after_session(cluster, broker, spell, lambda: cluster.controller.fence(broker))


def _after_session(cluster: SimulatedCore, broker: int, spell: int, action: ScheduledCall) -> None:
    """Run an action once a broker's session has ended, unless its power has changed by then."""
    if not cluster.machines.still(broker, spell):
        return
    end_s = cluster.session_end_s(broker)
    if cluster.now_s < end_s:
        cluster.at(end_s, lambda: _after_session(cluster, broker, spell, action))
    else:
        action()


def _shut_down(cluster: SimulatedCore, broker: int) -> None:
    """Move leadership off a broker and out of its ISRs, then stop it `shutdown_s` later.

    By then all brokers have learned of it.
    """
    machines, controller = cluster.machines, cluster.controller
    if machines.power(broker) is not Power.UP or controller.is_stopping(broker):
        return
    controller.controlled_shutdown(broker)
    spell = machines.turn(broker, Power.UP)
    if cluster.spec.shutdown_s > 0:
        cluster.at(cluster.now_s + cluster.spec.shutdown_s, lambda: _stop(cluster, broker, spell))
    else:
        _stop(cluster, broker, spell)


def _stop(cluster: SimulatedCore, broker: int, spell: int) -> None:
    """End a broker's shutdown once there is a controller, unless its power has changed by then."""
    if not cluster.machines.still(broker, spell):
        return
    if cluster.now_s < cluster.controller_from_s:
        cluster.at(cluster.controller_from_s, lambda: _stop(cluster, broker, spell))
        return
    cluster.machines.silent_from_s[broker] = cluster.now_s
    cluster.machines.turn(broker, Power.STOPPED)
    cluster.replication.broker_down(broker)
    cluster.controller.fence(broker)


def _start(cluster: SimulatedCore, broker: int) -> None:
    """Start a broker. It cannot register before its previous session has ended.

    Until then the controller takes it for a duplicate (DUPLICATE_BROKER_REGISTRATION).
    """
    before = cluster.machines.power(broker)
    if before is Power.UP and cluster.controller.is_stopping(broker):
        gone_s = max(cluster.now_s + cluster.spec.shutdown_s, cluster.controller_from_s)
        cluster.at(gone_s, lambda: _start(cluster, broker))
    if before not in (Power.STOPPED, Power.DEAD):
        return
    spell = cluster.machines.turn(broker, Power.STARTING)
    cluster.replication.log_dirs(broker).forget()
    ready_s = cluster.now_s + cluster.spec.startup_s

    def ready() -> None:
        if cluster.machines.still(broker, spell):
            _come_up(cluster, broker)

    def register() -> None:
        _register(cluster, broker, properly_stopped=before is Power.STOPPED)
        cluster.at(ready_s, ready)

    _after_session(cluster, broker, spell, register)


def _register(cluster: SimulatedCore, broker: int, *, properly_stopped: bool) -> None:
    """Register a broker, as an unclean start if it had not shut down properly (KIP-966)."""
    if properly_stopped:
        cluster.controller.clean_start(broker)
        return
    cluster.controller.fence(broker)
    cluster.controller.unclean_start(broker)


def _resume(cluster: SimulatedCore, broker: int) -> None:
    if cluster.machines.power(broker) is not Power.HANGING:
        return
    if cluster.controller.is_stopping(broker):
        _stop(cluster, broker, cluster.machines.turn(broker, Power.UP))
    else:
        _come_up(cluster, broker)


def _come_up(cluster: SimulatedCore, broker: int) -> None:
    spell = cluster.machines.turn(broker, Power.UP)
    cluster.replication.broker_up(broker)
    _unfence(cluster, broker, spell)


def _unfence(cluster: SimulatedCore, broker: int, spell: int) -> None:
    """Unfence a broker as soon as there is a controller, unless its power has changed by then."""
    if not cluster.machines.still(broker, spell):
        return
    if cluster.now_s < cluster.controller_from_s:
        cluster.at(cluster.controller_from_s, lambda: _unfence(cluster, broker, spell))
    else:
        cluster.controller.unfence(broker)
