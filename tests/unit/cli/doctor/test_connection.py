"""`ktui doctor`: the connection, what the brokers can do, and facts."""

import json
import socket
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ktui.cli.doctor import gather_facts
from ktui.cli.doctor_findings import (
    Level,
    judge_abilities,
    judge_canaries,
    judge_late,
    judge_permissions,
)
from ktui.cli.main import ktui
from ktui.cluster.errors import Failure, Operation, TimedOut
from ktui.cluster.partition import Reassignment, TopicPartition
from ktui.cluster.ports import GRANTS, Grant, Permissions, TopicConfigsAnswer
from ktui.execution.forecast.run_progress import read_progress
from ktui.execution.host.catalog import late_requests
from ktui.execution.host.ownership import own_run
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.events import Ended, OpenRequest, StateEntered
from ktui.execution.run.states import State
from ktui.kafka.capabilities import NEEDS, BrokerAbilities, release_of
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.reader import SimulatedReader
from support.journals.journals import a_start, accepted, started, step, written
from support.kafka.certificates import Authority
from support.simulated.moving_clusters import a_cluster, tp


@pytest.fixture
def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def connection(address: str, folder: Path, *lines: str) -> list[dict[str, Any]]:
    """Return the findings of the doctor on the connection of a client file."""
    file = folder / "client.properties"
    file.write_text("\n".join((f"bootstrap.servers={address}", *lines)))
    file.chmod(0o600)
    done = CliRunner().invoke(ktui, ["doctor", "--command-config", str(file), "--json"])
    answer = json.loads(done.stdout)
    assert answer["cluster"], "it says of which cluster"
    found: list[dict[str, Any]] = answer["findings"]["connection"]
    return found


def test_the_doctor_warns_of_each_setting_that_turns_tls_verification_off(
    tmp_path: Path, closed_port: str
) -> None:
    unverified = "enable.ssl.certificate.verification=false"
    unchecked_names = "ssl.endpoint.identification.algorithm="

    found = connection(closed_port, tmp_path, "security.protocol=SSL", unverified, unchecked_names)

    warnings = [finding for finding in found if finding["level"] == "warning"]
    client_file = tmp_path / "client.properties"
    assert [warning["what"].split(": anyone")[0] for warning in warnings] == [
        f"TLS unverified: {client_file}:3: {unverified}",
        f"TLS unverified: {client_file}:4: {unchecked_names}none",
    ]
    fixes = [warning["fix"] for warning in warnings]
    assert all("Remove that setting. Set ssl.ca.location" in fix for fix in fixes)


SCRAM = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=SCRAM-SHA-512", "sasl.username=ada")


def secrets_found(done: Result) -> list[tuple[str, str]]:
    found = json.loads(done.stdout)["findings"]["connection"]
    return [(each["what"], each["fix"]) for each in found if "chmod" in each["fix"]]


@pytest.mark.parametrize(
    ("mode", "who"), [(0o644, "everyone on its machine"), (0o640, "its group"), (0o600, None)]
)
def test_the_doctor_warns_of_a_client_file_with_a_password_that_others_may_read(
    tmp_path: Path, closed_port: str, mode: int, who: str | None
) -> None:
    file = tmp_path / "our client.properties"
    lines = (f"bootstrap.servers={closed_port}", *SCRAM, "sasl.password=open sesame")
    file.write_text("\n".join(lines))
    file.chmod(mode)

    done = CliRunner().invoke(ktui, ["doctor", "--command-config", str(file), "--json"])

    assert "open sesame" not in done.output
    assert secrets_found(done) == (
        []
        if who is None
        else [
            (
                f"{file}: readable by {who} (mode {mode:o}), and holds sasl.password",
                f"Restrict it to its owner: chmod 600 '{file}'",
            )
        ]
    )


def test_the_doctor_accepts_a_readable_client_file_without_a_secret(
    tmp_path: Path, closed_port: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={closed_port}")
    file.chmod(0o644)

    done = CliRunner().invoke(ktui, ["doctor", "--command-config", str(file), "--json"])

    assert secrets_found(done) == []


@pytest.mark.parametrize("inline", [True, False])
def test_the_doctor_warns_of_the_file_that_holds_the_password_of_a_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed_port: str, *, inline: bool
) -> None:
    config, secret = tmp_path / "config.yaml", tmp_path / "kafka.password"
    settings: dict[str, object] = {
        "bootstrap.servers": closed_port,
        **dict(line.split("=") for line in SCRAM),
    }
    settings["sasl.password"] = "open sesame" if inline else {"file": secret.name}
    config.write_text(json.dumps({"contexts": {"prod": {"properties": settings}}}))
    secret.write_text("open sesame")
    for file in (config, secret):
        file.chmod(0o604)
    monkeypatch.setenv("KTUI_CONFIG_DIR", str(tmp_path))

    found = secrets_found(CliRunner().invoke(ktui, ["doctor", "--context", "prod", "--json"]))

    assert [fix for _, fix in found] == [
        f"Restrict it to its owner: chmod 600 {config if inline else secret}"
    ]


def test_the_doctor_warns_of_a_readable_private_key_named_by_any_setting(
    tmp_path: Path, closed_port: str
) -> None:
    key_and_certificate = Authority(tmp_path).server("DNS:ada")
    key_and_certificate.chmod(0o640)
    by_java = ("ssl.keystore.type=PEM", f"ssl.keystore.location={key_and_certificate}")
    by_librdkafka = (
        f"ssl.certificate.location={key_and_certificate}",
        f"ssl.key.location={key_and_certificate}",
    )

    for lines in (by_java, by_librdkafka):
        found = connection(closed_port, tmp_path, "security.protocol=SSL", *lines)
        assert [each["what"] for each in found if "chmod" in each["fix"]] == [
            f"{key_and_certificate}: readable by its group (mode 640), and holds ssl.key.location"
        ]


EVERYTHING = frozenset(grant.operation for grant in GRANTS)


@pytest.mark.parametrize(
    ("known", "level"),
    [
        (20, Level.WARNING),
        (21, Level.GOOD),
        (30, Level.GOOD),
        (33, Level.GOOD),
        (34, Level.WARNING),
    ],
)
def test_3_9_to_4_4_are_tested_by_the_newest_metadata_version_that_they_know(
    known: int, level: Level
) -> None:
    (release, _) = judge_abilities([BrokerAbilities(1, release_of(known))])

    assert release.level is level


def test_an_untested_release_is_a_warning() -> None:
    (release, _) = judge_abilities([BrokerAbilities(1, "before 3.9")])

    assert release.level is Level.WARNING
    assert "not tested with" in release.what


def test_a_cluster_in_the_middle_of_an_upgrade_is_a_warning() -> None:
    found = judge_abilities([BrokerAbilities(1, "4.2"), BrokerAbilities(2, "4.3")])

    assert any(f.what == "brokers run 4.2 and 4.3" for f in found)


def test_a_missing_operation_is_reported_with_its_consequence() -> None:
    required = next(need for need in NEEDS if need.required)
    optional = next(need for need in NEEDS if not need.required)

    found = judge_abilities(
        [BrokerAbilities(1, "4.3", lacks=(required, optional)), BrokerAbilities(2, "4.3")]
    )

    levels = {f.what.split(":")[0]: f.level for f in found}
    assert levels[required.what] is Level.TROUBLE
    assert levels[optional.what] is Level.NOTE
    assert any(f"broker 1 does not support it, so {required.without}" in f.what for f in found)


def test_an_operation_that_no_broker_offers_may_be_left_out_by_a_proxy() -> None:
    (found,) = (
        f for f in judge_abilities([BrokerAbilities(1, "4.3", lacks=(NEEDS[0],))]) if "so" in f.what
    )

    assert "no broker supports it, or a proxy on the way does not pass it on" in found.what


def test_a_broker_that_does_not_answer_is_named() -> None:
    found = judge_abilities([BrokerAbilities(3, error=TimedOut("asking for versions"))])

    assert [f.what.partition(" (")[0] for f in found] == [
        "broker 3: asking for versions: no answer in time"
    ]


def test_seeing_no_topic_is_noted_with_the_permission_that_may_be_missing() -> None:
    (good, note) = judge_permissions(Permissions(EVERYTHING, {}))

    assert (good.level, note.level) == (Level.GOOD, Level.NOTE)
    assert "Describe is not granted" in note.what


def test_having_no_permission_at_all_is_trouble_for_each_permission() -> None:
    found = judge_permissions(Permissions(frozenset(), {}))

    assert {finding.level for finding in found} == {Level.TROUBLE}
    assert [finding.what.partition(" is not granted: cannot ")[0] for finding in found] == [
        "Describe on the cluster",
        "DescribeConfigs on the cluster",
        "Alter on the cluster",
        "AlterConfigs on the cluster",
        "Describe on any topic",
        "DescribeConfigs on any topic",
        "AlterConfigs on any topic",
    ]
    assert "--operation Alter --cluster" in found[2].fix
    assert "--operation Describe --topic NAME" in found[4].fix


def test_a_user_who_may_not_list_reassignments_is_in_trouble_regardless_of_other_grants() -> None:
    found = judge_permissions(Permissions(frozenset(), {"orders": EVERYTHING}))

    assert found[0].level is Level.TROUBLE
    assert "Describe on the cluster is not granted: cannot list reassignments" in found[0].what


@pytest.mark.parametrize("grant", GRANTS)
def test_each_grant_describes_its_purpose_with_a_verb(grant: Grant) -> None:
    verbs = "list", "read", "start", "set", "see"

    assert grant.purpose.split()[0] in verbs


TOPICS = ["ktui-canary-over", "orders", "ktui-canary-left", "ktui-canary-goes-on"]


def test_each_topic_of_a_canary_is_named_with_what_deletes_it() -> None:
    found = [*judge_canaries(TOPICS, live={"goes-on"}, resumable={"left"})]

    whats = [each.what.removeprefix("topic ktui-canary-") for each in found]
    assert whats == [
        "goes-on: the canary of run goes-on, which is live",
        "left: the canary of run left, which waits for resume",
        "over: the canary of run over, which no run of this state directory uses",
    ]
    assert found[1].fix.startswith("`ktui resume left` takes it up again")
    assert found[2].fix.endswith("kafka-topics.sh --delete --topic ktui-canary-over")


FACTS_TOPICS = {"orders": [(1, 2, 3)], "payments": [(2, 3, 1)]}


@pytest.fixture
def cluster() -> SimulatedCluster:
    return a_cluster(FACTS_TOPICS)


async def visible(names: Collection[str] | None) -> Collection[str]:
    return set(FACTS_TOPICS) if names is None else set(FACTS_TOPICS) & set(names)


async def test_topics_that_all_requests_know_are_within_reach(cluster: SimulatedCluster) -> None:
    found = await gather_facts(cluster.reader(), visible)

    assert (found.out_of_reach, found.unread) == (frozenset(), ())


async def test_topics_with_different_numbers_of_replicas_at_rest_are_counted() -> None:
    topics: dict[str, list[tuple[int, ...]]] = {
        "orders": [(1, 2, 3), (1, 2, 3, 4), (1, 2, 3)],
        "payments": [(2, 3, 1), (2, 3, 1)],
    }
    cluster = a_cluster(topics)
    cluster.do(layout.Alter({TopicPartition("payments", 1): (2, 3, 4)}))
    assert isinstance(cluster.clock, VirtualClock)
    cluster.clock.pass_time(1.0)

    async def all_of_them(names: Collection[str] | None) -> Collection[str]:
        return set(topics) if names is None else set(names)

    found = await gather_facts(cluster.reader(), all_of_them)

    assert found.mixed_factors == {"orders": {3: 2, 4: 1}}


async def test_a_topic_whose_settings_belong_to_another_name_is_out_of_reach(
    cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def renamed(_: SimulatedReader, names: Collection[str]) -> TopicConfigsAnswer:
        failures = (Failure(Operation.TOPIC_CONFIGS, "UNKNOWN", topic=name) for name in names)
        return TopicConfigsAnswer({}, tuple(failures), tuple(names))

    monkeypatch.setattr(SimulatedReader, "topic_configs", renamed)

    found = await gather_facts(cluster.reader(), visible)

    assert found.out_of_reach == set(FACTS_TOPICS)
    assert found.unread == ()


async def test_a_topic_that_only_the_metadata_shows_is_out_of_reach(
    cluster: SimulatedCluster,
) -> None:
    async def renamed(names: Collection[str] | None) -> Collection[str]:
        tenants = {f"tenant-{topic}" for topic in FACTS_TOPICS}
        return tenants if names is None else tenants & set(names)

    found = await gather_facts(cluster.reader(), renamed)

    assert found.out_of_reach == {"tenant-orders", "tenant-payments"}


async def test_a_topic_that_was_deleted_while_the_doctor_looked_is_not_out_of_reach(
    cluster: SimulatedCluster,
) -> None:
    async def shown_at_first(names: Collection[str] | None) -> Collection[str]:
        return {*FACTS_TOPICS, "gone"} if names is None else await visible(names)

    found = await gather_facts(cluster.reader(), shown_at_first)

    assert found.out_of_reach == frozenset()


CLUSTER = started(1).cluster_id
ORDERS = tp("orders-0")
ENDED = Ended(counts={State.STOPPED: 1}, open=(OpenRequest(topic="orders", partition=0, node=4),))


def a_run(folder: Path, *, ended: bool) -> StateDir:
    state = StateDir(folder / "state")
    events = [*a_start(1), step(0), *([ENDED] if ended else [])]
    written(state.create_run("drain").journal, events).close()
    return state


def as_requested() -> Reassignment:
    requested = step(0)
    return Reassignment(
        (*requested.replicas, *requested.removing), requested.adding, requested.removing
    )


@pytest.mark.parametrize(
    ("ended", "level", "fix"),
    [
        (True, Level.WARNING, "--partition orders:0 --stop"),
        (False, Level.NOTE, "ktui resume drain"),
    ],
)
def test_a_reassignment_that_an_abandoned_run_requested_is_named(
    tmp_path: Path, *, ended: bool, level: Level, fix: str
) -> None:
    state = a_run(tmp_path, ended=ended)

    (finding,) = map(judge_late, late_requests(state, CLUSTER, {ORDERS: as_requested()}))

    assert finding.level is level
    assert "as run drain asked" in finding.what
    assert fix in finding.fix


def test_someone_elses_reassignment_is_not_mistaken_for_a_late_request(tmp_path: Path) -> None:
    state = a_run(tmp_path, ended=True)
    theirs = Reassignment((7, 8, 9), (7, 8, 9), ())

    assert late_requests(state, CLUSTER, {ORDERS: theirs}) == []
    assert late_requests(state, "elsewhere", {ORDERS: as_requested()}) == []


def test_a_reassignment_that_a_live_run_requested_is_not_late(tmp_path: Path) -> None:
    state = a_run(tmp_path, ended=False)

    with own_run(state.run("drain")):
        assert late_requests(state, CLUSTER, {ORDERS: as_requested()}) == []


def test_a_live_run_s_step_is_not_taken_for_that_of_an_earlier_run(tmp_path: Path) -> None:
    state = a_run(tmp_path, ended=True)
    written(state.create_run("again").journal, [*a_start(1), step(0)]).close()

    with own_run(state.run("again")):
        assert late_requests(state, CLUSTER, {ORDERS: as_requested()}) == []


def test_a_request_that_was_answered_is_never_late(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    stopped = StateEntered(topic="orders", partition=0, state=State.STOPPED)
    events = [*a_start(1), step(0), accepted(0), stopped, Ended(counts={State.STOPPED: 1})]
    written(state.create_run("drain").journal, events).close()

    assert late_requests(state, CLUSTER, {ORDERS: as_requested()}) == []


def test_the_summary_of_an_ended_run_lists_its_open_requests(tmp_path: Path) -> None:
    state = a_run(tmp_path, ended=True)

    assert read_progress(state.run("drain")).open_requests == ENDED.open
