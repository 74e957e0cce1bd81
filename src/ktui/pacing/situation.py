"""A partition's situation on its way to its final target, and its possible next steps."""

from __future__ import annotations

import enum

import msgspec

from ktui.cluster.partition import Brokers


class Urgency(enum.StrEnum):
    """The reason why a partition is urgent."""

    UNDER_MIN_ISR = "under min ISR"
    """Fewer are in sync than producers with acks=all need."""
    ONE_IN_SYNC = "one in sync"
    """One copy is in sync, and the target has more."""


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """A partition's present state and its target.

    KIP-435's terms are in brackets. Besides them, "missing" replicas are those of FTR that are not
    in CR and whose brokers are online. "Dead" replicas are excess ones without a live broker that
    are not in the ISR.
    """

    replicas: Brokers
    """The current replicas in Kafka's order, preferred leader first (CR)."""
    isr: Brokers
    leader: int | None
    target: Brokers
    """The plan's target replicas, in order (FTR)."""
    lead: int | None = None
    """The final leader, one of the target; None for its first, the preferred leader."""
    online: frozenset[int]
    """Brokers that are neither fenced nor absent, and whose log dir for the partition works."""
    restarting: frozenset[int] = frozenset()
    """Brokers that went offline very recently, whose replicas do not count as dead."""
    closed: frozenset[int] = frozenset()
    """Cordoned brokers that no target may name: Kafka 4.4 and later refuse it (KIP-1066)."""
    min_insync_replicas: int = 1
    waits_for_kept: bool = False
    """Whether a step completes only when its whole target is in sync: before Kafka 4.3."""
    reassigning: bool = False
    """Whether the controller lists the partition: somebody's step is in flight."""
    eligible: Brokers = ()
    """Eligible leader replicas (KIP-966), as far as the cluster reports them."""
    intermediate: Brokers = ()
    """Replicas of an abandoned target, which are dropped before other excess ones (KIP-236)."""

    @property
    def min_isr(self) -> int:
        """How many replicas must stay in sync: never more than the target has."""
        return min(self.min_insync_replicas, len(self.target))

    @property
    def safe_in_sync(self) -> int:
        """How many in sync are enough: two, and as many as producers need; at most all."""
        return min(max(2, self.min_insync_replicas), len(self.target))

    @property
    def urgency(self) -> Urgency | None:
        """Why the partition is urgent; None if it is not."""
        if len(self.isr) >= self.safe_in_sync:
            return None
        below = len(self.isr) < self.min_isr
        return Urgency.UNDER_MIN_ISR if below else Urgency.ONE_IN_SYNC

    @property
    def first(self) -> int:
        """The broker that leads in the end."""
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
        """The eligible leaders if none of them is still a replica: Kafka elects nobody then.

        Kafka 4.3.1 keeps a removed replica eligible where fewer than the minimum are in sync.
        """
        return () if {*self.eligible} & {*self.replicas} else self.eligible

    @property
    def missing(self) -> Brokers:
        """The replicas that can be added, in FTR's order."""
        return tuple(b for b in self.target if b not in self.replicas and b in self.online)

    @property
    def excess(self) -> Brokers:
        """The replicas to drop (ER), in CR's order, with those of an abandoned target first."""
        excess = tuple(b for b in self.replicas if b not in self.target)
        return excess if not self.intermediate else tuple(sorted(excess, key=self._keeps))

    def _keeps(self, broker: int) -> tuple[bool, bool]:
        """A sort key: intermediate replicas first, out of sync first (KIP-236's drop set)."""
        intermediate = broker in self.intermediate
        return not intermediate, intermediate and broker in self.isr

    @property
    def dead(self) -> Brokers:
        """Excess replicas that are out of sync on an offline broker that is not restarting."""
        there = self.online | self.restarting
        return tuple(b for b in self.excess if b not in there and b not in self.isr)

    def closed_in(self, brokers: Brokers) -> Brokers:
        """Return those of the brokers that no target may name."""
        return tuple(b for b in brokers if b in self.closed) if self.closed else ()

    @property
    def living(self) -> Brokers:
        """The replicas without the dead, which is the number that the rules use."""
        dead = self.dead
        return tuple(b for b in self.replicas if b not in dead) if dead else self.replicas

    def in_sync(self, broker: int) -> bool:
        """Whether a replica is in the ISR and its broker is online."""
        return broker in self.isr and broker in self.replicas and broker in self.online


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """An alter, an election, or an alter and then an election. A step always changes something."""

    target: Brokers
    """The replicas to ask for, in order (TR)."""
    adds: Brokers
    drops: Brokers
    alters: bool
    """Whether the step sends an alter; otherwise it only elects."""
    elects: int | None = None
    """The broker to elect as preferred leader once the alter is over."""
    moves_leader: bool = False
    """Whether the step elects a leader or drops the present one."""
    cut: bool = False
    """Whether the step is the last alter of shape gentle, which only drops (or reorders)."""
    urgent: bool = False
    """Whether the step adds because too few are in sync, so that R, M and E do not apply."""


class BlockReason(enum.StrEnum):
    """The reason why a partition has no next step."""

    REASSIGNING = "reassigning"
    PARTITION_OFFLINE = "partition offline"
    ELIGIBLE_GONE = "eligible leader removed"
    TARGET_OFFLINE = "target offline"
    KEPT_OFFLINE = "kept replica offline"
    TARGET_NOT_IN_SYNC = "target not in sync"
    FIRST_NOT_IN_SYNC = "preferred leader not in sync"
    BELOW_MIN_ISR = "would fall below min ISR"
    CORDONED = "target cordoned"
    CORDONED_IN_SYNC = "cordoned, and needed for min ISR"


_SENTENCES = {
    BlockReason.REASSIGNING: "it is being reassigned: nothing is altered until that has ended",
    BlockReason.PARTITION_OFFLINE: "it is offline: no replica leads",
    BlockReason.ELIGIBLE_GONE: "it is offline: Kafka waits for {brokers}, no longer among its "
    "replicas. Only an unclean election helps, and it may lose messages: "
    "kafka-leader-election.sh --election-type unclean",
    BlockReason.TARGET_OFFLINE: "{brokers} of its {goal} {is_} down",
    BlockReason.KEPT_OFFLINE: "{brokers}, which the step keeps, {is_} down: it would not complete",
    BlockReason.TARGET_NOT_IN_SYNC: "{brokers} of its {goal} {is_} not in sync",
    BlockReason.FIRST_NOT_IN_SYNC: "{brokers}, which should lead, is not in sync",
    BlockReason.BELOW_MIN_ISR: "dropping {brokers} would leave fewer in sync than "
    "min.insync.replicas",
    BlockReason.CORDONED: "{brokers} of its {goal} {is_} cordoned, and Kafka refuses every target "
    "that names it: {uncordon}",
    BlockReason.CORDONED_IN_SYNC: "{brokers} {is_} cordoned: no target may name it, and dropping "
    "it would leave fewer in sync than min.insync.replicas: {uncordon}",
}


class Blocked(msgspec.Struct, frozen=True):
    """No step can be taken now; this is decided again whenever the partition is polled."""

    why: BlockReason
    brokers: Brokers = ()
    """The brokers that are the reason."""

    @property
    def sentence(self) -> str:
        """The reason as a sentence: "broker 3 of its target is down"."""
        return self.sentence_of("target")

    def sentence_of(self, goal: str) -> str:
        """Return the reason as a sentence, with `goal` as the name of the target."""
        one = len(self.brokers) == 1
        named = ", ".join(map(str, self.brokers))
        return _SENTENCES[self.why].format(
            brokers=f"broker{'' if one else 's'} {named}",
            goal=goal,
            is_="is" if one else "are",
            uncordon=" and ".join(f"`ktui broker uncordon {broker}`" for broker in self.brokers),
        )


class Done(msgspec.Struct, frozen=True):
    """The partition has its final replicas in order, and the final leader leads."""


DONE = Done()

Next = Step | Blocked | Done
