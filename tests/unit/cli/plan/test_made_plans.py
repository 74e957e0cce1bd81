"""The plans that ktui makes, and their start."""

import asyncio
import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from ktui.cli.main import ktui
from ktui.planning.intents.layout import read_layout
from ktui.planning.read import read_plan
from ktui.simulated import layout
from ktui.simulated.cluster import SimulatedCluster
from support.cli.start_sandbox import (
    GIB,
    RACKS,
    PlanSandbox,
    StartSandbox,
    cluster,
    found,
    made,
    made_json,
    plan,
    refused,
    targets,
)


@pytest.fixture
def six(plan_sandbox: PlanSandbox) -> SimulatedCluster:
    """Six brokers on three racks; broker 6 is empty."""
    found = cluster()
    plan_sandbox.cluster(found)
    return found


VERBS = {
    "drain": ("drain", "3"),
    "fill": ("fill", "6"),
    "swap": ("swap", "3", "6"),
    "replication-factor": ("replication-factor", "2", "orders"),
    "spread": ("spread", "--by", "replicas"),
    "shed": ("shed", "3", "--free", "4GiB"),
    "leaders": ("leaders",),
    "demote": ("demote", "3"),
}


@pytest.mark.usefixtures("six")
@pytest.mark.parametrize("words", VERBS.values(), ids=VERBS)
def test_the_plan_is_on_standard_output_and_its_summary_on_standard_error(
    words: tuple[str, ...],
) -> None:
    result = plan(*words)

    assert result.exit_code in (0, 3)
    assert targets(read_plan(result.stdout.encode()))
    assert "BROKER  RACK  REPLICAS" in result.stderr
    assert "\nstart it: ktui start - --name " in result.stderr
    assert ("\nnot done: " in result.stderr) == (result.exit_code == 3)


@pytest.mark.usefixtures("six")
@pytest.mark.parametrize("words", VERBS.values(), ids=VERBS)
def test_the_same_cluster_gets_the_same_plan(words: tuple[str, ...]) -> None:
    first, second = plan(*words), plan(*words)

    assert (first.stdout, first.stderr) == (second.stdout, second.stderr)


@pytest.mark.parametrize("words", VERBS.values(), ids=VERBS)
async def test_nothing_is_sent_to_the_cluster(
    words: tuple[str, ...], six: SimulatedCluster
) -> None:
    before = (await read_layout(six.reader())).partitions

    await asyncio.to_thread(plan, *words)

    assert (await read_layout(six.reader())).partitions == before


@pytest.mark.usefixtures("six")
def test_drain_takes_several_brokers_as_arguments_or_as_a_list() -> None:
    found = made("drain", "1", "3")

    assert found == made("drain", "1,3")
    assert not any({1, 3} & {*replicas} for replicas in found.values())


@pytest.mark.usefixtures("six")
def test_only_the_topics_asked_for_are_in_the_plan() -> None:
    only = made("drain", "3", "--topics", "pay*")
    others = made("drain", "3", "--exclude", "pay*")

    assert {name.partition("-")[0] for name in only} == {"payments"}
    assert {name.partition("-")[0] for name in others} == {"orders"}
    assert made("drain", "3", "--topics", "orders,payments") == made("drain", "3")


def test_kafkas_own_topics_come_last_unless_they_are_wanted_first_or_not_at_all(
    plan_sandbox: PlanSandbox,
) -> None:
    plan_sandbox.cluster(cluster(internal=True))

    assert list(made("drain", "3"))[-2:] == ["__consumer_offsets-0", "__consumer_offsets-1"]
    assert next(iter(made("drain", "3", "--internal", "first"))) == "__consumer_offsets-0"
    assert "__consumer_offsets-0" not in made("drain", "3", "--internal", "exclude")


def test_a_full_disk_gets_no_replica_and_the_findings_say_what_that_costs(
    plan_sandbox: PlanSandbox,
) -> None:
    full = cluster()
    full.do(layout.FillDisk(6, leave=GIB // 2))
    plan_sandbox.cluster(full)

    output = made_json("drain", "3")

    (six,) = (each for each in output["brokers"] if each["broker"] == 6)
    assert six["after"]["replicas"] == 0
    assert [each["kind"] for each in found(output["preview"], "warning")] == ["racks"]


def test_a_hostile_rack_is_shown_escaped(plan_sandbox: PlanSandbox) -> None:
    plan_sandbox.cluster(cluster(racks={**RACKS, 3: "c\x1b[31m\n", 6: "c\x1b[31m\n"}))

    result = plan("drain", "3")

    assert result.stderr.count("c\\x1b[31m\\n") == 3  # two brokers and their rack


@pytest.mark.usefixtures("six")
def test_racks_are_shown_before_and_after() -> None:
    output = made_json("drain", "3")

    assert [each["rack"] for each in output["racks"]] == ["a", "b", "c"]
    assert output["rack_aware"] is True
    assert sum(each["after"]["replicas"] for each in output["racks"]) == 24


@pytest.mark.usefixtures("six")
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("drain", "77"), "no broker 77; the cluster has brokers 1, 2, 3, 4, 5 and 6"),
        (("drain", "6"), "No partition has a replica on broker 6"),
        (("drain", "three"), "'three' is not the id of a broker"),
        (("drain",), "Missing argument 'BROKER...'"),
        (("drain", ""), "Invalid value for 'BROKER...': the list is empty"),
        (("drain", "3", "--topics", ""), "Invalid value for '--topics': the list is empty"),
        (("spread", "--brokers", ""), "Invalid value for '--brokers': the list is empty"),
        (("fill", "77"), "no broker 77"),
        (("swap", "3", "3"), "name two brokers"),
        (("swap", "3,4", "6"), "'3,4' is not a valid integer"),
        (("replication-factor", "3", "orders"), "has 3 replicas already"),
        (("replication-factor", "9", "orders"), "9 replicas"),
        (("replication-factor", "0", "orders"), "0 is not in the range"),
        (
            ("replication-factor", "2", "order"),
            "TOPIC: no topic matches 'order'; did you mean orders?",
        ),
        (("drain", "3", "--topics", "order"), "--topics: no topic matches 'order'"),
        (("drain", "3", "--exclude", "zzz*"), "--exclude: no topic matches 'zzz*'"),
        (("drain", "3", "--max-bytes", "many"), "--max-bytes: expected a size"),
        (("drain", "3", "--max-moves", "-1"), "-1 is not in the range"),
        (("drain", "3", "--max-moves", "0"), "nothing can be moved, so no plan was written"),
        (("drain", "3", "--weight", "6"), "give a broker and its weight"),
        (("drain", "3", "--weight", "77=2"), "--weight: the cluster has no broker 77"),
        (("spread", "--within", "ten"), "--within: expected a share such as 30%"),
        (("spread", "--within", "150%"), "at most 100 %"),
        (("spread", "--brokers", "1,77"), "no broker 77"),
        (("shed", "3"), "give one of --below SHARE and --free SIZE"),
        (("shed", "3", "--below", "10%", "--free", "1GB"), "give one of --below SHARE"),
        (("shed", "3", "--below", "120%"), "--below: expected a share"),
        (("shed", "3", "--below", "80%"), "14% of the disks of broker 3 is in use"),
        (("shed", "77", "--below", "80%"), "no broker 77"),
        (("shed", "3", "--free", "0"), "nothing to do"),
        (("rack-repair",), "nothing to repair"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_done_is_refused_with_the_reason(
    words: tuple[str, ...], reason: str
) -> None:
    assert reason in refused(*words)


@pytest.mark.parametrize(
    "words",
    [
        ("drain", "3"),
        ("drain", "3", "--partitions", "4", "--throttle", "50MB", "--context", "prod-eu"),
        ("replication-factor", "2", "orders"),
        ("leaders", "--pace", "quiet"),
    ],
    ids=" ".join,
)
def test_the_plan_on_standard_output_is_one_that_the_command_in_its_summary_starts(
    words: tuple[str, ...], sandbox: StartSandbox
) -> None:
    sandbox.cluster(cluster())
    made = plan(*words)
    command = shlex.split(made.stderr.splitlines()[-1].removeprefix("start it: "))

    result = CliRunner().invoke(ktui, [*command[1:], "--dry-run", "--json"], input=made.stdout)

    assert result.exit_code == 0, (result.output, result.exception)
    preview = json.loads(result.stdout)
    assert found(preview, "problem") == []
    assert preview["run"] == "-".join(part for part in words[:2] if part[:2] != "--" and
                                      part != "orders")  # fmt: skip
    assert preview["batches"]


def test_the_plan_in_a_file_is_one_that_the_command_in_its_summary_starts(
    sandbox: StartSandbox, tmp_path: Path
) -> None:
    sandbox.cluster(cluster())
    made = plan("drain", "3", "-o", str(tmp_path / "off 3.json"))
    command = shlex.split(made.stderr.splitlines()[-1].removeprefix("start it: "))

    result = CliRunner().invoke(ktui, [*command[1:], "--dry-run", "--json"])

    assert json.loads(result.stdout)["run"] == "off-3"
