"""Judge what a cluster's state, its brokers and its permissions mean for reassignments. Pure."""

from __future__ import annotations

import asyncio
import enum
import shlex
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from ktui.cli.context.claim import NO_OWNERSHIP, TAKE_OVER
from ktui.cli.context.cluster import TLS_UNVERIFIED
from ktui.cluster.broker import Broker, BrokerConfig, LogDir, TopicConfig, online_brokers
from ktui.cluster.ownership import GOES_ON, ClaimPreview, ClaimStatus, OwnedByOthers, OwnerUnknown
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Grant, Permissions
from ktui.execution.forecast.run_progress import RunProgress
from ktui.execution.host.catalog import LateRequest
from ktui.kafka.capabilities import (
    BrokerAbilities,
    NeededApi,
    Probe,
    probe_confluent,
    probe_kafka_python,
)
from ktui.kafka.connection.connection import Connection
from ktui.lab.layout import VERSIONS
from ktui.planning.check.findings import grant_command
from ktui.planning.plan import join_all, join_named
from ktui.planning.throttle_rates import CANARY_PREFIX, is_canary
from ktui.progress.memory import Health
from ktui.quantities import as_count
from ktui.tui.draw.format import as_took

SUPPORTED = tuple(version.rpartition(".")[0] for version in reversed(VERSIONS))
"""The releases of Kafka, as "4.3", the oldest first."""

DEFAULT_FETCH_BACKOFF_MS = 1_000
NEARLY_FULL = 0.85  # the used share of a disk from which a move onto that disk deserves attention
SHOWN = 5  # names shown before "and N more"


class Level(enum.StrEnum):
    """How much a finding matters."""

    GOOD = "good"
    NOTE = "note"
    WARNING = "warning"
    TROUBLE = "trouble"


class DoctorFinding(msgspec.Struct, frozen=True):
    """One finding, with its fix if there is one."""

    level: Level
    what: str
    fix: str = ""


good = partial(DoctorFinding, Level.GOOD)
note = partial(DoctorFinding, Level.NOTE)
warning = partial(DoctorFinding, Level.WARNING)
trouble = partial(DoctorFinding, Level.TROUBLE)


class DoctorFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the findings are derived from."""

    brokers: Mapping[int, Broker]
    moving: frozenset[TopicPartition] | None = frozenset()
    """Partitions being reassigned; None if they could not be listed."""
    log_dirs: tuple[LogDir, ...] = ()
    broker_configs: Mapping[int, BrokerConfig]
    topic_configs: Mapping[str, TopicConfig]  # every topic whose settings could be read
    replication_factors: Mapping[str, int]
    """For each topic, the smallest replication factor of its partitions."""
    mixed_factors: Mapping[str, Mapping[int, int]] = {}
    """Topics whose partitions at rest have different numbers of replicas: how many have each."""
    health: Mapping[Health, int] = msgspec.field(default_factory=dict)
    """Partition counts, each partition in its worst class; empty if none could be read."""
    out_of_reach: frozenset[str] = frozenset()
    """Topics that the metadata shows, and that brokers do not know when they are asked about
    them."""
    unread: tuple[str, ...] = ()  # sentences about what could not be read, and why


def judge_cluster(facts: DoctorFacts) -> list[DoctorFinding]:
    """Return the findings, in the order an operator wants to read them."""
    return [
        *(warning(f"could not read: {sentence}") for sentence in facts.unread),
        *_out_of_reach(sorted(facts.out_of_reach)),
        *_brokers(facts.brokers),
        *_health(facts.health),
        *_disks(facts.log_dirs),
        *_movers(facts),
        *_broker_settings(facts.broker_configs),
        *_min_insync(facts),
    ]


def _out_of_reach(topics: Sequence[str]) -> Iterator[DoctorFinding]:
    if topics:
        them = "it" if len(topics) == 1 else "them"
        yield trouble(
            f"the metadata shows {name_some('topic', topics)}, and brokers that are asked about "
            f"{them} know no such topic. A proxy on the way may rename topics",
            f"ktui can neither move nor throttle {them} this way. Connect to the brokers "
            "themselves.",
        )


def _brokers(brokers: Mapping[int, Broker]) -> Iterator[DoctorFinding]:
    down = sorted(brokers.keys() - online_brokers(brokers))
    count = len(brokers)
    if down:
        fix = "Kafka accepts a move onto a broker that is down, but the move hangs. Plan around it."
        up = f"{count - len(down)} of {count} are up"
        yield trouble(f"down: {name_some('broker', down)} ({up})", fix)
    else:
        yield good(f"all {count} brokers are up")


def _health(health: Mapping[Health, int]) -> Iterator[DoctorFinding]:
    if offline := health.get(Health.OFFLINE):
        fix = "These partitions have no leader. Bring their brokers back before anything else."
        yield trouble(f"{as_count(offline, 'partition')} offline", fix)
    if under_min := health.get(Health.UNDER_MIN_ISR):
        fix = "Producers with acks=all fail there until replicas rejoin the ISR."
        yield trouble(f"{as_count(under_min, 'partition')} under min ISR", fix)
    if under := health.get(Health.UNDER_REPLICATED):
        fix = "See them with `ktui`, key v. Let them recover before you add replication traffic."
        yield warning(f"{as_count(under, 'partition')} under-replicated", fix)
    if not (offline or under_min or under) and (sound := health.get(Health.OK)):
        what = as_count(sound, "partition")
        yield good(f"all replicas are in sync: {what} checked")


def _disks(log_dirs: tuple[LogDir, ...]) -> Iterator[DoctorFinding]:
    for log_dir in log_dirs:
        place = f"broker {log_dir.broker}, {log_dir.path}"
        if log_dir.error is not None:
            yield trouble(f"{place}: log dir offline ({log_dir.error})")
        if log_dir.cordoned:
            fix = (
                "If all log dirs of a broker are cordoned, Kafka 4.3 still accepts moves onto it, "
                "and from 4.4 on Kafka refuses them. To lift the cordon: ktui broker uncordon "
                f"{log_dir.broker}"
            )
            yield note(f"{place}: log dir cordoned", fix)
        if log_dir.total_bytes and log_dir.usable_bytes is not None:
            used = 1 - log_dir.usable_bytes / log_dir.total_bytes
            if used >= NEARLY_FULL:
                yield warning(
                    f"{place}: {used:.0%} full",
                    "Check that a move onto this disk leaves enough space.",
                )


def _movers(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    moving = facts.moving
    if moving:
        topics = sorted({tp.topic for tp in moving})
        yield warning(
            f"{as_count(len(moving), 'partition')} being reassigned now, of "
            f"{name_some('topic', topics)}",
            "These moves share the network and disks with yours. If you alter a partition that is "
            "moving, Kafka forgets its original replicas.",
        )
    elif moving is not None:
        yield good("nothing is being reassigned")
    else:
        yield trouble(
            "what is being reassigned cannot be listed",
            "No run can work without that list. The reason stands above; a proxy on the way may "
            "not pass the request on.",
        )
    if any(
        topic.startswith(("__CruiseControl", "__KafkaCruiseControl"))
        for topic in facts.topic_configs
    ):
        fix = "Pause its self-healing and its executor while you move partitions by hand."
        yield note("Cruise Control's topics exist: it may move partitions, too", fix)


def _broker_settings(configs: Mapping[int, BrokerConfig]) -> Iterator[DoctorFinding]:
    unclean = sorted(b for b, c in configs.items() if c.unclean_leader_election)
    if unclean:
        yield warning(
            f"unclean.leader.election.enable=true on {name_some('broker', unclean)}",
            "If only the added replicas of a move are in sync, cancelling the move loses data.",
        )
    rebalancing = [c for c in configs.values() if c.auto_leader_rebalance]
    if rebalancing:
        every = rebalancing[0].leader_imbalance_check_interval_s
        pace = "" if every is None else f" every {every} s"
        yield note(
            f"auto.leader.rebalance.enable=true: Kafka elects preferred leaders{pace}, even during "
            "a move",
            "Leaders may move on their own. If that matters, turn the setting off during a "
            "maintenance window.",
        )
    backoff = max((c.fetch_backoff_ms or 0 for c in configs.values()), default=0)
    if backoff >= DEFAULT_FETCH_BACKOFF_MS:
        yield note(
            f"replica.fetch.backoff.ms={backoff}: a leader change can stall producers this long",
            "100 to 200 ms makes moves gentler. The setting is static: change server.properties, "
            "and restart.",
        )


def _min_insync(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    known = [
        (name, factor, facts.topic_configs[name].min_insync_replicas)
        for name, factor in facts.replication_factors.items()
        if factor > 1 and name in facts.topic_configs
    ]
    tight = sorted(name for name, factor, least in known if factor <= least)
    if tight:
        yield warning(
            f"min.insync.replicas leaves no replica to spare for {name_some('topic', tight)}",
            "If any one replica is lost, producers with acks=all fail there.",
        )
    if bare := sorted(name for name, _, least in known if least == 1):
        yield note(
            f"min.insync.replicas=1 for {name_some('topic', bare)}, with more than one replica",
            "An acknowledged message may exist on a single broker only. Moves do not change that.",
        )


def judge_mixed_factors(
    topics: Mapping[str, Mapping[int, int]], live: Collection[str]
) -> Iterator[DoctorFinding]:
    """Find partitions with another number of replicas than most others of their topic.

    Args:
        topics: for each topic with such partitions at rest, how many have each number.
        live: the live runs of this state directory; a gentle one holds extra replicas on purpose.
    """
    level = Level.NOTE if live else Level.WARNING
    fix = (
        f"{join_named('run', sorted(live))} may hold extra replicas until a cut. If they stay "
        "after the run, start a plan with the replicas that they are to have."
        if live
        else "Between two steps a run has extra replicas, and a killed one leaves them. Resume it "
        "where it was started, or roll it back: ktui cancel RUN --rollback --all. If they are of "
        "no run, start a plan with the replicas that they are to have."
    )
    for topic, counts in sorted(topics.items())[:SHOWN]:
        usual = max(counts, key=lambda factor: (counts[factor], -factor))
        others = ", ".join(
            f"{as_count(count, 'partition')} with {factor}"
            for factor, count in sorted(counts.items())
            if factor != usual
        )
        usually = f"{as_count(counts[usual], 'partition')} with {usual} replicas"
        yield DoctorFinding(level, f"topic {topic} has {usually}, and {others}, at rest", fix)
    if len(topics) > SHOWN:
        more = as_count(len(topics) - SHOWN, "more topic")
        yield DoctorFinding(level, f"{more} with different numbers of replicas at rest", "")


def name_some(what: str, names: Sequence[int] | Sequence[str]) -> str:
    """Name the first few and count the rest: "topics a, b, c, d, e and 4 more"."""
    shown = ", ".join(map(str, names[:SHOWN]))
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{what}{'' if len(names) == 1 else 's'} {shown}{more}"


def judge_extra_replicas(waiting: Iterable[RunProgress]) -> list[DoctorFinding]:
    """Name the runs without an engine whose partitions rest with extra replicas."""
    return [
        warning(
            f"run {run.name} has no engine: {run.extra_replicas}",
            f"`ktui resume {run.name}` goes on with it, and `ktui cancel {run.name} --rollback "
            "--all` takes everything back.",
        )
        for run in waiting
        if run.extra_replicas is not None
    ]


def judge_abilities(abilities: Sequence[BrokerAbilities]) -> list[DoctorFinding]:
    """Judge the brokers' releases and the operations they support."""
    return [
        *(
            warning(f"broker {ability.broker}: {ability.error}")
            for ability in abilities
            if ability.error is not None
        ),
        *_releases(sorted({a.release for a in abilities if a.release is not None})),
        *_operations(abilities),
    ]


def judge_permissions(permissions: Permissions) -> list[DoctorFinding]:
    """Judge the permissions that the principal lacks."""
    lacking = permissions.missing().items()
    missing = [_denied(grant, topics, all_of_them=permissions.none) for grant, topics in lacking]
    found = missing or [good("every permission that ktui needs is granted")]
    if not permissions.topics and not permissions.none:
        # Without Describe, a topic looks as if it did not exist.
        fix = (
            "If there are topics, grant it with kafka-acls --add --operation Describe --topic '*'."
        )
        found.append(note("no topic is visible: none exists, or Describe is not granted", fix))
    return found


def _releases(releases: list[str]) -> Iterator[DoctorFinding]:
    if len(releases) > 1:
        fix = "Finish the upgrade first. Releases differ in how they complete a reassignment."
        yield warning(f"brokers run {' and '.join(releases)}", fix)
    for release in releases:
        if release in SUPPORTED:
            yield good(f"ktui is tested with Kafka {release}")
        else:
            fix = (
                f"It may well work. ktui is tested with {SUPPORTED[0]} to {SUPPORTED[-1]} in KRaft "
                "mode."
            )
            yield warning(f"ktui is not tested with Kafka {release}", fix)


def _operations(abilities: Sequence[BrokerAbilities]) -> Iterator[DoctorFinding]:
    answered = [ability for ability in abilities if ability.error is None]
    lacking: dict[NeededApi, list[int]] = {}
    for ability in answered:
        for need in ability.lacks:
            lacking.setdefault(need, []).append(ability.broker)
    for need, brokers in lacking.items():
        do_not = "does not support it" if len(brokers) == 1 else "do not support it"
        who = f"{name_some('broker', brokers)} {do_not}"
        if len(brokers) == len(answered):
            who = "no broker supports it, or a proxy on the way does not pass it on"
        level = Level.TROUBLE if need.required else Level.NOTE
        yield DoctorFinding(level, f"{need.what}: {who}, so {need.without}")
    if answered and not lacking:
        yield good("every operation ktui needs is supported")


def _denied(grant: Grant, topics: tuple[str, ...], *, all_of_them: bool) -> DoctorFinding:
    """Judge a missing grant; with no grants at all, every missing one blocks all work."""
    on_cluster = grant.resource == "cluster"
    where = "the cluster" if on_cluster else name_some("topic", topics) if topics else "any topic"
    level = Level.NOTE if grant.writes else Level.WARNING
    if all_of_them or grant.vital:
        level = Level.TROUBLE
    use = "needed only to change things" if grant.writes else "needed to watch"
    return DoctorFinding(
        level,
        f"{grant.operation} on {where} is not granted: cannot {grant.purpose}",
        f"It is {use}. {grant_command(grant)}.",
    )


_GRANT = (
    "kafka-acls --add --operation Read --group ktui- --resource-pattern-type prefixed. Or turn "
    f"ownership off: {NO_OWNERSHIP}, or `ownership: off` for the context"
)


def judge_late(late: LateRequest) -> DoctorFinding:
    """Judge a reassignment that a late request has begun."""
    target = ",".join(map(str, late.target))
    what = f"{late.tp} is being reassigned to {target}, as run {late.run} asked"
    if late.ended:
        return warning(
            f"{what}. The run has ended. Its request was not answered, and took effect late",
            f"Let the reassignment finish, or cancel it: ktui cancel --cluster --partition "
            f"{late.tp.topic}:{late.tp.partition} --stop",
        )
    return note(
        f"{what}. The run has no engine", f"`ktui resume {late.run}` continues with this step."
    )


def judge_ownership(
    status: ClaimStatus, preview: ClaimPreview, *, off: bool
) -> list[DoctorFinding]:
    """Judge who owns the cluster, and what `ktui start` will create to own it."""
    found = [_owner(status)]
    if off:
        what = "ownership is off for this context: ktui checks no owner, and keeps nobody out"
        return [*found, note(what)]
    return [*found, *_preview(preview)]


def _owner(status: ClaimStatus) -> DoctorFinding:
    what = str(status)
    match status:
        case OwnedByOthers():
            fix = (
                f"Runs of this state directory are refused here. {TAKE_OVER} takes the cluster "
                "over. The other owner's engines then send nothing more."
            )
            return warning(what, fix)
        case OwnerUnknown(denied=True):
            return warning(what, f"Grant it: {_GRANT}")
        case OwnerUnknown():
            fix = (
                "Until the owner is known, new runs are refused, and no new step begins. "
                f"{GOES_ON}. {NO_OWNERSHIP} starts a run without ownership."
            )
            return warning(what, fix)
    return good(what)


def _preview(preview: ClaimPreview) -> Iterator[DoctorFinding]:
    groups = " and ".join(preview.groups)
    topic = {
        True: f", and the brokers create {preview.topic} for them, with their own settings",
        False: "",
        None: f", and the brokers create {preview.topic} if it does not exist",
    }[preview.makes_topic]
    yield note(
        f"a run owns the cluster through the consumer groups {groups}, without offsets{topic}"
    )
    if preview.permitted is False:
        yield warning(f"not granted: {preview.permission}", f"Grant it: {_GRANT}")
    elif preview.permitted is None:
        yield note(
            f"owning the cluster needs {preview.permission}; a run shows whether it is granted"
        )


def judge_canaries(
    topics: Iterable[str], live: Collection[str], resumable: Collection[str]
) -> Iterator[DoctorFinding]:
    """Yield a finding for each topic of a canary."""
    for topic in sorted(filter(is_canary, topics)):
        run = topic.removeprefix(CANARY_PREFIX)
        which = "which no run of this state directory uses"
        fix = (
            "If no run of another one does, it was left behind. Delete it: kafka-topics.sh "
            f"--delete --topic {topic}"
        )
        if run in live:
            which, fix = "which is live", "Its engine deletes it when it exits."
        elif run in resumable:
            which = "which waits for resume"
            fix = f"`ktui resume {run}` takes it up again, and deletes it when its engine exits."
        yield note(f"topic {topic}: the canary of run {run}, {which}", fix)


_VERIFY = (
    "Remove that setting. Set ssl.ca.location to the PEM file of the authority that signed the "
    "brokers' certificates, and connect by names that are in them."
)
_OTHERS = stat.S_IRWXO
_GROUP = stat.S_IRWXG


async def check_connection(connection: Connection) -> list[DoctorFinding]:
    """Connect with both clients, and judge the settings and files of the connection."""
    probes = await asyncio.gather(probe_kafka_python(connection), probe_confluent(connection))
    return [
        *map(warning, connection.warnings),
        *(warning(f"{TLS_UNVERIFIED}: {s}", _VERIFY) for s in connection.unverified),
        *_secret_files(connection.secret_files),
        *(_probed(probe) for probe in probes),
    ]


def _probed(probe: Probe) -> DoctorFinding:
    if probe.error is not None:
        return trouble(f"{probe.client}: {probe.error}")
    return good(f"{probe.client} connects ({as_took(probe.took_s)})")


def _secret_files(files: Mapping[Path, Sequence[str]]) -> Iterator[DoctorFinding]:
    for path, settings in files.items():
        try:
            mode = path.stat().st_mode
        except OSError:  # readable a moment ago; if it is gone now, nobody else can read it either
            continue
        if not stat.S_ISREG(mode) or not mode & (_OTHERS | _GROUP):
            continue
        who = "everyone on its machine" if mode & _OTHERS else "its group"
        yield warning(
            f"{path}: readable by {who} (mode {stat.S_IMODE(mode):03o}), and holds "
            f"{join_all(settings)}",
            f"Restrict it to its owner: chmod 600 {shlex.quote(str(path))}",
        )
