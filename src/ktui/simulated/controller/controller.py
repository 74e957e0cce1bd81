"""The KRaft controller, which decides every partition's replicas, ISR and leader."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from ktui.cluster.errors import KafkaError
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigResource, ConfigScope, Verdict, WriteResult
from ktui.simulated.controller import configs
from ktui.simulated.controller.altering import (
    Assignable,
    DecisionContext,
    Election,
    RequestedChange,
    decide,
    first_record,
    new_partitions,
    request_cancel,
    request_move,
)
from ktui.simulated.controller.configs import Configs, rules_of
from ktui.simulated.controller.records import (
    Membership,
    NextRecord,
    RecordChange,
    Records,
    Registration,
    TopicRecords,
)
from ktui.simulated.controller.schema import MIN_ISR
from ktui.simulated.layout import ClusterSpec, TopicSpec

RECORDS = 10_000  # that one request may produce; partitions beyond it are not altered

ELECTIONS = 1_000


class Controller:
    """The records of a cluster by the KRaft rules of one version; `notify` gets each change."""

    def __init__(
        self, spec: ClusterSpec, notify: Callable[[RecordChange], None], *, seed: int = 0
    ) -> None:
        self.rules = rules_of(spec.version)
        down = [broker.id for broker in spec.brokers if broker.down]
        self._members = Membership((broker.id for broker in spec.brokers), down)
        self._records = Records(notify, seed=seed)
        self.configs = Configs(spec, self._records.topics, self.rules, self._members.registered)
        self._working = {broker.id: {*broker.log_dir_paths} for broker in spec.brokers}

    @property
    def topics(self) -> Mapping[str, TopicRecords]:
        return self._records.topics

    @property
    def reassigning(self) -> Mapping[TopicPartition, Registration]:
        return self._records.reassigning

    def get(self, tp: TopicPartition) -> Registration | None:
        return self._records.get(tp)

    def create_topic(self, spec: TopicSpec, *, was_there: bool = False) -> WriteResult:
        """Create a topic; one that `was_there` may be on brokers that no target may name now."""
        if spec.name in self.topics:
            return configs.refused(
                KafkaError.TOPIC_ALREADY_EXISTS, f"Topic '{spec.name}' already exists."
            )
        brokers = self._assignable()
        if was_there:
            brokers = brokers._replace(cordoned=frozenset())
        partitions = []
        for number, replicas in enumerate(spec.replicas):
            if not was_there and (problem := brokers.problem(replicas)):
                return configs.refused(KafkaError.INVALID_REPLICA_ASSIGNMENT, problem)
            first = first_record(spec, number, brokers)
            if isinstance(first, WriteResult):
                return first
            partitions.append(first)
        result = self.configs.create(spec.name, spec.configs)
        if result.verdict is Verdict.ACCEPTED:
            self._records.create(spec.name, partitions, spec.id)
        return result

    def create_partitions(
        self, name: str, count: int, assignment: Sequence[Brokers] | None
    ) -> WriteResult:
        """Add partitions to a topic, empty and in sync from the start; None places them here."""
        topic = self.topics.get(name)
        if topic is None:
            return configs.NO_SUCH_TOPIC_TO_EXTEND
        made = new_partitions(topic, count, assignment, self._assignable())
        if isinstance(made, WriteResult):
            return made
        self._records.extend(name, made)
        return configs.DONE

    def _assignable(self) -> Assignable:
        cordoned = (b for b, dirs in self._working.items() if self.configs.cordoned(b) >= dirs)
        return Assignable(self._members, frozenset(cordoned), self.rules)

    def delete_topic(self, name: str) -> WriteResult:
        if name not in self.topics:
            return configs.NO_SUCH_TOPIC
        self._records.delete(name)
        self.configs.forget(name)
        return configs.DONE

    @property
    def fenced(self) -> frozenset[int]:
        return frozenset(self._members.fenced)

    def is_fenced(self, broker: int) -> bool:
        return broker in self._members.fenced

    def is_stopping(self, broker: int) -> bool:
        return self._members.stopping(broker)

    def fence(self, broker: int) -> None:
        if not self.is_fenced(broker):
            self._members.fence(broker)
            self._remove_from_isrs(broker)

    def unfence(self, broker: int) -> None:
        """Unfence a broker, which leads at once where there is no leader and it has the data."""
        self._members.unfence(broker)
        self._redecide((tp, self._known(tp)) for tp in self._records.leaderless)

    @property
    def registered(self) -> frozenset[int]:
        return frozenset(self._members.registered)

    def unregister(self, broker: int) -> WriteResult:
        """Remove a broker's registration; it leaves every ISR, but stays among the replicas."""
        if broker not in self._members.registered:
            return configs.not_registered(broker)
        self._members.unregister(broker)
        self._remove_from_isrs(broker)
        return configs.DONE

    def controlled_shutdown(self, broker: int) -> None:
        self._members.stop(broker)
        self._remove_from_isrs(broker)

    def clean_start(self, broker: int) -> None:
        self._members.register(broker)
        if self.rules.starting_leaves_out:
            self._remove_from_isrs(broker)

    def unclean_start(self, broker: int) -> None:
        """Register a broker after an unclean shutdown; its copies are not relied on (KIP-966)."""
        if not self.rules.eligible_leader_replicas:
            self.clean_start(broker)
            return
        self._members.register(broker)
        self._redecide(self._records.on(broker), without=broker, unclean_shutdown=broker)

    def lose_log_dir(self, broker: int, path: str, partitions: Iterable[TopicPartition]) -> None:
        self._working[broker].discard(path)
        self._redecide(((tp, self._known(tp)) for tp in partitions), without=broker, failed=broker)

    def _remove_from_isrs(self, broker: int) -> None:
        concerned = ((tp, known) for tp, known in self._records.on(broker) if broker in known.isr)
        self._redecide(concerned, without=broker)

    def _redecide(
        self,
        concerned: Iterable[tuple[TopicPartition, Registration]],
        *,
        without: int | None = None,
        unclean_shutdown: int | None = None,
        failed: int | None = None,
    ) -> None:
        decisions = []
        for tp, known in concerned:
            isr = tuple(b for b in known.isr if b != without)
            kind = self._election(tp.topic)
            wish = RequestedChange(
                isr=isr, election=kind, unclean_shutdown=unclean_shutdown, failed=failed
            )
            after = self._decide(tp, known, wish)
            if after is not None:
                decisions.append((tp, after))
        self._records.commit(decisions)

    def alter(
        self,
        targets: Mapping[TopicPartition, Brokers | None],
        *,
        allow_replication_factor_change: bool,
    ) -> dict[TopicPartition, WriteResult]:
        """Start reassignments, or cancel them with None; brokers before 4.1 ignore the flag."""
        guarded = self.rules.guards_replication_factor and not allow_replication_factor_change
        results: dict[TopicPartition, WriteResult] = {}
        decisions: list[NextRecord] = []
        brokers = self._assignable()
        for tp, target in targets.items():
            outcome = self._alter(tp, target, brokers, guarded=guarded)
            if isinstance(outcome, WriteResult):
                results[tp] = outcome
            elif outcome is not None and len(decisions) == RECORDS:
                results[tp] = configs.TOO_MANY
            else:
                results[tp] = configs.DONE
                if outcome is not None:
                    decisions.append((tp, outcome))
        self._records.commit(decisions)
        return results

    def _alter(
        self, tp: TopicPartition, target: Brokers | None, brokers: Assignable, *, guarded: bool
    ) -> Registration | WriteResult | None:
        known = self.get(tp)
        if known is None:
            return configs.nothing_to_alter(tp, topic_there=tp.topic in self.topics)
        if target is None:
            wish = request_cancel(tp, known, unclean=self.configs.unclean(tp.topic))
        else:
            wish = request_move(known, target, brokers, guarded=guarded)
        return wish if isinstance(wish, WriteResult) else self._decide(tp, known, wish)

    def elect(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, WriteResult]:
        outcomes = {tp: self._elect(tp) for tp in partitions}
        decisions = [(tp, o) for tp, o in outcomes.items() if isinstance(o, Registration)]
        if len(decisions) > RECORDS:
            return dict.fromkeys(outcomes, configs.TOO_LARGE)
        self._records.commit(decisions)
        return {tp: o if isinstance(o, WriteResult) else configs.DONE for tp, o in outcomes.items()}

    def _elect(self, tp: TopicPartition) -> Registration | WriteResult:
        known = self.get(tp)
        if known is None:
            return configs.nothing_to_elect(tp, topic_there=tp.topic in self.topics)
        if known.leader == known.replicas[0]:
            return configs.NOT_NEEDED
        after = self._decide(tp, known, RequestedChange(election=Election.PREFERRED))
        return configs.NOT_AVAILABLE if after is None else after

    def alter_isr(self, tp: TopicPartition, isr: Brokers, leader: int) -> str | None:
        """Change the ISR for a leader (KIP-497). NEW_LEADER_ELECTED is no refusal."""
        known = self.get(tp)
        if known is None:
            return (
                KafkaError.UNKNOWN_TOPIC_OR_PARTITION
                if tp.topic in self.topics
                else KafkaError.UNKNOWN_TOPIC_ID
            )
        if leader != known.leader:
            return KafkaError.FENCED_LEADER_EPOCH
        members = set(isr)
        if len(members) < len(isr) or leader not in members or not members <= {*known.replicas}:
            return KafkaError.INVALID_REQUEST
        if not members <= self._members.active:
            return KafkaError.INELIGIBLE_REPLICA
        after = self._decide(tp, known, RequestedChange(isr=isr, election=self._election(tp.topic)))
        if after is None:
            return None
        self._records.commit([(tp, after)])
        return None if after.leader == leader else KafkaError.NEW_LEADER_ELECTED

    def rebalance_leaders(self, most: int = ELECTIONS) -> int:
        """Elect preferred leaders as auto.leader.rebalance.enable does; return how many."""
        return self._elect_some(self._records.imbalanced, Election.PREFERRED, most)

    def elect_unclean_leaders(self, most: int = ELECTIONS) -> int:
        """Elect any live replica where unclean elections are allowed, as Kafka does every 5 min."""
        allowed = (tp for tp in self._records.leaderless if self.configs.unclean(tp.topic))
        return self._elect_some(allowed, Election.UNCLEAN, most)

    def _elect_some(self, among: Iterable[TopicPartition], kind: Election, most: int) -> int:
        outcomes = (
            (tp, self._decide(tp, self._known(tp), RequestedChange(election=kind))) for tp in among
        )
        decisions = ((tp, after) for tp, after in outcomes if after is not None)
        some = list(itertools.islice(decisions, most))
        self._records.commit(some)
        return len(some)

    def alter_configs(self, changes: Sequence[ConfigChange]) -> dict[ConfigResource, WriteResult]:
        """Change settings (KIP-339); a changed min.insync.replicas empties ELRs that rely on it."""
        concerned = dict.fromkeys(c.resource for c in changes if c.key == MIN_ISR)
        before = {resource: self.configs.of(resource).get(MIN_ISR) for resource in concerned}
        results = self.configs.alter(changes)
        for resource, old in before.items():
            if results[resource].verdict is not Verdict.ACCEPTED:
                continue
            if resource.scope is ConfigScope.BROKER:
                self._clear_elr(self.topics)
            elif self.configs.of(resource).get(MIN_ISR) != old:
                self._clear_elr([resource.name])
        return results

    def _clear_elr(self, names: Iterable[str]) -> None:
        decisions: list[NextRecord] = []
        for name in names:
            for number, known in enumerate(self.topics[name].partitions):
                if known.elr or known.last_known_leader is not None:
                    epoch = known.partition_epoch + 1
                    after = replace(known, elr=(), last_known_leader=None, partition_epoch=epoch)
                    decisions.append((TopicPartition(name, number), after))
        self._records.commit(decisions)

    def _decide(
        self, tp: TopicPartition, known: Registration, wish: RequestedChange
    ) -> Registration | None:
        factor = len(self.topics[tp.topic].partitions[0].replicas)
        min_isr = min(self.configs.min_isr(tp.topic), factor)
        context = DecisionContext(self.rules, min_isr, self._members.may_lead)
        return decide(known, wish, context)

    def _election(self, topic: str) -> Election:
        return Election.UNCLEAN if self.configs.unclean(topic) else Election.ONLINE

    def _known(self, tp: TopicPartition) -> Registration:
        return self.topics[tp.topic].partitions[tp.partition]
