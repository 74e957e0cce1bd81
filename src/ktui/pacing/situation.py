"""Where one partition stands on its way to its final target, and what may come next."""

from __future__ import annotations

import enum

import msgspec

Brokers = tuple[int, ...]


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """One partition as it is, and what the plan asks of it.

    Beside KIP-435's words in brackets: the missing are those of FTR that are not in CR and whose
    brokers are online, the dead are excess replicas that have no broker and are in no ISR.
    """

    replicas: Brokers
    """In Kafka's order, preferred leader first (CR)."""
    isr: Brokers
    leader: int | None
    target: Brokers
    """What the plan asks for, in order (FTR)."""
    lead: int | None = None
    """Who of the target is to lead in the end; None for its first, the preferred leader."""
    online: frozenset[int]
    """Brokers that are neither fenced nor absent, and whose log dir of this partition works."""
    restarting: frozenset[int] = frozenset()
    """Brokers that went offline a moment ago: their replicas are not dead."""
    min_insync_replicas: int = 1
    waits_for_kept: bool = False
    """Whether a step completes only when every replica of its target is in sync: before 4.3."""
    reassigning: bool = False
    """Whether the controller lists it: somebody's step is under way."""
    eligible: Brokers = ()
    """Eligible leader replicas (KIP-966), as far as the cluster tells."""
    intermediate: Brokers = ()
    """Replicas of a target that was given up on the way: of the excess they go first (KIP-236)."""

    @property
    def min_isr(self) -> int:
        """How many must stay in sync: never more than the plan leaves."""
        return min(self.min_insync_replicas, len(self.target))

    @property
    def first(self) -> int:
        """Who is to lead in the end."""
        return self.target[0] if self.lead is None else self.lead

    @property
    def leads(self) -> bool:
        """Whether the final leader leads."""
        return self.leader == self.first

    @property
    def can_lead(self) -> bool:
        """Whether the final leader could lead now."""
        return self.in_sync(self.first)

    @property
    def eligible_gone(self) -> Brokers:
        """The eligible leaders of which none is a replica any more: Kafka elects nobody then.

        Kafka 4.3.1 leaves a removed replica among them where fewer than the minimum are in sync.
        """
        return () if {*self.eligible} & {*self.replicas} else self.eligible

    @property
    def missing(self) -> Brokers:
        """What can be added, in FTR's order."""
        return tuple(b for b in self.target if b not in self.replicas and b in self.online)

    @property
    def excess(self) -> Brokers:
        """What is to be dropped (ER), in CR's order; first what only an earlier target wanted."""
        excess = tuple(b for b in self.replicas if b not in self.target)
        return excess if not self.intermediate else tuple(sorted(excess, key=self._keeps))

    def _keeps(self, broker: int) -> tuple[bool, bool]:
        """Sort the intermediate first, and of them those out of sync (KIP-236's drop set)."""
        intermediate = broker in self.intermediate
        return not intermediate, intermediate and broker in self.isr

    @property
    def dead(self) -> Brokers:
        """Those of the excess that are on offline brokers and out of sync, not in a restart."""
        there = self.online | self.restarting
        return tuple(b for b in self.excess if b not in there and b not in self.isr)

    @property
    def living(self) -> Brokers:
        """The replicas but the dead: what the rules count with."""
        dead = self.dead
        return tuple(b for b in self.replicas if b not in dead) if dead else self.replicas

    def in_sync(self, broker: int) -> bool:
        """Whether a replica has everything, and its broker is there to prove it."""
        return broker in self.isr and broker in self.replicas and broker in self.online


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One alter, one election, or one after the other. It never changes nothing."""

    target: Brokers
    """The replicas to ask for, in order (TR)."""
    adds: Brokers
    drops: Brokers
    alters: bool
    """Whether there is an alter to send; else the election is all."""
    elects: int | None = None
    """Who is to be elected as the preferred leader once the alter is over."""
    moves_leader: bool = False
    """Whether it elects, or drops the leader."""
    cut: bool = False
    """Whether it is the last alter of shape gentle, which only drops (or reorders)."""
    urgent: bool = False
    """Whether it adds because too few are in sync: R, M and E do not bind it."""


class Why(enum.StrEnum):
    """What keeps a partition from its next step."""

    REASSIGNING = "reassigning"
    PARTITION_OFFLINE = "partition offline"
    ELIGIBLE_GONE = "eligible leader removed"
    TARGET_OFFLINE = "target offline"
    KEPT_OFFLINE = "kept replica offline"
    TARGET_NOT_IN_SYNC = "target not in sync"
    FIRST_NOT_IN_SYNC = "preferred leader not in sync"
    BELOW_MIN_ISR = "would fall below min ISR"


_SENTENCES = {
    Why.REASSIGNING: "it is being reassigned: nothing is altered until that is over",
    Why.PARTITION_OFFLINE: "it is offline: no replica leads",
    Why.ELIGIBLE_GONE: "it is offline: Kafka waits for {brokers}, no replica of it any more. "
    "Only an unclean election helps, and it may lose messages: kafka-leader-election.sh "
    "--election-type unclean",
    Why.TARGET_OFFLINE: "{brokers}, of its {goal}, {is_} offline",
    Why.KEPT_OFFLINE: "{brokers}, which the step keeps, {is_} offline: it would not complete",
    Why.TARGET_NOT_IN_SYNC: "{brokers}, of its {goal}, {is_} not in sync",
    Why.FIRST_NOT_IN_SYNC: "{brokers}, which is to lead, is not in sync",
    Why.BELOW_MIN_ISR: "dropping {brokers} would leave fewer in sync than min.insync.replicas",
}


class Blocked(msgspec.Struct, frozen=True):
    """No step can be taken now; it is worked out anew whenever the partition is seen."""

    why: Why
    brokers: Brokers = ()
    """Whom it is about."""

    @property
    def sentence(self) -> str:
        """Say for people why: "broker 3, of its target, is offline"."""
        return self.sentence_of("target")

    def sentence_of(self, goal: str) -> str:
        """Say why, with a name for where it is to go."""
        one = len(self.brokers) == 1
        named = ", ".join(map(str, self.brokers))
        brokers = f"broker{'' if one else 's'} {named}"
        return _SENTENCES[self.why].format(brokers=brokers, goal=goal, is_="is" if one else "are")


class Done(msgspec.Struct, frozen=True):
    """The partition has its final replicas in order, and their first one leads."""


DONE = Done()

Next = Step | Blocked | Done
