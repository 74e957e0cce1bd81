"""The record that a partition begins with."""

from __future__ import annotations

from ktui.cluster.ports import WriteResult
from ktui.simulated.controller.altering import Assignable, request_move
from ktui.simulated.controller.answers import all_brokers_down
from ktui.simulated.controller.registration import Registration
from ktui.simulated.layout import TopicSpec


def first_record(
    topic: TopicSpec, partition: int, brokers: Assignable
) -> Registration | WriteResult:
    """Return the record of a partition when its topic is created, or Kafka's refusal.

    Replicas that are up are in sync, and the first of them leads, unless the topic says otherwise.
    """
    replicas, start, members = topic.replicas[partition], topic.start, brokers.members
    isr = start.isr.get(partition) or tuple(filter(members.may_lead, replicas))
    if not isr:
        return all_brokers_down(partition)
    able = [b for b in (*replicas, *isr) if b in isr and members.may_lead(b)]
    leader = start.leaders.get(partition, able[0] if able else None)
    known = Registration(replicas, isr, leader)
    target = start.reassigning.get(partition)
    if target is None:
        return known
    wish = request_move(known, target, brokers, guarded=False)
    if isinstance(wish, WriteResult):
        return wish
    moving, adding, removing = wish.replicas or replicas, wish.adding or (), wish.removing or ()
    return Registration(moving, isr, leader, adding=adding, removing=removing)
