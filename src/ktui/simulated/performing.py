"""How each act from outside works on a simulated cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktui.simulated import acts
from ktui.simulated.acts import Act
from ktui.simulated.machines import Power

if TYPE_CHECKING:
    from ktui.simulated.cluster import SimulatedCluster

_ELECTION_S = 1.0
"""How long a cluster is without a controller when another takes over."""


def perform(cluster: SimulatedCluster, act: Act) -> None:  # noqa: C901, PLR0912 - one line an act
    """Have an act happen now."""
    match act:
        case acts.Kill(broker):
            _fall_silent(cluster, broker, Power.DEAD)
        case acts.Hang(broker):
            _fall_silent(cluster, broker, Power.HANGING)
        case acts.Shutdown(broker):
            _shut_down(cluster, broker)
        case acts.Start(broker):
            _start(cluster, broker)
        case acts.Resume(broker):
            _resume(cluster, broker)
        case acts.Slow(broker, share):
            cluster.replication.slow(broker, share)
        case acts.FillDisk(broker, leave):
            cluster.replication.fill_disk(broker, leave)
        case acts.ChangeController():
            cluster.elect_controller(_ELECTION_S)
        case acts.SetInbound(topic, inbound):
            cluster.replication.set_inbound(topic, inbound)
        case acts.Append(tp, messages):
            cluster.replication.append(tp, messages)
        case acts.CreateTopic(topic_spec):
            cluster.create_topic(topic_spec)
        case acts.DeleteTopic(topic):
            cluster.controller.delete_topic(topic)
        case acts.Alter(targets):
            cluster.controller.alter(targets, allow_replication_factor_change=True)
        case acts.Elect(partitions):
            cluster.controller.elect(partitions)
        case acts.Configure(changes):
            cluster.configure(changes)
        case acts.LoseRequest() | acts.LoseAnswer() | acts.DelayRequest():
            cluster.mishaps.append(act)
        case acts.Deny(call):
            cluster.denied.add(call)
        case acts.Allow(call):
            cluster.denied.discard(call)


def _fall_silent(cluster: SimulatedCluster, broker: int, power: Power) -> None:
    """Stop a broker without a word; the controller learns it when the session times out."""
    was_up = cluster.machines.power(broker) is Power.UP
    spell = cluster.machines.turn(broker, power)
    cluster.replication.broker_down(broker)

    def fence() -> None:
        if cluster.machines.still(broker, spell):
            cluster.controller.fence(broker)

    if was_up:
        cluster.later(cluster.spec.session_timeout_s, fence)
    else:
        fence()


def _shut_down(cluster: SimulatedCluster, broker: int) -> None:
    if cluster.machines.power(broker) is not Power.UP:
        return
    cluster.controller.controlled_shutdown(broker)
    cluster.machines.turn(broker, Power.STOPPED)
    cluster.replication.broker_down(broker)
    cluster.controller.fence(broker)


def _start(cluster: SimulatedCluster, broker: int) -> None:
    """Start a broker; one that had not shut down properly registers as such (KIP-966)."""
    before = cluster.machines.power(broker)
    if before not in (Power.STOPPED, Power.DEAD):
        return
    spell = cluster.machines.turn(broker, Power.STARTING)
    if before is Power.STOPPED:
        cluster.controller.clean_start(broker)
    else:
        cluster.controller.unclean_start(broker)

    def ready() -> None:
        if cluster.machines.still(broker, spell):
            _come_up(cluster, broker)

    cluster.later(cluster.spec.startup_s, ready)


def _resume(cluster: SimulatedCluster, broker: int) -> None:
    if cluster.machines.power(broker) is Power.HANGING:
        _come_up(cluster, broker)


def _come_up(cluster: SimulatedCluster, broker: int) -> None:
    cluster.machines.turn(broker, Power.UP)
    cluster.replication.broker_up(broker)
    cluster.controller.unfence(broker)
