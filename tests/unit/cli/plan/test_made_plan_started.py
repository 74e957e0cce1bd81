"""A plan that was made is started by the command in its summary."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from ktui.cli.main import ktui
from support.cli.made_plan import cluster, plan
from support.cli.plan_sandbox import found
from support.cli.start_sandbox import StartSandbox


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
