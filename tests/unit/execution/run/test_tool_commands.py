"""A run's cluster and rate are in the commands of Kafka's own tool."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ktui.execution.run.run import Run
from ktui.execution.run.tool_plans import tool_command, tool_commands
from ktui.planning.throttle_rates import ThrottleRates
from support.journals.journals import planned, read, started, written


def a_run(folder: Path, **names: str) -> Run:
    first, *others = started(2), planned(2)
    options = msgspec.structs.replace(first.options, throttle=ThrottleRates(50_000_000))
    begun = msgspec.structs.replace(first, connection=names, options=options)
    written(folder / "journal.db", [begun, *others]).close()
    return Run("drain-b3").fold(read(folder / "journal.db")[0])


def test_the_commands_name_the_brokers_the_client_settings_and_the_rate(tmp_path: Path) -> None:
    config = str(tmp_path / "my client.properties")
    run = a_run(tmp_path, bootstrap_server="b1:9092", command_config=config)

    lines = [*tool_commands(run)]

    where = f"--bootstrap-server b1:9092 --command-config '{config}'"
    assert lines[1] == f"kafka-reassign-partitions.sh {where} --list"
    assert lines[4] == (
        f"kafka-reassign-partitions.sh {where} --execute "
        "--reassignment-json-file drain-b3-left.json --throttle 50000000"
    )
    assert tool_command(run, "verify", "plan.json") == (
        f"kafka-reassign-partitions.sh {where} --verify --reassignment-json-file plan.json"
    )
